//! Slices that a call needs are as long as it needs them.

use crate::base::{Error, Result};

/// An error unless `found` is `wanted` elements.
pub(in crate::comm) fn require(name: &str, found: usize, wanted: usize) -> Result<()> {
    if found == wanted {
        return Ok(());
    }
    Err(Error::argument(
        format!(
            "the {name} buffer has {found} element{} where {wanted} {} needed",
            if found == 1 { "" } else { "s" },
            if wanted == 1 { "is" } else { "are" },
        ),
        "make the buffer as long as the call needs it",
    ))
}
