//! The kernel's futex on a word of shared memory.

use crate::base::sync::{AtomicU32, Ordering, fence};
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

    /// A filter of system calls that the program installs after kolo has begun may refuse it. Then
    /// a wake-up may be lost, and costs no more than the limit of the sleep.
    fn fence_all(&self) {
        fence(Ordering::SeqCst);
        membarrier(GLOBAL_EXPEDITED);
        fence(Ordering::SeqCst);
    }
}

/// A full fence on every running thread of the processes that have [registered](lets_others_fence).
/// A thread that does not run passes one before it runs again.
const GLOBAL_EXPEDITED: libc::c_int = 1 << 1;
/// Registers this process for it.
const REGISTER_GLOBAL_EXPEDITED: libc::c_int = 1 << 2;

/// Whether the system did it.
fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: it touches no memory of the program.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Lets [`Futex::fence_all`] of any process fence on the threads of this one, and says whether it
/// does: with a kernel before 4.16, or a filter of system calls that refuses it, it does not.
/// Registered once, a process stays so.
pub fn lets_others_fence() -> bool {
    membarrier(REGISTER_GLOBAL_EXPEDITED) && membarrier(GLOBAL_EXPEDITED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock;
    use crate::base::sync::{AtomicU64, compiler_fence};

    /// Two threads each store to one word and load the other, one of them without a fence of the
    /// processor. Both missing the other's store is what must not happen, and what does happen
    /// within a second where nobody fences.
    #[test]
    fn the_fence_of_the_sleeper_counts_for_the_publisher() {
        const ROUNDS: u64 = 20_000;
        /// Where others keep the cores busy, fewer must do.
        const LONGEST: Duration = Duration::from_secs(20);
        const ENOUGH: u64 = u64::MAX;
        if !lets_others_fence() {
            assert!(
                !membarrier(GLOBAL_EXPEDITED),
                "what is refused now was refused before"
            );
            return;
        }
        /// A word and its neighbours in the cache.
        #[repr(align(128))]
        #[derive(Default)]
        struct Word(AtomicU64);
        let (armed, published, round): (Word, Word, Word) = Default::default();
        let seen = Word::default();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 1..=ROUNDS {
                    // Some looks first, so that both threads store at the same time; but where
                    // the two share a core, only giving it away lets the other one go on.
                    let mut looks = 0;
                    while round.0.load(Ordering::Acquire) < number {
                        looks += 1;
                        match looks < 1_000 {
                            true => std::hint::spin_loop(),
                            false => std::thread::yield_now(),
                        }
                    }
                    if round.0.load(Ordering::Relaxed) == ENOUGH {
                        return;
                    }
                    published.0.store(number, Ordering::Release);
                    compiler_fence(Ordering::SeqCst);
                    let is_armed = u64::from(armed.0.load(Ordering::Relaxed) == number);
                    seen.0.store(2 * number + is_armed, Ordering::Release);
                }
            });
            let started = clock::now();
            for number in 1..=ROUNDS {
                if started.past(LONGEST) {
                    return round.0.store(ENOUGH, Ordering::Release);
                }
                round.0.store(number, Ordering::Release);
                for _ in 0..number % 97 {
                    std::hint::spin_loop();
                }
                armed.0.store(number, Ordering::Relaxed);
                SystemFutex.fence_all();
                let is_there = published.0.load(Ordering::Relaxed) == number;
                while seen.0.load(Ordering::Acquire) < 2 * number {
                    std::thread::yield_now();
                }
                let is_armed = seen.0.load(Ordering::Relaxed) == 2 * number + 1;
                if !is_there && !is_armed {
                    // The other thread would wait for the next round.
                    round.0.store(ENOUGH, Ordering::Release);
                    panic!("round {number}: nobody saw the other");
                }
            }
        });
    }
}
