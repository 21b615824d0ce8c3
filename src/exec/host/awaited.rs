//! Messages between ranks of one node, each moved by the thread that waits for it: a message or an
//! exchange of two, a small gather or reduce. The tokens are those of the plans; a test compares
//! the traces.
//!
//! A list of messages ([`super::messages`]) can stop anywhere and go on later, whatever it has in
//! it. Writing it down takes longer than moving one message of 8 bytes. Where a call has so few
//! messages, or so alike, that their order is known, nothing is written down.

use super::engine::HostEngine;
use super::growing::{PART_BYTES, TokenOrder};
use super::oneshot::SmallCall;
use super::scratch::{FEW_SOURCES, Sources};
use super::wires::Wires;
use crate::dtype;
use crate::exec::Waiting;
use crate::exec::order::{MessageOrder, SmallOrder};
use crate::exec::stop::{Mismatch, Stop};
use crate::exec::trace::{Event, Tracer};
use crate::plan::{Collective, Direction, Link};
use crate::wire::ports::{PortId, PortKind};
use crate::wire::taken::Tokens;

/// The pair between two ranks, where the plan has it.
#[inline(always)]
pub(super) fn pair(writer: usize, reader: usize) -> Link {
    Link::Pair {
        writer: writer as u32,
        reader: reader as u32,
        channel: 0,
    }
}

/// A message on its way.
struct Moving<'a> {
    order: &'a MessageOrder,
    link: Link,
    end: PortId,
    /// Bytes that have passed.
    moved: usize,
    /// Tokens of so many bytes are written past the cache.
    stream_bytes: usize,
}

impl Moving<'_> {
    #[inline(always)]
    fn is_done(&self) -> bool {
        self.moved >= self.order.bytes
    }

    /// Moves all tokens, waiting for each.
    ///
    /// # Errors
    /// See [`Stop`].
    ///
    /// # Safety
    /// As [`Moving::try_token`].
    #[inline(always)]
    unsafe fn pass(
        mut self,
        wires: &mut Wires,
        waiting: &mut impl Waiting,
        tracer: &mut impl Tracer,
    ) -> Result<(), Stop> {
        while !self.is_done() {
            // SAFETY: our caller's promise.
            unsafe { self.token(wires, waiting, tracer)? };
            if !self.is_done() {
                waiting.moved()?;
            }
        }
        Ok(())
    }

    /// The next token, and its place in the message.
    #[inline(always)]
    fn next(&self) -> (TokenOrder, *mut u8) {
        let token = TokenOrder {
            end: self.end,
            writer: self.order.peer,
            bytes: (self.order.bytes - self.moved).min(self.order.slice_bytes),
            signature: self.order.signature,
        };
        (token, self.order.place.wrapping_add(self.moved))
    }

    /// Moves the next token, waiting for it, or for room.
    ///
    /// # Errors
    /// See [`Stop`].
    ///
    /// # Safety
    /// As [`Moving::try_token`].
    #[inline(always)]
    unsafe fn token(
        &mut self,
        wires: &mut Wires,
        waiting: &mut impl Waiting,
        tracer: &mut impl Tracer,
    ) -> Result<(), Stop> {
        let (token, place) = self.next();
        if self.order.direction == Direction::Send || token.bytes <= PART_BYTES {
            // SAFETY: our caller's promise.
            while unsafe { !self.try_token(wires, tracer)? } {
                waiting.pause(wires.ports.waits_for(self.end))?;
            }
            return Ok(());
        }
        wires.take_in_parts(token, 1, waiting, |from, part| {
            // SAFETY: the part is there; our caller's promise.
            unsafe { dtype::move_bytes(from, place.wrapping_add(part.start), part.len()) };
        })?;
        self.count(token.bytes, wires, tracer);
        Ok(())
    }

    /// Moves the next token, if it can move now.
    ///
    /// # Errors
    /// A token that belongs to another call.
    ///
    /// # Safety
    /// The place of the message holds what its order says, and is no memory of the connection.
    #[inline(always)]
    unsafe fn try_token(
        &mut self,
        wires: &mut Wires,
        tracer: &mut impl Tracer,
    ) -> Result<bool, Mismatch> {
        let (token, place) = self.next();
        let TokenOrder { end, bytes, .. } = token;
        if !wires.ports.ready_for(end, (bytes, token.signature)) {
            return Ok(false);
        }
        if self.order.direction == Direction::Send {
            // SAFETY: our caller's promise.
            unsafe { wires.write_in_parts(token, place, self.stream_bytes) };
        } else {
            wires.check(end, token.signature, 0)?;
            let slot = wires.ports.place(end, bytes, 0);
            // SAFETY: the signature says that the slot holds as many bytes; our caller's promise.
            unsafe { dtype::move_bytes(slot.cast_const(), place, bytes) };
            wires.ports.release(end, 1);
        }
        self.count(bytes, wires, tracer);
        Ok(true)
    }

    /// Counts a token that has moved.
    #[inline(always)]
    fn count(&mut self, bytes: usize, wires: &mut Wires, tracer: &mut impl Tracer) {
        let link = self.link;
        tracer.event(match self.order.direction {
            Direction::Send => Event::Publish { link, bytes },
            Direction::Recv => Event::Release { link, bytes },
        });
        wires.steps_executed += 1;
        self.moved += bytes;
    }
}

