//! Messages between ranks, on their way: each end opens, and moves tokens as soon as it can.
//!
//! **Data path.** The sender's memory -> the line or slot of a pair, or of a cast -> the reader's
//! memory, or its fold. Large tokens *grow*: a waiting reader takes the parts that are there. Else
//! a token would pass the memory of one core after the other; so the reader ends a part later.

use super::wires::Wires;
use crate::base;
use crate::dtype;
use crate::exec::Waiting;
use crate::exec::order::MessageOrder;
use crate::exec::stop::{Mismatch, Stop};
use crate::exec::trace::{Event, Tracer};
use crate::plan::{ConnectionUse, Direction, Link, Placing, Protocol, Readers};
use crate::wire::line::WHOLE;
use crate::wire::ports::{PortId, PortKind};
use crate::wire::taken::Tokens;
use std::ops::Range;

/// Bytes of a part. Each costs the transfer of a line, which is small beside so many bytes.
const PART_BYTES: usize = 16 << 10;
/// Looks at a token that grows before its reader waits as for any other: its writer has run a
/// moment ago, so giving the core away would take longer.
const LOOKS: u32 = 256;

/// The pair between this rank and a peer, on the first channel of a plan that is placed so.
#[inline(always)]
fn pair(wires: &Wires, peer: usize, direction: Direction, placing: Placing) -> Link {
    let ranks = (wires.me() as u32, peer as u32);
    let (writer, reader) = match direction {
        Direction::Send => ranks,
        Direction::Recv => (ranks.1, ranks.0),
    };
    let channel = match placing {
        Placing::Planned => 0,
        _ if !wires.carried.is_remote(peer) => 0,
        _ => placing.channel(0, (writer, reader), wires.channels()),
    };
    Link::Pair {
        writer,
        reader,
        channel,
    }
}

/// Opens the end of a message with a rank of any node.
#[inline(always)]
pub(super) fn open(
    wires: &mut Wires,
    peer: usize,
    direction: Direction,
    placing: Placing,
) -> base::Result<(PortId, ConnectionUse)> {
    let link = pair(wires, peer, direction, placing);
    let used = ConnectionUse { link, direction };
    Ok((wires.resolve(&used, Protocol::Simple)?, used))
}

/// How far a message got.
#[derive(Clone, Copy)]
pub(super) struct Moving {
    pub link: Link,
    pub end: PortId,
    /// Bytes that have passed.
    moved: usize,
}

impl Moving {
    pub fn new(link: Link, end: PortId) -> Moving {
        let moved = 0;
        Moving { link, end, moved }
    }

    /// Opens the end of a message on this node, with the memory that it needs; one without data
    /// has none.
    #[inline(always)]
    pub fn begin(order: &MessageOrder, wires: &mut Wires) -> Result<Moving, Stop> {
        let mut kind = PortKind::Pair;
        let mut link = pair(wires, order.peer, order.direction, Placing::Planned);
        if order.to_all {
            kind = PortKind::Cast(0);
            link = Link::Cast {
                writer: order.peer as u32,
                channel: 0,
                readers: Readers::ALL,
            };
        }
        if order.bytes == 0 {
            return Ok(Moving::new(link, PortId::OWN_FAN));
        }
        let writes = order.direction == Direction::Send;
        let end = wires.ports.open(kind, writes, (order.peer, 0))?;
        let bytes = order.bytes.min(order.slice_bytes);
        wires
            .ports
            .reserve(end, Tokens::some(bytes, order.tokens()))?;
        Ok(Moving::new(link, end))
    }

    #[inline(always)]
    pub fn is_done(&self, order: &MessageOrder) -> bool {
        self.moved >= order.bytes
    }

    /// The next token, as a message of its own.
    #[inline(always)]
    fn next(&self, order: &MessageOrder) -> MessageOrder {
        MessageOrder {
            place: order.place.wrapping_add(self.moved),
            bytes: (order.bytes - self.moved).min(order.slice_bytes),
            ..*order
        }
    }

    /// Moves the next token, if it can move now.
    ///
    /// # Safety
    /// The place of the message holds what its order says, and is no memory of the connection.
    #[inline(always)]
    pub unsafe fn try_token(
        &mut self,
        order: &MessageOrder,
        wires: &mut Wires,
        tracer: &mut impl Tracer,
    ) -> Result<bool, Mismatch> {
        let (end, token) = (self.end, self.next(order));
        if !wires.ports.ready_for(end, (token.bytes, token.signature)) {
            return Ok(false);
        }
        if token.direction == Direction::Send {
            // SAFETY: our caller's promise.
            unsafe { write_token(end, &token, wires) };
        } else {
            wires.check(end, token.signature, 0)?;
            let slot = wires.ports.place(end, token.bytes, 0).cast_const();
            // SAFETY: the signature says that the slot holds as many bytes; our caller's promise.
            unsafe { dtype::move_bytes(slot, token.place, token.bytes) };
            wires.ports.release(end, 1);
        }
        self.count(&token, wires, tracer);
        Ok(true)
    }

