//! The one place of the core that reads a clock.

use std::time::{Duration, Instant, SystemTime};

/// A moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Instant);

/// Now.
pub fn now() -> Moment {
    Moment(Instant::now())
}

/// How old something is that another process has dated; `None` if its date is still to come.
pub fn age(dated: SystemTime) -> Option<Duration> {
    dated.elapsed().ok()
}

/// What the clock of this node shows, in seconds: to be compared with those of others.
pub fn shown() -> f64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

impl Moment {
    /// Time since this moment.
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }

    /// Time from an earlier moment to this one.
    pub fn after(self, earlier: Moment) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }

    /// The moment that comes so much later.
    #[cfg(test)]
    pub fn plus(self, time: Duration) -> Moment {
        Moment(self.0 + time)
    }

    /// Whether `limit` has passed since this moment.
    pub fn past(self, limit: Duration) -> bool {
        self.elapsed() >= limit
    }
}
