//! Threads of kolo's own inside somebody else's program.
//!
//! A new thread inherits from its maker what belongs to the program: which signals it takes, and
//! which floating-point exceptions end it. A handler of the program must never run on a thread that
//! the program does not know, and a sum that overflows must not kill it there.

use super::float_env::FloatEnv;
use super::turns;
use std::io;
use std::thread::{Builder, JoinHandle};

/// Starts a thread that takes no signals and has no floating-point traps, nor other modes.
///
/// # Errors
/// The system has no thread left.
pub fn start<T: Send + 'static>(
    builder: Builder,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    // A new thread has the signal mask of its maker, so all signals are blocked while it is made.
    // SAFETY: all-zero bytes are a valid signal set, and the calls fill both sets.
    let before = unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        before
    };
    let started = builder.spawn(move || {
        FloatEnv::stop_traps();
        turns::none_here();
        body()
    });
    // SAFETY: `before` is the mask that this thread had.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    started
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn is_blocked(signal: i32) -> bool {
        // SAFETY: all-zero bytes are a valid set, which the first call fills.
        unsafe {
            let mut now: libc::sigset_t = std::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut now);
            libc::sigismember(&raw const now, signal) == 1
        }
    }

    #[test]
    fn signals_stay_with_the_program() {
        let (say, hear) = mpsc::channel();
        let signals = [libc::SIGTERM, libc::SIGUSR1, libc::SIGALRM, libc::SIGCHLD];
        let before = signals.map(is_blocked);
        start(Builder::new(), move || {
            say.send(signals.map(is_blocked)).unwrap();
        })
        .unwrap();
        assert_eq!(hear.recv().unwrap(), [true; 4]);
        assert_eq!(signals.map(is_blocked), before, "the maker keeps its mask");
    }
}
