//! Small messages without interpretation. The tokens are those of the plans of `algo::bundle` and
//! of a one-shot reduce; a test compares the traces.
//!
//! A bundle is a list of messages, each one token over a pair. As with the lanes of a plan, each
//! moves as soon as it can, whatever the others do; messages with the same end follow each other.

use super::kernel::Kernel;
use super::schedule::{Passed, Schedule};
use super::scratch::Sources;
use super::wires::Wires;
use crate::base::Result;
use crate::base::exchange::{Transfer, transfers};
use crate::dtype;
use crate::exec::stop::{Mismatch, Progress, Stop};
use crate::exec::trace::{Event, Tracer};
use crate::plan::{Collective, ConnectionUse, Direction, Link, Placing, Protocol};
use crate::wire::line::LINES;
use crate::wire::ports::PortId;
use crate::wire::taken::Tokens;

/// One message of a bundle.
#[derive(Clone, Copy)]
struct Message {
    end: PortId,
    used: ConnectionUse,
    place: *mut u8,
    bytes: usize,
    signature: u64,
    begun: bool,
}

// SAFETY: the buffers belong to the call until its bundle has ended; one driver at a time.
unsafe impl Send for Message {}

/// Messages that are on their way together. Its memory is kept for the next bundle.
#[derive(Default)]
pub struct Messages {
    list: Schedule<Message>,
    /// Numbers this bundle among launches.
    launch: u64,
    /// Ends to other nodes.
    carried: Vec<PortId>,
}

/// The connection between this rank and a peer, where the plan has it on the first channel.
#[inline]
fn pair(wires: &Wires, peer: usize, direction: Direction, placing: Placing) -> Link {
    let is_remote = wires.carried.is_remote(peer);
    let (me, peer) = (wires.me() as u32, peer as u32);
    let (writer, reader) = match direction {
        Direction::Send => (me, peer),
        Direction::Recv => (peer, me),
    };
    let channel = match is_remote {
        true => placing.channel(0, (writer, reader), wires.channels()),
        false => 0,
    };
    Link::Pair {
        writer,
        reader,
        channel,
    }
}

impl Messages {
    /// Forgets the last bundle.
    pub fn clear(&mut self) {
        self.list.clear(usize::MAX);
        self.carried.clear();
    }

    /// Messages of the bundle.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.len() == 0
    }

    /// Adds a message of at most a slot, to or from another rank. `after` tells which message of
    /// this bundle was the last one with the same end; it is given the end and the new number.
    ///
    /// # Errors
    /// As [`Wires::resolve`].
    pub fn add(
        &mut self,
        wires: &mut Wires,
        (peer, direction, placing): (usize, Direction, Placing),
        (place, bytes): (*mut u8, usize),
        signature: u64,
        after: impl FnOnce(PortId, usize) -> Option<usize>,
    ) -> Result<()> {
        let link = pair(wires, peer, direction, placing);
        let used = ConnectionUse { link, direction };
        let end = wires.resolve(&used, Protocol::Simple)?;
        let after = after(end, self.list.len());
        // Behind another message it is not known yet which slot is next.
        let count = after.map_or(1, |_| LINES as u64);
        wires.ports.reserve(end, Tokens::some(bytes, count))?;
        if self.list.len() == 0 {
            self.launch = wires.carried.number_launch();
        }
        if direction == Direction::Send && wires.carried.is_remote(peer) {
            self.carried.push(end);
        }
        let message = Message {
            end,
            used,
            place,
            bytes,
            signature,
            begun: false,
        };
        self.list.push(after, || message, |old| *old = message);
        Ok(())
    }

    /// Moves what can move.
    ///
    /// # Errors
    /// A rank that called something else.
    ///
    /// # Safety
    /// The places hold what was said, and belong to the bundle until it is done.
    pub unsafe fn progress(
        &mut self,
        wires: &mut Wires,
        tracer: &mut impl Tracer,
    ) -> std::result::Result<Progress, Mismatch> {
        let launch = self.launch;
        let Passed { moved, mut missing } = self.list.pass(|_, message| {
            if !message.begun {
                wires.begin(message.end, 1, 1);
                wires.carried.expect(launch, &message.used, 1);
                message.begun = true;
            }
            if !wires
                .ports
                .ready_for(message.end, (message.bytes, message.signature))
            {
                return Ok(Progress::Blocked(wires.ports.waits_for(message.end)));
            }
            // SAFETY: our caller's promise.
            unsafe { message.run(wires, tracer)? };
            Ok::<_, Mismatch>(Progress::Done)
        })?;
        let pending = self.list.pending();
        if pending == 0
            && let Some(&end) = self
                .carried
                .iter()
                .find(|&&end| !wires.ports.port(end).drained())
        {
            // Handed to the network, which nobody may drive when the call has returned.
            missing.get_or_insert(wires.ports.waits_for(end));
        }
        Ok(match missing {
            None if pending == 0 => Progress::Done,
            Some(peer) if moved => Progress::Moved(peer),
            Some(peer) => Progress::Blocked(peer),
            // What is left waited for a message that has just moved.
            None => Progress::Moved(wires.me()),
        })
    }
}

