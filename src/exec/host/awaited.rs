//! Small messages between ranks of one node, each moved by the thread that waits for it: an exchange
//! of two messages, a gather, a reduce. The tokens are those of the plans of `algo::bundle` and of a
//! one-shot reduce; a test compares the traces.
//!
//! A list of messages ([`super::messages`]) can stop anywhere and go on later, whatever it has in
//! it. Writing it down takes longer than moving one message of 8 bytes. Where a call has so few
//! messages, or so alike, that their order is known, nothing is written down.

use super::engine::HostEngine;
use super::oneshot::SmallCall;
use super::scratch::{FEW_SOURCES, Sources};
use super::wires::Wires;
use crate::dtype;
use crate::exec::Waiting;
use crate::exec::order::{SmallMessage, SmallOrder};
use crate::exec::stop::{Mismatch, Stop};
use crate::exec::trace::{Event, Tracer};
use crate::plan::{Collective, Direction, Link};
use crate::wire::ports::{PortId, PortKind};

/// The pair between two ranks, where the plan has it.
#[inline(always)]
fn pair(writer: usize, reader: usize) -> Link {
    Link::Pair {
        writer: writer as u32,
        reader: reader as u32,
        channel: 0,
    }
}

impl Wires {
    /// This rank's end of the pair to or from a peer.
    #[inline(always)]
    fn end_with(&mut self, peer: usize, direction: Direction) -> Result<PortId, Stop> {
        let writes = direction == Direction::Send;
        Ok(self.ports.open(PortKind::Pair, writes, (peer, 0))?)
    }

    /// Moves a message, if it can move now.
    ///
    /// # Safety
    /// Its place holds what it says, and is no memory of the connection.
    #[inline(always)]
    unsafe fn try_message(
        &mut self,
        end: PortId,
        message: &SmallMessage,
        tracer: &mut impl Tracer,
    ) -> Result<bool, Mismatch> {
        let &SmallMessage {
            peer,
            place,
            bytes,
            signature,
            ..
        } = message;
        if !self.ports.ready_for(end, (bytes, signature)) {
            return Ok(false);
        }
        if message.direction == Direction::Send {
            let slot = self.ports.place(end, bytes, 0);
            // SAFETY: the slot holds a small message; our caller's promise.
            unsafe { dtype::move_bytes(place.cast_const(), slot, bytes) };
            self.ports.publish(end, 1, bytes, signature);
            let link = pair(self.me(), peer);
            tracer.event(Event::Publish { link, bytes });
        } else {
            self.check(end, signature, 0)?;
            let slot = self.ports.place(end, bytes, 0);
            // SAFETY: the signature says that the slot holds as many bytes; our caller's promise.
            unsafe { dtype::move_bytes(slot.cast_const(), place, bytes) };
            self.ports.release(end, 1);
            let link = pair(peer, self.me());
            tracer.event(Event::Release { link, bytes });
        }
        self.steps_executed += 1;
        Ok(true)
    }

    /// Opens the end of a message, with the memory that it needs.
    #[inline(always)]
    fn end_of(&mut self, message: &SmallMessage) -> Result<PortId, Stop> {
        let end = self.end_with(message.peer, message.direction)?;
        self.ports.reserve(end, message.bytes)?;
        Ok(end)
    }

    /// Waits until a message can move, and moves it.
    ///
    /// # Errors
    /// See [`Stop`].
    ///
    /// # Safety
    /// As [`Wires::try_message`], until this returns.
    #[inline(always)]
    pub unsafe fn message(
        &mut self,
        message: &SmallMessage,
        waiting: &mut impl Waiting,
        tracer: &mut impl Tracer,
    ) -> Result<(), Stop> {
        let end = self.end_of(message)?;
        // SAFETY: our caller's promise.
        while !unsafe { self.try_message(end, message, tracer)? } {
            waiting.pause(message.peer)?;
        }
        Ok(())
    }

    /// Two messages side by side: neither waits for the other. One without data is none.
    ///
    /// # Errors
    /// See [`Stop`].
    ///
    /// # Safety
    /// As [`Wires::message`], for both.
    #[inline(always)]
    pub unsafe fn exchange(
        &mut self,
        [send, recv]: [&SmallMessage; 2],
        waiting: &mut impl Waiting,
        tracer: &mut impl Tracer,
    ) -> Result<(), Stop> {
        let (mut sent, mut received) = (send.bytes == 0, recv.bytes == 0);
        // The own fan stands for an end that nothing passes.
        let mut ends = [PortId::OWN_FAN; 2];
        if !sent {
            ends[0] = self.end_of(send)?;
        }
        if !received {
            ends[1] = self.end_of(recv)?;
        }
        loop {
            // SAFETY: our caller's promise.
            unsafe {
                sent = sent || self.try_message(ends[0], send, tracer)?;
                received = received || self.try_message(ends[1], recv, tracer)?;
            }
            match (sent, received) {
                (true, true) => return Ok(()),
                (true, false) => waiting.pause(recv.peer)?,
                (false, _) => waiting.pause(send.peer)?,
            }
        }
    }
}

impl SmallCall<'_> {
    fn message(&self, peer: usize, direction: Direction, place: *mut u8) -> SmallMessage {
        SmallMessage {
            peer,
            direction,
            place,
            bytes: self.bytes(),
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
            unsafe { wires.message(&mine, waiting, tracer)? };
            return Ok(1);
        }
        let block = |rank: usize| self.recv.wrapping_add(rank * bytes);
        // SAFETY: our caller's promise; equal in place, otherwise apart.
        unsafe { std::ptr::copy(self.send, block(me), bytes) };
        for peer in (0..ranks).filter(|&peer| peer != me) {
            let theirs = self.message(peer, Direction::Recv, block(peer));
            // SAFETY: our caller's promise.
            unsafe { wires.message(&theirs, waiting, tracer)? };
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
            unsafe { wires.message(&mine, waiting, tracer)? };
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
    pub fn is_awaited_on_the_spot(&self, collective: Collective) -> bool {
        matches!(
            collective,
            Collective::Send | Collective::Recv | Collective::Gather | Collective::Reduce
        ) && !self.wires.carried.somewhere()
    }

    /// Runs it. Returns how many steps its plan has.
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
                Collective::Reduce => small.reduce(wires, sources, waiting, &mut ()),
                one_way => {
                    let (direction, place) = match one_way {
                        Collective::Send => (Direction::Send, order.send.cast_mut()),
                        _ => (Direction::Recv, order.recv),
                    };
                    let message = small.message(order.root, direction, place);
                    wires.message(&message, waiting, &mut ())?;
                    Ok(1)
                }
            }
        }
    }

    /// Sends one small message and receives another, if all ranks are of this node.
    ///
    /// # Errors
    /// As [`HostEngine::awaited`].
    ///
    /// # Safety
    /// The places of the messages hold what was said, and nobody else touches them.
    #[inline(always)]
    pub unsafe fn exchange(
        &mut self,
        halves: [&SmallMessage; 2],
        waiting: &mut impl Waiting,
    ) -> Result<(), Stop> {
        // SAFETY: our caller's promise.
        unsafe { self.wires.exchange(halves, waiting, &mut ()) }
    }
}
