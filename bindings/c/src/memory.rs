//! Memory that kolo's ranks can share without a copy: see `kolo_core::transport::memory`.

use crate::comm::null;
use crate::guard::guard;
use crate::types::koloResult_t;
use kolo_core::base::Error;
use kolo_core::transport::{gpu, memory};
use std::ffi::{c_int, c_void};

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

/// Allocates `bytes` bytes on CUDA device `device`, as the process numbers them, aligned to 2 MiB
/// and not zeroed. Other than memory of cudaMalloc, it can be given to other processes, and all
/// devices of the process that reach the device may use it. 0 bytes give NULL. Does not wait for
/// the device. Errors: koloInvalidArgument (NULL, size, device), koloInvalidUsage (no driver, no
/// such device), koloUnhandledCudaError (no memory). Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloMemAllocDevice(
    ptr: *mut *mut c_void,
    bytes: usize,
    device: c_int,
) -> koloResult_t {
    guard("MemAllocDevice", || {
        if ptr.is_null() {
            return Err(null("ptr"));
        }
        let number = u32::try_from(device).map_err(|_| {
            let what = format!("device {device} is none");
            Error::argument(what, "give the number of a CUDA device, from 0 on")
        })?;
        let address = match bytes {
            0 => std::ptr::null_mut(),
            _ => gpu::own::allocate(number, bytes)? as *mut c_void,
        };
        // SAFETY: not null, valid by the contract of kolo.h.
        unsafe { *ptr = address };
        Ok(koloResult_t::koloSuccess)
    })
}

/// Frees memory of koloMemAlloc or koloMemAllocDevice; NULL is allowed. No operation may still use
/// it.
/// Errors: koloInvalidArgument (not the start of a live allocation). Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloMemFree(ptr: *mut c_void) -> koloResult_t {
    guard("MemFree", || {
        if !ptr.is_null() && !gpu::own::free(ptr as u64) {
            memory::free(ptr.cast())?;
        }
        Ok(koloResult_t::koloSuccess)
    })
}
