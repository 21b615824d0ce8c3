//! Service of a rank to those of its node that send through it, until they have left too.

use crate::base::{Error, Rank, Result};
use crate::comm::failing::gone;
use crate::comm::flight::drive;
use crate::comm::queue::Queue;
use crate::proxy::net::proxied::Owner;
use crate::proxy::service::{self, Alarm};
use crate::transport::node::NodeMemory;
use crate::transport::segment::Nonce;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// The communicator, as engines for others see it. They may outlive it here, while those others
/// still use it.
struct Community {
    queue: Weak<Queue>,
    rank: u32,
    /// Where each rank runs, for messages.
    places: Vec<String>,
    nonce: Nonce,
    node: NodeMemory,
}

impl Community {
    fn alarm(&self, why: Alarm) {
        if let Ok(service) = service::get() {
            service.alarm(self.nonce, why);
        }
    }

    /// Returns the error to tell the others when this rank has left. `None` if all know more
    /// already.
    fn after_leaving(&self, mut error: Error) -> Option<Error> {
        let place = |peer: Rank| self.places.get(peer.index());
        let peer = error.peer.filter(|&peer| place(peer).is_some());
        match gone::news(&self.node, peer, || self.alarm(Alarm::Ask)) {
            gone::News::Aborted => return None,
            gone::News::Left(peer) => {
                let waiting = error.rank.unwrap_or(Rank(self.rank));
                let gone = (
                    peer,
                    &*self.places[peer.index()],
                    self.node.board(peer.index()),
                );
                return Some(gone::left(gone, (waiting, "a call")));
            }
            gone::News::None => {}
        }
        if let Some(peer) = peer {
            let place = &self.places[peer.index()];
            error.what = format!("no data pass to rank {peer} on {place}: {}", error.what);
        }
        Some(error)
    }
}

impl Owner for Community {
    fn is_stopped(&self) -> bool {
        self.node.aborted()
    }

    fn failed(&self, error: Error) {
        let queue = self.queue.upgrade();
        let member = queue.filter(|queue| !queue.ending.destroyed.load(Ordering::Acquire));
        if let Some(queue) = member {
            if !queue.is_stopped()
                && let Some(error) = queue.of_network(error)
            {
                queue.stop(&error);
            }
            return;
        }
        // This rank has left, but those who send through it must know.
        if let Some(error) = self.after_leaving(error) {
            self.node.abort(self.rank, &error);
            self.alarm(Alarm::Abort);
        }
    }
}

/// Gets ready for what other ranks of the node send through this one, if any do.
///
/// # Errors
/// If there can be no progress thread.
pub(in crate::comm) fn send_for_others(queue: &Arc<Queue>) -> Result<()> {
    let network = queue.network.as_ref();
    let Some(proxied) = network.and_then(|network| network.proxied.as_ref()) else {
        return Ok(());
    };
    proxied.belong_to(Arc::new(Community {
        queue: Arc::downgrade(queue),
        rank: queue.rank,
        places: queue.places.to_vec(),
        nonce: queue.nonce,
        node: queue.node.clone(),
    }));
    if drive::want_thread() {
        return Ok(());
    }
    Err(Error::new(
        crate::base::Code::SystemError,
        "no progress thread could be started, which would send for other ranks of the node",
        "raise the limit on processes (`ulimit -u`, or pids.max of the job's control group), \
         or set pxn to never",
    ))
}
