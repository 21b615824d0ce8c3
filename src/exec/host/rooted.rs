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
use crate::exec::order::{MessageOrder, SmallOrder};
use crate::exec::stop::Stop;
use crate::exec::trace::{Event, Tracer};
use crate::plan::{Collective, Direction};

impl SmallCall<'_> {
    /// A broadcast, gather, scatter or reduce of two ranks, which is one message, of one token or
    /// many. Returns how many steps that was.
    ///
    /// # Errors
    /// See [`Stop`].
    ///
    /// # Safety
    /// The buffers hold what the call says and belong to it until it returns.
    pub unsafe fn between_two(
        &self,
        collective: Collective,
        (slice_bytes, stream_bytes): (usize, usize),
        wires: &mut Wires,
        waiting: &mut impl Waiting,
        tracer: &mut impl Tracer,
    ) -> Result<u64, Stop> {
        let (me, peer, bytes) = (wires.me(), 1 - wires.me(), self.bytes());
        let block = |base: *mut u8, rank: usize| base.wrapping_add(rank * bytes);
        let (send, recv) = (self.send.cast_mut(), self.recv);
        let order = |direction, place| MessageOrder {
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
            if let Some((from, to)) = own {
                // SAFETY: our caller's promise.
                unsafe { self.copy_own(from, to) };
            }
        };
        // The other rank gets its part first, and meanwhile the root moves its own.
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

    /// What the root of this call moves itself.
    ///
    /// # Safety
    /// The two places hold the bytes of this call, and are the same or apart.
    unsafe fn copy_own(&self, from: *mut u8, to: *mut u8) {
        if from != to {
            // SAFETY: our caller's promise.
            unsafe { dtype::move_bytes(from.cast_const(), to, self.bytes()) };
        }
    }

    /// A broadcast of one node whose root casts. Returns how many steps that was.
    ///
    /// # Errors
    /// See [`Stop`].
    ///
    /// # Safety
    /// As [`SmallCall::between_two`].
    pub unsafe fn cast(
        &self,
        (slice_bytes, stream_bytes): (usize, usize),
        wires: &mut Wires,
        waiting: &mut impl Waiting,
        tracer: &mut impl Tracer,
    ) -> Result<u64, Stop> {
        let at_root = wires.me() == self.root;
        let (direction, place) = match at_root {
            true => (Direction::Send, self.send.cast_mut()),
            false => (Direction::Recv, self.recv),
        };
        let order = MessageOrder {
            slice_bytes,
            ..self.message(self.root, direction, place)
        };
        // SAFETY: our caller's promise.
        unsafe { wires.cast(&order, stream_bytes, waiting, tracer)? };
        if at_root {
            // SAFETY: our caller's promise; a broadcast is in place or its buffers are apart.
            unsafe { self.copy_own(place, self.recv) };
        }
        Ok(order.tokens())
    }

    /// Folds the message of the other rank with the own contribution, in the order of ranks.
    ///
    /// # Safety
    /// As [`SmallCall::between_two`].
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
    /// Runs a rooted collective of two ranks, whose tokens have at most `slice_bytes`. Returns how
    /// many steps that was.
    ///
    /// # Errors
    /// As [`HostEngine::awaited`].
    ///
    /// # Safety
    /// As [`HostEngine::awaited`].
    pub unsafe fn between_two(
        &mut self,
        order: &SmallOrder,
        slice_bytes: usize,
        waiting: &mut impl Waiting,
    ) -> Result<u64, Stop> {
        let small = SmallCall::of(order, &self.kernels);
        let sizes = (slice_bytes, self.stream_bytes);
        let wires = &mut self.wires;
        // SAFETY: our caller's promise.
        unsafe { small.between_two(order.collective, sizes, wires, waiting, &mut ()) }
    }

    /// Runs a broadcast whose root casts; else as [`HostEngine::between_two`].
    ///
    /// # Errors
    /// As [`HostEngine::awaited`].
    ///
    /// # Safety
    /// As [`HostEngine::awaited`].
    pub unsafe fn cast(
        &mut self,
        order: &SmallOrder,
        slice_bytes: usize,
        waiting: &mut impl Waiting,
    ) -> Result<u64, Stop> {
        let small = SmallCall::of(order, &self.kernels);
        let sizes = (slice_bytes, self.stream_bytes);
        // SAFETY: our caller's promise.
        unsafe { small.cast(sizes, &mut self.wires, waiting, &mut ()) }
    }
}