impl Message {
    /// # Safety
    /// As [`Messages::progress`]; the end is ready.
    #[inline]
    unsafe fn run(
        &mut self,
        wires: &mut Wires,
        tracer: &mut impl Tracer,
    ) -> std::result::Result<(), Mismatch> {
        let (end, bytes, link) = (self.end, self.bytes, self.used.link);
        wires.check(end, self.signature, 0)?;
        let slot = wires.ports.place(end, bytes, 0);
        if self.used.direction == Direction::Send {
            // SAFETY: the slot holds the bytes of a small message, and is not the caller's memory.
            unsafe { dtype::move_bytes(self.place.cast_const(), slot, bytes) };
            wires.ports.publish(end, 1, bytes, self.signature);
            tracer.event(Event::Publish { link, bytes });
        } else {
            // SAFETY: as above; the signature says that the slot holds as many bytes.
            unsafe { dtype::move_bytes(slot.cast_const(), self.place, bytes) };
            wires.ports.release(end, 1);
            tracer.event(Event::Release { link, bytes });
        }
        wires.steps_executed += 1;
        Ok(())
    }
}

/// A small collective that consists of messages.
pub struct SmallExchange {
    /// Send, receive, gather, scatter, all-to-all, or reduce where this rank is not the root.
    pub collective: Collective,
    /// The send buffer.
    pub send: *const u8,
    /// The receive buffer.
    pub recv: *mut u8,
    /// Bytes of a block, at most a slot.
    pub bytes: usize,
    /// Root, or peer.
    pub peer: usize,
    /// Travels with every token.
    pub signature: u64,
    /// Where the plan has its connections.
    pub placing: Placing,
}

impl SmallExchange {
    /// Moves what this rank sends to itself, and takes the messages down, in the order of the plan.
    /// Returns how many steps were executed.
    ///
    /// # Errors
    /// As [`Wires::resolve`].
    ///
    /// # Safety
    /// The buffers hold what the collective says, and belong to the bundle until it is done.
    pub unsafe fn begin(&self, messages: &mut Messages, wires: &mut Wires) -> Result<u64> {
        use Direction::{Recv, Send};
        let (me, n, bytes, root) = (wires.me(), wires.ranks(), self.bytes, self.peer);
        let block = |base: *mut u8, number: usize| base.wrapping_add(number * bytes);
        let (send, recv) = (self.send.cast_mut(), self.recv);
        let mut add = |peer, direction, place| {
            let (to, data) = ((peer, direction, self.placing), (place, bytes));
            messages.add(wires, to, data, self.signature, |_, _| None)
        };
        match self.collective {
            // A message of its own, or the contribution to a fold.
            Collective::Send | Collective::Reduce => return add(root, Send, send).map(|()| 0),
            Collective::Recv => return add(root, Recv, recv).map(|()| 0),
            _ => {}
        }
        let mut copied = 0;
        for transfer in transfers(self.collective, me as u32, n as u32, root as u32) {
            match transfer {
                Transfer::Send { to, block: it } => add(to as usize, Send, block(send, it))?,
                Transfer::Recv { from, block: it } => add(from as usize, Recv, block(recv, it))?,
                Transfer::Own { from, to } => {
                    let (from, to) = (block(send, from), block(recv, to));
                    // SAFETY: our caller's promise; equal in place, otherwise apart.
                    unsafe { std::ptr::copy(from.cast_const(), to, bytes) };
                    copied += 1;
                }
                // No exchange that folds is a small one.
                Transfer::Fold { .. } => {}
            }
        }
        wires.steps_executed += copied;
        Ok(copied)
    }
}

