//! One rank alone: its contribution is the result.

use crate::plan::{Collective, Emitter, Layout, Operand, PRE_SCALE, Plan, Shape, StepOp};

/// A scaled copy, or nothing for a barrier and for a scan of the ranks before.
pub fn alone(shape: &Shape) -> Plan {
    let mut e = Emitter::new(*shape, 1, Layout::Blocks);
    e.lane(0);
    match shape.collective {
        Collective::Barrier | Collective::Exscan => {}
        // A scan is not scaled at the end.
        Collective::Scan => {
            let (input, output) = ([Operand::INPUT], [Operand::OUTPUT]);
            e.step(StepOp::Copy, PRE_SCALE, &input, &output, 0);
        }
        _ => e.copy(0),
    }
    e.finish()
}
