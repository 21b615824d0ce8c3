//! One piece of memory that all local ranks of a communicator share.
//!
//! **Problem.** Ranks of one machine are processes, threads of one process, or both. They need one
//! zeroed region that all of them see, that leaves no file behind however a job ends, that costs
//! memory only where it is touched, and that no peer can shrink under the others' feet.
//!
//! **Idea.** Between processes: a memfd, an unnamed file in memory, sealed against any change of
//! size; it is gone with the last process that has it. Among threads of one process: anonymous
//! memory. A process maps a segment once, however many of its ranks use it (module `register`).
//!
//! **Layout.** The first 64 bytes per local rank are the confirmation lines (module `confirm`);
//! the connections begin at [`Segment::user_offset`].

use super::fork::{self, Fd};
use super::register;
use crate::base::sync::AtomicU64;
use crate::base::{Error, Rank, Result, checked};
use std::fmt;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

/// Bytes of one confirmation line.
pub const LINE_BYTES: usize = 64;

/// What `user_offset` is a multiple of.
const PAGE_BYTES: usize = 4096;

/// 128 random bits that the ranks of one communicator know and nobody else does.
///
/// Whoever shows it to a service is taken for a rank of that communicator.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Nonce(pub u128);

/// Name of one segment: the communicator's nonce, made different for each of its nodes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(pub u128);

impl fmt::Debug for Nonce {
    /// Keeps the secret out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nonce(..)")
    }
}

impl fmt::Debug for Key {
    /// Keeps the secret out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Key {
    /// The segment of the node whose lowest rank is `leader`. (Two nodes of one communicator
    /// may meet in one process when nodes are emulated, so the nonce alone is not a name.)
    pub fn new(nonce: Nonce, leader: Rank) -> Key {
        /// Odd, so that different leaders give different keys; 2^128 divided by the golden ratio.
        const SPREAD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
        Key(nonce
            .0
            .wrapping_add((u128::from(leader.0) + 1).wrapping_mul(SPREAD)))
    }
}

/// A zeroed mapping; unmapped when the last user drops it.
///
/// It is not inherited by forked children: touching it there is a segmentation fault, which is
/// why calls check [`fork::in_child_of_user`] first.
#[derive(Debug)]
pub struct Segment {
    base: NonNull<u8>,
    length: usize,
    /// Whether other processes can map the same memory.
    between_processes: bool,
    /// Set when the segment is in the process's register.
    pub(super) key: Option<Key>,
    /// The process it was mapped in.
    generation: u32,
}

// SAFETY: a segment is an address range that any thread may use for as long as it is mapped; how
// its bytes may be accessed is up to those who use the raw pointer.
unsafe impl Send for Segment {}
// SAFETY: as above; the methods of a shared reference read immutable fields only.
unsafe impl Sync for Segment {}

impl Segment {
    /// Where the bytes of connections begin when `nlocal` ranks share the segment: `nlocal`
    /// confirmation lines, rounded up to a page.
    pub const fn user_offset(nlocal: usize) -> usize {
        checked::round_up(LINE_BYTES * nlocal, PAGE_BYTES)
    }

    /// A new segment for several processes, and the descriptor from which they can map it.
    ///
    /// The first `ready_bytes` (at most `length`) get their memory at once, so that a machine
    /// that has none left is found out here; all other pages appear when they are touched.
    pub fn create(length: usize, ready_bytes: usize) -> Result<(Segment, Fd)> {
        check_length(length)?;
        let fd = memfd().map_err(|source| create_error("a shared memory file", length, &source))?;
        size_and_seal(&fd, length)?;
        allocate(&fd, ready_bytes.min(length))?;
        let segment = Segment::map(Some(&fd), length)?;
        Ok((segment, fd))
    }

    /// A new segment for threads of this process only.
    pub fn anonymous(length: usize) -> Result<Segment> {
        check_length(length)?;
        Segment::map(None, length)
    }

