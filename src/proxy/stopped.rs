//! Ends that wait for another process of this machine, but not for one that is stopped.
//!
//! A communicator or a process that ends waits for others as long as they need: they may compute
//! for hours before they receive what was sent. But a process that a signal or a debugger has
//! stopped may never go on. So it is waited for during a limited time; then it is given up, and a
//! warning says so.

use crate::base::clock::{self, Moment};
use std::time::Duration;

/// How long a process may be stopped before nobody waits for it any more.
pub(super) const STOPPED_LIMIT: Duration = Duration::from_secs(30);

/// Whether a process of this machine is stopped now, by a signal or a debugger; false for one that
/// cannot be seen, as in another container.
pub(super) fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name before it, in parentheses, may hold any letters.
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    matches!(state, Some('T' | 't'))
}

/// For how long processes have been stopped.
pub(super) struct Stopped {
    limit: Duration,
    since: Option<Moment>,
}

impl Stopped {
    /// For ends that give up after `limit`.
    pub fn new(limit: Duration) -> Stopped {
        Stopped { limit, since: None }
    }

    /// Whether all of these processes were stopped at each look since the limit.
    pub fn for_too_long(&mut self, pids: &[u32]) -> bool {
        if pids.is_empty() || !pids.iter().all(|&pid| is_stopped(pid)) {
            self.since = None;
            return false;
        }
        self.since.get_or_insert_with(clock::now).past(self.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    struct Sleeper(Child);

    impl Sleeper {
        fn new() -> Sleeper {
            Sleeper(Command::new("sleep").arg("100").spawn().unwrap())
        }

        /// Sends a signal and waits until it shows.
        fn signal(&self, number: i32, stopped: bool) {
            // SAFETY: a child of this test that has not been waited for.
            assert_eq!(unsafe { libc::kill(self.0.id() as i32, number) }, 0);
            while is_stopped(self.0.id()) != stopped {
                std::thread::yield_now();
            }
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn only_who_is_stopped_for_long_is_given_up() {
        let sleepers = [Sleeper::new(), Sleeper::new()];
        let pids = [sleepers[0].0.id(), sleepers[1].0.id()];
        let mut stopped = Stopped::new(Duration::ZERO);
        assert!(!stopped.for_too_long(&pids), "both run");
        sleepers[0].signal(libc::SIGSTOP, true);
        assert!(!stopped.for_too_long(&pids), "one runs");
        sleepers[1].signal(libc::SIGSTOP, true);
        assert!(stopped.for_too_long(&pids));
        assert!(!Stopped::new(STOPPED_LIMIT).for_too_long(&pids), "not yet");
        sleepers[0].signal(libc::SIGCONT, false);
        assert!(!stopped.for_too_long(&pids), "it goes on");
        assert!(!stopped.for_too_long(&[]), "nobody");
        assert!(!is_stopped(std::process::id()));
    }
}
