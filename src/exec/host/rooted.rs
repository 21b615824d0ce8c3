//! Rooted collectives that are one message: broadcast, gather, scatter and reduce of two ranks, and
//! a broadcast whose root casts.
//!
//! Their tokens are those of the plans, and grow: whoever waits reads, or folds, what is there.

use super::awaited::pair;
use super::engine::HostEngine;
use super::growing::TokenOrder;
use super::oneshot::SmallCall;
use super::wires::Wires;
use crate::dtype;
use crate::exec::Waiting;
use crate::exec::order::{MessageOrder, Rooted, SmallOrder};
use crate::exec::stop::Stop;
use crate::exec::trace::{Event, Tracer};
use crate::plan::{Collective, Direction};

impl SmallCall<'_> {
    /// A rooted collective that is one message, of one token or many: a broadcast, gather, scatter
    /// or reduce of two ranks, or a broadcast whose root casts. Returns how many steps that was.
    ///
    /// # Errors
    /// See [`Stop`].
    ///
    /// # Safety
    /// The buffers hold what the call says and belong to it until it returns.
    pub unsafe fn rooted(
        &self,
        (collective, rooted): (Collective, Rooted),
        (slice_bytes, stream_bytes): (usize, usize),
        wires: &mut Wires,
        waiting: &mut impl Waiting,
        tracer: &mut impl Tracer,
    ) -> Result<u64, Stop> {
        let (me, bytes) = (wires.me(), self.bytes());
        let peer = match rooted {
            Rooted::BetweenTwo => 1 - me,
            Rooted::Cast => self.root,
        };
        let block = |base: *mut u8, rank: usize| base.wrapping_add(rank * bytes);
        let (send, recv) = (self.send.cast_mut(), self.recv);
        let order = |direction, place| MessageOrder {
            to_all: rooted == Rooted::Cast,
            slice_bytes,
            ..self.message(peer, direction, place)
        };
        let at_root = me == self.root;
        // The message, and what the root moves itself.
        let (message, own) = match (collective, at_root) {
            (Collective::Broadcast, true) => (order(Direction::Send, send), Some((send, recv))),
            (Collective::Broadcast | Collective::Scatter, false) => {
                (order(Direction::Recv, recv), None)
            }
            (Collective::Scatter, true) => (
                order(Direction::Send, block(send, peer)),
                Some((block(send, me), recv)),
            ),
            (Collective::Gather, true) => (
                order(Direction::Recv, block(recv, peer)),
                Some((send, block(recv, me))),
            ),
            (_, true) => {
                // SAFETY: our caller's promise.
                return unsafe { self.fold_message(slice_bytes, wires, waiting, tracer) };
            }
            (_, false) => (order(Direction::Send, send), None),
        };
        let copy_own = || {
            if let Some((from, to)) = own
                && from != to
            {
                // SAFETY: our caller's promise; not in place, so they are apart.
                unsafe { dtype::move_bytes(from.cast_const(), to, bytes) };
            }
        };
        // The other ranks get their part first, and meanwhile the root moves its own.
        if message.direction == Direction::Recv {
            copy_own();
        }
        // SAFETY: our caller's promise.
        unsafe { wires.message(&message, stream_bytes, waiting, tracer)? };
        if message.direction == Direction::Send {
            copy_own();
        }
        Ok(message.tokens())
    }

    /// Folds the message of the other rank with the own contribution, in the order of ranks.
    ///
    /// # Safety
    /// As [`SmallCall::rooted`].
    unsafe fn fold_message(
        &self,
        slice_bytes: usize,
        wires: &mut Wires,
        waiting: &mut impl Waiting,
        tracer: &mut impl Tracer,
    ) -> Result<u64, Stop> {
        let (me, peer, element_bytes) = (wires.me(), 1 - wires.me(), self.kernel.element_bytes);
        let slice_count = slice_bytes / element_bytes;
        let end = wires.end_with(peer, Direction::Recv)?;
        let mut params = self.kernel.params;
        params.divisor = self.kernel.divisor;
        let (mut at, mut tokens) = (0, 0);
        while at < self.count {
            let count = slice_count.min(self.count - at);
            let (offset, bytes) = (at * element_bytes, count * element_bytes);
            let token = TokenOrder {
                end,
                writer: peer,
                bytes,
                signature: self.signature,
            };
            wires.take_in_parts(token, element_bytes, waiting, |theirs, part| {
                let mine = self.send.wrapping_add(offset + part.start);
                let sources = match me {
                    0 => [mine, theirs],
                    _ => [theirs, mine],
                };
                let result = self.recv.wrapping_add(offset + part.start);
                let count = part.len() / element_bytes;
                // SAFETY: our caller's promise; the part is there until the token is given back.
                unsafe { (self.kernel.fold)(&sources, &[result], count, &params) };
            })?;
            let link = pair(peer, me);
            tracer.event(Event::Release { link, bytes });
            at += count;
            tokens += 1;
            if at < self.count {
                waiting.moved()?;
            }
        }
        wires.steps_executed += tokens;
        Ok(tokens)
    }
}

impl HostEngine {
    /// Runs a rooted collective that is one message, whose tokens have at most `slice_bytes`.
    /// Returns how many steps that was.
    ///
    /// # Errors
    /// As [`HostEngine::awaited`].
    ///
    /// # Safety
    /// As [`HostEngine::awaited`].
    pub unsafe fn rooted(
        &mut self,
        order: &SmallOrder,
        rooted: Rooted,
        slice_bytes: usize,
        waiting: &mut impl Waiting,
    ) -> Result<u64, Stop> {
        let small = SmallCall::of(order, &self.kernels);
        let sizes = (slice_bytes, self.stream_bytes);
        let form = (order.collective, rooted);
        // SAFETY: our caller's promise.
        unsafe { small.rooted(form, sizes, &mut self.wires, waiting, &mut ()) }
    }
}
