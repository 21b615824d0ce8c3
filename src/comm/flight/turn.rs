//! Turns: what the program's MPI gets while a thread waits inside kolo.
//!
//! Problem: MPI moves data inside of its own calls only. A peer that receives 16 MiB from a rank
//! which sleeps here gets a piece for each time that this rank looks after MPI, and no more.
//!
//! Idea: whoever waits lets MPI make progress (a *turn*) at least once a millisecond, however it
//! waits, and does not sleep while MPI moves data. MPI does not tell whether it has moved some. But
//! then a turn takes more of the processor than one in which nothing was to be done; how much that
//! is, the shortest turns of late tell ([`Floor`]). The clock on the wall would tell of others who
//! work as well: a turn that loses its core for a while lasts long, and has moved nothing. The
//! longer nothing has moved, the longer are the naps.
//!
//! This knowledge stands in one place for the whole process, because its MPI is one. One thread at
//! a time takes a turn, so that threads do not wait for each other inside MPI.

use crate::base::clock::{self, Moment};
use crate::base::turns;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::Duration;

/// Lets the MPI of the program make progress; called by threads of the program that wait inside
/// kolo, and by no other. False: MPI is finalised, or this thread may not call it.
pub type IdleHook = Arc<dyn Fn() -> bool + Send + Sync>;

/// Between turns of one who does not sleep, while MPI moves nothing; a wait that is shorter gets no
/// turns of its own, but those of a call that moves data.
pub(super) const POLLED: Duration = Duration::from_micros(20);
/// Between turns of one whose own call moves data meanwhile.
const MOVING: Duration = Duration::from_micros(500);
/// The longest nap between two turns. With what the system adds it is less than a millisecond.
pub(super) const LONGEST: Duration = Duration::from_micros(750);
/// Nobody sleeps so soon after MPI has moved something.
const AWAKE: Duration = Duration::from_micros(200);
/// Naps are this part of the time in which nothing has moved.
const PART: u32 = 4;
/// After a pause as long as this, caches are cold and every turn takes longer.
const COLD: Duration = Duration::from_micros(100);
/// So many turns are looked back on.
pub(super) const LOOKED_BACK: u32 = 128;

/// The shortest of the last turns.
#[derive(Clone, Copy)]
struct Floor {
    before: Duration,
    now: Duration,
    count: u32,
}

impl Floor {
    const NEW: Floor = Floor {
        before: Duration::MAX,
        now: Duration::MAX,
        count: 0,
    };

    /// Takes a turn in, and gives the shortest.
    fn with(&mut self, took: Duration) -> Duration {
        self.now = self.now.min(took);
        let shortest = self.now.min(self.before);
        self.count += 1;
        if self.count == LOOKED_BACK {
            (self.before, self.now, self.count) = (self.now, Duration::MAX, 0);
        }
        shortest
    }
}

/// Knowledge of the turns of a process.
struct Pace {
    warm: Floor,
    cold: Floor,
    /// When the last turn ended.
    last: Option<Moment>,
    /// When MPI moved something.
    moved: Option<Moment>,
}

static PACE: Mutex<Pace> = Mutex::new(Pace::NEW);

impl Pace {
    const NEW: Pace = Pace {
        warm: Floor::NEW,
        cold: Floor::NEW,
        last: None,
        moved: None,
    };

    /// Whether a turn is due to one who looks every `interval`.
    fn is_due(&self, now: Moment, interval: Duration) -> bool {
        let since = self.last.map(|last| now.after(last));
        let moves = self.moved.is_some_and(|moved| now.after(moved) < AWAKE);
        since.is_none_or(|since| since >= interval || moves && interval < MOVING)
    }

    /// A turn was taken from one moment to the other, and took so much of the processor.
    fn took(&mut self, from: Moment, to: Moment, took: Duration) {
        let is_cold = self.last.is_none_or(|last| from.after(last) >= COLD);
        self.last = Some(to);
        // Cold turns differ more from each other.
        let usual = match is_cold {
            true => self.cold.with(took) * 4 + Duration::from_micros(4),
            false => self.warm.with(took) * 2 + Duration::from_micros(1),
        };
        if took > usual {
            self.moved = Some(to);
        }
    }

    /// How long one may sleep: not at all (`None`), or so long.
    fn rest(&self, now: Moment) -> Option<Duration> {
        let Some(moved) = self.moved else {
            return Some(LONGEST);
        };
        let quiet = now.after(moved);
        (quiet >= AWAKE).then(|| (quiet / PART).min(LONGEST))
    }
}

