//! Sent data arrive before the process is gone, though nothing is closed.

use super::links::Links;
use super::meet::Outgoing;
use crate::base::clock;
use crate::base::turns;
use std::time::Duration;

/// Between two looks whether what was sent has arrived.
const DRAIN_PAUSE: Duration = Duration::from_micros(100);

impl Links {
    /// Waits, for a bounded time, until the other nodes have what was sent so far.
    pub fn drain(&self, limit: Duration) {
        let start = clock::now();
        // Ranks of this node that send for this one go on until all is there.
        for elsewhere in self.through.close() {
            elsewhere.wait_at_most(start.left(limit));
        }
        let is_on_its_way = |link: &mut Option<Box<Outgoing>>| match link.as_deref_mut() {
            Some(Outgoing::Up(link)) => !link.is_settled(),
            _ => false,
        };
        while !self.failed() && !start.past(limit) {
            let mut state = self.lock();
            if !state.outgoing.iter_mut().any(is_on_its_way) {
                return;
            }
            drop(state);
            turns::sleep(DRAIN_PAUSE);
        }
    }
}
