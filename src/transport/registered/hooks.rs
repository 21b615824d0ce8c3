//! Changing what lies at an address, past the hooks of network libraries, which then hear of it.
//!
//! **Problem.** Libraries that pin memory for a network (UCX, libfabric, Open MPI) put hooks before
//! mmap, mremap and others, to hear when what they have pinned is gone. Such a hook takes locks and
//! allocates, which nobody may do in a child of fork. And that of UCX before 1.15 does not hand
//! over the new address of mremap: pages then land wherever a register happens to point, perhaps on
//! malloc's own.
//!
//! **Idea.** The exchange is a bare system call, which no hook sees. Afterwards an mremap that
//! changes nothing goes through the hooks: they hear that these addresses have other pages now.
//!
//! Reference: <https://github.com/openucx/ucx/issues/8820>.

use std::io;
use std::ops::Range;

/// Shows `file` from the offset `from` on at `pages`, in the place of what is there.
///
/// # Safety
/// Nobody needs what is there, or it is the same as what the file holds.
pub(super) unsafe fn show_file(
    pages: &Range<usize>,
    (rights, flags): (libc::c_int, libc::c_int),
    (file, from): (libc::c_int, u64),
) -> io::Result<()> {
    #[cfg(test)]
    late_failure(pages)?;
    // SAFETY: the caller's promise; the system exchanges the pages in one step.
    outcome(unsafe {
        libc::syscall(
            libc::SYS_mmap,
            pages.start,
            pages.len(),
            rights,
            flags | libc::MAP_FIXED,
            file,
            from,
        )
    })
}

/// Moves the pages of the mapping at `copy` to `pages`, in the place of what is there.
///
/// # Safety
/// The mapping is the caller's, who needs it at `copy` no more; nobody needs what is at `pages`.
pub(super) unsafe fn put(copy: usize, pages: &Range<usize>) -> io::Result<()> {
    #[cfg(test)]
    late_failure(pages)?;
    // SAFETY: the caller's promise; the system exchanges the pages in one step.
    outcome(unsafe {
        libc::syscall(
            libc::SYS_mremap,
            copy,
            pages.len(),
            pages.len(),
            libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED,
            pages.start,
        )
    })
}

/// Changes who may touch pages. They stay where they are, with their content.
///
/// # Errors
/// `ENOMEM`: a part of a mapping would become one of its own, and there are too many.
pub(super) fn protect(pages: &Range<usize>, rights: libc::c_int) -> io::Result<()> {
    #[cfg(test)]
    if next_of(&REFUSES) {
        return Err(io::Error::from_raw_os_error(libc::ENOMEM));
    }
    // SAFETY: nothing is moved or lost.
    outcome(unsafe { libc::syscall(libc::SYS_mprotect, pages.start, pages.len(), rights) })
}

fn outcome(code: libc::c_long) -> io::Result<()> {
    match code {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Tells hooks that other pages lie at these addresses.
pub(super) fn tell(pages: &Range<usize>) {
    // SAFETY: a mapping that stays as long as it is and where it is. A refusal says nothing, as the
    // hooks hear of the call before.
    unsafe {
        libc::mremap(
            pages.start as *mut libc::c_void,
            pages.len(),
            pages.len(),
            0,
        )
    };
}

#[cfg(test)]
thread_local! {
    /// Which of the next exchanges of this thread fail: the lowest bit is the next one.
    pub(super) static FAILS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
    /// Changes of rights that fail, in the same way.
    pub(super) static REFUSES: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// Whether the next one is to fail.
#[cfg(test)]
fn next_of(which: &'static std::thread::LocalKey<std::cell::Cell<u32>>) -> bool {
    let fails = which.get();
    which.set(fails >> 1);
    fails & 1 != 0
}

/// Fails as the system may where memory is short: the old pages are gone by then.
#[cfg(test)]
fn late_failure(pages: &Range<usize>) -> io::Result<()> {
    if !next_of(&FAILS) {
        return Ok(());
    }
    // SAFETY: pages of a test, which looks at what becomes of them.
    unsafe { libc::munmap(pages.start as *mut libc::c_void, pages.len()) };
    Err(io::Error::from_raw_os_error(libc::ENOMEM))
}
