//! Pages that the system makes now, and not when they are first written.

use crate::base::sync::{AtomicU32, Ordering};
use std::io;
use std::ops::Range;

/// Lets the system fill its tables as if each page were written to: a private mapping of a file has
/// copies then. The content stays, and others may write meanwhile.
///
/// # Errors
/// `EINVAL` before Linux 5.14; no memory.
pub(super) fn populate(pages: &Range<usize>) -> io::Result<()> {
    // SAFETY: the content of the pages does not change.
    let code = unsafe {
        libc::syscall(
            libc::SYS_madvise,
            pages.start,
            pages.len(),
            libc::MADV_POPULATE_WRITE,
        )
    };
    match code {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Does so by writing a word of each page, as it is.
///
/// # Safety
/// The pages are there, and may be written.
pub(super) unsafe fn touch(pages: &Range<usize>, page: usize) {
    for place in pages.clone().step_by(page) {
        let word = std::ptr::with_exposed_provenance_mut::<u32>(place);
        // SAFETY: our caller's promise; whoever else writes the word has written before or after.
        let word = unsafe { AtomicU32::from_ptr(word) };
        let mut value = word.load(Ordering::Relaxed);
        // An exchange with itself: an addition of zero would be compiled to a load.
        while let Err(other) =
            word.compare_exchange_weak(value, value, Ordering::Relaxed, Ordering::Relaxed)
        {
            value = other;
        }
    }
}

/// Makes private copies of a file's pages.
///
/// # Errors
/// No memory.
///
/// # Safety
/// The pages are there, and may be written.
pub(super) unsafe fn make(pages: &Range<usize>, page: usize) -> io::Result<()> {
    match populate(pages) {
        Err(cause) if cause.raw_os_error() == Some(libc::EINVAL) => {
            // SAFETY: our caller's promise.
            unsafe { touch(pages, page) };
            Ok(())
        }
        done => done,
    }
}
