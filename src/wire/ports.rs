//! The ports of a rank, made on first use and kept by number.

use super::backing::{Age, Areas, Backing};
use super::cast::{CastReceiver, CastSender};
use super::fan::Fans;
use super::layout::{CASTS, LL_LINES, LL128_LINES};
use super::line::{Arrival, SMALL_BYTES};
use super::ll::{LinesReceiver, LinesSender};
use super::pair::{PairReceiver, PairSender, ShownWords};
use super::port::Port;
use super::taken::Tokens;
use super::{Bell, Slots, Source};
use crate::base::{Error, Rank, Result};
use std::ops::Range;

/// The number of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortId(pub u32);

impl PortId {
    /// That of the own fan.
    pub const OWN_FAN: PortId = PortId(0);
}

/// The connection that a port is the end of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// A pair connection over slots.
    Pair,
    /// A pair connection with flags of LL.
    Ll,
    /// A pair connection with flags of LL128.
    Ll128,
    /// A fan.
    Fan,
    /// A cast connection: which of those of its writer, below [`CASTS`].
    Cast(u8),
}

impl PortKind {
    #[inline(always)]
    fn number(self) -> usize {
        match self {
            PortKind::Pair => 0,
            PortKind::Ll => 1,
            PortKind::Ll128 => 2,
            PortKind::Fan => 3,
            PortKind::Cast(cast) => 4 + usize::from(cast),
        }
    }
}

/// Kinds, each in both directions, of one peer on one channel.
const KINDS: usize = 2 * (4 + CASTS);
/// The number of a port that was not made.
const NONE: u32 = u32::MAX;

/// A port, and what does not concern its tokens.
struct PortEntry {
    port: Port,
    /// The rank at the other end; this rank where all others read.
    peer: u32,
    channel: u16,
    /// The memory behind it.
    backing: Backing,
}

impl PortEntry {
    fn new(port: Port, (peer, channel): (usize, usize), enough: usize) -> PortEntry {
        PortEntry {
            port,
            peer: peer as u32,
            channel: channel as u16,
            backing: Backing::new(enough),
        }
    }

    /// The data that are written there.
    fn areas(&self) -> Areas {
        let (reader, channel) = (self.peer as usize, usize::from(self.channel));
        let words = |encoding| Slots::Words {
            reader,
            channel,
            encoding,
        };
        let slots = match self.port {
            Port::CastOut(ref cast) => Slots::Cast {
                channel,
                cast: cast.number(),
            },
            Port::LlOut(_) => words(LL_LINES),
            Port::Ll128Out(_) => words(LL128_LINES),
            _ => Slots::Pair { reader, channel },
        };
        let is_pair = matches!(self.port, Port::PairOut(_));
        let small = is_pair.then_some(Slots::Small { reader, channel });
        Areas { slots, small }
    }
}

/// All ports of one rank of a communicator.
pub struct Ports {
    me: usize,
    ranks: usize,
    channels: usize,
    made: Vec<PortEntry>,
    /// Number by peer, channel, kind and direction, or [`NONE`].
    numbers: Vec<u32>,
    /// The fans of the node.
    pub fans: Fans,
    source: Box<dyn Source>,
    bell: Box<dyn Bell>,
    /// Fault injection: tokens with payload still to publish before one bit is flipped.
    flip: Option<u64>,
}

impl Ports {
    /// Of rank `me` of `ranks`, on up to `channels` channels.
    pub fn new(
        (me, ranks, channels): (usize, usize, usize),
        fans: Fans,
        source: Box<dyn Source>,
        bell: Box<dyn Bell>,
    ) -> Ports {
        let own_fan = PortEntry::new(Port::FanOut, (me, 0), usize::MAX);
        Ports {
            me,
            ranks,
            channels,
            made: vec![own_fan],
            numbers: vec![NONE; ranks * channels * KINDS],
            fans,
            source,
            bell,
            flip: None,
        }
    }

    /// The port of a connection with `peer` on a channel (this rank itself: what all others read),
    /// made on first use.
    ///
    /// # Errors
    /// `InternalError` for a connection that cannot exist; those of [`Source`].
    #[inline(always)]
    pub fn open(
        &mut self,
        kind: PortKind,
        writes: bool,
        (peer, channel): (usize, usize),
    ) -> Result<PortId> {
        if kind == PortKind::Fan && writes {
            return Ok(PortId::OWN_FAN);
        }
        let place = peer * self.channels + channel;
        let place = place * KINDS + 2 * kind.number() + usize::from(writes);
        match self.numbers.get(place) {
            Some(&number) if number != NONE && channel < self.channels => Ok(PortId(number)),
            _ => self.open_new(kind, writes, (peer, channel), place),
        }
    }

