//! Private pages in the place of shared ones, with what these hold.
//!
//! **Problem.** Memory that peers have mapped must become the process's own, at the same addresses,
//! and its content is data of the program.
//!
//! **Idea.** A piece is copied to new pages, which one system call then puts in the place of the
//! old ones: nobody finds the addresses without memory, and where the system refuses, the old pages
//! stay. What a peer writes during the copy may be in it or not, as if it had written earlier or
//! later.

use std::io;
use std::ops::Range;

/// Copied at once: so much memory is needed beside the old pages, and no more.
const PIECE: usize = 16 << 20;

/// Puts private pages in the place of those of `range`, whole pages of shared memory. `done` hears
/// of each part that has them.
///
/// # Errors
/// The system's; what `done` has not heard of is as it was.
///
/// # Safety
/// The range is mapped, and no reference to it lives.
pub(super) unsafe fn make_private(
    range: Range<usize>,
    mut done: impl FnMut(Range<usize>),
) -> io::Result<()> {
    let mut from = range.start;
    while from < range.end {
        let to = range.end.min(from + PIECE);
        // SAFETY: a part of what the caller has promised.
        unsafe { replace(from, to - from)? };
        done(from..to);
        from = to;
    }
    Ok(())
}

/// # Safety
/// As for [`make_private`].
unsafe fn replace(from: usize, bytes: usize) -> io::Result<()> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: new memory, of which nobody knows.
    let copy = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
    if copy == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let place = std::ptr::with_exposed_provenance_mut::<libc::c_void>(from);
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: both are mapped and that long, and do not overlap; a peer may write there meanwhile,
    // as it may into any shared memory, and each byte is then one or the other. The copy takes the
    // place of memory to which no reference lives.
    unsafe {
        libc::memcpy(copy, place, bytes);
        if libc::mremap(copy, bytes, bytes, flags, place) == libc::MAP_FAILED {
            let error = io::Error::last_os_error();
            libc::munmap(copy, bytes);
            return Err(error);
        }
        // As for every allocation: children of fork() do not inherit it.
        libc::madvise(place, bytes, libc::MADV_DONTFORK);
    }
    Ok(())
}
