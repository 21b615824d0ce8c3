//! Parsers of foreign bytes in this room, for `tests/fuzz`: none may panic, loop, or allocate far
//! more than it was given.

use super::options::OPTIONS;
use super::{ShapeEntry, compare_shapes, layers};
use crate::base::{Rank, record};
use std::path::Path;

/// A settings file.
pub fn toml(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = layers::of_text(Path::new("fuzz.toml"), text);
    }
}

/// The value of an environment variable, for every option and alias.
pub fn variable(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for option in OPTIONS {
        let _ = option.kind.parse(&text);
        for alias in option.aliases {
            let _ = option.kind.parse(&(alias.translate)(&text));
        }
    }
}

/// The settings of a rank that all must agree on.
pub fn records(bytes: &[u8]) -> (&'static str, bool) {
    let all = [(Rank(0), "a", bytes), (Rank(1), "b", &[0])];
    let _ = compare_shapes(&all);
    record::fuzz::<Vec<ShapeEntry>>(bytes)
}
