//! Text on its way to whoever shows it: a launcher that ends a job may lose what it has not read.
//!
//! **Problem.** Standard output and error of a rank are pipes to its launcher. MPICH's, told by
//! `MPI_Abort` to end the job, ends it without a look into them: the sentence that says why,
//! written a moment before, is lost now and then.
//!
//! **Idea.** The system tells how much of a pipe has not been read. Whoever ends a job waits until
//! that is nothing, or for a second where nobody reads.
//!
//! This file imports nothing from kolo: the drop-in library compiles it too.

use std::os::fd::RawFd;
use std::time::Duration;

/// Naps that a reader may take. A launcher that reads at all takes some milliseconds.
const PATIENCE: u32 = 1000;
/// Time between two looks.
const NAP: Duration = Duration::from_millis(1);

/// Waits until whoever shows standard output and standard error has read what was written to them,
/// for a second at most. `sleep` is how this thread sleeps.
pub fn wait_until_read(sleep: impl Fn(Duration)) {
    wait_for(&[libc::STDOUT_FILENO, libc::STDERR_FILENO], PATIENCE, sleep);
}

fn wait_for(outputs: &[RawFd], patience: u32, sleep: impl Fn(Duration)) {
    for _ in 0..patience {
        if outputs.iter().all(|&output| unread(output) == 0) {
            return;
        }
        sleep(NAP);
    }
}

/// Bytes that were written and not read yet; 0 where there is no telling (a file, a terminal).
fn unread(output: RawFd) -> libc::c_int {
    // SAFETY: all-zero bytes are a value of this plain structure.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `status` is writable memory of this type; a number that is no descriptor is refused.
    if unsafe { libc::fstat(output, &mut status) } != 0 {
        return 0;
    }
    let question = match status.st_mode & libc::S_IFMT {
        libc::S_IFIFO => libc::FIONREAD,
        libc::S_IFSOCK => libc::TIOCOUTQ,
        _ => return 0,
    };
    let mut bytes: libc::c_int = 0;
    // SAFETY: both questions write one int to where the pointer shows.
    match unsafe { libc::ioctl(output, question, &mut bytes) } {
        0 => bytes,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::fs::File;
    use std::io::{Read, Write, pipe};
    use std::os::fd::AsRawFd;

    #[test]
    fn what_was_written_is_read_before_the_wait_ends() {
        let (mut read, mut write) = pipe().unwrap();
        let text = b"why the job ends";
        write.write_all(text).unwrap();
        let output = write.as_raw_fd();
        assert_eq!(unread(output), 16);
        // The reader comes in the fortieth nap, and takes one half first.
        let naps = Cell::new(0);
        wait_for(&[output], u32::MAX, |_| {
            naps.set(naps.get() + 1);
            if [40, 50].contains(&naps.get()) {
                let mut half = [0; 8];
                (&read).read_exact(&mut half).unwrap();
                assert_eq!(half, text[(naps.get() - 40) / 10 * 8..][..8]);
            }
        });
        assert_eq!((naps.get(), unread(output)), (50, 0));
        drop(write);
        assert_eq!(read.read(&mut [0; 1]).unwrap(), 0);
    }

    #[test]
    fn a_reader_who_does_not_read_is_waited_for_so_long_and_no_longer() {
        let (_read, mut write) = pipe().unwrap();
        write.write_all(b"nobody reads this").unwrap();
        let naps = Cell::new(0);
        wait_for(&[write.as_raw_fd()], 7, |_| naps.set(naps.get() + 1));
        assert_eq!(naps.get(), 7);
    }

    #[test]
    fn files_and_numbers_that_are_no_descriptors_are_not_waited_for() {
        let file = File::open("/proc/self/exe").unwrap();
        assert_eq!(unread(file.as_raw_fd()), 0);
        assert_eq!(unread(-1), 0);
    }
}