    #[cold]
    fn open_new(
        &mut self,
        kind: PortKind,
        writes: bool,
        (peer, channel): (usize, usize),
        place: usize,
    ) -> Result<PortId> {
        if peer >= self.ranks || channel >= self.channels {
            return Err(Error::internal(format!(
                "no connection with rank {peer} on {channel}"
            )));
        }
        let port = self.make(kind, writes, (peer, channel));
        let port = port.map_err(|error| error.with_peer(Rank(peer as u32)))?;
        let number = self.made.len() as u32;
        self.numbers[place] = number;
        let least = port.least();
        let entry = PortEntry::new(port, (peer, channel), least);
        self.made.push(entry);
        Ok(PortId(number))
    }

    fn make(&self, kind: PortKind, writes: bool, (peer, channel): (usize, usize)) -> Result<Port> {
        let me = self.me;
        let cast = |writer, number: u8| self.source.cast(writer, channel, usize::from(number));
        let (writer, reader) = if writes { (me, peer) } else { (peer, me) };
        let lines = |encoding| self.source.lines(writer, reader, channel, encoding);
        Ok(match (kind, writes) {
            (PortKind::Pair, true) => {
                Port::PairOut(PairSender::new(self.source.pair(writer, reader, channel)?))
            }
            (PortKind::Pair, false) => Port::PairIn(PairReceiver::new(
                self.source.pair(writer, reader, channel)?,
            )),
            (PortKind::Ll, true) => Port::LlOut(Box::new(LinesSender::new(lines(LL_LINES)?))),
            (PortKind::Ll, false) => Port::LlIn(Box::new(LinesReceiver::new(lines(LL_LINES)?))),
            (PortKind::Ll128, true) => {
                Port::Ll128Out(Box::new(LinesSender::new(lines(LL128_LINES)?)))
            }
            (PortKind::Ll128, false) => {
                Port::Ll128In(Box::new(LinesReceiver::new(lines(LL128_LINES)?)))
            }
            (PortKind::Cast(number), true) => {
                Port::CastOut(CastSender::new(cast(me, number)?, me, number))
            }
            (PortKind::Cast(number), false) => {
                Port::CastIn(CastReceiver::new(cast(peer, number)?, me))
            }
            (PortKind::Fan, _) => Port::FanIn(peer),
        })
    }

    /// Lets only these ranks read a cast of this rank; false if others have read it before.
    pub fn read_by(&mut self, id: PortId, readers: impl Iterator<Item = u32>) -> bool {
        match self.port(id) {
            Port::CastOut(cast) => cast.read_by(readers),
            _ => true,
        }
    }

    /// The port of this number.
    #[inline(always)]
    pub fn port(&mut self, id: PortId) -> &mut Port {
        &mut self.made[id.0 as usize].port
    }

    /// The rank at the other end; this rank where all others read.
    pub fn peer(&self, id: PortId) -> usize {
        self.made[id.0 as usize].peer as usize
    }

    /// The channel of its connection.
    pub fn channel(&self, id: PortId) -> usize {
        usize::from(self.made[id.0 as usize].channel)
    }

    /// Whether it is of a pair connection over slots.
    pub fn is_of_slots(&self, id: PortId) -> bool {
        let port = &self.made[id.0 as usize].port;
        matches!(port, Port::PairOut(_) | Port::PairIn(_))
    }

    /// Whether it is of a fan.
    pub fn is_of_fan(&self, id: PortId) -> bool {
        let port = &self.made[id.0 as usize].port;
        matches!(port, Port::FanOut | Port::FanIn(_))
    }

    /// See [`Port::ready`].
    #[inline]
    pub fn ready(
        &mut self,
        id: PortId,
        slots: (u32, u32),
        token: impl FnOnce() -> (usize, u64),
    ) -> bool {
        let port = &mut self.made[id.0 as usize].port;
        port.ready(&mut self.fans, slots, token)
    }

