//! How the connections of an engine end.

use super::link::SendLink;
use super::meet::Outgoing;
use super::recv_link::RecvLink;
use crate::base::clock::{self, Moment};
use crate::base::turns;
use crate::proxy::patience::END_LATE;
use std::time::Duration;

const SETTLE_PAUSE: Duration = Duration::from_micros(100);

/// The connections of an engine that sends nothing more.
pub(super) struct Closing {
    links: Vec<SendLink>,
    since: Moment,
    warned: bool,
}

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
        Closing {
            links: up,
            since: clock::now(),
            warned: false,
        }
    }

    /// Whether the other nodes have what was sent. Says who is late.
    pub fn is_settled(&mut self) -> bool {
        let unsettled = |link: &mut SendLink| (!link.is_settled()).then(|| link.peer());
        let Some(late) = self.links.iter_mut().find_map(unsettled) else {
            return true;
        };
        if !self.warned && self.since.past(END_LATE) {
            self.warned = true;
            tracing::warn!(
                "kolo: the end of a communicator waits until rank {late} has read what was sent \
                 to it"
            );
        }
        false
    }

    /// Waits until the other nodes have what was sent. A peer that reads nothing is waited for as
    /// long as its node answers.
    pub fn settle(&mut self) {
        while !self.is_settled() {
            turns::sleep(SETTLE_PAUSE);
        }
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        for link in self.links.drain(..) {
            // Who closes in the middle of something has said so elsewhere.
            let _ = link.close();
        }
    }
}
