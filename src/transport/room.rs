//! Is there room? Asked before memory is taken, so that "no" is an error and not a signal.
//!
//! **Problem.** The system gives shared memory page by page, when a page is touched. If it cannot
//! give a page, it kills the process: by SIGXFSZ beyond the limit on file sizes, by the
//! out-of-memory killer beyond the limit of a control group, by SIGBUS where no memory is left.
//!
//! **Idea.** Before a region is used its bytes are compared with the limits ([`check_file`],
//! [`check_memory`]) and taken from the system ([`reserve`]). The limit of a control group is read
//! and not tried: trying is what wakes the killer.
//!
//! Reading a group's files costs tens of microseconds. So a reading that leaves much stands for
//! many requests: for a part of what it left, as others use the same group meanwhile. Near the
//! limit the processes that share a file take turns with reading and taking (`Turn`): else each of
//! them would take what is left.

mod group;

use super::fork::Fd;
use crate::base::clock::now;
use crate::base::turns;
use crate::base::{Code, Error, Result};
use std::os::fd::AsRawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Of what a reading left, the part that is given out without reading again.
const PART: u64 = 1024;
/// Of a limit, the part that is left alone: what a process needs besides, such as page tables.
const SPARE_PART: u64 = 64;
/// The most that is left alone. It does not grow with the machine: a job that is given terabytes
/// may use all but this.
const MOST_SPARE: u64 = 64 << 20;
/// Bytes that are given out without reading again where no group has a limit.
const UNLIMITED: u64 = 1 << 30;

/// Bytes that may still be taken on the word of the last reading.
static ALLOWANCE: Mutex<u64> = Mutex::new(0);

/// Checks that a file may have `length` bytes. One that would pass the limit on file sizes does not
/// fail politely: the kernel sends SIGXFSZ, which ends the process. `what` is the region that the
/// file is for.
///
/// # Errors
/// `SystemError` naming the region, its bytes, the limit and the remedy.
pub fn check_file(what: &str, length: u64) -> Result<()> {
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: `limit` is writable; a failed call leaves "no limit".
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    let limit = limit.rlim_cur;
    if limit == libc::RLIM_INFINITY || length <= limit {
        return Ok(());
    }
    Err(Error::new(
        Code::SystemError,
        format!(
            "{what} needs a memory file of {length} bytes, which is larger than this process's \
             limit on file sizes, {limit} bytes"
        ),
        "raise the limit (`ulimit -f unlimited` in the job script), which counts memory files too",
    ))
}

/// Checks that the control groups of this process leave `bytes` bytes of memory for `what`.
///
/// # Errors
/// `SystemError` naming the region, its bytes, the limit and the remedy.
pub fn check_memory(what: &str, bytes: usize) -> Result<()> {
    let bytes = bytes as u64;
    let mut allowance = ALLOWANCE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(rest) = allowance.checked_sub(bytes) {
        *allowance = rest;
        return Ok(());
    }
    let Some(tightest) = group::tightest() else {
        *allowance = UNLIMITED;
        return Ok(());
    };
    let rest = rest_of(what, bytes, &tightest);
    *allowance = *rest.as_ref().unwrap_or(&0) / PART;
    rest.map(drop)
}

/// Returns what the tightest group leaves after `bytes` were taken for `what`, or an error if they
/// may not be taken.
fn rest_of(what: &str, bytes: u64, tightest: &group::Room) -> Result<u64> {
    let spare = (tightest.limit / SPARE_PART).min(MOST_SPARE);
    let rest = tightest.left.checked_sub(bytes);
    rest.filter(|&rest| rest >= spare)
        .ok_or_else(|| refused(what, bytes, spare, tightest))
}

fn refused(what: &str, bytes: u64, spare: u64, tightest: &group::Room) -> Error {
    let group::Room { limit, left, name } = tightest;
    Error::new(
        Code::SystemError,
        format!(
            "{what} needs {bytes} bytes of memory, and the control group {name} leaves {left} of \
             its limit of {limit} bytes, of which {spare} stay free for the system's own needs"
        ),
        "ask the batch system for more memory per node, start fewer ranks per node, or make kolo's \
         buffers smaller (KOLO_BUFFSIZE)",
    )
}