    /// Maps what another process made with [`Segment::create`]. The descriptor may be closed
    /// afterwards. One that is not sealed, or not of `length` bytes, is an error: it could be cut
    /// short later, and every access beyond its end would kill this process.
    pub fn open(fd: &Fd, length: usize) -> Result<Segment> {
        check_length(length)?;
        // SAFETY: all-zero bytes are a valid `stat`; the call below fills it.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: `fd` is open and `stat` is writable; the second call only reads flags.
        let (result, seals) = unsafe {
            (
                libc::fstat(fd.as_raw_fd(), &raw mut stat),
                libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS),
            )
        };
        let sealed = seals >= 0 && seals & libc::F_SEAL_SHRINK != 0;
        if result != 0 || !sealed || u64::try_from(stat.st_size) != Ok(length as u64) {
            return Err(Error::internal(format!(
                "the shared memory received from the node's lowest rank has {} bytes and seals \
                 {seals:#x}; expected {length} bytes, sealed against shrinking",
                stat.st_size
            )));
        }
        Segment::map(Some(fd), length)
    }

    fn map(fd: Option<&Fd>, length: usize) -> Result<Segment> {
        let generation = fork::generation();
        let (kind, number) = match fd {
            Some(fd) => (libc::MAP_SHARED, fd.as_raw_fd()),
            None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1),
        };
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                kind | libc::MAP_NORESERVE,
                number,
                0,
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
        Ok(Segment {
            base,
            length,
            between_processes: fd.is_some(),
            key: None,
            generation,
        })
    }

    /// Length in bytes, as asked for.
    #[expect(clippy::len_without_is_empty, reason = "a segment is never empty")]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Its first byte, aligned to a page. Valid while the segment lives.
    pub fn as_ptr(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Whether it is a memfd that several processes map (true) or memory of this process (false).
    pub fn between_processes(&self) -> bool {
        self.between_processes
    }

    /// The 64-bit word at `offset`, which must be a multiple of 8 inside the segment.
    ///
    /// # Panics
    /// When it is not.
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset < self.length && self.length - offset >= 8);
        // SAFETY: inside the mapping and aligned, as just checked; the mapping lives as long as
        // `self`; any bytes are a valid integer, and other processes access it atomically too.
        unsafe { &*self.base.as_ptr().add(offset).cast::<AtomicU64>() }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if self.generation != fork::generation() {
            // A forked child: the mapping was not inherited, and the addresses may by now belong
            // to something else. The register's lock may be held by a thread that is not here.
            return;
        }
        if let Some(key) = self.key {
            register::forget(key);
        }
        // SAFETY: exactly the mapping made in `map`, not unmapped before; nobody holds a reference
        // into it any more because those borrow from `self` (raw pointers are the users' duty).
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) };
    }
}

fn check_length(length: usize) -> Result<()> {
    if length == 0 || length > isize::MAX as usize {
        return Err(Error::internal(format!(
            "a shared memory segment of {length} bytes was asked for"
        )));
    }
    Ok(())
}

/// An unnamed file in memory that may be sealed and never executed.
fn memfd() -> std::io::Result<Fd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    let make = |flags| {
        // SAFETY: the name is a C string; the new descriptor has no other owner.
        unsafe { Fd::from_result(libc::memfd_create(c"kolo".as_ptr(), flags)) }
    };
    // Kernels before 6.3 do not know the flag "not executable"; some later ones insist on it.
    make(flags | libc::MFD_NOEXEC_SEAL).or_else(|error| match error.raw_os_error() {
        Some(libc::EINVAL) => make(flags),
        _ => Err(error),
    })
}

/// Gives a new file its size, for good.
fn size_and_seal(fd: &Fd, length: usize) -> Result<()> {
    check_file_limit(length)?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: `fd` is open; neither call touches memory of this process.
    let failed = unsafe {
        libc::ftruncate(fd.as_raw_fd(), length as libc::off_t) != 0
            || libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) != 0
    };
    if failed {
        let source = std::io::Error::last_os_error();
        return Err(create_error("a shared memory file", length, &source));
    }
    Ok(())
}

/// A file that would pass the limit on file sizes does not fail politely: the kernel sends
/// SIGXFSZ, which ends the process. So the limit is asked first.
fn check_file_limit(length: usize) -> Result<()> {
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: `limit` is writable; a failed call leaves "no limit".
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    if limit.rlim_cur != libc::RLIM_INFINITY && (length as u64) > limit.rlim_cur {
        return Err(Error::new(
            crate::base::Code::SystemError,
            format!(
                "shared memory of {length} bytes is larger than this process's limit on file \
                 sizes, {} bytes",
                limit.rlim_cur
            ),
            "raise the limit (`ulimit -f unlimited` in the job script), which counts memory files \
             too",
        ));
    }
    Ok(())
}

/// Gets the memory behind the first bytes now, where its absence is an error and not a signal.
fn allocate(fd: &Fd, bytes: usize) -> Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    // SAFETY: `fd` is open; no memory of this process is touched.
    if unsafe { libc::fallocate(fd.as_raw_fd(), 0, 0, bytes as libc::off_t) } == 0 {
        return Ok(());
    }
    let source = std::io::Error::last_os_error();
    match source.raw_os_error() {
        // Allocation ahead of use is a courtesy: systems without it still give pages on touch.
        Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINTR) => Ok(()),
        _ => Err(create_error(
            "the first pages of shared memory",
            bytes,
            &source,
        )),
    }
}

