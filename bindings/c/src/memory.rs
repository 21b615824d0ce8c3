//! Memory that kolo's ranks can share without a copy.
//!
//! A mapping of an anonymous file can later be mapped by another rank too, which malloc's memory
//! cannot. The children of fork() do not inherit it, so that a rank's pages never become
//! copy-on-write copies that peers no longer see.

use crate::comm::null;
use crate::guard::guard;
use crate::types::koloResult_t;
use kolo_core::base::{Error, Result};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

/// Address and mapped bytes of every live allocation.
static ALLOCATIONS: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// Allocates `bytes` bytes, zeroed and page-aligned, that kolo can share between the ranks of a
/// node; calls on such buffers may run with fewer copies. 0 bytes give NULL. Not inherited over
/// fork(). Errors: koloInvalidArgument (NULL, size), koloSystemError (no memory). Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloMemAlloc(ptr: *mut *mut c_void, bytes: usize) -> koloResult_t {
    guard("MemAlloc", || {
        if ptr.is_null() {
            return Err(null("ptr"));
        }
        let address = if bytes == 0 {
            std::ptr::null_mut()
        } else {
            map(bytes)?
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
        if ptr.is_null() {
            return Ok(koloResult_t::koloSuccess);
        }
        let mut allocations = ALLOCATIONS.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(bytes) = allocations.remove(&(ptr as usize)) else {
            return Err(stranger(&allocations, ptr as usize));
        };
        // SAFETY: the registry held this mapping, and removing the entry made us its only owner.
        match unsafe { libc::munmap(ptr, bytes) } {
            0 => Ok(koloResult_t::koloSuccess),
            _ => Err(system("munmap")),
        }
    })
}

fn stranger(allocations: &BTreeMap<usize, usize>, address: usize) -> Error {
    let below = allocations.range(..address).next_back();
    let inside = below.filter(|(start, bytes)| address < **start + **bytes);
    let what = match inside {
        Some((start, _)) => format!(
            "{address:#x} is {} bytes inside an allocation of koloMemAlloc",
            address - start
        ),
        None => format!("{address:#x} is no live allocation of koloMemAlloc (freed twice?)"),
    };
    Error::argument(what, "free exactly what koloMemAlloc gave, once")
}

fn map(bytes: usize) -> Result<*mut c_void> {
    // SAFETY: sysconf only reads a constant of the system.
    let page_bytes = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let mapped_bytes = bytes
        .checked_next_multiple_of(page_bytes)
        .filter(|&mapped| mapped <= isize::MAX as usize)
        .ok_or_else(|| {
            Error::argument(
                format!("{bytes} bytes do not fit into the address space"),
                "check the size argument (is it an uninitialised or negative number?)",
            )
        })?;
    // SAFETY: the name is a zero-terminated string.
    let number = unsafe { libc::memfd_create(c"kolo-memory".as_ptr(), libc::MFD_CLOEXEC) };
    if number < 0 {
        return Err(system("memfd_create"));
    }
    // SAFETY: the descriptor was just made, and nobody else owns it.
    let file = unsafe { OwnedFd::from_raw_fd(number) };
    // SAFETY: plain system call on our descriptor.
    if unsafe { libc::ftruncate(file.as_raw_fd(), mapped_bytes as libc::off_t) } != 0 {
        return Err(system("ftruncate"));
    }
    // SAFETY: a new mapping at an address of the system's choice touches no existing memory.
    let address = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            mapped_bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if address == libc::MAP_FAILED {
        return Err(system("mmap"));
    }
    // SAFETY: the range is the mapping made above. A refusal only means that children inherit it.
    unsafe { libc::madvise(address, mapped_bytes, libc::MADV_DONTFORK) };
    let mut allocations = ALLOCATIONS.lock().unwrap_or_else(PoisonError::into_inner);
    allocations.insert(address as usize, mapped_bytes);
    Ok(address)
}

fn system(call: &str) -> Error {
    Error::system(
        call,
        &io::Error::last_os_error(),
        "ask for less, or raise the memory limits of the job (`ulimit -v`, cgroup)",
    )
}
