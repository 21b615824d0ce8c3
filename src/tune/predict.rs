//! The expected time of a call: prices, where slots and slices are those of the choice.

use super::geometry::geometry;
use super::{Choice, ProtocolChoice};
use crate::plan::{Algorithm, Collective, Geometry, Protocol};
use crate::price::{Cluster, Costs, Site, forms};

/// Conditions that times depend on beside the call: where ranks are, the costs of hand-overs, the
/// size of slots.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Where the ranks are.
    pub machine: Cluster,
    /// Costs of all that ranks do.
    pub costs: Costs,
    /// Memory of a Simple connection, in bytes.
    pub buffer_bytes: usize,
    /// Memory of an eager slot, in bytes.
    pub eager_bytes: usize,
}

impl Setting {
    /// Bytes of the largest elements of the program's types.
    const LARGEST: usize = 16;

    /// Whether a slot has room for so many pieces of a token, whatever their type.
    pub fn holds(&self, pieces: u32) -> bool {
        let slot = self.buffer_bytes / Geometry::SLOTS as usize;
        pieces <= 1 || pieces as usize * Setting::LARGEST <= slot
    }
}

/// A setting with what is counted of its machine, for many prices.
#[derive(Clone, Debug)]
pub struct Predictor {
    /// By protocol of pairs.
    sites: [Site; 3],
    /// Bytes of a Simple connection, and of an eager slot.
    memory: (usize, usize),
}

impl Predictor {
    /// Counts the pairs of ranks.
    pub fn of(setting: &Setting) -> Predictor {
        let site = Site::new(&setting.machine, &setting.costs);
        let protocols = [Protocol::Simple, Protocol::Ll, Protocol::Ll128];
        Predictor {
            sites: protocols.map(|over| site.at(&setting.costs.over(over))),
            memory: (setting.buffer_bytes, setting.eager_bytes),
        }
    }

    /// The time of a call in nanoseconds; `None` where there is no closed form. `bytes` is what the
    /// call's count says: all data, or one rank's block.
    pub fn time_ns(&self, collective: Collective, choice: &Choice, bytes: usize) -> Option<f64> {
        let (algorithm, protocol) = (choice.algorithm, choice.protocol);
        let geometry = geometry(collective, algorithm, protocol, self.memory);
        let site = &self.sites[protocol.of_pairs() as usize];
        let way = (collective, algorithm);
        forms::time_ns(way, bytes, choice.channels, geometry, site)
    }
}

/// The time of one call, see [`Predictor::time_ns`].
pub fn predict(
    collective: Collective,
    (algorithm, protocol): (Algorithm, ProtocolChoice),
    bytes: usize,
    channels: u16,
    setting: &Setting,
) -> Option<f64> {
    let choice = Choice {
        algorithm,
        channels,
        protocol,
        composed: false,
    };
    Predictor::of(setting).time_ns(collective, &choice, bytes)
}
