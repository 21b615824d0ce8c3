//! Waiting for others: how long, how often something is tried, and when it is said who is late.

use crate::base::birth::{self, Birth};
use crate::base::clock::{self, Moment};
use crate::base::shortage::no_descriptor;
use crate::base::turns;
use crate::bootstrap::Bootstrap;
use std::io;
use std::sync::{Mutex, MutexGuard};
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
/// How often an exiting process tries to get a lock.
const EXIT_TRY_COUNT: usize = 1000;

/// A lock for a process that exits. Another thread holds it for microseconds, unless it was stopped
/// for good meanwhile: an exit must not hang on that.
pub(super) fn lock_at_exit<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    for _ in 0..EXIT_TRY_COUNT {
        if let Ok(guard) = mutex.try_lock() {
            return Some(guard);
        }
        std::thread::yield_now();
    }
    None
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
