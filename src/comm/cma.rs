//! Whether private buffers are read by system calls: tried by every rank, agreed on by all.
//!
//! Whether the system lets one process read another is known only by trying. One refusal on any
//! rank means slots for all: the form of a call must not depend on who looks.

use crate::base::{Error, Rank, Result};
use crate::bootstrap::Bootstrap;
use crate::config::{Cma, CmaPtracer, Settings};
use crate::exec::launch::Fetch;
use crate::plan::Collective;
use crate::topo::RankPlace;
use crate::transport::cma::{Peer, yama};
use std::sync::Arc;

/// From how many bytes on private buffers are read by system calls, where nobody has said.
/// Measured; docs/performance.md has the ratios.
fn built_in(_collective: Collective, _nranks: u32) -> usize {
    256 << 10
}

/// The other ranks, whose memory this rank can read.
pub(super) struct Private {
    peers: Vec<Arc<dyn Fetch>>,
    wanted: Cma,
    from: Option<u64>,
}

impl Private {
    /// Whether a call of `bytes` bytes reads private buffers. Pure in what all ranks know.
    pub fn serves(&self, collective: Collective, bytes: usize) -> bool {
        match (self.from, self.wanted) {
            (Some(from), _) => bytes as u64 >= from,
            (None, Cma::On) => true,
            (None, Cma::Off) => false,
            (None, Cma::Auto) => bytes >= built_in(collective, self.peers.len() as u32),
        }
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

/// Lets peers read this process where the settings say so and the system wants to be told.
pub(super) fn admit(settings: &Settings) {
    if settings.cma() == Cma::Off || !settings.direct() {
        return;
    }
    yama::admit(match settings.cma_ptracer() {
        CmaPtracer::None => yama::Tracer::Nobody,
        CmaPtracer::Launcher => yama::Tracer::Launcher,
        CmaPtracer::Any => yama::Tracer::Any,
    });
}

/// Reads something of every other process, and hears whether everybody else could. Collective.
///
/// # Errors
/// Those of the bootstrap, and cards that cannot be read. A refusal of the system is no error: it
/// is written to the log, and `None` comes back on all ranks.
pub(super) fn agree(
    bootstrap: &dyn Bootstrap,
    settings: &Settings,
    places: &[RankPlace],
    cards: &[Vec<u8>],
) -> Result<Option<Private>> {
    let one_process = places.iter().all(|place| place.pid == places[0].pid);
    if settings.cma() == Cma::Off || !settings.direct() || one_process {
        return Ok(None);
    }
    let me = bootstrap.rank();
    let made: Result<Vec<Peer>> = places
        .iter()
        .zip(cards)
        .map(|(place, card)| Peer::new(place.rank, &place.host, place.pid, card))
        .collect();
    let others = |peers: &[Peer]| {
        let mut others = peers
            .iter()
            .enumerate()
            .filter(|(rank, _)| *rank != me.index());
        others.try_for_each(|(_, peer)| peer.probe())
    };
    let probed = made.and_then(|peers| others(&peers).map(|()| peers));
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
    let (Ok(peers), true) = (probed, refusals.is_empty()) else {
        return Ok(None);
    };
    let peers = peers
        .into_iter()
        .map(|peer| Arc::new(peer) as Arc<dyn Fetch>);
    Ok(Some(Private {
        peers: peers.collect(),
        wanted: settings.cma(),
        from: settings.cma_from(),
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
    fn whoever_says_from_when_is_obeyed() {
        let private = |wanted, from| Private {
            peers: Vec::new(),
            wanted,
            from,
        };
        let sum = Collective::AllReduce;
        assert!(private(Cma::On, None).serves(sum, 65_536));
        assert!(!private(Cma::On, Some(1000)).serves(sum, 999));
        assert!(private(Cma::Auto, Some(1000)).serves(sum, 1000));
        assert!(!private(Cma::Off, None).serves(sum, usize::MAX));
    }

    #[test]
    fn a_peer_fetches_what_it_is_asked_for() {
        let (mark, data) = (Mark::new(5), [1_u8, 2, 3]);
        let peer = Peer::new(Rank(0), "a", std::process::id(), &mark.to_bytes()).expect("a card");
        let mut got = [0_u8; 4];
        // SAFETY: three bytes fit.
        unsafe { peer.fetch(data.as_ptr(), got.as_mut_ptr(), 3) }.expect("this process");
        assert_eq!(got, [1, 2, 3, 0]);
    }
}
