//! How long a collective takes, by a closed form per algorithm.
//!
//! An algorithm is a row of *hand-overs* (a writer's step, the way, a reader's step).
//! In a *lock-step* algorithm every rank is busy in every hand-over, so its time is that of the
//! chain of hand-overs or that of the busiest core or link, whichever is longer. In a *pipelined*
//! one pieces follow each other: the first piece travels the whole way, and each further one adds
//! what the busiest place needs for it. Both are sums of the costs of the levels that are really
//! crossed (see [`super::cluster`]).
//!
//! The forms are estimates: contention is counted, but orders of arrival are not. Tests hold them
//! against the simulator, which runs the plans themselves (`tests/tuner.rs`).

mod flat;
mod hop;
mod levels;
mod logarithmic;
mod packed;
mod spread;

use super::Site;
use super::cluster::Level;
use crate::plan::{Algorithm, Collective, Geometry};

/// The time of a call in nanoseconds; `None` where there is no closed form. `bytes` is what the
/// call's count says: all data, or one rank's block. The costs of the site are those of the
/// protocol ([`Costs::over`](super::Costs::over)).
pub fn time_ns(
    (collective, algorithm): (Collective, Algorithm),
    bytes: usize,
    channels: u16,
    geometry: Geometry,
    site: &Site,
) -> Option<f64> {
    let call = Call {
        collective,
        bytes: bytes as f64,
        channels: f64::from(channels.max(1)),
        geometry,
        site,
        n: f64::from(site.machine.nranks()),
    };
    let time = match algorithm {
        Algorithm::Local => bytes as f64 * (site.costs.read_ns + site.costs.write_ns),
        Algorithm::Ring => call.ring()?,
        Algorithm::OneShot => call.one_shot()?,
        Algorithm::Bundle => call.bundle()?,
        Algorithm::RecursiveDoubling => call.recursive_doubling()?,
        Algorithm::Dissemination => call.dissemination()?,
        Algorithm::Binomial => call.binomial()?,
        Algorithm::Pairwise => call.pairwise()?,
        Algorithm::Chain => call.chain()?,
        Algorithm::Tree => call.tree()?,
        Algorithm::TwoShot => call.two_shot()?,
        Algorithm::HalvingDoubling => call.halving_doubling()?,
        Algorithm::Bruck => call.bruck()?,
        Algorithm::Pat => call.pat()?,
        Algorithm::Nvls => call.nvls()?,
        Algorithm::Hierarchical => call.hierarchical()?,
        Algorithm::Leader => call.leader()?,
        Algorithm::NvlsTree => call.nvls_tree()?,
        Algorithm::CollNet => call.collnet()?,
        Algorithm::Ordered => call.ordered()?,
        #[allow(
            unreachable_patterns,
            reason = "a new algorithm runs without a form, too"
        )]
        _ => return None,
    };
    Some(time + site.costs.call_ns)
}

/// One call to be priced.
struct Call<'a> {
    collective: Collective,
    bytes: f64,
    channels: f64,
    geometry: Geometry,
    site: &'a Site,
    n: f64,
}

impl Call<'_> {
    /// Puts the call on another machine.
    fn on<'a>(&self, site: &'a Site) -> Call<'a> {
        Call {
            site,
            n: f64::from(site.machine.nranks()),
            ..*self
        }
    }

    fn level(&self, distance: u32) -> Level {
        self.site.machine.level(0, distance)
    }

    /// Slices that a connection holds.
    fn depth(&self) -> f64 {
        f64::from(self.geometry.slots / self.geometry.slice_steps)
    }

    /// Rounds of `per_round` bytes of the call, and the bytes of each.
    fn rounds(&self, per_round: f64) -> (f64, f64) {
        let rounds = (self.bytes / self.channels / per_round).ceil().max(1.0);
        (rounds, self.bytes / rounds)
    }

    /// Which part of the other ranks is how far away.
    fn everybody(&self) -> Vec<(f64, Level)> {
        let machine = &self.site.machine;
        // One rank alone has nobody to reach: all parts are 0.
        let others = f64::from(machine.nranks().max(2) - 1);
        let same = |groups: u32| {
            let ranks = machine.per_node.div_ceil(groups.max(1));
            f64::from(ranks - 1)
        };
        let node = same(1);
        let socket = same(machine.sockets);
        let cache = same(machine.sockets.max(1) * machine.caches.max(1));
        let mut parts = vec![
            ((others - node) / others, Level::Network),
            ((node - socket) / others, Level::Node),
            ((socket - cache) / others, Level::Socket),
            (cache / others, Level::Cache),
        ];
        parts.retain(|(part, _)| *part > 0.0);
        parts
    }
}
