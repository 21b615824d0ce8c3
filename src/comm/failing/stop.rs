//! News of deaths, as a communicator takes it: it stops, or tells others what has happened.

use super::deaths::Hears;
use super::ended;
use crate::base::{Error, Rank};
use crate::comm::queue::Queue;
use crate::proxy::service::{Alarm, EndStep};

impl Hears for Queue {
    fn has_let_go(&self, rank: Rank) -> bool {
        self.network.is_none() && self.node.board(rank.index()).has_left()
    }

    fn has_ended(&self, rank: Rank) -> bool {
        self.node.board(rank.index()).has_ended()
    }

    fn have_vanished(&self, ranks: &[Rank]) {
        ended::have_vanished(self, ranks);
    }

    fn ends(&self, step: EndStep, is_last: bool) -> bool {
        ended::end(self, step, is_last)
    }

    fn hears(&self, error: &Error) {
        match self.node.aborted() {
            // A consequence of what the abort record tells, or nothing beside it. Whoever wrote it
            // may not have lived to tell the other nodes.
            true => self.alarm(Alarm::Abort),
            false => self.stop(error),
        }
    }
}