/// Takes the memory behind `bytes` bytes of `file` from `offset` on, which are part of `what`. The
/// file grows to hold them.
///
/// # Errors
/// `SystemError` naming the region, its bytes, the limit that stands in the way and the remedy.
pub fn reserve(file: &Fd, (offset, bytes): (u64, usize), what: &str) -> Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    check_file(what, offset + bytes as u64)?;
    let allowance = *ALLOWANCE.lock().unwrap_or_else(PoisonError::into_inner);
    let _turn = (allowance < bytes as u64).then(|| Turn::take(file, TURN_LIMIT));
    check_memory(what, bytes)?;
    let (offset, length) = (offset as libc::off_t, bytes as libc::off_t);
    loop {
        // SAFETY: `file` is open; no memory of this process is touched.
        if unsafe { libc::fallocate(file.as_raw_fd(), 0, offset, length) } == 0 {
            return Ok(());
        }
        let cause = std::io::Error::last_os_error();
        match cause.raw_os_error() {
            // A signal for the program; what was taken is given back, and taken anew.
            Some(libc::EINTR) => {}
            // Systems without it still give pages on touch.
            Some(libc::EOPNOTSUPP | libc::ENOSYS) => return grow(file, (offset + length) as u64),
            _ => return Err(create_error(what, bytes, &cause)),
        }
    }
}

/// Gives the memory behind bytes of a file back, which nobody uses: they are zero then. False where
/// the system refuses.
pub fn give_back(file: &Fd, (offset, bytes): (u64, usize)) -> bool {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: plain system call on an open descriptor; nobody uses what is given back, by promise.
    unsafe {
        let (offset, bytes) = (offset as libc::off_t, bytes as libc::off_t);
        libc::fallocate(file.as_raw_fd(), mode, offset, bytes) == 0
    }
}

/// The only one of the threads and processes that share a file which asks and takes: the lock of a
/// process that dies is given back by the system.
struct Turn<'a> {
    file: &'a Fd,
    /// Locks of files exclude other processes only.
    _thread: MutexGuard<'static, ()>,
}

static TURN: Mutex<()> = Mutex::new(());
/// How long another process may take to ask and take. Without a turn the memory may be asked for
/// twice, and one of two that take it gets the error of whoever comes late.
const TURN_LIMIT: Duration = Duration::from_secs(10);
/// How often the lock is tried.
const TURN_PAUSE: Duration = Duration::from_millis(1);

impl Turn<'_> {
    /// Waits for the others, but not for ever: the process whose turn it is may be stopped.
    fn take(file: &Fd, limit: Duration) -> Turn<'_> {
        let _thread = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let start = now();
        while !lock(file, libc::F_WRLCK) && is_held_elsewhere() && !start.past(limit) {
            turns::sleep(TURN_PAUSE);
        }
        Turn { file, _thread }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        lock(self.file, libc::F_UNLCK);
    }
}

/// Whether the last attempt to lock has failed because another process holds the lock.
fn is_held_elsewhere() -> bool {
    let cause = std::io::Error::last_os_error().raw_os_error();
    matches!(cause, Some(libc::EAGAIN | libc::EACCES | libc::EINTR))
}

/// Locks a file for this process at once, or unlocks it. Where that fails nobody waits for anybody.
fn lock(file: &Fd, how: libc::c_int) -> bool {
    // SAFETY: all-zero bytes are a valid `flock`.
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    (range.l_type, range.l_len) = (how as libc::c_short, 1);
    // SAFETY: plain system call on an open descriptor; `range` lives through it.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const range) == 0 }
}

/// Makes the file at least `length` bytes long. Others may do so at the same time.
///
/// # Errors
/// `SystemError` when the system refuses.
pub fn grow(file: &Fd, length: u64) -> Result<()> {
    // Shrinking is sealed: whoever comes late with a smaller number is refused.
    while size(file)? < length {
        // SAFETY: plain system call on an open descriptor.
        if unsafe { libc::ftruncate(file.as_raw_fd(), length as libc::off_t) } == 0 {
            break;
        }
        let cause = std::io::Error::last_os_error();
        if size(file)? < length && cause.raw_os_error() != Some(libc::EINTR) {
            let what = "a shared memory file";
            return Err(create_error(what, length as usize, &cause));
        }
    }
    Ok(())
}

/// Bytes of a file.
///
/// # Errors
/// `SystemError` when the system refuses.
pub fn size(file: &Fd) -> Result<u64> {
    Ok(u64::try_from(state(file)?.st_size).unwrap_or(0))
}

/// Bytes of memory that a file takes.
///
/// # Errors
/// `SystemError` when the system refuses.
pub fn taken(file: &Fd) -> Result<u64> {
    /// Unit in which the system counts.
    const BLOCK_BYTES: u64 = 512;
    Ok(u64::try_from(state(file)?.st_blocks).unwrap_or(0) * BLOCK_BYTES)
}

