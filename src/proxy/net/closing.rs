//! How the connections of an engine end.

use super::link::{RecvLink, SendLink};
use super::meet::Outgoing;
use crate::base::{Rank, clock};
use std::time::Duration;

/// When a close that waits says so.
const WARN_AFTER: Duration = Duration::from_secs(10);
const SETTLE_PAUSE: Duration = Duration::from_micros(100);

/// The connections of an engine that sends nothing more.
pub(super) struct Closing(Vec<SendLink>);

impl Closing {
    /// Begins to end connections. They are closed when this is dropped.
    pub fn new(
        outgoing: Vec<Option<Box<Outgoing>>>,
        incoming: Vec<Option<Box<RecvLink>>>,
    ) -> Closing {
        // Nobody reads here any more. The end also tells a peer's node that all has arrived, for
        // which the peer may be waiting here and now.
        for link in incoming.into_iter().flatten() {
            link.close();
        }
        let up = outgoing.into_iter().flatten();
        let mut up: Vec<SendLink> = up
            .filter_map(|link| match *link {
                Outgoing::Up(link) => Some(link),
                _ => None,
            })
            .collect();
        up.iter_mut().for_each(SendLink::finish);
        Closing(up)
    }

    /// A rank whose node does not have all yet that was sent to it, if there is one.
    pub fn late(&mut self) -> Option<Rank> {
        let unsettled = |link: &mut SendLink| (!link.is_settled()).then(|| link.peer());
        self.0.iter_mut().find_map(unsettled)
    }

    /// Waits until the other nodes have what was sent. A peer that reads nothing is waited for as
    /// long as its node answers.
    pub fn settle(&mut self) {
        let start = clock::now();
        let mut warned = false;
        while let Some(late) = self.late() {
            if !warned && start.past(WARN_AFTER) {
                warned = true;
                tracing::warn!(
                    "kolo: the end of a communicator waits until rank {} has read what was sent \
                     to it",
                    late
                );
            }
            std::thread::sleep(SETTLE_PAUSE);
        }
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        for link in self.0.drain(..) {
            // Who closes in the middle of something has said so elsewhere.
            let _ = link.close();
        }
    }
}
