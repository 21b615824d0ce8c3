//! All connections of one rank, as the executors use them.

use super::carried::Carried;
use super::end::End;
use super::lines::Lines;
use super::scratch::Pool;
use crate::base::{Error, Rank, Result};
use crate::exec::stop::Mismatch;
use crate::plan::{ConnectionUse, Direction, Link, Plan, Protocol};
use crate::wire::cast::{CastMemory, CastReceiver, CastSender};
use crate::wire::fan::Fans;
use crate::wire::line::{Arrival, SMALL_BYTES};
use crate::wire::pair::{PairMemory, PairReceiver, PairSender};
use crate::wire::signature::Signature;
use crate::wire::{Bell, Source};

/// Bytes of each slot that have memory behind them.
pub struct Reserved {
    /// By the index of a sender.
    pub(super) senders: Vec<usize>,
    /// By the channel of an own cast.
    pub(super) casts: Vec<usize>,
}

impl Reserved {
    /// Nothing, for so many ends and channels.
    pub fn new(ends: usize, channels: usize) -> Reserved {
        Reserved {
            senders: vec![0; ends],
            casts: vec![0; channels],
        }
    }
}

/// The connections of one rank of a communicator.
pub struct Wires {
    me: usize,
    ranks: usize,
    channels: usize,
    pub(super) plain: u16,
    senders: Vec<Option<PairSender>>,
    receivers: Vec<Option<PairReceiver>>,
    casts: Vec<Option<CastSender>>,
    cast_readers: Vec<Option<CastReceiver>>,
    lines: Lines,
    /// Slots that have memory behind them.
    pub(super) reserved: Reserved,
    pub(super) source: Box<dyn Source>,
    /// Tokens that go to other nodes.
    pub carried: Carried,
    /// The fans of the node.
    pub fans: Fans,
    pub(super) bell: Box<dyn Bell>,
    /// Memory for lanes that need scratch.
    pub scratch: Pool,
    /// Steps executed since the communicator was made.
    pub steps_executed: u64,
    /// Fault injection: tokens with payload still to publish before one bit is flipped.
    pub(super) flip: Option<u64>,
}

impl Wires {
    /// Connections of rank `me` of `ranks` on up to `channels` channels.
    pub fn new(
        (me, ranks, channels): (usize, usize, usize),
        fans: Fans,
        source: Box<dyn Source>,
        bell: Box<dyn Bell>,
    ) -> Wires {
        let ends = ranks * channels;
        Wires {
            me,
            ranks,
            channels,
            plain: channels as u16,
            senders: (0..ends).map(|_| None).collect(),
            receivers: (0..ends).map(|_| None).collect(),
            lines: Lines::default(),
            reserved: Reserved::new(ends, channels),
            casts: (0..channels).map(|_| None).collect(),
            cast_readers: (0..ends).map(|_| None).collect(),
            source,
            carried: Carried::default(),
            fans,
            bell,
            scratch: Pool::default(),
            steps_executed: 0,
            flip: None,
        }
    }

    /// The rank these connections belong to.
    pub fn me(&self) -> usize {
        self.me
    }

    /// Ranks of the communicator.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Pairs in each direction: every rank on every channel.
    pub fn ends(&self) -> usize {
        self.ranks * self.channels
    }

    /// Fault injection for tests: flips one bit of the `token`-th payload published from now on.
    pub fn flip_bit_in(&mut self, token: u64) {
        self.flip = Some(token);
    }

    /// The end of a plan's connection, made on first use.
    ///
    /// # Errors
    /// `InternalError` if the plan names a connection that cannot exist.
    pub fn resolve(&mut self, used: &ConnectionUse, protocol: Protocol) -> Result<End> {
        // Between nodes a token is one message: flags in its payload would tell nobody anything.
        if let (Link::Pair { writer, reader, .. }, Protocol::Ll | Protocol::Ll128) =
            (used.link, protocol)
            && !self.carried.is_remote(writer as usize)
            && !self.carried.is_remote(reader as usize)
        {
            return self.resolve_lines(used, protocol);
        }
        match (used.link, used.direction) {
            (Link::Fan { .. }, Direction::Send) => Ok(End::FanSend),
            (Link::Fan { writer }, Direction::Recv) => Ok(End::FanRecv(writer as usize)),
            (Link::Cast { channel, .. }, Direction::Send) => self.cast_send(usize::from(channel)),
            (Link::Cast { writer, channel }, Direction::Recv) => {
                self.cast_recv(writer as usize, usize::from(channel))
            }
            (
                Link::Pair {
                    reader, channel, ..
                },
                Direction::Send,
            ) => {
                let (reader, channel) = (reader as usize, usize::from(channel));
                let index = self.index(reader, channel)?;
                if self.senders[index].is_none() {
                    let memory = self.memory(self.me, reader, channel)?;
                    self.senders[index] = Some(PairSender::new(memory));
                }
                Ok(End::Send(index, reader))
            }
            (
                Link::Pair {
                    writer, channel, ..
                },
                Direction::Recv,
            ) => {
                let (writer, channel) = (writer as usize, usize::from(channel));
                let index = self.index(writer, channel)?;
                if self.receivers[index].is_none() {
                    let memory = self.memory(writer, self.me, channel)?;
                    self.receivers[index] = Some(PairReceiver::new(memory));
                }
                Ok(End::Recv(index, writer))
            }
        }
    }

