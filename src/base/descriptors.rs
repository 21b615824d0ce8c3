//! The numbers of kolo's files: never those of the standard streams.
//!
//! **Problem.** A system call gives the least free number. A program that was started without a
//! standard stream, or has closed one, would see a connection of kolo at its place; and the next
//! line that it writes to standard error, or that a library writes for it, would go into the middle
//! of the data.
//!
//! **Idea.** Whatever opens a file that stays open passes it through [`lifted`] at once, which
//! moves it to a number that no stream has. `tests/tidy` looks for those that do not. A file that
//! is read and closed in one step needs none of this: nobody can write into it.
//!
//! **Limits.** A number can belong to the file between two system calls. Files that other libraries
//! open are theirs.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// The least number of a file of kolo.
pub const LEAST: RawFd = 3;

/// Moves an open file to a number from [`LEAST`] on.
///
/// # Errors
/// The process may open no more files.
pub fn lifted<T: Into<OwnedFd> + From<OwnedFd>>(file: T) -> io::Result<T> {
    let file: OwnedFd = file.into();
    match file.as_raw_fd() < LEAST {
        true => another(file.as_raw_fd()).map(T::from),
        false => Ok(T::from(file)),
    }
}

/// One more descriptor of an open file, at a number from [`LEAST`] on, closed on exec.
///
/// # Errors
/// The number is not open, or the process may open no more files.
pub fn another(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: plain system call; where it succeeds the new descriptor has no other owner.
    unsafe { made(libc::fcntl(number, libc::F_DUPFD_CLOEXEC, LEAST)) }
}

/// Result of a system call, lifted; a negative result is the last system error.
///
/// # Safety
/// `result` must be negative or a descriptor that nobody else owns.
///
/// # Errors
/// That of the call, and those of [`lifted`].
pub unsafe fn made(result: libc::c_int) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the caller vouches for sole ownership.
    lifted(unsafe { OwnedFd::from_raw_fd(result) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::alone::alone;
    use std::fs::File;
    use std::io::Read;

    #[test]
    fn numbers_of_streams_are_left_free() {
        alone("base::descriptors::tests::a_process_without_streams", &[]);
    }

    #[test]
    #[ignore = "started by the test above, in a process of its own"]
    fn a_process_without_streams() {
        // SAFETY: kept, and given back below; nobody else uses the numbers meanwhile.
        let kept: Vec<RawFd> = (0..3).map(|number| unsafe { libc::dup(number) }).collect();
        for mask in 0..8 {
            let closed = || (0..3).filter(|number| mask & (1 << number) != 0);
            // SAFETY: as above.
            closed().for_each(|number| assert_eq!(unsafe { libc::close(number) }, 0));
            let opened = [(); 3].map(|()| lifted(File::open("/proc/self/stat").unwrap()));
            // SAFETY: a new descriptor.
            let bell = unsafe { made(libc::eventfd(0, libc::EFD_CLOEXEC)) };
            // SAFETY: as above.
            kept.iter().zip(0..).for_each(|(&from, to)| unsafe {
                libc::dup2(from, to);
            });
            assert!(bell.unwrap().as_raw_fd() >= LEAST);
            for file in opened {
                let mut file = file.unwrap();
                assert!(file.as_raw_fd() >= LEAST);
                // SAFETY: reads the flags of an open descriptor.
                let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFD) };
                assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
                assert!(file.read(&mut [0; 8]).unwrap() > 0);
            }
        }
    }

    #[test]
    fn what_is_no_file_is_an_error() {
        assert!(another(-1).is_err());
        // SAFETY: a negative number is no descriptor.
        assert!(unsafe { made(-1) }.is_err());
    }
}
