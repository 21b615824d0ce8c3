//! Beginning and end of every function of the table: its code, and pointers that the caller gave.

use crate::report;
use kolo::base::{Code, Error, Result};
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a call, keeps its error's sentence, and gives its code.
pub fn guard(call: impl FnOnce() -> Result<()>) -> c_int {
    let result = catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|_| Err(Error::internal("the network panicked")));
    match result {
        Ok(()) => Code::Success as c_int,
        Err(error) => {
            report::remember(&error);
            error.code as c_int
        }
    }
}

/// The error of a null pointer.
pub fn missing(what: &str) -> Error {
    Error::argument(
        format!("{what} is a null pointer"),
        "pass what the table gave",
    )
}

/// Writes to a place of the caller.
///
/// # Safety
/// `place` is null or valid for a write.
pub unsafe fn put<T>(place: *mut T, value: T) -> Result<()> {
    if place.is_null() {
        return Err(missing("the place for a result"));
    }
    // SAFETY: the caller's promise.
    unsafe { place.write(value) };
    Ok(())
}

/// The object behind a pointer of the table.
///
/// # Safety
/// `pointer` is null or came from this table, was not closed, and is used by no one else now.
pub unsafe fn object<'a, T>(pointer: *mut c_void, what: &str) -> Result<&'a mut T> {
    // SAFETY: the caller's promise.
    unsafe { pointer.cast::<T>().as_mut() }.ok_or_else(|| missing(what))
}