    /// Gives connections that the network folds their channels: the second half of all.
    pub(super) fn place_folds(&self, plan: &mut Plan) {
        for used in &mut plan.connections {
            if let Link::Pair { channel, .. } = &mut used.link
                && *channel >= Link::FOLDS
            {
                *channel = *channel - Link::FOLDS + (self.channels / 2) as u16;
            }
        }
    }

    /// Most bytes that a slot of this protocol holds.
    pub fn capacity(protocol: Protocol) -> usize {
        Lines::capacity(protocol)
    }

    fn resolve_lines(&mut self, used: &ConnectionUse, protocol: Protocol) -> Result<End> {
        let Link::Pair {
            writer,
            reader,
            channel,
        } = used.link
        else {
            return Err(Error::internal("only pairs have flagged lines"));
        };
        let (writer, reader) = (writer as usize, reader as usize);
        let (peer, is_send) = match used.direction {
            Direction::Send => (reader, true),
            Direction::Recv => (writer, false),
        };
        let key = (self.index(peer, usize::from(channel))?, protocol);
        let number = self.lines.find(key, is_send, |encoding| {
            let source = &self.source;
            source.lines(writer, reader, usize::from(channel), encoding)
        });
        let number = number.map_err(|error| error.with_peer(Rank(peer as u32)))?;
        Ok(match is_send {
            true => End::LinesSend(number, peer),
            false => End::LinesRecv(number, peer),
        })
    }

    fn cast_send(&mut self, channel: usize) -> Result<End> {
        let me = self.me;
        self.index(me, channel)?;
        if self.casts[channel].is_none() {
            self.casts[channel] = Some(CastSender::new(self.cast_memory(me, channel)?, me));
        }
        Ok(End::CastSend(channel))
    }

    fn cast_recv(&mut self, writer: usize, channel: usize) -> Result<End> {
        let (me, index) = (self.me, self.index(writer, channel)?);
        if self.cast_readers[index].is_none() {
            let memory = self.cast_memory(writer, channel)?;
            self.cast_readers[index] = Some(CastReceiver::new(memory, me));
        }
        Ok(End::CastRecv(index, writer))
    }

    fn cast_memory(&self, writer: usize, channel: usize) -> Result<CastMemory> {
        let memory = self.source.cast(writer, channel);
        memory.map_err(|error| error.with_peer(Rank(writer as u32)))
    }

    fn index(&self, peer: usize, channel: usize) -> Result<usize> {
        if peer >= self.ranks || channel >= self.channels {
            return Err(Error::internal(format!(
                "no connection with rank {peer} on {channel}"
            )));
        }
        Ok(peer * self.channels + channel)
    }

    /// The channel of an end of a pair, by its index.
    pub(super) fn channel(&self, index: usize) -> usize {
        index % self.channels
    }

    fn memory(&self, writer: usize, reader: usize, channel: usize) -> Result<PairMemory> {
        let peer = if writer == self.me { reader } else { writer };
        let memory = self.source.pair(writer, reader, channel);
        memory.map_err(|error| error.with_peer(Rank(peer as u32)))
    }

    #[inline(always)]
    pub(super) fn sender(&mut self, index: usize) -> &mut PairSender {
        self.senders[index].as_mut().expect("resolved before use")
    }

    #[inline(always)]
    pub(super) fn receiver(&mut self, index: usize) -> &mut PairReceiver {
        self.receivers[index].as_mut().expect("resolved before use")
    }