/// `None` while another thread takes a turn.
fn pace() -> Option<MutexGuard<'static, Pace>> {
    match PACE.try_lock() {
        Ok(pace) => Some(pace),
        Err(TryLockError::Poisoned(pace)) => Some(pace.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

fn turn(hook: &IdleHook, interval: Duration) -> bool {
    // Also because who holds the lock may lose its core, and then nobody gives turns.
    if turns::are_none_here() {
        return false;
    }
    let Some(mut pace) = pace() else {
        return true;
    };
    let from = clock::now();
    if !pace.is_due(from, interval) {
        return true;
    }
    let before = clock::busy();
    let had = hook();
    if had {
        let took = clock::busy().saturating_sub(before);
        pace.took(from, clock::now(), took);
    }
    had
}

/// The hooks of communicators, and of those that are being made.
static HOOKS: Mutex<Vec<Weak<dyn Fn() -> bool + Send + Sync>>> = Mutex::new(Vec::new());

/// While somebody keeps `hook`, rests of any call of the program give turns by it
/// ([`crate::base::turns`]).
pub(in crate::comm) fn offer(hook: &IdleHook) {
    let mut hooks = HOOKS.lock().unwrap_or_else(PoisonError::into_inner);
    hooks.retain(|known| known.strong_count() > 0);
    hooks.push(Arc::downgrade(hook));
    drop(hooks);
    turns::offer(of_any);
}

/// The hook of any communicator: the MPI of a process is one.
pub(in crate::comm) fn known() -> Option<IdleHook> {
    let hooks = HOOKS.lock().unwrap_or_else(PoisonError::into_inner);
    hooks.iter().find_map(Weak::upgrade)
}

/// A turn of one who rests, by whichever hook there is.
fn of_any() -> Duration {
    match known() {
        Some(hook) if waiting(&hook) => rest().unwrap_or(Duration::ZERO),
        _ => Duration::MAX,
    }
}

/// Gives MPI a turn if one is due, from a thread that only waits. False: this thread may not.
#[cold]
pub(in crate::comm) fn waiting(hook: &IdleHook) -> bool {
    turn(hook, POLLED)
}

/// Gives MPI a turn, more seldom, from a thread whose call moves data and which has better to do.
/// False: this thread may not.
#[cold]
pub(in crate::comm) fn moving(hook: &IdleHook) -> bool {
    turn(hook, MOVING)
}

/// How long one may sleep until the next turn: not at all (`None`), for MPI moves data, or so long.
#[cold]
pub(in crate::comm) fn rest() -> Option<Duration> {
    pace().map_or(Some(LONGEST), |pace| pace.rest(clock::now()))
}

/// Sleeps for `limit` as one who waits, with turns for MPI; shorter where that needs it.
pub(in crate::comm) fn nap(hook: Option<&IdleHook>, limit: Duration) {
    let rest = match hook {
        Some(hook) if waiting(hook) => rest(),
        _ => Some(limit),
    };
    match rest {
        None => std::thread::yield_now(),
        Some(rest) => std::thread::sleep(limit.min(rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    /// A turn of `took` that begins `pause` after `at`; when it ends.
    fn one(pace: &mut Pace, at: Moment, pause: Duration, took: Duration) -> Moment {
        let from = at.plus(pause);
        pace.took(from, from.plus(took), took);
        from.plus(took)
    }

    #[test]
    fn nobody_sleeps_while_data_moves_and_naps_grow_afterwards() {
        let mut pace = Pace::NEW;
        let mut at = clock::now();
        for _ in 0..10 {
            at = one(&mut pace, at, LONGEST, 3 * US);
        }
        assert_eq!(pace.rest(at), Some(LONGEST), "nothing has moved yet");
        at = one(&mut pace, at, LONGEST, 100 * US);
        assert_eq!(pace.rest(at), None, "a long turn moves data");
        assert!(pace.is_due(at, POLLED), "the next one follows at once");
        assert!(!pace.is_due(at, MOVING), "but not from one who moves data");
        for _ in 0..100 {
            at = one(&mut pace, at, US, US);
            at = one(&mut pace, at, US, 20 * US);
            assert_eq!(pace.rest(at), None, "pieces");
        }
        let naps: Vec<_> = [1, 4, 8, 100]
            .map(|n| pace.rest(at.plus(n * AWAKE)).unwrap())
            .into();
        assert_eq!(naps, [AWAKE / 4, AWAKE, 2 * AWAKE, LONGEST]);
    }

    /// As where others work on the same cores: MPI itself gives the core away, too.
    #[test]
    fn a_turn_that_only_waits_for_its_core_has_moved_nothing() {
        let mut pace = Pace::NEW;
        let mut at = clock::now();
        for number in 0..100 {
            let (from, lost) = (at.plus(LONGEST), (number % 7) * 1000 * US);
            at = from.plus(lost + 3 * US);
            pace.took(from, at, 3 * US);
            assert_eq!(
                pace.rest(at),
                Some(LONGEST),
                "turn {number}, away for {lost:?}"
            );
        }
    }

    /// As where other threads are inside MPI, which is always busy then.
    #[test]
    fn turns_that_are_always_long_are_usual() {
        let mut pace = Pace::NEW;
        let mut at = one(&mut pace, clock::now(), LONGEST, US);
        for _ in 0..2 * LOOKED_BACK {
            at = one(&mut pace, at, LONGEST, 60 * US);
        }
        let quiet = at.plus(20 * LONGEST);
        pace.took(quiet, quiet.plus(60 * US), 60 * US);
        assert_eq!(pace.rest(quiet.plus(60 * US)), Some(LONGEST));
    }
}
