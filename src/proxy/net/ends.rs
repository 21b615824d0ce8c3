//! What the ends of connections are made with, before they are connected.

use super::active::{Op, Taking};
use super::link::Shape;
use super::meet::{Arrivals, Greeting};
use super::rails::{Rail, Rails};
use crate::base::{Rank, Result};
use crate::proxy::service::{Caller, Elsewhere};
use crate::transport::net::{Handle, Net};
use crate::wire::pair::{PairMemory, PairReceiver, PairSender};
use crate::wire::{Bell, Source};
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// A handle of each device of a rank.
pub type Handles = Vec<Handle>;

/// What the ends of all connections of a rank are made with.
pub(super) struct Ends {
    pub net: Arc<dyn Net>,
    pub source: Box<dyn Source + Sync>,
    pub me: usize,
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
    /// Bytes of a slot in memory, with room for the words about a token.
    pub slot_bytes: usize,
    /// Slots of a token.
    pub slice: u64,
}

impl Ends {
    fn memory(&self, writer: usize, reader: usize, channel: u16) -> Result<PairMemory> {
        self.source.pair(writer, reader, usize::from(channel))
    }

    /// The end that reads what this rank writes for the peer.
    pub fn reading(&self, shape: Shape) -> Result<PairReceiver> {
        let memory = self.memory(self.me, shape.peer.index(), shape.channel)?;
        Ok(PairReceiver::new(memory))
    }

    /// The end that writes what this rank reads from the peer.
    pub fn writing(&self, shape: Shape) -> Result<PairSender> {
        let memory = self.memory(shape.peer.index(), self.me, shape.channel)?;
        Ok(PairSender::new(memory))
    }

    pub fn shape(&self, peer: Rank, channel: u16) -> Shape {
        Shape {
            peer,
            channel,
            slot_bytes: self.slot_bytes,
            slice: self.slice,
        }
    }

    /// The connection that a greeting is for, if it is one of this rank's.
    pub fn expects(&self, greeting: &Greeting) -> Option<Shape> {
        let peer = greeting.writer as usize;
        let good = greeting.nonce == self.nonce
            && greeting.reader as usize == self.me
            && self.is_remote.get(peer).copied().unwrap_or(false)
            && (greeting.channel as usize) < self.channels
            && greeting.slot_bytes == self.slot_bytes as u64;
        good.then(|| self.shape(Rank(greeting.writer), greeting.channel as u16))
    }

    pub fn index(&self, peer: Rank, channel: u16) -> usize {
        peer.index() * self.channels + usize::from(channel)
    }
}

/// What a rank is made with.
pub struct Setup {
    /// The network.
    pub net: Arc<dyn Net>,
    /// Where the memory of connections lies on this node.
    pub source: Box<dyn Source + Sync>,
    /// Wakes this rank.
    pub bell: Box<dyn Bell>,
    /// This rank.
    pub me: Rank,
    /// Channels.
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
}

/// Which of what a rank sends goes through other ranks of its node.
#[derive(Default)]
pub struct Through {
    caller: Option<Caller>,
    by_channel: Vec<Option<Rank>>,
    /// What could not be said to them yet.
    backlog: Mutex<VecDeque<Op>>,
}

impl Through {
    /// What is sent on a channel goes through `by_channel`'s rank, which `caller` calls.
    pub fn new(caller: Caller, by_channel: Vec<Option<Rank>>) -> Through {
        Through {
            caller: Some(caller),
            by_channel,
            backlog: Mutex::default(),
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

    /// Tells all proxy ranks that nothing more is to be sent.
    pub(super) fn close(&self) -> Vec<Elsewhere> {
        let proxies = self.proxies();
        let caller = self.caller.iter();
        caller
            .flat_map(|caller| proxies.iter().map(|&proxy| caller.close(proxy)))
            .collect()
    }
}

/// The listeners of a rank, before it knows the others.
pub struct Open {
    pub(super) setup: Setup,
    pub(super) arrivals: Arrivals,
    handles: Handles,
}

impl Open {
    /// Listens on every device.
    ///
    /// # Errors
    /// Of the network.
    pub fn new(setup: Setup) -> Result<Open> {
        let (handles, arrivals) = Arrivals::open(&*setup.net)?;
        Ok(Open {
            setup,
            arrivals,
            handles,
        })
    }

    /// The network.
    pub fn net(&self) -> &dyn Net {
        &*self.setup.net
    }

    /// What the other ranks need to reach this one.
    pub fn handles(&self) -> &Handles {
        &self.handles
    }
}
