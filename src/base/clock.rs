//! The one place of the core that reads a clock.
//!
//! **Problem.** A job may be suspended for an hour, by its scheduler or by a user, and then go on.
//! By the clock on the wall every limit is over by then, though nobody has waited.
//!
//! **Idea.** Limits count *waited* time. Of the time between two looks at the clock, by whichever
//! thread of the process, at most [`MOST_BETWEEN`] counts: longer nobody sleeps who waits for a
//! limit ([`LOOK`]), so the rest of it was spent stopped. What is measured or shown is the time on
//! the wall ([`Moment::elapsed`]).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// How long whoever waits for a limit may sleep until it looks at the clock again.
pub const LOOK: Duration = Duration::from_millis(200);
/// The most between two looks that counts as waited.
const MOST_BETWEEN: Duration = Duration::from_millis(500);

/// A moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    at: Instant,
    /// How long this process had run by then, without the time in which it was stopped.
    run: Duration,
}

/// Now.
pub fn now() -> Moment {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    static RUN: RunTime = RunTime(AtomicU64::new(0));
    let at = Instant::now();
    let begin = *BEGIN.get_or_init(|| at);
    Moment {
        at,
        run: RUN.by(at.saturating_duration_since(begin)),
    }
}

/// How old something is that another process has dated; `None` if its date is still to come.
pub fn age(dated: SystemTime) -> Option<Duration> {
    dated.elapsed().ok()
}

/// Time of the processor that this thread has used; zero where the system does not count it.
pub fn busy() -> Duration {
    let mut used = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `used` is writable memory of this type, and the call keeps no address of it.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut used) };
    Duration::new(used.tv_sec as u64, used.tv_nsec as u32)
}

/// Time of the clock of this node, in seconds: to be compared with those of others.
pub fn shown() -> f64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

/// Time of the clock of this node for readers, in microseconds: `2018-02-14T00:28:07.133700Z`.
pub fn told() -> String {
    humantime::format_rfc3339_micros(SystemTime::now()).to_string()
}

impl Moment {
    /// Time since this moment, by the clock on the wall.
    pub fn elapsed(self) -> Duration {
        self.at.elapsed()
    }

    /// Time from an earlier moment to this one, by the clock on the wall.
    pub fn after(self, earlier: Moment) -> Duration {
        self.at.saturating_duration_since(earlier.at)
    }

    /// The moment that comes so much later.
    #[cfg(test)]
    pub fn plus(self, time: Duration) -> Moment {
        Moment {
            at: self.at + time,
            run: self.run + time,
        }
    }

    /// Time since this moment, without that in which the process was stopped.
    pub fn waited(self) -> Duration {
        now().run.saturating_sub(self.run)
    }

    /// Whether `limit` has been waited since this moment.
    pub fn past(self, limit: Duration) -> bool {
        self.waited() >= limit
    }

    /// Rest of `limit` since this moment.
    pub fn left(self, limit: Duration) -> Duration {
        limit.saturating_sub(self.waited())
    }
}

/// The running time of a process: the last look, in milliseconds, and in the lower bits what was
/// left out until then. One word, so that threads agree without a lock, also after a fork.
struct RunTime(AtomicU64);

impl RunTime {
    const SKIPPED_BITS: u32 = 28;
    const MOST_SKIPPED: u64 = (1 << RunTime::SKIPPED_BITS) - 1;
    /// In such pieces, in milliseconds, time is left out: 49 days in all.
    const PIECE: u64 = 16;

    /// A look at this time since the begin: how much of it counts.
    fn by(&self, since: Duration) -> Duration {
        let at = since.as_millis() as u64;
        let most = MOST_BETWEEN.as_millis() as u64;
        // Relaxed: the word says all by itself.
        let mut seen = self.0.load(Ordering::Relaxed);
        let skipped = loop {
            let (last, skipped) = (seen >> RunTime::SKIPPED_BITS, seen & RunTime::MOST_SKIPPED);
            if at <= last {
                break skipped;
            }
            let more = (at - last).saturating_sub(most) / RunTime::PIECE;
            let all = (skipped + more).min(RunTime::MOST_SKIPPED);
            let next = at << RunTime::SKIPPED_BITS | all;
            let order = Ordering::Relaxed;
            match self.0.compare_exchange_weak(seen, next, order, order) {
                Ok(_) => break all,
                Err(other) => seen = other,
            }
        };
        since.saturating_sub(Duration::from_millis(skipped * RunTime::PIECE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn milliseconds(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn looks_that_follow_each_other_count_all_time() {
        let run = RunTime(AtomicU64::new(0));
        let mut random = fastrand::Rng::with_seed(5);
        let mut at = 0;
        for _ in 0..10_000 {
            at += random.u64(..500);
            assert_eq!(run.by(milliseconds(at)), milliseconds(at));
        }
    }

    #[test]
    fn of_a_long_gap_a_part_counts() {
        let run = RunTime(AtomicU64::new(0));
        assert_eq!(run.by(milliseconds(100)), milliseconds(100));
        let hour = 3_600_000;
        let counted = run.by(milliseconds(100 + hour)).as_millis() as u64;
        assert!((600..600 + RunTime::PIECE).contains(&counted), "{counted}");
        // From then on everything counts again, also what an older look of another thread says.
        assert_eq!(
            run.by(milliseconds(200 + hour)),
            milliseconds(counted + 100)
        );
        assert_eq!(run.by(milliseconds(150 + hour)), milliseconds(counted + 50));
    }

    /// Whoever looks first after a stop, nobody sees the whole gap.
    #[test]
    fn no_thread_sees_the_time_of_a_stop() {
        for round in 0..200 {
            let run = RunTime(AtomicU64::new(0));
            run.by(milliseconds(10));
            std::thread::scope(|scope| {
                let look = || run.by(milliseconds(60_010)) <= milliseconds(526);
                let looks = [(); 3].map(|()| scope.spawn(look));
                assert!(looks.into_iter().all(|it| it.join().unwrap()), "{round}");
            });
        }
    }
}