/// The root's part of a one-shot reduce: one fold of the contributions of all ranks, in their
/// order, when all are there.
pub struct SmallReduce<'a> {
    /// The root's contribution.
    pub send: *const u8,
    /// Where the result goes.
    pub recv: *mut u8,
    /// Elements.
    pub count: usize,
    /// How they are folded.
    pub kernel: &'a Kernel,
    /// Travels with every token.
    pub signature: u64,
    /// Where the plan has its connections.
    pub placing: Placing,
}

/// Connections of the root, kept by the communicator so that no call allocates.
#[derive(Default)]
pub struct Contributors {
    ends: Vec<(PortId, Link)>,
    placing: Placing,
    arrived: usize,
    begun: bool,
}

impl Contributors {
    /// Before the next call.
    pub fn reset(&mut self) {
        (self.arrived, self.begun) = (0, false);
    }

    fn begin(&mut self, wires: &mut Wires, placing: Placing) -> Result<()> {
        let (me, ranks) = (wires.me(), wires.ranks());
        if self.ends.len() + 1 != ranks || self.placing != placing {
            self.ends.clear();
            self.placing = placing;
            for peer in (0..ranks).filter(|&peer| peer != me) {
                let direction = Direction::Recv;
                let link = pair(wires, peer, direction, placing);
                let end = wires.resolve(&ConnectionUse { link, direction }, Protocol::Simple)?;
                self.ends.push((end, link));
            }
        }
        let launch = wires.carried.number_launch();
        for &(end, link) in &self.ends {
            let direction = Direction::Recv;
            wires.begin(end, 1, 1);
            wires
                .carried
                .expect(launch, &ConnectionUse { link, direction }, 1);
        }
        self.begun = true;
        Ok(())
    }
}

impl SmallReduce<'_> {
    /// Folds, if all contributions are there.
    ///
    /// # Errors
    /// A rank that called something else; see [`Stop`].
    ///
    /// # Safety
    /// The buffers hold `count` elements and belong to the call until it is done; the lists are
    /// used for the connections of these wires only.
    pub unsafe fn progress(
        &self,
        wires: &mut Wires,
        contributors: &mut Contributors,
        sources: &mut Sources,
        tracer: &mut impl Tracer,
    ) -> std::result::Result<Progress, Stop> {
        if !contributors.begun {
            contributors.begin(wires, self.placing)?;
        }
        let bytes = self.count * self.kernel.element_bytes;
        while let Some(&(end, _)) = contributors.ends.get(contributors.arrived) {
            if !wires.ports.ready_for(end, (bytes, self.signature)) {
                return Ok(Progress::Blocked(wires.ports.waits_for(end)));
            }
            wires.check(end, self.signature, 0)?;
            contributors.arrived += 1;
        }
        let sources = &mut sources.0;
        sources.clear();
        sources.extend(contributors.ends.iter().map(|&(end, _)| {
            let place = wires.ports.place(end, bytes, 0);
            place.cast_const()
        }));
        sources.insert(wires.me(), self.send);
        let mut params = self.kernel.params;
        params.divisor = self.kernel.divisor;
        // SAFETY: our caller's promise; slots hold the contributions until they are released.
        unsafe { (self.kernel.fold)(sources, &[self.recv], self.count, &params) };
        for &(end, link) in &contributors.ends {
            wires.ports.release(end, 1);
            tracer.event(Event::Release { link, bytes });
        }
        wires.steps_executed += 1;
        Ok(Progress::Done)
    }
}
