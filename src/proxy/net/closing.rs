//! How the connections of an engine end.

use super::link::{RecvLink, SendLink};
use super::meet::Outgoing;
use crate::base::clock;
use std::time::Duration;

/// When a close that waits says so.
const WARN_AFTER: Duration = Duration::from_secs(10);
const SETTLE_PAUSE: Duration = Duration::from_micros(100);

/// All connections of an engine, taken from it to be closed.
pub(super) struct Closing {
    pub outgoing: Vec<Option<Box<Outgoing>>>,
    pub incoming: Vec<Option<Box<RecvLink>>>,
}

impl Closing {
    /// Ends them when the other nodes have what was sent. A peer that reads nothing is waited for
    /// as long as its node answers.
    pub fn close(self) {
        // Nobody reads here any more. The end also tells a peer's node that all has arrived, for
        // which the peer may be waiting here and now.
        for link in self.incoming.into_iter().flatten() {
            link.close();
        }
        let up = self.outgoing.into_iter().flatten();
        let mut up: Vec<SendLink> = up
            .filter_map(|link| match *link {
                Outgoing::Up(link) => Some(link),
                _ => None,
            })
            .collect();
        up.iter_mut().for_each(SendLink::finish);
        let start = clock::now();
        let mut warned = false;
        let unsettled = |link: &mut SendLink| (!link.is_settled()).then(|| link.peer());
        while let Some(late) = up.iter_mut().find_map(unsettled) {
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
        for link in up {
            // Who closes in the middle of something has said so elsewhere.
            let _ = link.close();
        }
    }
}
