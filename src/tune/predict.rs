//! The expected time of a call: prices, where slots and slices are those of the choice.

use super::ProtocolChoice;
use super::geometry::geometry;
use crate::plan::{Algorithm, Collective};
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

/// The time of a call in nanoseconds; `None` where there is no closed form. `bytes` is what the
/// call's count says: all data, or one rank's block.
pub fn predict(
    collective: Collective,
    (algorithm, protocol): (Algorithm, ProtocolChoice),
    bytes: usize,
    channels: u16,
    setting: &Setting,
) -> Option<f64> {
    let memory = (setting.buffer_bytes, setting.eager_bytes);
    let geometry = geometry(collective, algorithm, protocol, memory);
    let site = Site {
        machine: setting.machine.clone(),
        costs: setting.costs.over(protocol.of_pairs()),
    };
    forms::time_ns((collective, algorithm), bytes, channels, geometry, &site)
}
