//! Slots and slices of an algorithm: part of the choice, because time depends on it.

use super::ProtocolChoice;
use crate::plan::{Algorithm, Collective, Geometry};

/// How the connections of an algorithm are cut into slots, chunks and slices. `buffer_bytes` is the
/// memory of a Simple connection, `eager_bytes` that of an eager slot. Slots of flagged lines hold
/// less, so with them chunks shrink to fit.
pub fn geometry(
    collective: Collective,
    algorithm: Algorithm,
    protocol: ProtocolChoice,
    (buffer_bytes, eager_bytes): (usize, usize),
) -> Geometry {
    let mut geometry = of_slots(collective, algorithm, (buffer_bytes, eager_bytes));
    geometry.slot_bytes = geometry.slot_bytes.min(protocol.of_pairs().slot_bytes());
    geometry
}

fn of_slots(
    collective: Collective,
    algorithm: Algorithm,
    (buffer_bytes, eager_bytes): (usize, usize),
) -> Geometry {
    match (algorithm, collective) {
        (Algorithm::Ring, Collective::Broadcast | Collective::Reduce) => {
            Geometry::bundle(buffer_bytes)
        }
        (Algorithm::Ring, _) => Geometry::ring(buffer_bytes),
        // One-shot reduce goes over pairs, and so in their slots; the others over fans.
        (Algorithm::OneShot, Collective::Reduce) => Geometry::bundle(buffer_bytes),
        (Algorithm::OneShot, _) => Geometry::bundle(eager_bytes * Geometry::SLOTS as usize),
        _ => Geometry::bundle(buffer_bytes),
    }
}
