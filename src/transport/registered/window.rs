//! The moment in which pages are exchanged, and how nobody writes into them meanwhile.
//!
//! **Problem.** What a thread writes after its page was copied and before the copy has taken its
//! place is lost. The program promises not to write into its buffer, but it cannot know what else
//! lies in the first and last page of it.
//!
//! **Idea.** Where the system offers it (userfaultfd, since Linux 6.4; security filters may forbid
//! it), the pages are protected first: who writes waits, until the file is closed, and then writes
//! into the new page. Elsewhere the promise is all there is.
//!
//! **What must not happen meanwhile**: this thread must not write into the pages, for it would wait
//! for itself. So it makes system calls only, allocates nothing, and takes no signal.
//!
//! Reference: Linux `Documentation/admin-guide/mm/userfaultfd.rst`; userfaultfd(2).

use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

#[repr(C)]
struct WatchRequest {
    version: u64,
    features: u64,
    calls: u64,
}

#[repr(C)]
struct Watched {
    start: u64,
    bytes: u64,
    mode: u64,
    calls: u64,
}

#[repr(C)]
struct Protected {
    start: u64,
    bytes: u64,
    mode: u64,
}

const VERSION: u64 = 0xaa;
/// Writes to protected pages, to pages that were never touched, and to shared ones.
const FEATURES: u64 = 1 << 0 | 1 << 13 | 1 << 12;
const WATCH_WRITES: u64 = 1 << 1;
const PROTECT: u64 = 1 << 0;
/// Faults of system calls are not waited for: what a process without privileges may have.
const USER_MODE_ONLY: libc::c_int = 1;

/// The number of a request that reads and writes a `T`.
const fn request<T>(number: u32) -> u64 {
    const READ_AND_WRITE: u64 = 3;
    READ_AND_WRITE << 30 | (size_of::<T>() as u64) << 16 | VERSION << 8 | number as u64
}

/// While it lives, nobody else writes into the pages, if the system can hold writers back.
pub(super) struct Stillness {
    writers: Option<OwnedFd>,
    signals: libc::sigset_t,
}

impl Stillness {
    /// Opens it over `pages`, which are mapped.
    pub(super) fn over(pages: &Range<usize>) -> Stillness {
        // SAFETY: sets of signals are plain bits, filled by the calls; blocking harms nobody.
        let signals = unsafe {
            let (mut all, mut before) = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            before
        };
        Stillness {
            writers: hold_back(pages),
            signals,
        }
    }

    /// Whether writers are held back.
    #[cfg(test)]
    pub(super) fn is_tight(&self) -> bool {
        self.writers.is_some()
    }
}

impl Drop for Stillness {
    fn drop(&mut self) {
        // Closing wakes who waits, and they find the pages that are there now.
        self.writers = None;
        // SAFETY: the set that was in force before.
        unsafe {
            libc::pthread_sigmask(
                libc::SIG_SETMASK,
                &raw const self.signals,
                std::ptr::null_mut(),
            );
        }
    }
}

/// Lets threads that write into the pages wait until the descriptor is closed; `None` where that
/// cannot be had.
fn hold_back(pages: &Range<usize>) -> Option<OwnedFd> {
    let (start, bytes) = (pages.start as u64, pages.len() as u64);
    let open = |mode: libc::c_int| {
        // SAFETY: makes a descriptor, or fails.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | mode) };
        // SAFETY: a new descriptor that nobody else owns.
        (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as i32) })
    };
    let fd = open(0).or_else(|| open(USER_MODE_ONLY))?;
    fn ask<T>(fd: &OwnedFd, number: u32, mut what: T) -> Option<()> {
        // SAFETY: the request is the one for this structure, which lives through the call.
        let code = unsafe { libc::ioctl(fd.as_raw_fd(), request::<T>(number) as _, &raw mut what) };
        (code == 0).then_some(())
    }
    let hello = WatchRequest {
        version: VERSION,
        features: FEATURES,
        calls: 0,
    };
    ask(&fd, 0x3f, hello)?;
    let watched = Watched {
        start,
        bytes,
        mode: WATCH_WRITES,
        calls: 0,
    };
    ask(&fd, 0x00, watched)?;
    let protected = Protected {
        start,
        bytes,
        mode: PROTECT,
    };
    ask(&fd, 0x06, protected)?;
    Some(fd)
}