impl Wires {
    /// This rank's end of the pair to or from a peer.
    #[inline(always)]
    pub(super) fn end_with(&mut self, peer: usize, direction: Direction) -> Result<PortId, Stop> {
        let writes = direction == Direction::Send;
        Ok(self.ports.open(PortKind::Pair, writes, (peer, 0))?)
    }

    /// Opens the end of a message, with the memory that it needs; one without data has none.
    #[inline(always)]
    fn begin_message<'a>(
        &mut self,
        order: &'a MessageOrder,
        stream_bytes: usize,
    ) -> Result<Moving<'a>, Stop> {
        let (me, peer) = (self.me(), order.peer);
        let (kind, link) = match order.direction {
            _ if order.to_all => {
                let (writer, channel) = (peer as u32, 0);
                (PortKind::Cast, Link::Cast { writer, channel })
            }
            Direction::Send => (PortKind::Pair, pair(me, peer)),
            Direction::Recv => (PortKind::Pair, pair(peer, me)),
        };
        let mut end = PortId::OWN_FAN;
        if order.bytes > 0 {
            let writes = order.direction == Direction::Send;
            end = self.ports.open(kind, writes, (peer, 0))?;
            let tokens = match order.bytes <= order.slice_bytes {
                true => Tokens::one(order.bytes),
                false => Tokens::some(order.slice_bytes, order.tokens()),
            };
            self.ports.reserve(end, tokens)?;
        }
        Ok(Moving {
            order,
            link,
            end,
            moved: 0,
            stream_bytes,
        })
    }

    /// Moves a message, waiting for each of its tokens.
    ///
    /// # Errors
    /// See [`Stop`].
    ///
    /// # Safety
    /// The place of the message holds what its order says, and belongs to it until this returns.
    #[inline(always)]
    pub unsafe fn message(
        &mut self,
        order: &MessageOrder,
        stream_bytes: usize,
        waiting: &mut impl Waiting,
        tracer: &mut impl Tracer,
    ) -> Result<(), Stop> {
        let message = self.begin_message(order, stream_bytes)?;
        // SAFETY: our caller's promise.
        unsafe { message.pass(self, waiting, tracer) }
    }

    /// Moves two messages side by side: neither waits for the other.
    ///
    /// # Errors
    /// See [`Stop`].
    ///
    /// # Safety
    /// As [`Wires::message`], for both.
    #[inline(always)]
    pub unsafe fn exchange(
        &mut self,
        [send, recv]: [&MessageOrder; 2],
        stream_bytes: usize,
        waiting: &mut impl Waiting,
        tracer: &mut impl Tracer,
    ) -> Result<(), Stop> {
        let mut sent = self.begin_message(send, stream_bytes)?;
        let mut received = self.begin_message(recv, stream_bytes)?;
        loop {
            // SAFETY: our caller's promise.
            let moved = unsafe {
                let out = !sent.is_done() && sent.try_token(self, tracer)?;
                out | (!received.is_done() && received.try_token(self, tracer)?)
            };
            match (sent.is_done(), received.is_done()) {
                (true, true) => return Ok(()),
                _ if moved => waiting.moved()?,
                (true, false) => waiting.pause(recv.peer)?,
                (false, _) => waiting.pause(send.peer)?,
            }
        }
    }
}

