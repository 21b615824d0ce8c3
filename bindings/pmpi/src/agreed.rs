//! Agreement of all ranks, once they have come to it.

use crate::decide::Agreement;
use std::sync::OnceLock;

static AGREED: OnceLock<Agreement> = OnceLock::new();

/// The agreement; none: kolo takes nothing.
#[inline]
pub fn agreed() -> Option<&'static Agreement> {
    AGREED.get()
}

/// The ranks have agreed.
pub fn keep(agreement: Agreement) {
    let _ = AGREED.set(agreement);
}
