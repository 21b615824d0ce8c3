//! Rests of threads of the program, in which its MPI makes progress.
//!
//! **Problem.** MPI moves data inside of its own calls only. A rank that rests in kolo, while it
//! joins others, waits for the end of what it has sent, or for a device, holds up a peer that
//! receives from it by MPI.
//!
//! **Idea.** Whoever knows how MPI is given a turn says so once ([`offer`]). Every rest in the
//! library is one of this file: [`sleep`], [`wait_while`], [`join`], or a sleep on something that
//! ends after [`rest`]. A thread of kolo's own gives no turns, because MPI may not be called there.

use super::clock::{LOOK, now};
use std::cell::Cell;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Gives MPI a turn if one is due, and says how long may be slept until the next one: not at all
/// while MPI moves data, without end where there is no MPI.
pub type GiveTurn = fn() -> Duration;

/// The shortest sleep of those who must sleep.
const LEAST: Duration = Duration::from_micros(100);

static TURN: OnceLock<GiveTurn> = OnceLock::new();

thread_local! {
    /// This thread gives none.
    static IS_NONE: Cell<bool> = const { Cell::new(false) };
}

/// From now on rests give turns so; only the first call counts.
pub fn offer(turn: GiveTurn) {
    let _ = TURN.set(turn);
}

/// This thread gives no turns: it is kolo's own, or whoever started it waits for it and gives them,
/// or the process exits on it, and MPI may be gone.
pub fn none_here() {
    IS_NONE.set(true);
}

/// Whether this thread gives none.
pub fn are_none_here() -> bool {
    IS_NONE.get()
}

/// Gives MPI a turn if one is due: how long this thread may sleep until the next one.
pub fn rest() -> Duration {
    match TURN.get() {
        Some(turn) if !are_none_here() => turn(),
        _ => Duration::MAX,
    }
}

/// Gives MPI a turn as [`rest`], for a sleep that must not become none.
pub fn some_rest() -> Duration {
    rest().max(LEAST)
}