impl SmallCall<'_> {
    pub(super) fn message(
        &self,
        peer: usize,
        direction: Direction,
        place: *mut u8,
    ) -> MessageOrder {
        MessageOrder {
            peer,
            to_all: false,
            direction,
            place,
            bytes: self.bytes(),
            slice_bytes: usize::MAX,
            signature: self.signature,
        }
    }

    /// Each rank sends the root its block. Returns how many steps that was.
    ///
    /// # Errors
    /// See [`Stop`].
    ///
    /// # Safety
    /// The buffers hold what the call says and belong to it until it returns.
    pub unsafe fn gather(
        &self,
        wires: &mut Wires,
        waiting: &mut impl Waiting,
        tracer: &mut impl Tracer,
    ) -> Result<u64, Stop> {
        let (me, ranks, bytes) = (wires.me(), wires.ranks(), self.bytes());
        if me != self.root {
            let mine = self.message(self.root, Direction::Send, self.send.cast_mut());
            // SAFETY: our caller's promise.
            unsafe { wires.message(&mine, usize::MAX, waiting, tracer)? };
            return Ok(1);
        }
        let block = |rank: usize| self.recv.wrapping_add(rank * bytes);
        if self.send != block(me).cast_const() {
            // SAFETY: our caller's promise; not in place, so they are apart.
            unsafe { dtype::move_bytes(self.send, block(me), bytes) };
        }
        for peer in (0..ranks).filter(|&peer| peer != me) {
            let theirs = self.message(peer, Direction::Recv, block(peer));
            // SAFETY: our caller's promise.
            unsafe { wires.message(&theirs, usize::MAX, waiting, tracer)? };
        }
        wires.steps_executed += 1;
        Ok(ranks as u64)
    }

    /// Each rank sends the root its contribution, which folds all of them in the order of ranks
    /// when all are there. Returns how many steps that was.
    ///
    /// # Errors
    /// See [`Stop`].
    ///
    /// # Safety
    /// The buffers hold what the call says and belong to it until it returns.
    pub unsafe fn reduce(
        &self,
        wires: &mut Wires,
        sources: &mut Sources,
        waiting: &mut impl Waiting,
        tracer: &mut impl Tracer,
    ) -> Result<u64, Stop> {
        let (me, ranks, bytes) = (wires.me(), wires.ranks(), self.bytes());
        if me != self.root {
            let mine = self.message(self.root, Direction::Send, self.send.cast_mut());
            // SAFETY: our caller's promise.
            unsafe { wires.message(&mine, usize::MAX, waiting, tracer)? };
            return Ok(1);
        }
        let mut few = [std::ptr::null(); FEW_SOURCES];
        let sources = sources.listed(&mut few, ranks);
        for (peer, source) in sources.iter_mut().enumerate() {
            if peer == me {
                *source = self.send;
                continue;
            }
            let end = wires.end_with(peer, Direction::Recv)?;
            while !wires.ports.ready_for(end, (bytes, self.signature)) {
                waiting.pause(peer)?;
            }
            wires.check(end, self.signature, 0)?;
            *source = wires.ports.place(end, bytes, 0).cast_const();
        }
        let mut params = self.kernel.params;
        params.divisor = self.kernel.divisor;
        // SAFETY: our caller's promise; slots hold the contributions until they are released.
        unsafe { (self.kernel.fold)(sources, &[self.recv], self.count, &params) };
        for peer in (0..ranks).filter(|&peer| peer != me) {
            let end = wires.end_with(peer, Direction::Recv)?;
            wires.ports.release(end, 1);
            let link = pair(peer, me);
            tracer.event(Event::Release { link, bytes });
        }
        wires.steps_executed += 1;
        Ok(1)
    }
}

impl HostEngine {
    /// Whether a small collective that consists of messages moves as it is waited for.
    #[inline(always)]
    pub fn awaits(&self, collective: Collective) -> bool {
        let alike = matches!(collective, Collective::Gather | Collective::Reduce);
        alike && !self.wires.carried.somewhere()
    }

    /// Whether a message of so many bytes does. For larger ones launches try what is better.
    #[inline(always)]
    pub fn awaits_message(&self, bytes: usize) -> bool {
        bytes < self.awaits_below
    }

    /// Runs a small gather or reduce. Returns how many steps its plan has.
    ///
    /// # Errors
    /// A rank that called something else, or the error of a wait.
    ///
    /// # Safety
    /// The buffers of the order hold what it says, and nobody else touches them.
    #[inline(always)]
    pub unsafe fn awaited(
        &mut self,
        order: &SmallOrder,
        waiting: &mut impl Waiting,
    ) -> Result<u64, Stop> {
        let small = SmallCall::of(order, &self.kernels);
        let (wires, sources) = (&mut self.wires, &mut self.sources);
        // SAFETY: our caller's promise.
        unsafe {
            match order.collective {
                Collective::Gather => small.gather(wires, waiting, &mut ()),
                _ => small.reduce(wires, sources, waiting, &mut ()),
            }
        }
    }

    /// Moves one message.
    ///
    /// # Errors
    /// As [`HostEngine::awaited`].
    ///
    /// # Safety
    /// As [`Wires::message`].
    #[inline(always)]
    pub unsafe fn message(
        &mut self,
        order: &MessageOrder,
        waiting: &mut impl Waiting,
    ) -> Result<(), Stop> {
        // SAFETY: our caller's promise.
        unsafe {
            self.wires
                .message(order, self.stream_bytes, waiting, &mut ())
        }
    }

    /// Sends one message and receives another, side by side.
    ///
    /// # Errors
    /// As [`HostEngine::awaited`].
    ///
    /// # Safety
    /// As [`Wires::exchange`].
    #[inline(always)]
    pub unsafe fn exchange(
        &mut self,
        halves: [&MessageOrder; 2],
        waiting: &mut impl Waiting,
    ) -> Result<(), Stop> {
        // SAFETY: our caller's promise.
        unsafe {
            self.wires
                .exchange(halves, self.stream_bytes, waiting, &mut ())
        }
    }
}
