//! One rank alone: its contribution is the result.

use crate::plan::{Collective, Emitter, Layout, Plan, Shape};

/// A scaled copy, or nothing for a barrier.
pub fn alone(shape: &Shape) -> Plan {
    let mut e = Emitter::new(*shape, 1, Layout::Blocks);
    if shape.collective != Collective::Barrier {
        e.lane(0).copy(0);
    }
    e.finish()
}