    #[inline(always)]
    fn cast(&mut self, channel: usize) -> &mut CastSender {
        self.casts[channel].as_mut().expect("resolved before use")
    }

    #[inline(always)]
    fn cast_reader(&mut self, index: usize) -> &mut CastReceiver {
        let reader = self.cast_readers[index].as_mut();
        reader.expect("resolved before use")
    }

    /// Begins a launch on this end, whose chunks take `chunk_steps` slots and slices
    /// `slice_steps`. Positions are aligned so that no slice wraps; where slots are carried to
    /// other nodes each one is a slice, and none may be left out.
    pub fn begin(&mut self, end: End, chunk_steps: u32, slice_steps: u32) {
        let chunk_steps = match self.carried.somewhere() {
            false => chunk_steps,
            true => slice_steps,
        };
        match end {
            End::Send(index, _) => self.sender(index).begin(chunk_steps),
            End::Recv(index, _) => self.receiver(index).begin(chunk_steps),
            End::CastSend(channel) => self.cast(channel).begin(chunk_steps),
            End::LinesSend(number, _) => self.lines.sender(number).begin(chunk_steps),
            End::LinesRecv(number, _) => self.lines.receiver(number).begin(chunk_steps),
            End::CastRecv(index, _) => self.cast_reader(index).begin(chunk_steps),
            End::FanSend | End::FanRecv(_) => {}
        }
    }

    /// The rank for which this end waits when it is not ready.
    pub fn waits_for(&self, end: End) -> usize {
        match end {
            End::Send(_, peer) | End::Recv(_, peer) | End::FanRecv(peer) => peer,
            End::CastRecv(_, writer) => writer,
            End::LinesSend(_, peer) | End::LinesRecv(_, peer) => peer,
            End::CastSend(channel) => self.casts[channel]
                .as_ref()
                .map_or(self.me, |cast| cast.slowest()),
            End::FanSend => self.fans.holding_back().first().copied().unwrap_or(self.me),
        }
    }

    /// Whether a token of `slots` slots may move at this end; of those to be read, the one
    /// `ahead` slots behind the next.
    #[inline]
    pub fn ready(&mut self, end: End, slots: u32, ahead: u32) -> bool {
        match end {
            End::Send(index, _) => self.sender(index).ready(slots),
            End::Recv(index, _) => self.receiver(index).ready(ahead),
            End::FanSend => self.fans.may_publish(usize::MAX),
            End::FanRecv(writer) => self.fans.ready(writer),
            End::CastSend(channel) => self.cast(channel).ready(slots),
            End::CastRecv(index, _) => self.cast_reader(index).ready(ahead),
            End::LinesSend(number, _) => self.lines.sender(number).ready(slots),
            End::LinesRecv(..) => {
                debug_assert!(false, "flagged lines are asked for a number of bytes");
                false
            }
        }
    }

    /// Whether a token of one slot and `bytes` may move at this end: small ones need no slot.
    #[inline]
    pub fn ready_for(&mut self, end: End, bytes: usize) -> bool {
        match end {
            End::Send(index, _) if bytes <= SMALL_BYTES => self.sender(index).ready_small(),
            _ => self.ready(end, 1, 0),
        }
    }

    /// Whether a token of `bytes` has arrived by flagged lines; takes what is there of it.
    pub fn has_lines(
        &mut self,
        number: usize,
        (bytes, signature): (usize, u64),
        ahead: u32,
    ) -> bool {
        self.lines.receiver(number).ready(bytes, signature, ahead)
    }

    /// The token that is there, checked against the call of this rank.
    ///
    /// # Errors
    /// The two signatures, if they differ.
    #[inline]
    pub fn check(&mut self, end: End, mine: u64, ahead: u32) -> std::result::Result<(), Mismatch> {
        let (peer, arrival): (usize, Arrival) = match end {
            End::Recv(index, peer) => (peer, self.receiver(index).arrival(ahead)),
            End::FanRecv(writer) => {
                let arrival = self.fans.arrival(writer);
                if !self.fans.is_of_this_call(&arrival) {
                    return Err(Mismatch {
                        peer: writer,
                        theirs: Signature(arrival.signature),
                        mine: Signature(mine),
                        is_stale: true,
                    });
                }
                (writer, arrival)
            }
            End::CastRecv(index, writer) => (writer, self.cast_reader(index).arrival(ahead)),
            End::LinesRecv(number, writer) => (writer, self.lines.receiver(number).arrival(ahead)),
            End::Send(..) | End::FanSend | End::CastSend(_) | End::LinesSend(..) => return Ok(()),
        };
        if arrival.signature == mine {
            return Ok(());
        }
        Err(Mismatch {
            peer,
            theirs: Signature(arrival.signature),
            mine: Signature(mine),
            is_stale: false,
        })
    }

