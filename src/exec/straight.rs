//! Tokens between nodes that need no slot: sent straight from the caller's memory.
//!
//! **Problem.** A token that is a plain copy of the caller's memory is copied into a slot, from
//! there to the network, and on the other node once more. Large messages spend most of their time
//! so.
//!
//! **Idea.** The slot holds the *address* of the payload instead, and the engine of the network
//! reads it there. On the other node the reader says where the next token shall go while it waits
//! for it, and what has not begun to arrive is received there. Both are possible for copies alone,
//! and the engine is free to use the slot instead: then the copy is made as usual.
//!
//! **Why it is safe.** *Receiving*: a reader that waits for a token has nothing left to do but to
//! write it there; the bytes arrive with the token, so no earlier than they could be written.
//! *Sending*: what is published must not be written again before the network has it, which a call
//! waits for before it ends. So a token goes straight only when no later step, and no step of
//! another lane on the channel, writes the same chunk ([`outlets`]).

use super::wires::{End, Wires};
use crate::plan::{Operand, Plan, Space, Step, StepOp};
use std::collections::HashMap;

/// Tokens of at least so many bytes go straight: for less, a copy is cheaper than the words about
/// it.
pub const LEAST_BYTES: usize = 8 << 10;

/// Where the payload that a step sends to other nodes lies in the caller's memory, if it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outlet {
    /// What lies in the caller's memory and is sent.
    pub from: Operand,
    /// Only if send and receive buffers do not overlap.
    pub if_apart: bool,
}

/// Who writes a chunk of the output last, and whether others do.
#[derive(Clone, Copy)]
struct Written {
    lane: usize,
    /// Step and repetition.
    last: (usize, u16),
    by_others: bool,
}

fn chunk_of(plan: &Plan, step: &Step, repetition: u16, operand: &Operand) -> u32 {
    let chunk = i64::from(step.chunk_at(repetition, plan.chunks)) + i64::from(operand.offset);
    chunk.rem_euclid(i64::from(plan.chunks.max(1))) as u32
}

fn is_payload(step: &Step) -> bool {
    step.op != StepOp::Token && !step.is_packed()
}

/// For each step of each lane, what it may send straight in a call that scales nothing.
/// `is_remote` tells which connections lead to other nodes.
pub fn outlets(plan: &Plan, is_remote: impl Fn(usize) -> bool) -> Vec<Vec<Option<Outlet>>> {
    let mut written: HashMap<(u16, u32), Written> = HashMap::new();
    let mut packs = false;
    for lane in 0..plan.lanes.len() {
        for (number, step) in plan.lane_steps(lane).iter().enumerate() {
            let stores = plan.lists.get(step.dsts).iter();
            let stores = stores.filter(|dst| dst.space == Space::Output);
            packs |= step.is_packed();
            for dst in stores {
                for repetition in 0..step.tokens() {
                    let chunk = chunk_of(plan, step, repetition, dst);
                    let mine = Written {
                        lane,
                        last: (number, repetition),
                        by_others: false,
                    };
                    let key = (plan.lanes[lane].channel, chunk);
                    let known = written.entry(key).or_insert(mine);
                    let by_others = known.by_others || known.lane != lane;
                    *known = Written { by_others, ..mine };
                }
            }
        }
    }
    let none_written = written.is_empty() && !packs;
    let of_lane = |lane: usize| {
        let steps = plan.lane_steps(lane).iter().enumerate();
        let outlet = |(number, step): (usize, &Step)| {
            if !is_payload(step) || packs {
                return None;
            }
            let (srcs, dsts) = (plan.lists.get(step.srcs), plan.lists.get(step.dsts));
            let leads_out = |dst: &Operand| dst.as_connection().is_some_and(&is_remote);
            if !dsts.iter().any(leads_out) {
                return None;
            }
            let stays = |from: &Operand| {
                (0..step.tokens()).all(|repetition| {
                    let chunk = chunk_of(plan, step, repetition, from);
                    let written = written.get(&(plan.lanes[lane].channel, chunk));
                    written.is_none_or(|written| {
                        let before = written.last <= (number, repetition);
                        !written.by_others && written.lane == lane && before
                    })
                })
            };
            let stored = dsts.iter().find(|dst| dst.space == Space::Output);
            if let Some(&from) = stored.filter(|from| stays(from)) {
                let if_apart = false;
                return Some(Outlet { from, if_apart });
            }
            match (step.op, srcs) {
                (StepOp::Copy, [from]) if from.space == Space::Input => {
                    let (from, if_apart) = (*from, !none_written);
                    Some(Outlet { from, if_apart })
                }
                (StepOp::Copy, [from]) if from.space == Space::Output && stays(from) => {
                    let (from, if_apart) = (*from, false);
                    Some(Outlet { from, if_apart })
                }
                _ => None,
            }
        };
        steps.map(outlet).collect()
    };
    (0..plan.lanes.len()).map(of_lane).collect()
}

impl Wires {
    /// Publishes a token of one slot whose payload lies at `data`, and stays there until the token
    /// was given back: at an end that leads to another node.
    ///
    /// # Safety
    /// As [`crate::wire::pair::PairSender::publish_elsewhere`].
    pub unsafe fn publish_straight(
        &mut self,
        end: End,
        (data, bytes): (*mut u8, usize),
        signature: u64,
    ) {
        if let End::Send(index, _) = end {
            // SAFETY: passed on to our caller.
            unsafe { self.sender(index).publish_elsewhere(data, bytes, signature) };
        }
    }

    /// Says where the payload of a token that is not there yet had best go, at an end that leads
    /// to another node.
    pub fn want(&mut self, end: End, data: (*mut u8, usize), ahead: u32) {
        if let End::Recv(index, peer) = end {
            let position = self.receiver(index).position() + u64::from(ahead);
            let channel = index % self.channels;
            self.carried.want((peer, channel), position, data);
        }
    }

    /// Whether a fault is to be injected, for which payload is written to slots.
    pub fn has_fault(&self) -> bool {
        self.flip.is_some()
    }
}
