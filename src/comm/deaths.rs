//! What becomes of the news that ranks have died: it stops the communicator, or the one that is
//! being made.

use super::state::Inner;
use crate::base::{Error, Rank};
use crate::proxy::service::Alarm;
use crate::proxy::{OnDeath, death};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Where the news goes.
#[derive(Default)]
pub(super) struct Deaths(Mutex<Known>);

#[derive(Default)]
struct Known {
    inner: Weak<Inner>,
    /// The first news that came before there was a communicator.
    early: Option<Error>,
}

impl Deaths {
    /// What whoever notices that something has become of ranks calls, on any thread. `what`: as
    /// they see it, such as "died".
    pub fn callback(self: &Arc<Self>, what: &'static str) -> OnDeath {
        let deaths = Arc::clone(self);
        Arc::new(move |ranks: &[Rank], description: &str| deaths.hear(ranks, what, description))
    }

    fn hear(&self, ranks: &[Rank], what: &str, description: &str) {
        let Some(error) = death::error(ranks, what, description) else {
            return;
        };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(inner) = known.inner.upgrade() else {
            known.early.get_or_insert(error);
            return;
        };
        // Stopping tells others, of which more news may come on this thread.
        drop(known);
        if inner.node.aborted() {
            // A consequence of what the abort record tells, or nothing beside it. Whoever wrote it
            // may not have lived to tell the other nodes.
            inner.alarm(Alarm::Abort);
        } else {
            inner.stop(&error);
        }
    }

    /// There is a communicator now: it hears what came before it, and what comes.
    pub fn hand_over(&self, inner: &Arc<Inner>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.inner = Arc::downgrade(inner);
        let early = known.early.take();
        drop(known);
        if let Some(error) = early {
            inner.stop(&error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Deaths;
    use crate::base::Rank;
    use crate::comm::{CommConfig, Communicator};
    use std::sync::Arc;

    /// What a rank that computes hears in its next call, when another one has `aborted` and its
    /// process has ended meanwhile.
    fn heard(aborted: bool) -> String {
        let comms = Communicator::init_all(2, &CommConfig::default()).unwrap();
        let deaths = Arc::new(Deaths::default());
        deaths.hand_over(&comms[0].inner);
        if aborted {
            comms[1].abort().unwrap();
        }
        deaths.callback("died")(&[Rank(1)], "process 7 on some node ended");
        comms[0].barrier().unwrap_err().to_string()
    }

    #[test]
    fn a_death_does_not_hide_the_abort_before_it() {
        let (after_abort, alone) = (heard(true), heard(false));
        assert!(
            after_abort.contains("rank 1 called CommAbort"),
            "{after_abort}"
        );
        assert!(!after_abort.contains("died"), "{after_abort}");
        assert!(alone.contains("rank 1 died: process 7"), "{alone}");
    }
}
