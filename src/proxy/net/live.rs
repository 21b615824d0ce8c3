//! View of an engine from outside: its record, and what is under way in a job that hangs.

use super::fold_links::fold_of;
use super::links::{Links, State, up};
use super::meet::Outgoing;
use super::profile::Profiler;
use super::trace::Event;
use crate::base::Rank;
use crate::plan::Direction;
use std::fmt;
use std::sync::Arc;

/// Launches of devices have numbers from here on.
pub const OF_DEVICES: u64 = 1 << 63;
/// Operations that a text shows one by one; the others are counted.
const SHOWN: usize = 64;

/// An operation that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    /// Number of its launch.
    pub launch: u64,
    /// Which way.
    pub direction: Direction,
    /// The other rank.
    pub peer: Rank,
    /// The channel.
    pub channel: u16,
    /// Whether its connection is there.
    pub is_connected: bool,
    /// Slots that are to pass.
    pub slots: u64,
    /// Bytes of a slot at most.
    pub slot_bytes: usize,
    /// Of these: those with room for them,
    pub posted: u64,
    /// those that the program (sending) or the network (receiving) has filled,
    pub full: u64,
    /// those that were handed to the network, or to the program,
    pub transmitted: u64,
    /// and those that are through.
    pub done: u64,
}

impl fmt::Display for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (way, full) = match self.direction {
            Direction::Send => ("send to", "filled"),
            Direction::Recv => ("receive from", "received"),
        };
        let (launch, of) = match self.launch.checked_sub(OF_DEVICES) {
            Some(launch) => (launch, "of a device, "),
            None => (self.launch, ""),
        };
        write!(
            f,
            "launch {launch}: {of}{way} rank {} on channel {}, {} slots of up to {} bytes: ",
            self.peer, self.channel, self.slots, self.slot_bytes,
        )?;
        match self.is_connected {
            false => write!(f, "not connected yet"),
            true => write!(
                f,
                "{} posted, {} {full}, {} transmitted, {} done",
                self.posted, self.full, self.transmitted, self.done,
            ),
        }
    }
}

/// All that is under way, as people read it.
#[derive(Clone, Debug)]
pub struct Picture {
    /// The rank whose messages these are.
    pub rank: Rank,
    /// The network's name.
    pub net: String,
    /// Operations that were taken over since the beginning: to send, to receive.
    pub taken: [u64; 2],
    /// Operations that wait to be taken over.
    pub waiting: usize,
    /// Operations under way, the oldest first.
    pub live: Vec<Live>,
}

impl fmt::Display for Picture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [sends, recvs] = self.taken;
        write!(
            f,
            "rank {} over {}: {} operations under way, {} wait; {sends} to send and {recvs} to \
             receive since the beginning",
            self.rank,
            self.net,
            self.live.len(),
            self.waiting,
        )?;
        for live in self.live.iter().take(SHOWN) {
            write!(f, "\n  {live}")?;
        }
        match self.live.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

/// Adds the descriptors on which a `poll` may sleep until [`Links::pass`] has something to do,
/// besides what local ranks do. False if the network cannot be slept on.
pub fn watch(links: &Links, set: &mut Vec<libc::pollfd>) -> bool {
    let Ok(state) = links.state.try_lock() else {
        return false;
    };
    let mut all = state.arrivals.watch(set);
    for args in &state.active.list {
        for sub in args.subs.iter().filter(|sub| !sub.done) {
            all &= match args.direction {
                // A folding network names nothing to sleep on.
                _ if fold_of(&links.ends, state.folds.len(), sub.channel).is_some() => false,
                Direction::Send => state.outgoing[sub.link]
                    .as_ref()
                    .is_none_or(|link| link.watch(set)),
                Direction::Recv => state.incoming[sub.link]
                    .as_ref()
                    .is_none_or(|link| link.watch(set)),
            };
        }
    }
    all
}

/// Records what the engine does from now on.
pub fn record(links: &Links) {
    links.lock().trace.switch_on();
}

/// Returns the events that were recorded since the last time.
pub fn recorded(links: &Links) -> Vec<Event> {
    links.lock().trace.take()
}

/// Lets this one hear of every step from now on.
pub fn profile(links: &Links, profiler: Arc<dyn Profiler>) {
    links.lock().profiler = Some(profiler);
}

/// Connections that are up: (sending, receiving).
pub fn connections(links: &Links) -> (usize, usize) {
    let state = links.lock();
    let mut sending = 0;
    for link in state.outgoing.iter().flatten() {
        sending += usize::from(matches!(**link, Outgoing::Up(_)));
    }
    (sending, state.incoming.iter().flatten().count())
}

/// Bytes of payload that passed slots of this rank's connections, both ways.
pub fn copied(links: &Links) -> u64 {
    let state = links.lock();
    let sent = state.outgoing.iter().flatten().map(|link| match &**link {
        Outgoing::Up(link) => link.copied(),
        _ => 0,
    });
    let received = state.incoming.iter().flatten().map(|link| link.copied());
    sent.chain(received).sum()
}

/// Pictures what is under way. It looks, and moves nothing.
pub fn picture(links: &Links) -> Picture {
    let mut state = links.lock();
    let State {
        outgoing,
        incoming,
        active,
        folds,
        ..
    } = &mut *state;
    let mut live = Vec::new();
    for args in &active.list {
        for sub in args.subs.iter().filter(|sub| !sub.done) {
            let found = match fold_of(&links.ends, folds.len(), sub.channel) {
                Some(fold) => Some(folds[fold].counts(args.direction)),
                None => up((outgoing, incoming), args.direction, sub.link),
            };
            let counts = found.unwrap_or_default().within(sub.start, sub.end);
            live.push(Live {
                launch: args.launch,
                direction: args.direction,
                peer: sub.peer,
                channel: sub.channel,
                is_connected: found.is_some(),
                slots: sub.end - sub.start,
                slot_bytes: links.ends.shape(sub.peer, sub.channel).slot_bytes - super::SPARE_BYTES,
                posted: counts.posted,
                full: counts.full,
                transmitted: counts.transmitted,
                done: counts.done,
            });
        }
    }
    Picture {
        rank: Rank(links.me as u32),
        net: links.ends.net.name().to_string(),
        taken: active.taken,
        waiting: links.posted.len(),
        live,
    }
}
