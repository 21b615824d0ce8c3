//! Where connections between nodes are: what a call says to [`crate::plan::Placing`].

use super::checked::Checked;
use crate::comm::owned::Exec;
use crate::plan::{Algorithm, Placing};

/// On which channels a call has its connections to other nodes, the same on all ranks. The
/// channel of a message follows from its two ranks; so it does in collectives that are nothing
/// but messages. A collective on a few of the channels begins on a channel that follows from
/// its number: so small ones use all devices in turn.
pub(in crate::comm) fn placing(
    exec: &Exec,
    checked: &Checked,
    algorithm: Algorithm,
    channels: u16,
) -> Placing {
    let collective = checked.call.collective;
    let of_messages = algorithm == Algorithm::Bundle || collective.is_vector();
    match exec.members.turns {
        _ if of_messages || collective.is_point_to_point() => Placing::ByPair,
        turns if channels >= turns => Placing::Planned,
        turns => Placing::Turned((checked.number % u64::from(turns)) as u16),
    }
}
