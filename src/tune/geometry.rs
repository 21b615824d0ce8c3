//! Slots and slices of an algorithm: part of the choice, because time depends on it.

use crate::plan::{Algorithm, Collective, Geometry};

/// How the connections of an algorithm are cut into slots, chunks and slices. `buffer_bytes` is the
/// memory of a Simple connection, `eager_bytes` that of an eager slot.
pub fn geometry(
    collective: Collective,
    algorithm: Algorithm,
    buffer_bytes: usize,
    eager_bytes: usize,
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