/// Bytes of a page.
pub fn page_bytes() -> usize {
    // SAFETY: sysconf only reads a constant of the system.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Asks the system for the state of a file.
///
/// # Errors
/// `SystemError` when the system refuses.
pub(super) fn state(file: &Fd) -> Result<libc::stat> {
    // SAFETY: all-zero bytes are a valid `stat`, and the call fills it.
    let (result, state) = unsafe {
        let mut state: libc::stat = std::mem::zeroed();
        (libc::fstat(file.as_raw_fd(), &raw mut state), state)
    };
    if result != 0 {
        let cause = std::io::Error::last_os_error();
        let what = "a shared memory file";
        return Err(create_error(what, 0, &cause));
    }
    Ok(state)
}

/// Whether nobody can make the file shorter: one that can be cut short under a mapping kills
/// whoever touches what is gone.
pub fn is_sealed(file: &Fd) -> bool {
    // SAFETY: only reads flags of an open descriptor.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    seals >= 0 && seals & libc::F_SEAL_SHRINK != 0
}

/// Adds seals to a new file.
pub fn seal(file: &Fd, seals: libc::c_int) -> std::io::Result<()> {
    // SAFETY: plain system call on an open descriptor.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// An unnamed file in memory that may be sealed and never executed.
pub fn memory_file(name: &std::ffi::CStr) -> std::io::Result<Fd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    let make = |flags| {
        // SAFETY: the name is a C string; the new descriptor has no other owner.
        unsafe { Fd::from_result(libc::memfd_create(name.as_ptr(), flags)) }
    };
    // Kernels before 6.3 do not know the flag "not executable"; some later ones insist on it.
    make(flags | libc::MFD_NOEXEC_SEAL).or_else(|error| match error.raw_os_error() {
        Some(libc::EINVAL) => make(flags),
        _ => Err(error),
    })
}

/// A sentence for a refusal of the operating system while memory is made or mapped.
pub(super) fn create_error(what: &str, bytes: usize, source: &std::io::Error) -> Error {
    Error::system(
        format_args!("could not make {what} of {bytes} bytes"),
        source,
        remedy(source),
    )
}

/// Remedy against a refusal of the operating system.
pub(super) fn remedy(source: &std::io::Error) -> &'static str {
    match source.raw_os_error() {
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
             kolo's buffers smaller (`kolo config show --origin` lists them)"
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another process has the lock and is stopped, as by a debugger.
    #[test]
    fn a_turn_is_waited_for_within_a_limit() {
        let file = memory_file(c"kolo test").unwrap();
        // Not marked as kolo's: the child keeps it.
        // SAFETY: a plain system call on an open descriptor.
        let number = unsafe { libc::dup(file.as_raw_fd()) };
        let (mut said, says) = std::io::pipe().unwrap();
        // SAFETY: the child calls the system only, and is ended below.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: all-zero bytes are a valid `flock`; plain system calls.
            unsafe {
                let mut range: libc::flock = std::mem::zeroed();
                (range.l_type, range.l_len) = (libc::F_WRLCK as libc::c_short, 1);
                libc::fcntl(number, libc::F_SETLK, &raw const range);
                libc::write(says.as_raw_fd(), b"x".as_ptr().cast(), 1);
                loop {
                    libc::pause();
                }
            }
        }
        let has_said = std::io::Read::read(&mut said, &mut [0]).unwrap();
        let start = now();
        let limit = Duration::from_millis(50);
        drop(Turn::take(&file, limit));
        let waited = start.elapsed();
        // SAFETY: a child that was not waited for, and a descriptor that nobody else has.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
            libc::close(number);
        }
        assert_eq!(has_said, 1);
        assert!(waited >= limit, "{waited:?}");
        drop(Turn::take(&file, Duration::from_secs(3600)));
    }

    fn room(limit: u64, left: u64) -> group::Room {
        let name = "/sys/fs/cgroup/job".into();
        group::Room { limit, left, name }
    }

    #[test]
    fn what_stays_free_does_not_grow_with_the_machine() {
        let bytes = 1 << 20;
        for limit in [8_u64 << 30, 512 << 30, 2 << 40] {
            let enough = room(limit, MOST_SPARE + bytes);
            let rest = rest_of("a test", bytes, &enough).unwrap();
            assert_eq!(rest, MOST_SPARE, "of {limit}");
            let error = rest_of("a test", bytes + 1, &enough).unwrap_err();
            let spare = format!("of which {MOST_SPARE} stay free");
            assert!(error.what.contains(&spare), "{error}");
        }
        // A small group keeps its part.
        let small = room(64 << 20, (1 << 20) + bytes);
        assert!(rest_of("a test", bytes, &small).is_ok());
        assert!(rest_of("a test", bytes + 1, &small).is_err());
        assert!(rest_of("a test", u64::MAX, &small).is_err());
    }
}
