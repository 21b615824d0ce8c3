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