    /// Moves the message, waiting for each token. One of more than `in_parts` bytes is received in
    /// parts of whole units, but for the last; `take` hears where each lies, and which bytes of the
    /// message it is.
    ///
    /// # Safety
    /// As [`Moving::try_token`]; `take` may read what it is given.
    #[inline(always)]
    unsafe fn pass(
        &mut self,
        order: &MessageOrder,
        in_parts: usize,
        unit: usize,
        wires: &mut Wires,
        waiting: &mut impl Waiting,
        mut take: impl FnMut(*const u8, Range<usize>),
    ) -> Result<(), Stop> {
        while !self.is_done(order) {
            let token = self.next(order);
            if token.direction == Direction::Recv && token.bytes > in_parts {
                let moved = self.moved;
                take_in_parts(self.end, &token, unit, wires, waiting, |from, part| {
                    take(from, moved + part.start..moved + part.end);
                })?;
                self.count(&token, wires, waiting);
            } else {
                // SAFETY: our caller's promise.
                while unsafe { !self.try_token(order, wires, waiting)? } {
                    waiting.pause(wires.ports.waits_for(self.end))?;
                }
            }
            if !self.is_done(order) {
                waiting.moved()?;
            }
        }
        Ok(())
    }

    /// Counts a token that has moved.
    #[inline(always)]
    fn count(&mut self, token: &MessageOrder, wires: &mut Wires, tracer: &mut impl Tracer) {
        let (link, bytes) = (self.link, token.bytes);
        tracer.event(match token.direction {
            Direction::Send => Event::Publish { link, bytes },
            Direction::Recv => Event::Release { link, bytes },
        });
        wires.steps_executed += 1;
        self.moved += bytes;
    }
}

/// Writes and publishes the next token of an end that has room for it.
///
/// # Safety
/// The token's place holds its bytes, and is no memory of the connection.
#[inline(always)]
unsafe fn write_token(end: PortId, token: &MessageOrder, wires: &mut Wires) {
    let (bytes, stream_bytes) = (token.bytes, wires.stream_bytes);
    let slot = wires.ports.place(end, bytes, 0);
    let write = |part: Range<usize>| {
        let from = token.place.wrapping_add(part.start).cast_const();
        let to = slot.wrapping_add(part.start);
        // SAFETY: the slot holds a token; our caller's promise.
        unsafe {
            if bytes < stream_bytes {
                dtype::move_bytes(from, to, part.len());
            } else {
                dtype::stream_bytes(from, to, part.len());
            }
        }
    };
    // A bit is flipped in what is written and not published.
    if bytes <= PART_BYTES || wires.ports.has_fault() {
        write(0..bytes);
        return wires.ports.publish(end, 1, bytes, token.signature);
    }
    for start in (0..bytes).step_by(PART_BYTES) {
        let part = start..bytes.min(start + PART_BYTES);
        write(part.clone());
        let ports = &mut wires.ports;
        ports.publish_part(end, part, bytes, token.signature);
    }
}

/// Waits for the next token of an end, and hands its parts on as they are written: where one lies,
/// and which bytes of the token it is, a multiple of `unit` but for the last. Gives the token back.
#[inline(always)]
fn take_in_parts(
    end: PortId,
    token: &MessageOrder,
    unit: usize,
    wires: &mut Wires,
    waiting: &mut impl Waiting,
    mut take: impl FnMut(*const u8, Range<usize>),
) -> Result<(), Stop> {
    let (bytes, mut taken, mut looks) = (token.bytes, 0, 0);
    while taken < bytes {
        // One that is whole may be of another call and shorter, which the check below finds.
        let written = match wires.ports.written(end) {
            WHOLE => bytes,
            some => some.min(bytes) / unit * unit,
        };
        if written <= taken {
            looks += 1;
            if taken > 0 && looks < LOOKS {
                std::hint::spin_loop();
            } else {
                waiting.pause(token.peer)?;
            }
            continue;
        }
        if taken == 0 {
            wires.check(end, token.signature, 0)?;
        } else {
            waiting.moved()?;
        }
        let slot = wires.ports.place(end, bytes, 0).cast_const();
        take(slot.wrapping_add(taken), taken..written);
        (taken, looks) = (written, 0);
    }
    wires.ports.release(end, 1);
    Ok(())
}

/// Moves a message, waiting for each of its tokens.
///
/// # Errors
/// See [`Stop`].
///
/// # Safety
/// The place of the message holds what its order says, and belongs to it until this returns.
#[inline(always)]
pub(super) unsafe fn moved(
    order: &MessageOrder,
    wires: &mut Wires,
    waiting: &mut impl Waiting,
) -> Result<(), Stop> {
    let mut moving = Moving::begin(order, wires)?;
    let copy = |from: *const u8, part: Range<usize>| {
        // SAFETY: the part is there; our caller's promise.
        unsafe { dtype::move_bytes(from, order.place.wrapping_add(part.start), part.len()) };
    };
    // SAFETY: our caller's promise.
    unsafe { moving.pass(order, PART_BYTES, 1, wires, waiting, copy) }
}

/// Receives a message in parts of whole units, and hands each to `take`: where it lies, and where
/// it is in the message.
#[inline(always)]
pub(super) fn receive(
    order: &MessageOrder,
    unit: usize,
    wires: &mut Wires,
    waiting: &mut impl Waiting,
    take: impl FnMut(*const u8, Range<usize>),
) -> Result<(), Stop> {
    let mut moving = Moving::begin(order, wires)?;
    // SAFETY: nothing but `take` touches the place of a message that is received in parts.
    unsafe { moving.pass(order, 0, unit, wires, waiting, take) }
}
