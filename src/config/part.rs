//! A part of the settings: those that one place gives.

use super::file::Given;
use super::source::{Layer, Origin, Source};
use figment::value::Value as Raw;

/// A part of the settings: those that one place gives.
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
