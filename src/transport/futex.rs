//! The kernel's futex on a word of shared memory.

use crate::base::sync::AtomicU32;
use crate::wire::doorbell::Futex;
use std::time::Duration;

/// Futex system calls between processes (not the private form).
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemFutex;

impl Futex for SystemFutex {
    fn wait(&self, word: &AtomicU32, value: u32, limit: Duration) {
        let word: *const u32 = std::ptr::from_ref(word).cast();
        let limit = libc::timespec {
            tv_sec: limit.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(limit.subsec_nanos() as i32),
        };
        // SAFETY: the word and the time live through the call; every outcome (woken, changed,
        // timed out, interrupted) means "look again", so the result is not needed.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                word,
                libc::FUTEX_WAIT,
                value,
                &raw const limit,
            );
        }
    }

    fn wake(&self, word: &AtomicU32) {
        let word: *const u32 = std::ptr::from_ref(word).cast();
        // SAFETY: the word lives through the call.
        unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, i32::MAX) };
    }
}
