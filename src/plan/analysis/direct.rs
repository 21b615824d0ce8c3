//! Whether the ranks of a plan may read each other's buffers where they lie, and write into them.

use crate::base::Collective;
use crate::plan::{Algorithm, Operand, Plan, Space, Step, StepOp};

/// Whether every token of the plan can say where its data lie: what is sent is the input, or lies
/// in the output when it is sent.
pub fn is_possible(plan: &Plan) -> bool {
    plan.scratch == 0
        && plan.steps.iter().all(|step| {
            let (srcs, dsts) = (plan.lists.get(step.srcs), plan.lists.get(step.dsts));
            let sends = dsts.iter().any(|dst| dst.space == Space::Connection);
            let stored = dsts.contains(&Operand::OUTPUT);
            let there = |src: &Operand| matches!(src.space, Space::Input | Space::Output);
            let copied = step.op == StepOp::Copy && srcs.iter().all(there);
            !step.is_packed() && (!sends || step.op == StepOp::Token || stored || copied)
        })
}

/// Whether the ranks of a plan may *push*: who stores a final chunk in its own output writes it
/// into the output of everyone who reads its token, at the same place, and the reader copies
/// nothing. The output must be the same on all ranks, and whoever reads such a token must only copy
/// it to its output; the test `pushed_steps_may_be_written_directly` holds every plan of which this
/// says so against the proof of part (b).
pub fn may_push(plan: &Plan) -> bool {
    let shape = &plan.shape;
    let pushes = match (shape.collective, shape.algorithm) {
        (Collective::AllReduce | Collective::AllGather, Algorithm::TwoShot) => true,
        // Many readers take their copies at the same time, and one root would make all of them.
        (Collective::Broadcast, Algorithm::Nvls) => shape.nranks == 2,
        _ => false,
    };
    pushes && is_possible(plan)
}

/// Whether what the step publishes is final and lies in the output of this rank, so that it is
/// pushed where ranks push.
pub fn is_pushed(step: &Step, dsts: &[Operand]) -> bool {
    let publishes = dsts.iter().any(|dst| dst.space == Space::Connection);
    step.op != StepOp::Token && publishes && dsts.contains(&Operand::OUTPUT)
}
