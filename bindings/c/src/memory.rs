//! Memory that kolo's ranks can share without a copy: see `kolo_core::transport::memory`.

use crate::comm::null;
use crate::guard::guard;
use crate::types::koloResult_t;
use kolo_core::transport::memory;
use std::ffi::c_void;

/// Allocates `bytes` bytes, zeroed and page-aligned, that kolo can share between the ranks of a
/// node; calls on such buffers may run with fewer copies. 0 bytes give NULL. Not inherited over
/// fork(). Errors: koloInvalidArgument (NULL, size), koloSystemError (no memory). Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloMemAlloc(ptr: *mut *mut c_void, bytes: usize) -> koloResult_t {
    guard("MemAlloc", || {
        if ptr.is_null() {
            return Err(null("ptr"));
        }
        let address = match bytes {
            0 => std::ptr::null_mut(),
            _ => memory::allocate(bytes)?.cast(),
        };
        // SAFETY: not null, valid by the contract of kolo.h.
        unsafe { *ptr = address };
        Ok(koloResult_t::koloSuccess)
    })
}

/// Frees memory of koloMemAlloc; NULL is allowed. No operation may still use it.
/// Errors: koloInvalidArgument (not the start of a live allocation). Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloMemFree(ptr: *mut c_void) -> koloResult_t {
    guard("MemFree", || {
        if !ptr.is_null() {
            memory::free(ptr.cast())?;
        }
        Ok(koloResult_t::koloSuccess)
    })
}
