//! What one place says, and what comes of all of them.

use super::file::Given;
use super::source::{Layer, Origin, Position, Source};
use super::value::Value;
use figment::value::Value as Raw;

/// What one place says.
pub(super) struct Part {
    pub(super) source: Source,
    pub(super) items: Vec<Given>,
}

impl Part {
    /// A part with one value, as text.
    pub(super) fn one(layer: Layer, origin: Origin, key: &str, text: &str) -> Part {
        let item = Given {
            key: key.to_string(),
            raw: Raw::from(text),
            at: None,
        };
        Part {
            source: Source { layer, origin },
            items: vec![item],
        }
    }
}

/// One option as the layers set it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Effective {
    pub(super) value: Value,
    pub(super) source: Source,
    /// Where in the file it stands.
    pub(super) at: Option<Position>,
    /// The file that locks it.
    pub(super) locked: Option<String>,
}
