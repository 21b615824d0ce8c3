//! Connections of one rank to the others: its ports, scratch memory, and the network.

use super::carried::Carried;
use super::ran::Ran;
use super::scratch::Pool;
use super::shown::Mates;
use crate::base::sync::MODEL;
use crate::base::{Error, Result};
use crate::exec::stop::Mismatch;
use crate::plan::readers::CAST_LEVELS;
use crate::plan::{Collective, ConnectionUse, Direction, Link, Plan, Protocol, Shape};
use crate::wire::fan::Fans;
use crate::wire::layout::CASTS;
use crate::wire::line::Arrival;
use crate::wire::ll::{Encoding, Ll};
use crate::wire::ll128::Ll128;
use crate::wire::ports::{PortId, PortKind, Ports};
use crate::wire::signature::Signature;
use crate::wire::{Bell, Source};

const _: () = assert!(1 + CAST_LEVELS == CASTS);
// What is planned for fits the lines that there are; models have smaller ones.
const _: () = assert!(MODEL || Protocol::Ll.slot_bytes() == Ll::CAPACITY);
const _: () = assert!(MODEL || Protocol::Ll128.slot_bytes() == Ll128::CAPACITY);

/// The connections of one rank of a communicator, and what its lanes need beside them.
pub struct Wires {
    me: usize,
    ranks: usize,
    channels: usize,
    plain: u16,
    /// This rank's ends of connections.
    pub ports: Ports,
    /// Tokens that go to other nodes.
    pub carried: Carried,
    /// Ranks of this node, and their buffers.
    pub mates: Mates,
    /// Memory for lanes that need scratch.
    pub scratch: Pool,
    /// A message is sent when it was received, whatever its size.
    pub sends_meet: bool,
    /// Tokens of so many bytes are written past the cache.
    pub stream_bytes: usize,
    /// Steps executed since the communicator was made.
    pub steps_executed: u64,
    /// Calls and launches by who carried them out.
    pub ran: Ran,
}

impl Wires {
    /// Connections of rank `me` of `ranks` on up to `channels` channels.
    pub fn new(
        (me, ranks, channels): (usize, usize, usize),
        fans: Fans,
        source: Box<dyn Source>,
        bell: Box<dyn Bell>,
    ) -> Wires {
        Wires {
            me,
            ranks,
            channels,
            plain: channels as u16,
            ports: Ports::new((me, ranks, channels), fans, source, bell),
            carried: Carried::default(),
            mates: Mates::default(),
            scratch: Pool::default(),
            sends_meet: false,
            stream_bytes: usize::MAX,
            steps_executed: 0,
            ran: Ran::default(),
        }
    }

    /// The rank these connections belong to.
    #[inline(always)]
    pub fn me(&self) -> usize {
        self.me
    }

    /// Ranks of the communicator.
    #[inline(always)]
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Channels between ranks; those beyond lead to a network that folds.
    pub fn channels(&self) -> u16 {
        self.plain
    }

