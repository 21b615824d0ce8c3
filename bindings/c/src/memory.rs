//! Memory that kolo's ranks can share without a copy: see `kolo_core::transport::memory`.

use crate::comm::null;
use crate::guard::{guard, guard_comm};
use crate::types::{koloComm_t, koloResult_t};
use kolo_core::base::Error;
use kolo_core::comm::RegisteredBuffer;
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

/// Registers the `size` bytes at `buff`, memory of the program's own: large calls on them, or on
/// parts of them, are then read by the ranks of the node where they lie, as memory of koloMemAlloc
/// is, where all ranks have registered theirs. Writes a handle to `*handle`. Each rank calls it for
/// itself; not deferred by a group.
/// The whole pages of the buffer are moved onto a file in memory, at the same addresses and with
/// the same content; its bytes before and behind them stay where they are. Until the call returns,
/// and while the registration ends, no thread may write into the buffer. That can be done with
/// malloc's memory and that of an anonymous private mmap; memory of koloMemAlloc needs none of it;
/// a memfd that is sealed against shrinking stays as it is. Stacks, variables with initial values
/// and what shares a page with such, other files, locked pages (mlock), pages of hugetlbfs and
/// devices are refused. Where it gains nothing nothing is moved, and the call succeeds: ranks that
/// are threads of one process or alone on their node, communicators of CUDA devices.
/// Deregister before the memory is freed, reallocated or given to another allocator. Meanwhile
/// madvise(MADV_DONTNEED) leaves the content. A child of fork() has the pages privately, and finds
/// zeros in the buffer once the registration has ended here: it must copy what it needs at once.
/// Errors: koloInvalidArgument (handle, NULL, memory that cannot be moved, with the reason),
/// koloSystemError (limits), koloInvalidUsage (finalised), koloRemoteError; nothing has changed
/// then. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloCommRegister(
    comm: koloComm_t,
    buff: *mut c_void,
    size: usize,
    handle: *mut *mut c_void,
) -> koloResult_t {
    guard_comm("CommRegister", comm, |member| {
        if handle.is_null() {
            return Err(null("handle"));
        }
        // SAFETY: kolo.h asks for memory of the program that nobody writes meanwhile.
        let made = unsafe { member.communicator.register(buff.cast_const().cast(), size) }?;
        // SAFETY: not null, valid by the contract of kolo.h.
        unsafe { *handle = made.number() as *mut c_void };
        Ok(koloResult_t::koloSuccess)
    })
}

/// Ends a registration of koloCommRegister, after the last call on the buffer. Memory that nobody
/// else has registered is moved back, with its content; no thread may write into it meanwhile.
/// koloCommDestroy does so with what is left, and koloCommAbort with no write of others lost.
/// Errors: koloInvalidArgument (a handle that has ended, of another communicator, or none),
/// koloSystemError (no room to move it back: it stays usable where it is, and the handle has
/// ended). Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloCommDeregister(comm: koloComm_t, handle: *mut c_void) -> koloResult_t {
    guard_comm("CommDeregister", comm, |member| {
        let made = RegisteredBuffer::from_number(handle as usize as u64);
        member.communicator.deregister(made)?;
        Ok(koloResult_t::koloSuccess)
    })
}
