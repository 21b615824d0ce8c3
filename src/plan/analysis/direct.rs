//! Whether the ranks of a plan may read each other's buffers where they lie.

use crate::plan::{Operand, Plan, Space, StepOp};

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