    /// Where the payload of the next token, or of that `ahead` slots behind it, lies.
    #[inline]
    pub fn place(&mut self, end: End, bytes: usize, ahead: u32) -> *mut u8 {
        match end {
            End::Send(index, _) => self.sender(index).place(bytes),
            End::Recv(index, _) => self.receiver(index).place(bytes, ahead).cast_mut(),
            End::FanSend => self.fans.place(bytes),
            End::FanRecv(writer) => self.fans.source(writer, bytes).cast_mut(),
            End::CastSend(channel) => self.cast(channel).place(bytes),
            End::LinesSend(number, _) => self.lines.sender(number).place(bytes),
            End::LinesRecv(number, _) => self.lines.receiver(number).place(ahead).cast_mut(),
            End::CastRecv(index, _) => self.cast_reader(index).place(bytes, ahead).cast_mut(),
        }
    }

    /// Publishes the token written at [`Wires::place`], and wakes its readers.
    #[inline]
    pub fn publish(&mut self, end: End, slots: u32, bytes: usize, signature: u64) {
        if self.flip.is_some() {
            self.inject_fault(end, bytes);
        }
        match end {
            End::Send(index, reader) => {
                self.sender(index).publish(slots, bytes, signature);
                self.bell.ring(reader);
            }
            End::FanSend => {
                self.fans.publish(signature);
                self.ring_all();
            }
            End::CastSend(channel) => {
                self.cast(channel).publish(slots, bytes, signature);
                self.ring_all();
            }
            End::LinesSend(number, reader) => {
                self.lines.sender(number).publish(slots, bytes, signature);
                self.bell.ring(reader);
            }
            End::Recv(..) | End::FanRecv(_) | End::CastRecv(..) | End::LinesRecv(..) => {
                debug_assert!(false, "published against direction");
            }
        }
    }

    /// Whether every token written at this end was given back; true for reading ends.
    pub fn drained(&mut self, end: End) -> bool {
        match end {
            End::Send(index, _) => self.sender(index).drained(),
            End::CastSend(channel) => self.cast(channel).drained(),
            _ => true,
        }
    }

    /// Whether a rank that `counts` has not taken every token of pairs with this one.
    pub fn is_awaited(&mut self, counts: impl Fn(usize) -> bool) -> bool {
        let channels = self.channels;
        let senders = self.senders.iter_mut().enumerate();
        let mut made = senders.filter_map(|(at, sender)| Some((at / channels, sender.as_mut()?)));
        made.any(|(peer, sender)| counts(peer) && !sender.drained())
    }

    /// Gives a token back, and wakes its writer.
    #[inline]
    pub fn release(&mut self, end: End, slots: u32) {
        match end {
            End::Recv(index, writer) => {
                self.receiver(index).release(slots);
                self.bell.ring(writer);
            }
            End::CastRecv(index, writer) => {
                self.cast_reader(index).release(slots);
                self.bell.ring(writer);
            }
            End::FanRecv(writer) => self.fans.release(writer),
            End::LinesRecv(number, writer) => {
                self.lines.receiver(number).release(slots);
                self.bell.ring(writer);
            }
            End::Send(..) | End::FanSend | End::CastSend(_) | End::LinesSend(..) => {
                debug_assert!(false, "released against direction");
            }
        }
    }

    /// Ends an eager call: see [`Fans::complete`].
    #[inline]
    pub fn complete_eager(&mut self) {
        if self.fans.complete() {
            self.ring_all();
        }
    }

    #[inline]
    fn ring_all(&self) {
        self.bell.ring_others();
    }

    #[cold]
    pub(super) fn inject_fault(&mut self, end: End, bytes: usize) {
        let Some(left) = &mut self.flip else { return };
        let reads = matches!(
            end,
            End::Recv(..) | End::FanRecv(_) | End::CastRecv(..) | End::LinesRecv(..)
        );
        if bytes == 0 || reads {
            return;
        }
        if *left > 0 {
            *left -= 1;
            return;
        }
        self.flip = None;
        let place = self.place(end, bytes, 0);
        // SAFETY: the place holds `bytes > 0` bytes that this rank has written and not published.
        unsafe { *place ^= 1 };
    }
}
