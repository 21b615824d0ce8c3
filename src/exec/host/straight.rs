//! Data that a lane sends to other nodes, or receives from them, without a slot.

use super::lane::{At, LaneRun};
use super::launch::Launch;
use super::wires::Wires;
use crate::plan::{Operand, Space, Step, StepOp};
use crate::wire::pair::STRAIGHT_BYTES;
use crate::wire::ports::PortId;

impl LaneRun {
    /// The region that is sent to other nodes straight from the caller's memory, if any is.
    #[inline]
    pub(super) fn outlet<'a>(
        &self,
        launch: &'a Launch,
        wires: &Wires,
        bytes: usize,
    ) -> Option<&'a Operand> {
        if !launch.straight || bytes < STRAIGHT_BYTES || wires.ports.has_fault() {
            return None;
        }
        let outlets = launch.plan.outlets[usize::from(launch.in_place)].get(self.lane)?;
        outlets[self.step].as_ref()
    }

    /// Says where the token of connection `index`, which is missing, may be received.
    #[cold]
    pub(super) fn want(
        &self,
        step: &Step,
        launch: &Launch,
        wires: &mut Wires,
        (index, ahead): (usize, u32),
    ) {
        let plan = &launch.plan;
        let srcs = plan.list(step.srcs);
        let copies = step.op == StepOp::Copy && !step.is_packed() && srcs.len() == 1;
        let mut dsts = plan.list(step.dsts).iter();
        let stored = dsts.find(|dst| dst.space == Space::Output);
        let bytes = self.token_bytes(step, launch);
        let kept = srcs.iter().any(|src| src.keep);
        if let (true, false, Some(dst)) = (copies && plan.is_remote[index], kept, stored)
            && bytes >= STRAIGHT_BYTES
        {
            let chunk = step.chunk_at(self.repetition, plan.chunks());
            let at = At::new(&self.window, self.round, self.slice, &self.scratch);
            let place = at.place(dst, launch, chunk);
            wires.want(plan.ends[index], ahead, place, bytes);
        }
    }
}

impl Wires {
    /// Says where the payload of a token that is not there yet had best go, at a port that leads to
    /// another node.
    pub fn want(&mut self, port: PortId, ahead: u32, place: *mut u8, bytes: usize) {
        if let Some(received) = self.ports.received(port) {
            let (peer, channel) = (self.ports.peer(port), self.ports.channel(port));
            if let Some(carrier) = self.carried.carrier() {
                carrier.want(peer, channel, received + u64::from(ahead), place, bytes);
            }
        }
    }
}
