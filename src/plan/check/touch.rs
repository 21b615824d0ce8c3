//! Memory of the user, and scratch, that an event touches.

use super::net::{Event, Instance, NONE, Net};
use crate::plan::{Operand, Space, Step, StepOp};

/// A touch of an event, with its place in user memory.
pub(super) struct Touch<'o> {
    pub operand: &'o Operand,
    pub chunk: u32,
    /// Out of place and in place.
    pub at: [u32; 2],
}

/// The operands of an event in user memory and scratch, piece by piece.
pub(super) fn touches<'o>(
    instance: &'o Instance,
    event: &'o Event,
    net: &'o Net,
    operands: &'o [Operand],
) -> impl Iterator<Item = Touch<'o>> + use<'o> {
    let lane = &net.lanes[event.lane as usize];
    let places = &instance.places;
    let own = operands.iter().filter(|o| o.space != Space::Connection);
    let pieces = own.flat_map(|operand| (0..event.pieces).map(move |piece| (operand, piece)));
    pieces.map(move |(operand, piece)| {
        let chunk = places.chunk(operand, net.piece(event, piece));
        let at = [false, true]
            .map(|in_place| places.of((lane.number, lane.channel), operand.space, chunk, in_place));
        Touch { operand, chunk, at }
    })
}

impl Touch<'_> {
    /// The chunk in words.
    pub fn text(&self) -> String {
        crate::plan::places::text(self.operand.space, self.chunk)
    }
}

/// Where in user memory a published value can be read: the source of a copy, else the output. The
/// pieces of a packed token are together only in its slot.
pub(super) fn region(instance: &Instance, event: &Event, net: &Net, step: &Step) -> [u32; 2] {
    if step.is_packed() {
        return [NONE; 2];
    }
    let lists = &instance.plan.lists;
    let is_user = |operand: &Operand| matches!(operand.space, Space::Input | Space::Output);
    let srcs = lists.get(step.srcs);
    let source = (step.op == StepOp::Copy && is_user(&srcs[0])).then_some(srcs);
    let outputs = lists.get(step.dsts).iter().position(is_user);
    let output = outputs.map(|at| &lists.get(step.dsts)[at..]);
    match source.or(output).filter(|_| step.op != StepOp::Token) {
        Some(operands) => {
            let first = touches(instance, event, net, &operands[..1]).next();
            first.map_or([NONE; 2], |touch| touch.at)
        }
        None => [NONE; 2],
    }
}