/// Sleeps until one of these has something to do, or for `limit` (`None`: without end), with the
/// result of poll(2), which counts whole milliseconds: that is more than a turn may be late.
pub fn poll(set: &mut [libc::pollfd], limit: Option<Duration>) -> libc::c_int {
    let limit = limit.map(|limit| libc::timespec {
        tv_sec: libc::time_t::try_from(limit.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: limit.subsec_nanos().into(),
    });
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let count = set.len() as libc::nfds_t;
    // SAFETY: the pointer and the count describe one exclusive slice, and the time lives through
    // the call; no signal mask is given.
    unsafe { libc::ppoll(set.as_mut_ptr(), count, limit, std::ptr::null()) }
}

/// Sleeps for `limit`, with turns for MPI.
pub fn sleep(limit: Duration) {
    let start = now();
    loop {
        let most = rest();
        if most == Duration::MAX {
            return std::thread::sleep(start.left(limit));
        }
        match start.left(limit).min(most) {
            Duration::ZERO if most.is_zero() && !start.past(limit) => std::thread::yield_now(),
            Duration::ZERO => return,
            nap => std::thread::sleep(nap),
        }
    }
}

/// Waits while `waits` says so of what `lock` guards, at most for `limit` (`Duration::MAX`: without
/// end). Whoever changes it tells `changed`. The lock is free while MPI has a turn, which may last.
pub fn wait_while<'a, T>(
    (lock, changed): (&'a Mutex<T>, &Condvar),
    mut guard: MutexGuard<'a, T>,
    limit: Duration,
    mut waits: impl FnMut(&mut T) -> bool,
) -> MutexGuard<'a, T> {
    let start = now();
    while waits(&mut guard) && (limit == Duration::MAX || !start.past(limit)) {
        drop(guard);
        let most = rest();
        if most.is_zero() {
            std::thread::yield_now();
        }
        guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
        // Meanwhile nobody here would have heard of a change.
        if most.is_zero() {
            continue;
        }
        if !waits(&mut guard) {
            break;
        }
        let nap = match limit {
            Duration::MAX => most,
            limit => most.min(start.left(limit)).min(LOOK),
        };
        let waited = changed.wait_timeout(guard, nap);
        guard = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
    guard
}

/// Waits for the end of a thread, which may itself wait for others.
///
/// # Errors
/// The payload of a panic in it.
pub fn join<T>(thread: JoinHandle<T>) -> std::thread::Result<T> {
    while !thread.is_finished() {
        match rest() {
            Duration::MAX => break,
            Duration::ZERO => std::thread::yield_now(),
            nap => std::thread::sleep(nap),
        }
    }
    thread.join()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::alone::alone;
    use crate::base::own_thread;
    use std::sync::atomic::{AtomicU32, Ordering};

    const LIMIT: Duration = Duration::from_millis(20);

    /// More than three turns take anywhere.
    const LONG: Duration = Duration::from_secs(60);

    static TURNS: AtomicU32 = AtomicU32::new(0);

    /// Each third turn moves data.
    fn turn() -> Duration {
        match TURNS.fetch_add(1, Ordering::Relaxed) % 3 {
            0 => Duration::ZERO,
            _ => Duration::from_micros(500),
        }
    }

    #[test]
    fn a_sleep_is_cut_into_turns_but_on_own_threads() {
        alone("base::turns::tests::sleeps_beside_an_offer", &[]);
    }

    /// Whether three turns are given before whoever waits for them gives up: it counts turns and no
    /// time, because a nap on a busy machine lasts as long as others let it.
    fn come_three() -> bool {
        let start = now();
        while TURNS.load(Ordering::Relaxed) < 3 && !start.past(LONG) {
            std::thread::sleep(Duration::from_micros(200));
        }
        TURNS.swap(0, Ordering::Relaxed) >= 3
    }

    #[test]
    #[ignore = "the body of a test that needs a process of its own"]
    fn sleeps_beside_an_offer() {
        let turns = || TURNS.swap(0, Ordering::Relaxed);
        let sleeps = || {
            let start = now();
            sleep(LIMIT);
            start.past(LIMIT)
        };
        assert!(sleeps() && turns() == 0, "nobody has offered any");
        offer(turn);
        assert!(sleeps() && turns() > 0);
        let own = own_thread::start(std::thread::Builder::new(), sleeps).unwrap();
        assert!(own.join().unwrap() && turns() == 0);
        assert!(join(std::thread::spawn(come_three)).unwrap());
        let (word, changed) = (&Mutex::new(1), &Condvar::new());
        let lock = || word.lock().unwrap();
        let start = now();
        drop(wait_while((word, changed), lock(), LIMIT, |_| true));
        assert!(start.past(LIMIT) && turns() > 0);
        let given = |_: &mut i32| TURNS.load(Ordering::Relaxed) < 3;
        drop(wait_while((word, changed), lock(), LONG, given));
        assert!(turns() >= 3);
        std::thread::scope(|scope| {
            let teller = scope.spawn(|| {
                let come = come_three();
                *lock() = 2;
                changed.notify_all();
                come
            });
            let found = wait_while((word, changed), lock(), Duration::MAX, |word| *word == 1);
            assert_eq!(*found, 2);
            drop(found);
            assert!(teller.join().unwrap());
        });
        // It sleeps on when the test has ended.
        std::thread::spawn(|| sleep(LONG));
        turns();
        assert!(come_three());
    }

    /// Where nobody offers turns a change alone ends the wait: it sleeps as long as it may.
    #[test]
    fn whoever_waits_hears_of_a_change() {
        let (word, changed) = (&Mutex::new(0), &Condvar::new());
        std::thread::scope(|scope| {
            for before in [0, 2, 4] {
                scope.spawn(move || {
                    let guard = word.lock().unwrap();
                    let waits = |word: &mut i32| *word <= before;
                    let limit = Duration::from_secs(60);
                    let mut guard = wait_while((word, changed), guard, limit, waits);
                    assert!(*guard > before, "it was not heard");
                    *guard += 1;
                    changed.notify_all();
                });
            }
            for _ in 0..3 {
                *word.lock().unwrap() += 1;
                changed.notify_all();
            }
        });
        assert_eq!(*word.lock().unwrap(), 6);
    }
}
