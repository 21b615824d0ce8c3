//! What is said and asked when a process has run out of file descriptors or memory.

use std::io;
use std::sync::Once;

/// Whether the process or the machine has run out of what a connection needs.
pub fn is_shortage(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}

/// What the system said, in words; where it had no file descriptor for this process, with the
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

/// Says once in a process that nobody new can be let in. The others only see that nobody answers,
/// so it is said here at once.
#[cold]
pub fn tell(error: &io::Error) {
    static TOLD: Once = Once::new();
    TOLD.call_once(|| {
        tracing::warn!(
            "this process cannot let in another one that makes a communicator with it: {}; raise \
             the limit on open files (`ulimit -n 65536` in the job script)",
            words(error)
        );
    });
}
