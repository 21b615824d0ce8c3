//! Payload that ranks of a node read where it lies, in jobs on several nodes.
//!
//! **Problem.** Where all ranks are on one node they agree, by cards, to run a plan over their
//! buffers ([`super::cards`], [`super::direct`]). A plan that leaves the node runs over slots, and
//! between the ranks of a node all data would be copied twice.
//!
//! **Idea.** The writer of each token decides alone. What a step copies from the caller's memory,
//! or stores there beside its token, and nobody writes again before the token is given back, is
//! *shown*: the slot says where it lies, and the reader folds or copies it from there. Nothing else
//! changes, neither the plan nor its slices nor the result; so ranks need not agree, and of two
//! buffers one may be shown and the other copied. The lane of the writer ends when its readers have
//! given back what it has shown.
//!
//! **Terms.** *Near*: a pair connection over slots between ranks of one node. What may be shown is
//! found when a plan is bound, and which buffers when it is launched ([`super::shown`]).

use super::lane::Slice;
use super::launch::Launch;
use super::shown::is_mappable;
use super::wires::Wires;
use crate::base::Result;
use crate::exec::reach::{Base, CardPlace, Copied, NodeBuffers};
use crate::plan::{Operand, Space, Step, StepOp};
use crate::wire::pair::{STRAIGHT_BYTES, ShownWords};

/// The near tokens of the step at hand that need no slot.
#[derive(Default)]
pub struct NearTokens {
    /// Connections whose readers are shown the data, and where those lie.
    shown: Vec<usize>,
    from: Option<(Space, *mut u8)>,
    /// Connections whose writers have shown theirs, and where this rank reads them.
    read: Vec<(usize, Base)>,
    /// Something was shown since the lane began.
    pub has_shown: bool,
}

impl NearTokens {
    /// Nothing is shown, and nothing held.
    pub fn clear(&mut self) {
        self.shown.clear();
        self.read.clear();
        self.from = None;
    }

    /// Where a slice lies that the writer of a connection has shown.
    #[inline]
    pub fn place(&self, index: usize) -> Option<*mut u8> {
        let found = self.read.iter().find(|(of, _)| *of == index);
        found.map(|(_, base)| base.at(0).cast_mut())
    }

    /// Whether the readers of a connection are shown the data.
    #[inline]
    pub fn is_shown(&self, index: usize) -> bool {
        self.shown.contains(&index)
    }

    /// Whether nothing is written but what is shown.
    pub fn shows_all(&self, dsts: &[Operand]) -> bool {
        let is_shown = |dst: &Operand| dst.as_connection().is_some_and(|it| self.is_shown(it));
        !dsts.is_empty() && dsts.iter().all(is_shown)
    }

    /// Finds what the writers of the sources of a step have shown, whose tokens are there, and what
    /// the step shows itself.
    ///
    /// # Errors
    /// When memory of a mate cannot be mapped: it counts on being read.
    pub fn find(&mut self, slice: Slice, step: &Step, wires: &mut Wires) -> Result<()> {
        self.clear();
        let launch = slice.launch;
        let Some(memory) = &launch.near else {
            return Ok(());
        };
        let plan = &launch.plan;
        let near = |operand: &Operand| operand.as_connection().filter(|&it| plan.near.is_near[it]);
        for operand in plan.list(step.srcs) {
            let Some(index) = near(operand) else { continue };
            let ahead = slice.kept_ahead(operand);
            let Some(words) = wires.ports.shown(plan.ends[index], ahead) else {
                continue;
            };
            let writer = plan.connections()[index].writer as usize;
            let bytes = slice.token_bytes(step);
            let base = resolve(&words, writer, bytes, &mut *wires.mates.buffers)?;
            self.read.push((index, base));
        }
        if !memory.may_be_shown {
            return Ok(());
        }
        self.from = outlet(slice, step, wires);
        let Some((space, _)) = self.from else {
            return Ok(());
        };
        let is_mappable = is_mappable(memory.place(space));
        for index in plan.list(step.dsts).iter().filter_map(near) {
            let reader = plan.connections()[index].reader as usize;
            if is_mappable || wires.mates.buffers.is_of_this_process(reader) {
                self.shown.push(index);
            }
        }
        if step.is_packed() && !self.shows_all(plan.list(step.dsts)) {
            self.shown.clear();
        }
        Ok(())
    }

    /// Publishes the token of a slice that is shown.
    ///
    /// # Errors
    /// Where copies cannot be made of what readers cannot map.
    ///
    /// # Panics
    /// Where nothing was found to be shown.
    pub fn publish(
        &mut self,
        slice: Slice,
        index: usize,
        bytes: usize,
        wires: &mut Wires,
    ) -> Result<()> {
        let launch = slice.launch;
        let found = launch.near.as_ref().zip(self.from);
        let (memory, (space, start)) = found.expect("the step shows something");
        let start = start.expose_provenance();
        let base = match space {
            Space::Input => launch.send.addr(),
            _ => launch.recv.addr(),
        };
        let place = memory.place(space);
        let meets = |one: &&Copied| one.bytes.start < start + bytes && start < one.bytes.end;
        let mut copies = memory.copies.iter().filter(meets);
        copies.try_for_each(|one| one.how.show(&(start..start + bytes)))?;
        let words = ShownWords {
            address: start as u64,
            number: place.number,
            offset: place.offset + (start - base) as u64,
            window: place.window,
            freed: memory.freed,
        };
        let (end, slots) = (launch.plan.ends[index], slice.slots(index));
        wires
            .ports
            .publish_shown(end, &words, slots, bytes, launch.signature);
        self.has_shown = true;
        wires.mates.tokens_shown += 1;
        Ok(())
    }
}

/// The memory that a step may show in the place of its token, if any, and where it begins: the
/// pieces of a packed one follow each other.
fn outlet(slice: Slice, step: &Step, wires: &Wires) -> Option<(Space, *mut u8)> {
    let launch: &Launch = slice.launch;
    if wires.ports.has_fault() || step.op == StepOp::Token {
        return None;
    }
    let outlets = &launch.plan.near.outlets[usize::from(launch.in_place)];
    let from = (*outlets.get(slice.at.lane)?.get(slice.at.step)?)?;
    if slice.token_bytes(step) < STRAIGHT_BYTES {
        return None;
    }
    let pieces = (0..step.pieces()).map(|piece| {
        let chunk = step.piece_at(slice.at.repetition, piece, launch.plan.chunks());
        let bytes = slice.whole_count(chunk) * launch.kernel.element_bytes;
        let place = slice.place(&from, chunk);
        (place.wrapping_sub(slice.bytes_before(chunk)), bytes)
    });
    let mut pieces = pieces.filter(|&(_, bytes)| bytes > 0);
    let (start, bytes) = pieces.next()?;
    let mut next = start.wrapping_add(bytes);
    let follows = |(place, bytes): (*mut u8, usize)| {
        let before = std::mem::replace(&mut next, place.wrapping_add(bytes));
        before == place
    };
    pieces.all(follows).then_some((from.space, start))
}

/// Where this rank reads the bytes that a mate has shown.
fn resolve(
    words: &ShownWords,
    writer: usize,
    bytes: usize,
    buffers: &mut dyn NodeBuffers,
) -> Result<Base> {
    buffers.hear(writer, words.freed);
    let place = CardPlace {
        address: words.address,
        number: words.number,
        offset: words.offset,
        may_be_written: 0,
        window: words.window,
    };
    buffers.base(writer, &place, bytes)
}
