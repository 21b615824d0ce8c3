//! Things that `fork` must not duplicate.
//!
//! **Problem.** A process that uses kolo may fork (a Python program's `multiprocessing`, a helper
//! program started the old way). The child has copies of kolo's sockets: while it lives, the
//! death of its parent closes nothing, and the parent's peers wait forever. It also has kolo's
//! state, but neither its service thread nor its segments (they are `MADV_DONTFORK`).
//!
//! **Idea.** kolo's file descriptors are marked in a bitmap that needs no lock. A fork handler
//! closes the marked ones in the child and advances the *generation*; whatever was made in an
//! older generation belongs to the parent and is neither used nor released.
//!
//! **Limits.** A descriptor is not marked between the system call that makes it and the next
//! instruction, and descriptors from 65536 upwards are never marked. `vfork`, `posix_spawn` and
//! `exec` need none of this: every descriptor is close-on-exec. A raw `clone` system call runs no
//! handlers; the service recognises such a child by its process number.

use crate::base::descriptors;
use crate::base::sync::{AtomicU32, AtomicU64, Ordering};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;

/// Descriptors below this number are marked.
const MARKED_COUNT: usize = 65_536;

struct Table {
    /// One bit for each open descriptor of kolo.
    open: Box<[AtomicU64]>,
    /// How many forks lie between the first use of kolo and this process.
    generation: AtomicU32,
}

static TABLE: OnceLock<Table> = OnceLock::new();

unsafe extern "C" {
    /// POSIX; the `libc` crate does not declare it for Linux.
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> libc::c_int;
}

fn table() -> &'static Table {
    TABLE.get_or_init(|| {
        // SAFETY: these are functions for the whole life of the process, do only what is allowed
        // around fork (atomics and close; what [`around`] asks for), and never unwind.
        let result = unsafe { pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
        if result != 0 {
            tracing::warn!(
                "no fork handler could be installed (error {result}): while a forked child lives, \
                 the end of this process is not noticed by its peers"
            );
        }
        Table {
            open: (0..MARKED_COUNT / 64).map(|_| AtomicU64::new(0)).collect(),
            generation: AtomicU32::new(0),
        }
    })
}

/// Functions that somebody runs around each fork. They may not panic or allocate.
#[derive(Clone, Copy)]
pub struct AroundFork {
    /// On the thread that forks.
    pub before: fn(),
    /// On that thread, afterwards; also where the fork has failed.
    pub in_parent: fn(),
    /// In the child, as long as the descriptors are open.
    pub in_child: fn(),
}

static AROUND: OnceLock<AroundFork> = OnceLock::new();

/// From now on this is done around each fork. The first one who asks counts: there is one.
pub fn around(what: AroundFork) {
    table();
    AROUND.get_or_init(|| what);
}

extern "C" fn before() {
    if let Some(around) = AROUND.get() {
        (around.before)();
    }
}

extern "C" fn in_parent() {
    if let Some(around) = AROUND.get() {
        (around.in_parent)();
    }
}

/// Runs in a new child, whose only thread is the one that forked.
extern "C" fn in_child() {
    if let Some(around) = AROUND.get() {
        (around.in_child)();
    }
    let Some(table) = TABLE.get() else { return };
    // Relaxed throughout: a single thread runs here.
    table.generation.fetch_add(1, Ordering::Relaxed);
    for (index, word) in table.open.iter().enumerate() {
        let mut bits = word.load(Ordering::Relaxed);
        word.store(0, Ordering::Relaxed);
        while bits != 0 {
            let fd = index * 64 + bits.trailing_zeros() as usize;
            bits &= bits - 1;
            // SAFETY: the bit says that kolo opened this descriptor; the child's copies of its
            // owners see the cleared bit and leave the number alone.
            unsafe { libc::close(fd as RawFd) };
        }
    }
}

/// A number that differs between a process and its forked children; constant within a process.
pub fn generation() -> u32 {
    // Relaxed: only `in_child` changes it, before any other thread of the child exists.
    table().generation.load(Ordering::Relaxed)
}

/// Whether this process was forked from one that had used kolo before. One load: fit for a call's
/// fast path.
#[inline]
pub fn in_child_of_user() -> bool {
    TABLE
        .get()
        .is_some_and(|table| table.generation.load(Ordering::Relaxed) != 0)
}

/// A file descriptor of kolo: closed on drop, and closed in forked children at once.
#[derive(Debug)]
pub struct Fd(ManuallyDrop<OwnedFd>);

/// The word and the bit that mark `fd`.
fn mark_of(fd: RawFd) -> Option<(&'static AtomicU64, u64)> {
    let number = usize::try_from(fd).ok()?;
    Some((table().open.get(number / 64)?, 1 << (number % 64)))
}

impl Fd {
    /// Takes over `fd`, which should be close-on-exec.
    ///
    /// # Errors
    /// Those of [`descriptors::lifted`].
    pub fn new(fd: OwnedFd) -> std::io::Result<Fd> {
        let fd = descriptors::lifted(fd)?;
        if let Some((word, bit)) = mark_of(fd.as_raw_fd()) {
            word.fetch_or(bit, Ordering::Relaxed);
        }
        Ok(Fd(ManuallyDrop::new(fd)))
    }

    /// Takes over what a system call returned; a negative result is the last system error.
    ///
    /// # Safety
    /// `result` must be negative or a descriptor that nobody else owns.
    pub unsafe fn from_result(result: libc::c_int) -> std::io::Result<Fd> {
        if result < 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: the caller vouches for sole ownership.
        Fd::new(unsafe { OwnedFd::from_raw_fd(result) })
    }
}

impl AsRawFd for Fd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl AsFd for Fd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        if let Some((word, bit)) = mark_of(self.0.as_raw_fd())
            && word.fetch_and(!bit, Ordering::Relaxed) & bit == 0
        {
            // The fork handler closed it; by now the number may belong to something else.
            return;
        }
        // SAFETY: dropped once, here, and not used afterwards.
        unsafe { ManuallyDrop::drop(&mut self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eventfd() -> Fd {
        // SAFETY: plain system call; the new descriptor has no other owner.
        unsafe { Fd::from_result(libc::eventfd(0, libc::EFD_CLOEXEC)) }.unwrap()
    }

    fn is_open(fd: RawFd) -> bool {
        // SAFETY: F_GETFD reads a flag of a number that need not be open.
        unsafe { libc::fcntl(fd, libc::F_GETFD) >= 0 }
    }

    #[test]
    fn a_child_has_neither_the_descriptor_nor_the_generation() {
        let fd = eventfd();
        let raw = fd.as_raw_fd();
        let before = generation();
        // SAFETY: the child only tests numbers, closes, drops and leaves by _exit.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            let closed = !is_open(raw);
            // SAFETY: plain system call. The number is free now, so the next descriptor takes it
            // (or a lower one); dropping the old owner must not close the new descriptor.
            let reused = unsafe { libc::dup(0) };
            drop(fd);
            let good = closed
                && generation() == before + 1
                && in_child_of_user()
                && (reused < 0 || is_open(reused));
            // SAFETY: leaves without running destructors or exit handlers.
            unsafe { libc::_exit(i32::from(!good)) };
        }
        let mut status = -1;
        // SAFETY: `status` is a live integer; `child` is this process's child.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
        assert!(is_open(raw) && generation() == before);
    }

    #[test]
    fn from_result_reports_errors() {
        // SAFETY: a negative number is no descriptor.
        assert!(unsafe { Fd::from_result(-1) }.is_err());
    }
}
