//! An option as the layers set it.

use super::source::{Position, Source};
use super::value::Value;

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
