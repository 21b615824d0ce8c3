//! Parts of which the ends of connections are made, before they are connected.

use super::active::{Op, Taking};
use super::link::Shape;
use super::local::{Inbox, Outbox};
use super::rails::{Rail, Rails};
use crate::base::{Error, Rank, Result};
use crate::proxy::service::{Caller, Elsewhere};
use crate::transport::lasting::LastingMemory;
use crate::transport::net::{Connecting, Handle, Net};
use crate::wire::pair::{PairReceiver, PairSender};
use crate::wire::stage::{StageReader, StageSource, StageWriter};
use crate::wire::{Bell, Source};
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// A handle of each device of a rank.
pub type Handles = Vec<Handle>;

/// Parts of which the ends of all connections of a rank are made.
pub(super) struct Ends {
    pub net: Arc<dyn Net>,
    pub source: Box<dyn Source + Sync>,
    /// Where those of devices lie, whose channels follow those of the host.
    pub stages: Option<Arc<dyn StageSource>>,
    pub me: usize,
    /// Channels of the host.
    pub on_host: usize,
    /// Channels in all.
    pub channels: usize,
    pub nonce: u128,
    /// Whether each rank is on another node.
    pub is_remote: Vec<bool>,
    /// How each rank is reached.
    pub handles: Arc<[Handles]>,
    /// Over which devices; `None`: channels take them in turn.
    pub rails: Option<Arc<dyn Rails>>,
    /// Over which devices connections were begun: peer, channel, devices.
    pub begun: Mutex<Vec<(Rank, u16, Rail)>>,
    /// Bytes of a slot in memory of the host, with room for the words about a token.
    pub slot_bytes: usize,
    /// Slots of a token.
    pub slice: u64,
    /// Knows which memory of the program stays where it is.
    pub lasting: Arc<dyn LastingMemory>,
}

impl Ends {
    /// The stages that a channel's connections have, if it is one of devices, and its number there.
    fn staged(&self, channel: u16) -> Option<(&dyn StageSource, u16)> {
        let number = usize::from(channel).checked_sub(self.on_host)?;
        let stages = self.stages.as_deref()?;
        Some((stages, number as u16))
    }

    /// The end that reads what this rank writes for the peer.
    pub fn reading(&self, shape: Shape) -> Result<Outbox> {
        let Shape { peer, channel, .. } = shape;
        let Some((stages, number)) = self.staged(channel) else {
            return self.reading_of_host(peer, channel).map(Outbox::Host);
        };
        let stage = stages.stage(self.me as u32, peer.0, number)?;
        Ok(Outbox::Device(StageReader::new(stage)))
    }

    /// The end that writes what this rank reads from the peer.
    pub fn writing(&self, shape: Shape) -> Result<Inbox> {
        let Shape { peer, channel, .. } = shape;
        let Some((stages, number)) = self.staged(channel) else {
            return self.writing_of_host(peer, channel).map(Inbox::Host);
        };
        let stage = stages.stage(peer.0, self.me as u32, number)?;
        Ok(Inbox::Device(StageWriter::new(stage)))
    }

    /// The end that reads what this rank sends to the peer, on a channel of the host.
    pub fn reading_of_host(&self, peer: Rank, channel: u16) -> Result<PairReceiver> {
        let memory = self.source.pair(self.me, peer.index(), channel.into())?;
        Ok(PairReceiver::new(memory))
    }

    /// The end that writes what this rank reads from the peer, on a channel of the host.
    pub fn writing_of_host(&self, peer: Rank, channel: u16) -> Result<PairSender> {
        let (writer, channel) = (peer.index(), channel.into());
        let memory = self.source.pair(writer, self.me, channel)?;
        self.source.take_small(writer, self.me, channel)?;
        Ok(PairSender::new(memory))
    }

    pub fn shape(&self, peer: Rank, channel: u16) -> Shape {
        let (slot_bytes, slice) = match self.staged(channel) {
            Some((stages, _)) => (stages.slot_bytes(), 1),
            None => (self.slot_bytes, self.slice),
        };
        Shape {
            peer,
            channel,
            slot_bytes,
            slice,
        }
    }