    /// Only so many channels lead to ranks.
    pub fn place_on(&mut self, channels: usize) {
        self.plain = channels as u16;
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

    /// The port of a plan's connection, made on first use.
    ///
    /// # Errors
    /// `InternalError` if the plan names a connection that cannot exist.
    pub fn resolve(&mut self, used: &ConnectionUse, protocol: Protocol) -> Result<PortId> {
        let writes = used.direction == Direction::Send;
        match used.link {
            Link::Fan { writer } => self.ports.open(PortKind::Fan, writes, (writer as usize, 0)),
            Link::Cast {
                writer,
                channel,
                readers,
            } => {
                let place = (writer as usize, usize::from(channel));
                let kind = PortKind::Cast(readers.place() as u8);
                let ranks = self.ranks as u32;
                let port = self.ports.open(kind, writes, place)?;
                if self.ports.read_by(port, readers.ranks(ranks)) {
                    Ok(port)
                } else {
                    let what = "two plans let different ranks read one cast";
                    Err(Error::internal(what))
                }
            }
            Link::Pair {
                writer,
                reader,
                channel,
            } => {
                let peer = if writes { reader } else { writer } as usize;
                let is_remote = self.carried.is_remote(peer);
                let kind = match protocol {
                    // Between nodes a token is one message: flags in it would tell nobody anything.
                    _ if is_remote => PortKind::Pair,
                    Protocol::Simple => PortKind::Pair,
                    Protocol::Ll => PortKind::Ll,
                    Protocol::Ll128 => PortKind::Ll128,
                };
                let port = self
                    .ports
                    .open(kind, writes, (peer, usize::from(channel)))?;
                if is_remote {
                    self.ports.needs_no_reserve(port);
                }
                Ok(port)
            }
        }
    }

    /// Most bytes that a slot of this protocol holds.
    pub fn capacity(protocol: Protocol) -> usize {
        match protocol {
            Protocol::Simple => usize::MAX,
            Protocol::Ll => Ll::CAPACITY,
            Protocol::Ll128 => Ll128::CAPACITY,
        }
    }

    /// Whether this is a message to another rank that is sent when it was received.
    pub(super) fn meets_receive(&self, shape: &Shape) -> bool {
        let is_send = shape.collective == Collective::Send && shape.root != shape.rank;
        self.sends_meet && is_send
    }

    /// Whether this is a message to or from a rank of another node that is sent when it was
    /// received. Empty tokens follow it, as many as that node takes ahead of its reader: so the
    /// last of them leaves when the reader has given all data back.
    pub(super) fn meets_afar(&self, shape: &Shape) -> bool {
        let is_message = shape.collective.is_point_to_point();
        self.sends_meet && is_message && self.carried.is_remote(shape.root as usize)
    }

    /// Begins a launch on this port, whose chunks take `chunk_steps` slots. Positions are aligned
    /// so that no slice wraps; of slots that are carried to other nodes each one is a token, and
    /// none may be left out.
    pub fn begin(&mut self, port: PortId, chunk_steps: u32) {
        if !self.carried.is_remote(self.ports.peer(port)) {
            self.ports.port(port).begin(chunk_steps);
        }
    }

    /// Says where the payload of a token that is not there yet had best go, at a port that leads to
    /// another node.
    pub fn want(&mut self, port: PortId, ahead: u32, place: *mut u8, bytes: usize) {
        if let Some(received) = self.ports.received(port) {
            let (peer, channel) = (self.ports.peer(port), self.ports.channel(port));
            if let Some(carrier) = self.carried.carrier() {
                carrier.want(peer, channel, received + u64::from(ahead), place, bytes);
            }
        }
    }

    /// The token that is there, checked against the call of this rank.
    ///
    /// # Errors
    /// The two signatures, if they differ.
    #[inline]
    pub fn check(
        &mut self,
        port: PortId,
        mine: u64,
        ahead: u32,
    ) -> std::result::Result<(), Mismatch> {
        match self.ports.arrival(port, ahead) {
            None => Ok(()),
            Some((arrival, false)) if arrival.signature == mine => Ok(()),
            Some(arrival) => Err(mismatch(self.ports.peer(port), arrival, mine)),
        }
    }

    /// The token of `peer` that is there on its fan, checked as by [`Wires::check`].
    ///
    /// # Errors
    /// As there.
    #[inline(always)]
    pub fn check_fan(&self, peer: usize, mine: u64) -> std::result::Result<(), Mismatch> {
        match self.ports.fans.arrival_now(peer) {
            (arrival, false) if arrival.signature == mine => Ok(()),
            arrival => Err(mismatch(peer, arrival, mine)),
        }
    }
}

#[cold]
fn mismatch(peer: usize, (arrival, is_stale): (Arrival, bool), mine: u64) -> Mismatch {
    Mismatch {
        peer,
        theirs: Signature(arrival.signature),
        mine: Signature(mine),
        is_stale,
    }
}
