//! The sentence of a failure, as C gets it.

use kolo_core::base::Error;
use std::ffi::{CStr, CString};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A sentence for `koloGetLastError`, and the number of the failure: later ones are larger.
#[derive(Clone)]
pub(crate) struct Sentence {
    pub(crate) text: Arc<CStr>,
    number: u64,
}

impl Sentence {
    /// The one of the later failure.
    pub(crate) fn later(one: Option<Sentence>, other: Option<Sentence>) -> Option<Sentence> {
        match (one, other) {
            (Some(one), Some(other)) if one.number > other.number => Some(one),
            (one, other) => other.or(one),
        }
    }
}

/// The text of `error` for C.
pub(crate) fn sentence(error: &Error) -> Sentence {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let text = error.to_string().replace('\0', " ");
    Sentence {
        text: CString::new(text).unwrap_or_default().into(),
        number: NUMBER.fetch_add(1, Ordering::Relaxed),
    }
}