    /// Whether a token of one slot and `bytes` may move: small ones need no slot to be free, and do
    /// not grow.
    #[inline(always)]
    pub fn ready_for(&mut self, id: PortId, (bytes, signature): (usize, u64)) -> bool {
        match &mut self.made[id.0 as usize].port {
            Port::PairOut(pair) if bytes <= SMALL_BYTES => pair.ready_small(),
            Port::PairIn(pair) if bytes <= SMALL_BYTES => pair.ready_small(),
            port => port.ready(&mut self.fans, (1, 0), || (bytes, signature)),
        }
    }

    /// See [`Port::arrival`].
    #[inline]
    pub fn arrival(&self, id: PortId, ahead: u32) -> Option<(Arrival, bool)> {
        self.made[id.0 as usize].port.arrival(&self.fans, ahead)
    }

    /// See [`Port::place`].
    #[inline]
    pub fn place(&mut self, id: PortId, bytes: usize, ahead: u32) -> *mut u8 {
        let port = &mut self.made[id.0 as usize].port;
        port.place(&self.fans, bytes, ahead)
    }

    /// Publishes the token written at [`Ports::place`], and wakes its readers.
    #[inline]
    pub fn publish(&mut self, id: PortId, slots: u32, bytes: usize, signature: u64) {
        if self.flip.is_some() {
            self.inject_fault(id, bytes);
        }
        let entry = &mut self.made[id.0 as usize];
        entry.port.publish(&mut self.fans, slots, bytes, signature);
        self.wake_readers(id);
    }

    /// Publishes bytes of the token at [`Ports::place`], and wakes its readers: see
    /// [`Port::publish_part`].
    #[inline]
    pub fn publish_part(&mut self, id: PortId, written: Range<usize>, bytes: usize, mine: u64) {
        self.port(id).publish_part(written, bytes, mine);
        self.wake_readers(id);
    }

    /// See [`Port::written`].
    #[inline]
    pub fn written(&self, id: PortId) -> usize {
        self.made[id.0 as usize].port.written()
    }

    #[inline(always)]
    fn wake_readers(&self, id: PortId) {
        let entry = &self.made[id.0 as usize];
        match entry.port.has_one_reader() {
            true => self.bell.ring(entry.peer as usize),
            false => self.bell.ring_others(),
        }
    }

    /// Wakes all other ranks of the node, after the token in the own fan was published.
    #[inline(always)]
    pub fn ring_others(&self) {
        self.bell.ring_others();
    }

    /// Fault injection for tests: flips one bit of the `token`-th payload published from now on.
    pub fn flip_bit_in(&mut self, token: u64) {
        self.flip = Some(token);
    }

    /// Whether a fault is to be injected, for which payload is written to slots.
    #[inline(always)]
    pub fn has_fault(&self) -> bool {
        self.flip.is_some()
    }

    /// Flips a bit of what was written here and is not published yet, if its turn has come.
    #[cold]
    pub fn inject_fault(&mut self, id: PortId, bytes: usize) {
        let Some(left) = &mut self.flip else { return };
        if bytes == 0 || !self.made[id.0 as usize].port.writes() {
            return;
        }
        if *left > 0 {
            *left -= 1;
            return;
        }
        self.flip = None;
        let place = self.place(id, bytes, 0);
        // SAFETY: the place holds `bytes > 0` bytes that this rank has written and not published.
        unsafe { *place ^= 1 };
    }

    /// Publishes a token of one slot whose payload lies at `data`, and stays there until the token
    /// was given back: at a port that leads to another node.
    ///
    /// # Safety
    /// As [`PairSender::publish_elsewhere`].
    pub unsafe fn publish_elsewhere(
        &mut self,
        id: PortId,
        (data, bytes): (*mut u8, usize),
        signature: u64,
    ) {
        if let Port::PairOut(pair) = self.port(id) {
            // SAFETY: passed on to our caller.
            unsafe { pair.publish_elsewhere(data, bytes, signature) };
        }
    }

    /// Publishes a token whose payload stays where its words say until the token was given back, at
    /// a pair over slots, and wakes its reader.
    #[inline]
    pub fn publish_shown(
        &mut self,
        id: PortId,
        words: &ShownWords,
        slots: u32,
        bytes: usize,
        signature: u64,
    ) {
        if let Port::PairOut(pair) = self.port(id) {
            pair.publish_shown(words, slots, bytes, signature);
            self.wake_readers(id);
        }
    }