    pub fn index(&self, peer: Rank, channel: u16) -> usize {
        peer.index() * self.channels + usize::from(channel)
    }

    /// Begins to connect to `peer`: over the devices of its rail if they are among the nearest to
    /// each other, else over such that are; and by others if those do not answer.
    ///
    /// # Errors
    /// Of the network; the peer has no device.
    pub(super) fn connect(&self, peer: Rank, channel: u16) -> Result<Box<dyn Connecting>> {
        let handles = &self.handles[peer.index()];
        let devices = self.net.devices().len();
        if handles.is_empty() {
            let what = format!("rank {peer} has no network device");
            return Err(Error::internal(what).with_peer(peer));
        }
        let turn = |count: usize| usize::from(channel) % count.max(1);
        let me = Rank(self.me as u32);
        let rail = self
            .rails
            .as_ref()
            .and_then(|it| it.rail(me, peer, channel));
        let known = |rail: &Rail| rail.exit < devices && rail.entry < handles.len();
        let wanted = rail.filter(known).unwrap_or(Rail {
            exit: turn(devices),
            entry: turn(handles.len()),
        });
        let all = (0..devices).flat_map(|exit| (0..handles.len()).map(move |entry| (exit, entry)));
        let far = |(exit, entry)| Some((self.net.distance(exit, &handles[entry])?, exit, entry));
        let rails = in_order(all.filter_map(far).collect(), wanted, usize::from(channel));
        let rail = rails[0];
        tracing::debug!(
            "rank {me} sends to rank {peer} on channel {channel} from {} to device {}",
            self.net.devices()[rail.exit].name,
            rail.entry
        );
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.push((peer, channel, rail));
        let ways = rails.iter().map(|rail| (rail.exit, &handles[rail.entry]));
        self.net.connect_by(&ways.collect::<Vec<_>>())
    }
}

/// Rails of a connection in the order in which they are tried, of such with their distances: the
/// nearest first, and of these the wanted one. Where it is none of them, channels take those in
/// turn that are. Without any the wanted one is tried.
fn in_order(mut found: Vec<(u32, usize, usize)>, wanted: Rail, channel: usize) -> Vec<Rail> {
    let Some(least) = found.iter().map(|(far, ..)| *far).min() else {
        return vec![wanted];
    };
    let near = found.iter().filter(|(far, ..)| *far == least);
    let exits: BTreeSet<usize> = near.clone().map(|(_, exit, _)| *exit).collect();
    let of_turn = |all: &BTreeSet<usize>, wanted: usize| match all.contains(&wanted) {
        true => wanted,
        false => all
            .iter()
            .nth(channel % all.len().max(1))
            .copied()
            .unwrap_or(wanted),
    };
    let exit = of_turn(&exits, wanted.exit);
    let entries = near.filter(|(_, it, _)| *it == exit);
    let entries: BTreeSet<usize> = entries.map(|(.., entry)| *entry).collect();
    let entry = of_turn(&entries, wanted.entry);
    found.sort_by_key(|&(far, a, b)| (far, a != exit, b != entry, a, b));
    let rail = |(_, exit, entry)| Rail { exit, entry };
    found.into_iter().map(rail).collect()
}

/// Parts of which the connections of a rank are made.
pub struct Setup {
    /// The network.
    pub net: Arc<dyn Net>,
    /// Where the memory of connections lies on this node.
    pub source: Box<dyn Source + Sync>,
    /// Where that of devices lies, if the ranks have some: each of its channels follows those of
    /// the host.
    pub stages: Option<Arc<dyn StageSource>>,
    /// Wakes this rank.
    pub bell: Box<dyn Bell>,
    /// This rank.
    pub me: Rank,
    /// Channels of the host.
    pub channels: usize,
    /// Names the communicator.
    pub nonce: u128,
    /// Whether each rank is on another node.
    pub is_remote: Vec<bool>,
    /// Bytes of a slot in memory: those of its payload and `SPARE_BYTES`.
    pub slot_bytes: usize,
    /// Slots of a token, the same for all.
    pub slice: u32,
    /// How ops that were posted are taken over.
    pub taking: Taking,
    /// Knows which memory of the program stays where it is.
    pub lasting: Arc<dyn LastingMemory>,
}

