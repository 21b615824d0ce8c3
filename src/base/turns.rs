//! Rests of threads of the program, in which its MPI makes progress.
//!
//! **Problem.** MPI moves data inside of its own calls only. A rank that rests in kolo, while it
//! joins others, waits for the end of what it has sent, or for a device, holds up a peer that
//! receives from it by MPI.
//!
//! **Idea.** Whoever knows how MPI is given a turn says so once ([`offer`]). Every rest in the
//! library is one of this file: [`sleep`], or a sleep on something that ends after [`rest`]. A
//! thread of kolo's own gives no turns, because MPI may not be called there.

use super::clock::now;
use std::cell::Cell;
use std::sync::OnceLock;
use std::time::Duration;

/// Gives MPI a turn if one is due, and says how long may be slept until the next one: not at all
/// while MPI moves data, without end where there is no MPI.
pub type GiveTurn = fn() -> Duration;

static TURN: OnceLock<GiveTurn> = OnceLock::new();

thread_local! {
    /// This thread gives none.
    static IS_NONE: Cell<bool> = const { Cell::new(false) };
}

/// From now on rests give turns so; only the first call counts.
pub fn offer(turn: GiveTurn) {
    let _ = TURN.set(turn);
}

/// This thread gives no turns: it is kolo's own, or the process exits on it, and MPI may be gone.
pub fn none_here() {
    IS_NONE.set(true);
}

/// Gives MPI a turn if one is due: how long this thread may sleep until the next one.
pub fn rest() -> Duration {
    match TURN.get() {
        Some(turn) if !IS_NONE.get() => turn(),
        _ => Duration::MAX,
    }
}

/// A sleep that counts whole milliseconds and must not become none.
pub fn rest_in_milliseconds() -> Duration {
    rest().max(Duration::from_millis(1))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::alone::alone;
    use crate::base::own_thread;
    use std::sync::atomic::{AtomicU32, Ordering};

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

    #[test]
    #[ignore = "the body of a test that needs a process of its own"]
    fn sleeps_beside_an_offer() {
        const LIMIT: Duration = Duration::from_millis(20);
        let turns = || TURNS.swap(0, Ordering::Relaxed);
        let start = now();
        sleep(LIMIT);
        assert!(start.past(LIMIT) && turns() == 0, "nobody has offered any");
        offer(turn);
        let start = now();
        sleep(LIMIT);
        assert!(start.past(LIMIT));
        assert!(turns() >= 3);
        let builder = std::thread::Builder::new();
        let own = own_thread::start(builder, || sleep(LIMIT)).unwrap();
        own.join().unwrap();
        assert_eq!(turns(), 0);
    }
}
