//! A panic, which is a fault of kolo's own, as an error.
//!
//! Others wait for the rank whose thread it would end, and C has no word for it: so it is caught
//! where a thread's loop or a call begins, and becomes a sentence that all get to read.

use super::{Error, Result};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `body`; a panic in it is an error. What `body` was changing may be half-way, so the caller
/// uses it no more, or only to let go of it.
///
/// # Errors
/// `InternalError` with the words of the panic.
#[inline(always)]
pub fn caught<T>(body: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(body)).map_err(panicked)
}

/// A caught panic as an error.
#[cold]
pub fn panicked(panic: Box<dyn Any + Send>) -> Error {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without text".to_owned());
    Error::internal(format!("a check inside kolo failed: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_panic_are_kept() {
        assert_eq!(caught(|| 7).unwrap(), 7);
        let error = caught(|| panic!("chunk {} is gone", 3)).unwrap_err();
        assert_eq!(error.what, "a check inside kolo failed: chunk 3 is gone");
        let error = caught(|| std::panic::panic_any(1)).unwrap_err();
        assert!(error.what.contains("without text"), "{error}");
    }
}