/// A sentence for a refusal of the operating system while memory is made or mapped.
fn create_error(what: &str, bytes: usize, source: &std::io::Error) -> Error {
    let remedy = match source.raw_os_error() {
        Some(libc::EMFILE) => {
            "this process has too many open files: raise the limit (`ulimit -n 65536` in the job \
             script) or look for a leak of file descriptors in the program"
        }
        Some(libc::ENFILE) => {
            "the machine has too many open files: ask the administrator to raise fs.file-max"
        }
        Some(libc::ENOMEM) => {
            "the machine, the job's memory limit or the address space (`ulimit -v`) has no room: \
             ask the batch system for more memory per node, start fewer ranks per node, or make \
             kolo's buffers smaller (`kolo info --config` lists them)"
        }
        Some(libc::ENOSPC) => {
            "the job's shared memory is used up (a memory control group or a tmpfs limit): ask the \
             batch system for more memory per node, start fewer ranks per node, or raise the \
             container's --shm-size"
        }
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => {
            "a security filter forbids memfd_create: allow this system call in the container's \
             seccomp profile (the default profiles of Docker and Podman do)"
        }
        _ => "run `kolo info` and give its output to the administrator of this machine",
    };
    Error::system(
        format_args!("could not make {what} of {bytes} bytes"),
        source,
        remedy,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sync::Ordering;

    #[test]
    fn user_offset_covers_the_lines() {
        assert_eq!(Segment::user_offset(1), 4096);
        assert_eq!(Segment::user_offset(64), 4096);
        assert_eq!(Segment::user_offset(65), 8192);
    }

    #[test]
    fn two_mappings_see_each_other_and_the_size_is_sealed() {
        let length = 3 * 4096 + 100;
        let (first, fd) = Segment::create(length, 4096).unwrap();
        let second = Segment::open(&fd, length).unwrap();
        assert_ne!(first.as_ptr(), second.as_ptr());
        assert!(first.between_processes());
        assert_eq!(second.word(8192).load(Ordering::Acquire), 0);
        first.word(8192).store(42, Ordering::Release);
        assert_eq!(second.word(8192).load(Ordering::Acquire), 42);
        for size in [0, 4096, 1 << 20] {
            // SAFETY: a refused change of a file's size.
            assert_eq!(unsafe { libc::ftruncate(fd.as_raw_fd(), size) }, -1);
        }
        assert!(Segment::open(&fd, length + 1).is_err());
        drop(fd);
        first.word(0).store(7, Ordering::Release);
        assert_eq!(second.word(0).load(Ordering::Acquire), 7);
    }

    #[test]
    fn unsealed_memory_is_refused() {
        let fd = memfd().unwrap();
        // SAFETY: `fd` is open.
        assert_eq!(unsafe { libc::ftruncate(fd.as_raw_fd(), 4096) }, 0);
        let error = Segment::open(&fd, 4096).unwrap_err();
        assert!(error.what.contains("sealed"), "{error}");
    }

    #[test]
    fn memory_is_sparse() {
        let (segment, fd) = Segment::create(1 << 30, 4096).unwrap();
        segment.word(1 << 29).store(1, Ordering::Relaxed);
        // SAFETY: all-zero bytes are a valid `stat`, and the call fills it.
        let stat = unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            assert_eq!(libc::fstat(fd.as_raw_fd(), &raw mut stat), 0);
            stat
        };
        // Blocks of 512 bytes; a huge page may stand behind the touched word.
        assert!(stat.st_blocks * 512 <= 8 << 20, "{}", stat.st_blocks);
    }

    #[test]
    fn impossible_lengths_are_sentences() {
        assert!(Segment::anonymous(0).is_err());
        assert!(Segment::create(usize::MAX, 0).is_err());
        let error = Segment::anonymous(1 << 60).unwrap_err();
        assert!(
            error.what.contains("bytes") && error.remedy.contains("memory"),
            "{error}"
        );
    }

    #[test]
    fn every_refusal_has_a_remedy_of_its_own() {
        let texts: Vec<String> = [libc::EMFILE, libc::ENOMEM, libc::ENOSPC, libc::EPERM]
            .iter()
            .map(|&number| {
                let source = std::io::Error::from_raw_os_error(number);
                create_error("memory", 1, &source).remedy.into_owned()
            })
            .collect();
        assert!(texts[0].contains("ulimit -n") && texts[1].contains("ulimit -v"));
        assert!(texts[2].contains("--shm-size") && texts[3].contains("seccomp"));
    }

    #[test]
    fn keys_differ_by_node() {
        assert_ne!(Key::new(Nonce(1), Rank(0)), Key::new(Nonce(1), Rank(1)));
        assert_eq!(format!("{:?}", Nonce(1)), "Nonce(..)");
    }
}
