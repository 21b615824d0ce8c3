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
//! another lane, writes the same place ([`outlets`]; places are those of the plan checker).
//!
//! Ranks of one node can read such memory too, and then no slot of theirs is needed either
//! ([`shown`]). A call waits until they have. What is written again only when they must have read
//! it may also be shown: an in-place all-reduce shows its contributions.

use crate::plan::places::Places;
use crate::plan::{Algorithm, Collective, Operand, Plan, Shape, Space, Step, StepOp};

/// For each step of each lane: what lies in the caller's memory and may be sent from there.
pub type Outlets = Vec<Vec<Option<Operand>>>;

/// Who writes a place of the caller's memory last, and whether others do.
#[derive(Clone, Copy)]
struct Written {
    lane: usize,
    /// Step and token.
    last: (usize, u16),
    by_others: bool,
}

/// A step, and where in its lane it stands.
#[derive(Clone, Copy)]
struct StepAt<'a> {
    lane: usize,
    number: usize,
    step: &'a Step,
}

/// The places of a plan, and what is written to each.
struct Writes<'a> {
    plan: &'a Plan,
    places: Places,
    in_place: bool,
    written: Vec<Option<Written>>,
}

impl<'a> Writes<'a> {
    fn new(plan: &'a Plan, in_place: bool) -> Writes<'a> {
        let places = Places::new(plan, 0);
        let mut writes = Writes {
            written: vec![None; places.count() as usize],
            plan,
            places,
            in_place,
        };
        for lane in 0..plan.lanes.len() {
            for (number, step) in plan.lane_steps(lane).iter().enumerate() {
                let stores = plan.lists.get(step.dsts).iter();
                for dst in stores.filter(|dst| dst.space == Space::Output) {
                    for token in 0..step.tokens() {
                        writes.note(lane, (number, token), step, dst);
                    }
                }
            }
        }
        writes
    }

    /// The places of an operand of the caller's memory in a token.
    fn places(&self, lane: usize, token: u16, step: &Step, of: &Operand) -> Vec<usize> {
        let place = |piece: u32| {
            let chunk = step.piece_at(token, piece, self.plan.chunks);
            let chunk = self.places.chunk(of, chunk);
            let lane = (lane as u32, self.plan.lanes[lane].channel);
            self.places.of(lane, of.space, chunk, self.in_place) as usize
        };
        (0..step.pieces()).map(place).collect()
    }

    fn note(&mut self, lane: usize, last: (usize, u16), step: &Step, dst: &Operand) {
        for place in self.places(lane, last.1, step, dst) {
            let known = self.written[place];
            let by_others = known.is_some_and(|known| known.by_others || known.lane != lane);
            self.written[place] = Some(Written {
                lane,
                last,
                by_others,
            });
        }
    }

    /// Whether nobody writes an operand of a step after that step.
    fn stays(&self, at: StepAt, of: &Operand) -> bool {
        let StepAt { lane, number, step } = at;
        (0..step.tokens()).all(|token| {
            let places = self.places(lane, token, step, of);
            places.into_iter().all(|place| {
                self.written[place].is_none_or(|written| {
                    !written.by_others && written.lane == lane && written.last <= (number, token)
                })
            })
        })
    }
}

/// Finds what the steps of a plan may send straight in a call that scales nothing. `is_remote`
/// tells which connections lead to other nodes, `in_place` whether send and receive buffers
/// coincide.
pub fn outlets(plan: &Plan, is_remote: impl Fn(usize) -> bool, in_place: bool) -> Outlets {
    found(plan, is_remote, in_place, |writes, at, of| {
        !at.step.is_packed() && writes.stays(at, of)
    })
}

/// Finds what the steps of a plan may show to ranks of the node in such a call, as [`outlets`] does
/// for other nodes: `is_near` tells which connections lead to those ranks. The pieces of a packed
/// step are in one piece only as the sizes of a call will have it.
pub fn shown(plan: &Plan, is_near: impl Fn(usize) -> bool, in_place: bool) -> Outlets {
    let is_proved = in_place && is_read_before(&plan.shape);
    found(plan, is_near, in_place, |writes, at, of| {
        (is_proved && !at.step.is_packed()) || writes.stays(at, of)
    })
}

/// Whether what a rank contributes in place is overwritten only by results that follow from its
/// having been read. The test `contributions_in_place_are_read_before_they_are_overwritten` holds
/// every plan of which this says so against the proof of part (b).
fn is_read_before(shape: &Shape) -> bool {
    use Algorithm::{Hierarchical, Ring};
    shape.collective == Collective::AllReduce && matches!(shape.algorithm, Hierarchical | Ring)
}

/// Finds an operand of the caller's memory for each step that writes to a connection which counts,
/// if it `may` be read there later.
fn found(
    plan: &Plan,
    counts: impl Fn(usize) -> bool,
    in_place: bool,
    may: impl Fn(&Writes, StepAt, &Operand) -> bool,
) -> Outlets {
    let writes = Writes::new(plan, in_place);
    let leads_there = |dst: &Operand| dst.as_connection().is_some_and(&counts);
    let is_users = |of: &&Operand| matches!(of.space, Space::Input | Space::Output);
    let of_lane = |lane: usize| {
        let outlet = |(number, step): (usize, &Step)| {
            let (srcs, dsts) = (plan.lists.get(step.srcs), plan.lists.get(step.dsts));
            if step.op == StepOp::Token || !dsts.iter().any(leads_there) {
                return None;
            }
            // What a step stores beside what it sends, or the only thing that it copies.
            let stored = dsts.iter().filter(is_users);
            let copied = srcs.iter().filter(|_| step.op == StepOp::Copy);
            let mut same = stored.chain(copied.filter(is_users));
            same.find(|of| may(&writes, StepAt { lane, number, step }, of))
                .copied()
        };
        let steps = plan.lane_steps(lane).iter().enumerate();
        steps.map(outlet).collect()
    };
    (0..plan.lanes.len()).map(of_lane).collect()
}
