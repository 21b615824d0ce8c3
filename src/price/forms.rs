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

mod bundle;
mod call;
mod climb;
mod exchange;
mod flat;
mod hop;
mod leader;
mod levels;
mod logarithmic;
mod packed;
mod shared;
mod spread;
mod steps;
mod work;

use super::{Cached, Site};
use crate::plan::{Algorithm, Collective, Geometry};
use call::Call;

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
    let n = site.machine.nranks();
    let blocks = collective.input_blocks(n) + collective.output_blocks(n);
    let connection = f64::from(geometry.slots) * geometry.slot_bytes as f64;
    let call = Call {
        collective,
        bytes: bytes as f64,
        channels: f64::from(channels.max(1)),
        geometry,
        cached: Cached::of(
            &site.costs,
            site.pairs.company[0],
            bytes as f64 * f64::from(blocks),
            connection,
        ),
        site,
        n: f64::from(n),
    };
    let time = match algorithm {
        Algorithm::Local => bytes as f64 * (site.costs.read_ns + site.costs.write_ns),
        Algorithm::Ring => flat::ring(&call)?,
        Algorithm::OneShot => flat::one_shot(&call)?,
        Algorithm::Bundle => bundle::bundle(&call)?,
        Algorithm::RecursiveDoubling => logarithmic::recursive_doubling(&call)?,
        Algorithm::Dissemination => logarithmic::dissemination(&call)?,
        Algorithm::Binomial => logarithmic::binomial(&call)?,
        Algorithm::Pairwise => logarithmic::pairwise(&call)?,
        Algorithm::Chain => spread::chain(&call)?,
        Algorithm::Tree => spread::tree(&call)?,
        Algorithm::TwoShot => packed::two_shot_or_casts(&call)?,
        Algorithm::HalvingDoubling => packed::halving_doubling(&call)?,
        Algorithm::Bruck => packed::bruck(&call)?,
        Algorithm::Pat => packed::pat(&call)?,
        Algorithm::Nvls => packed::nvls(&call)?,
        Algorithm::Hierarchical => climb::climb(&call).or_else(|| levels::hierarchical(&call))?,
        Algorithm::Leader => leader::leader(&call)?,
        Algorithm::NvlsTree => levels::nvls_tree(&call)?,
        Algorithm::CollNet => levels::collnet(&call)?,
        Algorithm::Ordered => levels::ordered(&call)?,
        #[allow(
            unreachable_patterns,
            reason = "a new algorithm runs without a form, too"
        )]
        _ => return None,
    };
    Some(time + site.costs.call_ns)
}