/// Which of what a rank sends goes through other ranks of its node.
#[derive(Default)]
pub struct Through {
    caller: Option<Caller>,
    by_channel: Vec<Option<Rank>>,
    /// Operations that could not be told to these ranks yet.
    backlog: Mutex<VecDeque<Op>>,
    /// Those who still send, of all, once the process exits.
    sending: Mutex<Option<Vec<Elsewhere>>>,
}

impl Through {
    /// Sends on a channel through the rank that `by_channel` has for it; `caller` calls these
    /// ranks.
    pub fn new(caller: Caller, by_channel: Vec<Option<Rank>>) -> Through {
        Through {
            caller: Some(caller),
            by_channel,
            backlog: Mutex::default(),
            sending: Mutex::default(),
        }
    }

    #[inline(always)]
    pub(super) fn proxy(&self, channel: usize) -> Option<Rank> {
        self.by_channel.get(channel).copied().flatten()
    }

    /// All of them.
    pub(super) fn proxies(&self) -> BTreeSet<Rank> {
        self.by_channel.iter().copied().flatten().collect()
    }

    /// An op for the proxy rank of its channel.
    pub(super) fn put(&self, op: Op) {
        let mut backlog = self.backlog.lock().unwrap_or_else(PoisonError::into_inner);
        backlog.push_back(op);
    }

    /// Tells proxy ranks of ops, as far as their processes take messages: how many.
    pub(super) fn tell(&self) -> usize {
        let Some(caller) = &self.caller else { return 0 };
        let mut backlog = self.backlog.lock().unwrap_or_else(PoisonError::into_inner);
        let mut told = 0;
        while let Some(op) = backlog.front() {
            let proxy = self.proxy(usize::from(op.channel));
            if proxy.is_some_and(|proxy| !caller.start(proxy, *op)) {
                break;
            }
            backlog.pop_front();
            told += 1;
        }
        told
    }

    /// Drops what could not be said.
    pub(super) fn forget(&self) {
        let mut backlog = self.backlog.lock().unwrap_or_else(PoisonError::into_inner);
        backlog.clear();
    }

    /// One look of an exit, which tells all proxy ranks that nothing more is to be sent, whether
    /// all of that has arrived.
    pub(super) fn has_ended(&self, is_last: bool) -> bool {
        let mut sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        let sending = sending.get_or_insert_with(|| self.close());
        sending.retain_mut(|elsewhere| !elsewhere.has_ended(is_last));
        sending.is_empty()
    }

    /// Tells all proxy ranks that nothing more is to be sent.
    pub(super) fn close(&self) -> Vec<Elsewhere> {
        let proxies = self.proxies();
        let caller = self.caller.iter();
        caller
            .flat_map(|caller| proxies.iter().map(|&proxy| caller.close(proxy)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(found: &[(u32, usize, usize)], wanted: (usize, usize), channel: usize) -> Rail {
        let (exit, entry) = wanted;
        in_order(found.to_vec(), Rail { exit, entry }, channel)[0]
    }

    #[test]
    fn the_nearest_rails_are_tried_first_and_of_these_the_wanted_one() {
        let rail = |exit, entry| Rail { exit, entry };
        let both = [(4, 0, 0), (4, 1, 1), (5, 0, 1), (5, 1, 0)];
        assert_eq!(first(&both, (1, 1), 0), rail(1, 1));
        // The wanted entry is far away from the wanted exit.
        assert_eq!(first(&both, (1, 0), 0), rail(1, 1));
        // The peer has no second rail.
        let one = [(4, 0, 0), (1004, 1, 1)];
        assert_eq!(first(&one, (1, 1), 1), rail(0, 0));
        assert_eq!(in_order(one.to_vec(), rail(1, 1), 1)[1], rail(1, 1));
        // Of three rails the wanted one is dead: channels take the others in turn.
        let three = [(4, 0, 0), (1004, 1, 1), (4, 2, 2)];
        assert_eq!(first(&three, (1, 1), 0), rail(0, 0));
        assert_eq!(first(&three, (1, 1), 1), rail(2, 2));
        assert_eq!(in_order(Vec::new(), rail(1, 0), 0), [rail(1, 0)]);
    }
}
