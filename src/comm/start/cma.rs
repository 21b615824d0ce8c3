//! Whether private buffers are read by system calls: tried by every rank, agreed on by all.
//!
//! Whether the system lets one process read another is known only by trying. One refusal on any
//! rank means slots for all: the form of a call must not depend on who looks.

use crate::base::{Error, Rank, Result};
use crate::bootstrap::Bootstrap;
use crate::config::{Cma, Settings};
use crate::exec::reach::Fetch;
use crate::proxy::service::Address;
use crate::topo::RankPlace;
use crate::transport::cma::{MarkCard, Peer, wish};
use std::sync::Arc;

/// The other ranks, whose memory this rank can read.
pub(in crate::comm) struct Private {
    peers: Vec<Arc<dyn Fetch>>,
    /// The smallest call that reads there.
    from: u64,
}

impl Private {
    /// Whether a call of `bytes` bytes reads private buffers. Pure in what all ranks know.
    pub fn serves(&self, bytes: usize) -> bool {
        bytes as u64 >= self.from
    }

    /// Rank `rank`'s memory.
    pub fn peer(&self, rank: usize) -> Arc<dyn Fetch> {
        Arc::clone(&self.peers[rank])
    }
}

impl Fetch for Peer {
    unsafe fn fetch(&self, from: *const u8, to: *mut u8, bytes: usize) -> Result<()> {
        // SAFETY: our caller's promise.
        unsafe { self.read(from, to, bytes) }
    }
}

/// Reads something of every other process, and hears whether everybody else could. Collective.
///
/// # Errors
/// Those of the bootstrap. A refusal of the system is no error: it
/// is written to the log, and `None` comes back on all ranks.
pub(in crate::comm) fn agree(
    bootstrap: &dyn Bootstrap,
    settings: &Settings,
    places: &[RankPlace],
    cards: &[MarkCard],
    services: &[Address],
) -> Result<Option<Private>> {
    let me = bootstrap.rank();
    // Process numbers say nothing here: in two containers they may be equal.
    if services.iter().all(|service| *service == services[0]) {
        return Ok(None);
    }
    let Some(from) = wish::from(settings) else {
        if me == Rank(0) && settings.cma() == Cma::Auto && settings.direct() {
            tracing::info!("CMA is not used: set KOLO_CMA_FROM=SIZE to use it from that size on");
        }
        return Ok(None);
    };
    let peers: Vec<Peer> = places
        .iter()
        .zip(cards)
        .map(|(place, &card)| Peer::new(place.rank, &place.host, place.pid, card))
        .collect();
    let others = peers.iter().enumerate();
    let mut others = others.filter(|(rank, _)| *rank != me.index());
    let probed = others.try_for_each(|(_, peer)| peer.probe());
    let verdict = match &probed {
        Ok(_) => String::new(),
        Err(error) => sentence(error),
    };
    let verdicts = bootstrap.all_gather(verdict.as_bytes())?;
    let refusals: Vec<(Rank, &[u8])> = (0..)
        .map(Rank)
        .zip(verdicts.iter().map(Vec::as_slice))
        .filter(|(_, verdict)| !verdict.is_empty())
        .collect();
    say(settings.cma(), me, &refusals);
    if probed.is_err() || !refusals.is_empty() {
        return Ok(None);
    }
    let peers = peers
        .into_iter()
        .map(|peer| Arc::new(peer) as Arc<dyn Fetch>);
    Ok(Some(Private {
        peers: peers.collect(),
        from,
    }))
}

fn sentence(error: &Error) -> String {
    format!("{} ({})", error.what, error.remedy)
}

/// Says whether it is used or why not: once a communicator, and on the rank that was refused.
/// Where somebody asked for it, a refusal is a warning.
fn say(wanted: Cma, me: Rank, refusals: &[(Rank, &[u8])]) {
    let Some(&(first, reason)) = refusals.first() else {
        if me == Rank(0) {
            tracing::info!("CMA: private buffers are read by process_vm_readv");
        }
        return;
    };
    if me != Rank(0) && me != first {
        return;
    }
    let reason = String::from_utf8_lossy(reason);
    let text = format!(
        "CMA is not used, private buffers go through slots: rank {first} {reason}; ranks that were \
         refused: {}",
        refusals.len()
    );
    match wanted {
        Cma::On => tracing::warn!("{text}"),
        Cma::Auto | Cma::Off => tracing::info!("{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::cma::Mark;

    #[test]
    fn private_buffers_serve_from_their_size_on() {
        let (peers, from) = (Vec::new(), 1000);
        let private = Private { peers, from };
        assert!(private.serves(1000) && !private.serves(999));
    }

    #[test]
    fn a_peer_fetches_what_it_is_asked_for() {
        let (mark, data) = (Mark::new(5), [1_u8, 2, 3]);
        let peer = Peer::new(Rank(0), "a", std::process::id(), mark.card());
        let mut got = [0_u8; 4];
        // SAFETY: three bytes fit.
        unsafe { peer.fetch(data.as_ptr(), got.as_mut_ptr(), 3) }.expect("this process");
        assert_eq!(got, [1, 2, 3, 0]);
    }
}
