//! Connections whose tokens all go to the caller's memory and nowhere before: the counterpart of
//! outlets.
//!
//! A reader says where the next token shall go while it waits for it. Of a connection whose every
//! token is only copied to the output it says so each time, and then a network that has the token
//! still at its sender may wait for that. Elsewhere it need not wait: it brings the next token
//! while the reader works on the last one.

use crate::plan::{Operand, Plan, Space, Step, StepOp};

/// The place in the output to which a step only copies one token, so that it may be received there.
pub fn place<'a>(step: &Step, srcs: &[Operand], dsts: &'a [Operand]) -> Option<&'a Operand> {
    let copies = step.op == StepOp::Copy && !step.is_packed();
    let takes_one = srcs.len() == 1 && !srcs[0].keep;
    let stored = || dsts.iter().find(|dst| dst.space == Space::Output);
    (copies && takes_one).then(stored).flatten()
}

/// Whether each step that reads a connection only copies a token to the output, by connection; of
/// those that `may_be`.
pub fn inlets(plan: &Plan, may_be: &[bool]) -> Vec<bool> {
    let mut inlets = may_be.to_vec();
    let all = (0..plan.lanes.len()).flat_map(|lane| plan.lane_steps(lane));
    for step in all {
        let (srcs, dsts) = (plan.lists.get(step.srcs), plan.lists.get(step.dsts));
        let goes_there = place(step, srcs, dsts).is_some();
        for index in srcs.iter().filter_map(Operand::as_connection) {
            if let Some(inlet) = inlets.get_mut(index) {
                *inlet &= goes_there;
            }
        }
    }
    inlets
}
