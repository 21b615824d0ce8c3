//! How the connections of an engine end.

use super::link::{RecvLink, SendLink};
use super::meet::Outgoing;
use crate::base::clock;
use std::time::Duration;

/// How long a close waits until the other nodes have what was sent.
const SETTLE_LIMIT: Duration = Duration::from_secs(5);
const SETTLE_PAUSE: Duration = Duration::from_micros(100);

/// All connections of an engine, taken from it to be closed.
pub(super) struct Closing {
    pub outgoing: Vec<Option<Box<Outgoing>>>,
    pub incoming: Vec<Option<Box<RecvLink>>>,
}

impl Closing {
    /// Waits until the other nodes have what was sent, for all connections at once. The peers may
    /// be doing the same, so what came from them is acknowledged meanwhile.
    pub fn settle(&mut self) {
        let mut up: Vec<&mut SendLink> = Vec::new();
        for link in self.outgoing.iter_mut().flatten() {
            if let Outgoing::Up(link) = &mut **link {
                link.finish();
                up.push(link);
            }
        }
        let start = clock::now();
        loop {
            let links = self.incoming.iter_mut().flatten();
            links.for_each(|link| link.acknowledge());
            if up.iter().all(|link| link.is_settled()) || start.past(SETTLE_LIMIT) {
                return;
            }
            std::thread::sleep(SETTLE_PAUSE);
        }
    }

    /// Ends them.
    pub fn close(self) {
        for link in self.outgoing.into_iter().flatten() {
            if let Outgoing::Up(link) = *link {
                // Who closes in the middle of something has said so elsewhere.
                let _ = link.close();
            }
        }
        for link in self.incoming.into_iter().flatten() {
            link.close();
        }
    }
}