    /// The words of the token that is there, or of that `ahead` slots behind it, if it is in no
    /// slot: at a port that leads to a rank of this node.
    #[inline]
    pub fn shown(&self, id: PortId, ahead: u32) -> Option<ShownWords> {
        match &self.made[id.0 as usize].port {
            Port::PairIn(pair) => pair.shown(ahead),
            _ => None,
        }
    }

    /// Slots received at the reading end of a pair since it was made; `None` at another port.
    pub fn received(&mut self, id: PortId) -> Option<u64> {
        match self.port(id) {
            Port::PairIn(pair) => Some(pair.position()),
            _ => None,
        }
    }

    /// Gives a token back, and wakes its writer.
    #[inline]
    pub fn release(&mut self, id: PortId, slots: u32) {
        let entry = &mut self.made[id.0 as usize];
        if entry.port.release(&mut self.fans, slots) {
            self.bell.ring(entry.peer as usize);
        }
    }

    /// Ends an eager call: see [`Fans::complete`].
    #[inline]
    pub fn complete_eager(&mut self) {
        if self.fans.complete() {
            self.bell.ring_others();
        }
    }

    /// The rank for which this port waits when it is not ready.
    pub fn waits_for(&self, id: PortId) -> usize {
        let entry = &self.made[id.0 as usize];
        match &entry.port {
            Port::CastOut(cast) => cast.slowest(),
            Port::FanOut => self.fans.holding_back().first().copied().unwrap_or(self.me),
            _ => entry.peer as usize,
        }
    }

    /// Whether a rank that `counts` has not taken every token of pairs with this one.
    pub fn is_awaited(&mut self, counts: impl Fn(usize) -> bool) -> bool {
        let made = self.made.iter_mut();
        let mut pairs = made.filter(|entry| matches!(entry.port, Port::PairOut(_)));
        pairs.any(|entry| counts(entry.peer as usize) && !entry.port.drained())
    }

    /// Whether somebody has yet to read what this rank wrote into slots.
    pub fn is_unread(&mut self) -> bool {
        let of_slots = |port: &Port| matches!(port, Port::PairOut(_) | Port::CastOut(_));
        let mut made = self.made.iter_mut();
        made.any(|entry| of_slots(&entry.port) && !entry.port.drained())
    }

    /// The pages of this port's slots appear when they are touched: none is taken before.
    pub fn needs_no_reserve(&mut self, id: PortId) {
        let entry = &mut self.made[id.0 as usize];
        let areas = entry.areas();
        let (port, backing) = (&entry.port, &mut entry.backing);
        backing.appears(port, &*self.source, areas);
    }

    /// Makes sure that tokens can be written here, from the next one on. A page that no limit
    /// leaves room for is a signal when it is touched; so before a launch the pages that its tokens
    /// will touch are taken, and which have been is remembered: the question costs a comparison.
    ///
    /// # Errors
    /// `SystemError` naming the connection, the limit and the remedy.
    #[inline]
    pub fn reserve(&mut self, id: PortId, tokens: Tokens) -> Result<()> {
        match self.made[id.0 as usize].backing.holds(&tokens) {
            true => Ok(()),
            false => self.reserve_more(id, tokens),
        }
    }

    #[cold]
    fn reserve_more(&mut self, id: PortId, tokens: Tokens) -> Result<()> {
        let entry = &mut self.made[id.0 as usize];
        let areas = entry.areas();
        let (port, backing) = (&entry.port, &mut entry.backing);
        let taken = backing.take(port, &*self.source, areas, &tokens);
        taken.map_err(|error| error.with_peer(Rank(entry.peer)))
    }

    /// Tells of each connection that has memory and no token how old it is and how much that is.
    /// `now` numbers the occasions on which this is asked.
    pub fn empty_slots(&mut self, now: u64, mut tell: impl FnMut(Age, usize)) {
        for entry in &mut self.made {
            if let Some((age, bytes)) = entry.backing.empty(&mut entry.port, now) {
                tell(age, bytes);
            }
        }
    }

    /// Gives the memory of these back, up to this age: only while nothing is in flight. Returns how
    /// many bytes that were.
    pub fn give_back(&mut self, until: Age) -> usize {
        let source = &*self.source;
        let give = |entry: &mut PortEntry| {
            let areas = entry.areas();
            let (port, backing) = (&mut entry.port, &mut entry.backing);
            backing.give_back(port, source, areas, until)
        };
        self.made.iter_mut().map(give).sum()
    }
}
