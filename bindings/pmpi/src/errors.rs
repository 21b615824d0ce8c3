//! Errors of kolo as errors of MPI.

use crate::comms::State;
use crate::decide::Stage;
use crate::printed;
use crate::sys::koloGetLastError;
use mpi::ffi;
use std::ffi::{CStr, CString, c_int};
use std::sync::atomic::{AtomicBool, Ordering};

/// Ends a call with kolo's result: 0, or a code of MPI whose string is kolo's sentence, given to
/// the communicator's error handler.
#[inline]
pub fn ended(state: &State, code: c_int) -> c_int {
    match code {
        0 => 0,
        _ => raise(state),
    }
}

/// Raises kolo's last error as one of MPI.
#[cold]
pub fn raise(state: &State) -> c_int {
    debug_assert!(state.known.stage == Stage::Attached, "kolo ran the call");
    // SAFETY: a live communicator; the sentence stays until the next call.
    let text = unsafe {
        let text = koloGetLastError(state.kolo);
        if text.is_null() {
            CString::default()
        } else {
            CStr::from_ptr(text).to_owned()
        }
    };
    // MPI copies at most so many bytes.
    let mut bytes = text.into_bytes();
    let most = (ffi::MPI_MAX_ERROR_STRING as usize).saturating_sub(1);
    bytes.truncate(most);
    let text = CString::new(bytes).unwrap_or_default();
    let mut code = 0;
    // SAFETY: MPI is initialised.
    unsafe {
        if ffi::PMPI_Add_error_class(&mut code) == 0
            && ffi::PMPI_Add_error_string(code, text.as_ptr().cast_mut()) == 0
        {
            call_handler(state, code);
        }
    }
    code
}

/// Calls the error handler of the program. It ends the job, if the program has set none: what was
/// told of the error is read first, that of the first one.
///
/// # Safety
/// MPI is initialised.
pub unsafe fn call_handler(state: &State, code: c_int) {
    static WAITED: AtomicBool = AtomicBool::new(false);
    if !WAITED.swap(true, Ordering::Relaxed) {
        printed::wait_until_read(std::thread::sleep);
    }
    // SAFETY: the caller's promise; the program's communicator.
    unsafe { ffi::PMPI_Comm_call_errhandler(state.handle, code) };
}
