//! Waiting for others: how long, how often something is tried, and when it is said who is late.

use crate::base::birth::{self, Birth};
use crate::base::clock::{self, Moment};
use crate::base::shortage::no_descriptor;
use crate::base::turns;
use crate::bootstrap::Bootstrap;
use std::io;
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Duration;

/// How often a connection that the other side closed is tried. (A service drops its oldest
/// strangers when there are many.)
const TRY_COUNT: u32 = 8;
/// The first pause between tries; each further one is twice as long.
const TRY_PAUSE: Duration = Duration::from_millis(2);
/// How long a process is asked again that has no file descriptor left, and how often: its program
/// may be about to close some.
const NO_ROOM_LIMIT: Duration = Duration::from_secs(2);
const NO_ROOM_PAUSE: Duration = Duration::from_millis(100);
/// How long a peer that lives may be late before one warning says so; then again and again.
pub(super) const LATE: Duration = Duration::from_secs(60);
/// When an end that waits (of a connection, a communicator, a process) says so.
pub(super) const END_LATE: Duration = Duration::from_secs(10);
/// How long the goodbyes of lookouts may take.
pub(super) const BYE_LIMIT: Duration = Duration::from_secs(1);
/// How long an exiting process tries to get a lock.
pub(super) const EXIT_LOCK_LIMIT: Duration = Duration::from_millis(250);
/// Between two tries.
const EXIT_LOCK_PAUSE: Duration = Duration::from_micros(100);

/// A lock for a process that exits, at most waited for until `limit`, or [`EXIT_LOCK_LIMIT`].
/// Another thread holds it for microseconds, or until the system lets it go on, unless it was
/// stopped for good meanwhile: an exit must not hang on that.
pub(super) fn lock_at_exit<T>(mutex: &Mutex<T>, limit: Duration) -> Option<MutexGuard<'_, T>> {
    within(limit.min(EXIT_LOCK_LIMIT), || try_lock(mutex))
}

/// The lock, if nobody has it. One whose holder has panicked is as good as any.
pub fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Tries at least once, and until `limit` is over, however often that is.
fn within<T>(limit: Duration, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    let start = clock::now();
    loop {
        let got = attempt();
        if got.is_some() || start.past(limit) {
            return got;
        }
        turns::sleep(EXIT_LOCK_PAUSE);
    }
}

/// How long others are waited for.
#[derive(Clone, Copy, Default)]
pub struct Until<'a> {
    /// Not longer than this, if there is a limit.
    pub limit: Option<Duration>,
    /// The start that waits, which may be called off meanwhile.
    pub birth: Option<&'a Birth>,
}

impl<'a> Until<'a> {
    /// As long as the start over `bootstrap` may wait.
    pub fn of(bootstrap: &'a dyn Bootstrap) -> Until<'a> {
        Until {
            limit: bootstrap.time_left(),
            birth: bootstrap.birth(),
        }
    }
}

/// Counts the minutes that a peer is late.
pub(super) struct Late<'a> {
    since: Moment,
    warned_count: u32,
    what: &'static str,
    until: Until<'a>,
}

impl<'a> Late<'a> {
    /// `what` the other process does, or should do; how long it may take.
    pub fn new(what: &'static str, until: Until<'a>) -> Late<'a> {
        Late {
            what,
            until,
            since: clock::now(),
            warned_count: 0,
        }
    }

    /// How long to sleep until there is something to say, or MPI is due, which has its turn here:
    /// not under a lock.
    pub fn rest(&self) -> Duration {
        let left = |limit: Duration| self.since.left(limit).min(clock::LOOK);
        let most = match self.until.birth {
            Some(birth) if birth.bell().is_some() => birth::LOOK,
            _ => LATE,
        };
        let most = most.min(turns::some_rest());
        self.until.limit.map_or(most, |limit| left(limit).min(most))
    }

    /// Warns if another minute has passed; `TimedOut` when the peer has taken too long,
    /// `ConnectionAborted` when the start was called off.
    pub fn check(&mut self) -> io::Result<()> {
        if let Some(Err(why)) = self.until.birth.map(Birth::go_on) {
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, why));
        }
        if self.since.past(LATE * (self.warned_count + 1)) {
            self.warned_count += 1;
            tracing::warn!(
                "another process of this machine, which {}, has not answered for {} s{}; still \
                 waiting (is it stopped by a debugger or a signal?)",
                self.what,
                self.since.elapsed().as_secs(),
                self.phase()
            );
        }
        match self.until.limit.is_some_and(|limit| self.since.past(limit)) {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => Ok(()),
        }
    }
}

impl Late<'_> {
    /// In which phase of a start this is.
    fn phase(&self) -> String {
        let name = |birth: &Birth| format!(", in phase `{}` of a start", birth.phase().name());
        self.until.birth.map(name).unwrap_or_default()
    }
}

/// The error of a process that cannot let others in, as it has none left of `limit` descriptors;
/// with 0, as its host is short of something.
pub(super) fn no_room(limit: u64) -> io::Error {
    let words = match limit {
        0 => "its host is short of open files or of memory: see the warning of that process".into(),
        _ => format!("that process has {}", no_descriptor(limit)),
    };
    io::Error::new(io::ErrorKind::QuotaExceeded, words)
}

/// Tries until there is a result: at most `TRY_COUNT` times when the other side closes, for
/// `NO_ROOM_LIMIT` while it has no file descriptor left, and without limit of its own while too
/// many wait there.
pub(super) fn persist<T>(
    late: &mut Late,
    mut attempt: impl FnMut(&mut Late) -> io::Result<T>,
) -> io::Result<T> {
    let mut closed_count = 0;
    let mut no_room_since: Option<Moment> = None;
    loop {
        match attempt(late) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                late.check()?;
                turns::sleep(TRY_PAUSE);
            }
            Err(error) if error.kind() == io::ErrorKind::QuotaExceeded => {
                if no_room_since
                    .get_or_insert_with(clock::now)
                    .past(NO_ROOM_LIMIT)
                {
                    return Err(error);
                }
                late.check()?;
                turns::sleep(NO_ROOM_PAUSE);
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
                ) =>
            {
                closed_count += 1;
                if closed_count == TRY_COUNT {
                    return Err(io::ErrorKind::ConnectionReset.into());
                }
                turns::sleep(TRY_PAUSE * (1 << closed_count));
            }
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a busy node many tries pass while the holder waits for its turn.
    #[test]
    fn a_lock_is_tried_for_a_time_and_not_so_often() {
        let mut tries = 0;
        let mut nth = |count: u32| {
            tries += 1;
            (tries == count).then_some(count)
        };
        assert_eq!(within(LATE, || nth(3000)), Some(3000));
        let mut tries = 0;
        let in_vain = within(Duration::ZERO, || {
            tries += 1;
            None::<()>
        });
        assert_eq!((in_vain, tries), (None, 1));
    }

    #[test]
    fn who_panicked_has_let_go_of_a_lock() {
        let mutex = Mutex::new(5);
        let held = mutex.lock().unwrap();
        assert!(try_lock(&mutex).is_none() && lock_at_exit(&mutex, Duration::ZERO).is_none());
        drop(held);
        std::thread::scope(|scope| {
            let panics = scope.spawn(|| {
                let _held = mutex.lock().unwrap();
                std::panic::resume_unwind(Box::new(()));
            });
            assert!(panics.join().is_err());
        });
        assert_eq!(*lock_at_exit(&mutex, Duration::ZERO).unwrap(), 5);
    }
}
