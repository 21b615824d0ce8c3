//! Where bytes really lie: mappings of this process, of files without a name where other processes
//! may map them, too.

use crate::error::{Answer, Code};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Virtual memory comes in multiples of so many bytes.
pub const GRANULARITY: u64 = 2 << 20;

/// Bytes of a device that are in use.
#[derive(Clone, Default)]
pub struct Used(Arc<AtomicU64>);

impl Used {
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// # Errors
    /// The device has not so many left.
    pub fn take(&self, bytes: u64, total: u64) -> Answer<Taken> {
        if bytes > total.saturating_sub(self.bytes()) {
            return Err(Code::OUT_OF_MEMORY);
        }
        self.0.fetch_add(bytes, Ordering::Relaxed);
        Ok(Taken {
            used: self.clone(),
            bytes,
        })
    }
}

/// A part of a device's bytes; dropping it gives them back.
pub struct Taken {
    used: Used,
    bytes: u64,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.used.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A mapping.
pub struct Backing {
    at: NonNull<u8>,
    bytes: usize,
    file: Option<OwnedFd>,
}

// SAFETY: it is memory of the whole process, and says nothing of who may use it when.
unsafe impl Send for Backing {}
// SAFETY: as above.
unsafe impl Sync for Backing {}

/// A new mapping; of a file, from an offset on.
fn map(
    bytes: usize,
    protection: i32,
    flags: i32,
    file: Option<(BorrowedFd, u64)>,
) -> Answer<NonNull<u8>> {
    let (file, offset) = file.map_or((-1, 0), |(file, offset)| (file.as_raw_fd(), offset as i64));
    // SAFETY: the system chooses the place.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, file, offset) };
    match at {
        libc::MAP_FAILED => Err(Code::OUT_OF_MEMORY),
        at => NonNull::new(at.cast()).ok_or(Code::OUT_OF_MEMORY),
    }
}

const USABLE: i32 = libc::PROT_READ | libc::PROT_WRITE;

impl Backing {
    /// Addresses that nobody can use.
    pub fn reserve(bytes: usize) -> Answer<Backing> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let at = map(bytes, libc::PROT_NONE, flags, None)?;
        Ok(Backing {
            at,
            bytes,
            file: None,
        })
    }

    /// Memory of this process.
    pub fn private(bytes: usize) -> Answer<Backing> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let at = map(bytes, USABLE, flags, None)?;
        Ok(Backing {
            at,
            bytes,
            file: None,
        })
    }

    /// A new file of `bytes`, mapped.
    pub fn shared(bytes: usize) -> Answer<Backing> {
        let flags = libc::MFD_CLOEXEC;
        // SAFETY: the name ends with a zero.
        let file = unsafe { libc::memfd_create(c"kolo-softgpu".as_ptr(), flags) };
        if file < 0 {
            return Err(Code::OUT_OF_MEMORY);
        }
        // SAFETY: it was just made, and nobody else closes it.
        let file = unsafe { OwnedFd::from_raw_fd(file) };
        let size = i64::try_from(bytes).map_err(|_| Code::INVALID_VALUE)?;
        // SAFETY: the file is open.
        if unsafe { libc::ftruncate(file.as_raw_fd(), size) } != 0 {
            return Err(Code::OUT_OF_MEMORY);
        }
        Backing::of_file(file, bytes)
    }

    /// The first bytes of a file that is there.
    pub fn of_file(file: OwnedFd, bytes: usize) -> Answer<Backing> {
        Backing::of_file_at(file, 0, bytes)
    }

    /// The bytes of a file from an offset on, which is one of a page.
    pub fn of_file_at(file: OwnedFd, offset: u64, bytes: usize) -> Answer<Backing> {
        let at = map(
            bytes,
            USABLE,
            libc::MAP_SHARED,
            Some((file.as_fd(), offset)),
        )?;
        Ok(Backing {
            at,
            bytes,
            file: Some(file),
        })
    }

    pub fn at(&self) -> *mut u8 {
        self.at.as_ptr()
    }

    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(OwnedFd::as_fd)
    }

    /// Gives whole pages of a file back to the system; they are zero afterwards.
    pub fn forget(&self, offset: usize, bytes: usize) {
        let first = offset.next_multiple_of(4096);
        let end = (offset + bytes) / 4096 * 4096;
        if let Some(file) = self.file().filter(|_| first < end) {
            let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            let (at, length) = (first as i64, (end - first) as i64);
            // SAFETY: the file is open. If it fails, the pages stay, which only costs memory.
            unsafe { libc::fallocate(file.as_raw_fd(), mode, at, length) };
        }
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        // SAFETY: it was mapped so, and who drops the last of it has no range there any more.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.bytes) };
    }
}
