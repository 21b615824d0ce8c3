//! An address range of this process: bytes of a file, or memory of its own.

use super::fork::Fd;
use super::room::create_error;
use crate::base::{Error, Result};
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

/// An address range of this process.
#[derive(Debug)]
pub(super) struct Mapped {
    pub(super) base: NonNull<u8>,
    pub(super) length: usize,
}

impl Mapped {
    /// Maps bytes of a file, or new memory of this process.
    pub(super) fn new(file: Option<(&Fd, u64)>, length: usize) -> Result<Mapped> {
        let (kind, number, offset) = match file {
            Some((file, offset)) => (libc::MAP_SHARED, file.as_raw_fd(), offset),
            None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0),
        };
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                kind | libc::MAP_NORESERVE,
                number,
                offset as libc::off_t,
            )
        };
        if base == libc::MAP_FAILED {
            let source = std::io::Error::last_os_error();
            return Err(create_error("a mapping of shared memory", length, &source));
        }
        // SAFETY: exactly the mapping made above. A refusal only means that forked children keep
        // a mapping that they must not use anyway.
        unsafe { libc::madvise(base, length, libc::MADV_DONTFORK) };
        let base = NonNull::new(base.cast::<u8>())
            .ok_or_else(|| Error::internal("the kernel mapped shared memory at address 0"))?;
        Ok(Mapped { base, length })
    }

    /// Its first byte.
    pub(super) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Unmaps it.
    ///
    /// # Safety
    /// Nobody uses it any more, and this process is the one that mapped it.
    pub(super) unsafe fn unmap(&self) {
        // SAFETY: exactly the mapping made in `new`, not unmapped before; unused by promise.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) };
    }
}
