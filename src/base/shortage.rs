//! Words and questions for a process that has run out of file descriptors or memory.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

/// Whether the process or the machine has run out of what a connection needs.
pub fn is_shortage(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}

/// Puts the system's error into words; where it had no file descriptor for this process, with the
/// limit that stands in the way.
pub fn words(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EMFILE) => format!("{} (os error {})", no_descriptor(limit()), libc::EMFILE),
        _ => error.to_string(),
    }
}

/// That a process with this limit has no file descriptor left.
pub fn no_descriptor(limit: u64) -> String {
    format!("no file descriptor left (ulimit -n {limit})")
}

/// How many file descriptors this process may have; 0 where nobody knows.
pub fn limit() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid place for the two numbers.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    limit.rlim_cur
}

/// Remedy for it.
fn remedy(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EMFILE) => "raise the limit on open files (`ulimit -n 65536` in the job script)",
        Some(libc::ENFILE) => {
            "this host has no open file left for any process: close programs on it, or let its \
             administrator raise `sysctl fs.file-max`"
        }
        _ => "this host is short of memory for sockets: see `free -m` and the job's memory limit",
    }
}

/// Says once in a process, for each kind of shortage, that nobody new can be let in. The others
/// only see that nobody answers, so it is said here at once.
#[cold]
pub fn tell(error: &io::Error) {
    static TOLD: AtomicU32 = AtomicU32::new(0);
    let kind = match error.raw_os_error() {
        Some(libc::EMFILE) => 1,
        Some(libc::ENFILE) => 2,
        _ => 4,
    };
    if TOLD.fetch_or(kind, Ordering::Relaxed) & kind == 0 {
        tracing::warn!(
            "this process cannot let in another one that makes a communicator with it: {}; {}",
            words(error),
            remedy(error)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shortage_has_its_own_remedy() {
        let of = |number| remedy(&io::Error::from_raw_os_error(number));
        assert!(of(libc::EMFILE).contains("ulimit -n"));
        assert!(of(libc::ENFILE).contains("fs.file-max"));
        for number in [libc::ENOBUFS, libc::ENOMEM] {
            assert!(of(number).contains("memory"), "{number}");
            assert!(!of(number).contains("ulimit -n"), "{number}");
        }
    }
}
