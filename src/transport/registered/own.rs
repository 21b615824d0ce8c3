//! Files in memory that the program has mapped itself, and that peers can map as they are.
//!
//! **Problem.** A mapping does not give its file; some descriptor of the program does. But whoever
//! closes any descriptor of a file takes the locks of the whole process off it (fcntl(2)), so files
//! that are not the one sought must not be opened or duplicated.
//!
//! **Idea.** The program's descriptors are looked at by their numbers, and only the right one is
//! duplicated.

use super::areas::{Area, FileIdentity};
use crate::base::{Error, Result, descriptors};
use crate::transport::fork::Fd;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Where the buffer lies in a file of the program.
#[derive(Debug)]
pub(super) struct OwnFile {
    pub file: Arc<Fd>,
    pub begins: u64,
    pub identity: FileIdentity,
}

/// The file that holds these bytes, if it is one of the program that nobody can cut short and that
/// peers may write.
///
/// # Errors
/// `SystemError` where descriptors run out, or cannot be listed.
pub(super) fn find(
    areas: &[Area],
    bytes: &Range<usize>,
    ours: FileIdentity,
) -> Result<Option<OwnFile>> {
    let [area] = areas else { return Ok(None) };
    let inside = area.pages.start <= bytes.start && bytes.end <= area.pages.end;
    let can_be = area.file != ours && area.file.inode != 0 && area.is_shared();
    if !inside || !can_be || !area.rights.starts_with("rw") {
        return Ok(None);
    }
    let begins = area.offset + (bytes.start - area.pages.start) as u64;
    let names = std::fs::read_dir("/proc/self/fd").map_err(|cause| refused(&cause))?;
    let numbers = names
        .flatten()
        .filter_map(|name| name.file_name().to_str()?.parse().ok());
    for number in numbers.filter(|&number| fits(number, area.file, begins + bytes.len() as u64)) {
        match descriptors::another(number).and_then(Fd::new) {
            Ok(file) => {
                return Ok(Some(OwnFile {
                    file: Arc::new(file),
                    begins,
                    identity: area.file,
                }));
            }
            // Another thread has closed it just now.
            Err(cause) if cause.raw_os_error() == Some(libc::EBADF) => (),
            Err(cause) => return Err(refused(&cause)),
        }
    }
    Ok(None)
}

/// Whether a descriptor of the program is the right file, long enough, and open for reading and
/// writing, as peers map all memory.
fn fits(number: i32, wanted: FileIdentity, end: u64) -> bool {
    // SAFETY: all-zero bytes are a valid `stat`, which the call fills; the others only read flags.
    let (code, state, mode, seals) = unsafe {
        let mut state: libc::stat = std::mem::zeroed();
        (
            libc::fstat(number, &raw mut state),
            state,
            libc::fcntl(number, libc::F_GETFL),
            libc::fcntl(number, libc::F_GET_SEALS),
        )
    };
    let forbidden = libc::F_SEAL_WRITE | libc::F_SEAL_FUTURE_WRITE;
    code == 0
        && FileIdentity::of(&state) == wanted
        && end <= u64::try_from(state.st_size).unwrap_or(0)
        && mode >= 0
        && mode & libc::O_ACCMODE == libc::O_RDWR
        && seals >= 0
        && seals & libc::F_SEAL_SHRINK != 0
        && seals & forbidden == 0
}

fn refused(cause: &io::Error) -> Error {
    let what = "could not get at the file that holds the buffer, by the open files of the program";
    Error::system(what, cause, "raise the limit on open files (`ulimit -n`)")
}

#[cfg(test)]
mod tests {
    use super::super::fenced::{FencedPages, PAGE, SHARED};
    use super::super::{areas, register};
    use crate::transport::room;
    use std::os::fd::AsRawFd;

    /// Closing any descriptor of a file takes the locks of the process off it.
    #[test]
    fn locks_of_other_files_stay() {
        let held = room::memory_file(c"locked").unwrap();
        // SAFETY: all-zero bytes are a valid `flock`, and the call only reads it.
        let code = unsafe {
            let mut lock: libc::flock = std::mem::zeroed();
            lock.l_type = libc::F_WRLCK as _;
            libc::fcntl(held.as_raw_fd(), libc::F_SETLK, &raw const lock)
        };
        assert_eq!(code, 0);
        let inode = areas::identity(&held).unwrap().inode;
        let is_locked = || {
            let locks = std::fs::read_to_string("/proc/locks").unwrap();
            let end = format!(":{inode}");
            locks.lines().any(|line| {
                line.contains("POSIX") && line.split_whitespace().any(|word| word.ends_with(&end))
            })
        };
        assert!(is_locked());
        let shared = FencedPages::of(SHARED, PAGE, None);
        let error = register(shared.at(0), PAGE).expect_err("a file that can be cut short");
        assert!(error.to_string().contains("cut short"), "{error}");
        assert!(is_locked(), "the lock is gone");
    }
}
