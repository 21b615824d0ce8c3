//! State of the service: links to other processes, communicators, and who waits for what.
//!
//! **Terms.** A *link* is one connection with another process. A process opens links to processes
//! with smaller addresses and accepts them from those with larger ones, so there is one link for a
//! pair, whatever ranks the two have in how many communicators. A link is *known* once the other
//! side has shown the nonce of a communicator of this process; strangers have a few seconds for
//! that. A link's *uses* say which ranks of which communicators live and die with it. A *watcher*
//! is a rank of this process that wants to hear of deaths in its communicator.
//!
//! Nothing here waits. Only the service thread closes links, because it polls their descriptors.

use super::frame::{Frame, ServiceKind};
use super::socket::{self, Address, Received};
use crate::base::Rank;
use crate::base::clock::Moment;
use crate::transport::fork::Fd;
use crate::transport::segment::{Key, Nonce};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// How long a stranger may stay connected.
pub(super) const STRANGER_LIMIT: Duration = Duration::from_secs(5);
/// How many strangers may be connected; the oldest goes first.
const STRANGER_COUNT: usize = 256;
/// How many messages of one link are read before the others get their turn.
const READ_COUNT: usize = 64;

/// A process at the other end, as the ranks of a new communicator know it.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Where its service listens.
    pub address: Address,
    /// Its process number, for messages.
    pub pid: u32,
    /// Its ranks in the communicator.
    pub ranks: Vec<Rank>,
}

struct Watcher {
    id: u64,
    rank: Rank,
    node: String,
    on_death: OnDeath,
    on_alarm: Option<OnAlarm>,
    /// Sends for other ranks of the node, if this rank does.
    proxy: Option<Arc<dyn ProxyRank>>,
    /// Called when this process exits with status 0.
    on_end: Option<OnEnd>,
}

/// A callback to be made, outside all locks.
pub(super) struct Death {
    pub on_death: OnDeath,
    pub ranks: Vec<Rank>,
    pub text: String,
}

/// How a `Hello` ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Welcome,
    Refused,
    /// The other process has no file descriptor left, of so many that it may have.
    NoRoom(u64),
    /// The link ended first.
    Lost,
}

struct Pending {
    link: u64,
    nonce: Nonce,
    ranks: Vec<Rank>,
    answer: Option<Answer>,
}

#[derive(Default)]
pub(super) struct State {
    pub links: BTreeMap<u64, ProcessLink>,
    watchers: HashMap<Nonce, Vec<Watcher>>,
    published: HashMap<Key, Offer>,
    pending: HashMap<u64, Pending>,
    last_number: u64,
    /// Turns of the service thread that have ended.
    pub turns: u64,
    /// Callbacks to be made, outside all locks.
    pub alarms: Vec<(OnAlarm, Alarm)>,
    /// Operations that ranks of other processes send through ranks of this one, to be handed over
    /// outside all locks.
    pub started: Vec<Started>,
    /// Requests that take their time.
    pub unfinished: Vec<Unfinished>,
    /// Who sends for ranks that are gone, to be told outside all locks.
    pub gone: Vec<(Arc<dyn ProxyRank>, Vec<Rank>)>,
    /// Lookouts that stay though their ranks have left.
    posts: HashMap<Nonce, Vec<Post>>,
    /// Those who need not stay any more, to be told outside all locks.
    pub relieved: Vec<Arc<dyn Staying>>,
    /// Set when the system had no descriptor left for a new connection.
    pub accept_paused: Option<Moment>,
    /// A descriptor that is held in reserve: see `service::spare`.
    pub spare: Option<Fd>,
}

impl State {
    /// A number not given before: names links, watchers and operations.
    pub fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    // ---- what callers ask for ----

    pub fn publish(&mut self, key: Key, offer: Offer) {
        self.published.insert(key, offer);
    }

    pub fn unpublish(&mut self, key: Key) {
        self.published.remove(&key);
    }

    pub fn watch(&mut self, nonce: Nonce, rank: Rank, node: &str, on_death: OnDeath) -> u64 {
        let id = self.number();
        self.watchers.entry(nonce).or_default().push(Watcher {
            id,
            rank,
            node: node.to_owned(),
            on_death,
            on_alarm: None,
            proxy: None,
            on_end: None,
        });
        id
    }

    pub fn heed(&mut self, nonce: Nonce, id: u64, on_alarm: OnAlarm) {
        let watchers = self.watchers.get_mut(&nonce).into_iter().flatten();
        for watcher in watchers.filter(|watcher| watcher.id == id) {
            watcher.on_alarm = Some(on_alarm.clone());
        }
    }

    /// Raises an alarm everywhere else; those of this process are to be called.
    pub fn alarm(&mut self, nonce: Nonce, why: Alarm) -> Vec<OnAlarm> {
        let frame = Frame::new(ServiceKind::Alarm, why as u64, nonce.0);
        for link in self.links.values_mut() {
            if link.uses.contains_key(&nonce) {
                link.post(frame);
            }
        }
        self.heeding(nonce)
    }

    /// Who is to be called in this process when there is an alarm.
    fn heeding(&self, nonce: Nonce) -> Vec<OnAlarm> {
        let watchers = self.watchers.get(&nonce).into_iter().flatten();
        let posts = self.posts.get(&nonce).into_iter().flatten();
        watchers
            .filter_map(|watcher| watcher.on_alarm.clone())
            .chain(posts.map(|post| post.on_alarm.clone()))
            .collect()
    }

    /// Ends a watch: says goodbye to everyone who knows the rank, and lets go of links that no
    /// communicator of this process needs any more.
    pub fn unwatch(&mut self, nonce: Nonce, id: u64) {
        let Some(watchers) = self.watchers.get_mut(&nonce) else {
            return;
        };
        let Some(at) = watchers.iter().position(|watcher| watcher.id == id) else {
            return;
        };
        let rank = watchers.swap_remove(at).rank;
        let mut last = watchers.is_empty();
        if last {
            self.watchers.remove(&nonce);
            // Who stays still hears of the others.
            last = !self.posts.contains_key(&nonce);
        }
        self.tell_gone(nonce, &[rank]);
        let mut bye = Frame::new(ServiceKind::Bye, 0, nonce.0);
        bye.rank = rank.0;
        for link in self.links.values_mut() {
            if link.uses.contains_key(&nonce) {
                link.post(bye);
            }
            if last {
                link.uses.remove(&nonce);
            }
        }
        self.close_unused();
        self.relieve(nonce);
    }

    /// Marks links that this process opened and no longer needs.
    fn close_unused(&mut self) {
        for (id, link) in &mut self.links {
            let awaited = self.pending.values().any(|pending| pending.link == *id);
            if link.address.is_some() && link.uses.is_empty() && !awaited {
                link.closing = true;
            }
        }
    }

    /// Introduces `rank` to `peer` over the link to it, which is made if there is none. The number
    /// returned is the operation whose `answer` to wait for. Errors are those of
    /// [`socket::connect`].
    pub fn hello(&mut self, nonce: Nonce, rank: Rank, pid: u32, peer: &Peer) -> io::Result<u64> {
        let open = |link: &ProcessLink| link.address == Some(peer.address) && !link.closing;
        let found = self.links.iter().find(|(_, link)| open(link));
        let link_id = match found.map(|(id, _)| *id) {
            Some(id) => id,
            None => {
                let fd = socket::connect(&peer.address)?;
                let id = self.number();
                let link = ProcessLink::new(fd, Some(peer.address), peer.pid);
                self.links.insert(id, link);
                id
            }
        };
        let operation = self.number();
        let pending = Pending {
            link: link_id,
            nonce,
            ranks: peer.ranks.clone(),
            answer: None,
        };
        self.pending.insert(operation, pending);
        let mut frame = Frame::new(ServiceKind::Hello, operation, nonce.0);
        frame.rank = rank.0;
        frame.pid = pid;
        if let Some(link) = self.links.get_mut(&link_id) {
            link.post(frame);
        }
        Ok(operation)
    }

    /// The answer to an operation, once; `None` while it is awaited.
    pub fn answer(&mut self, operation: u64) -> Option<Answer> {
        let answer = self.pending.get(&operation)?.answer?;
        self.pending.remove(&operation);
        self.close_unused();
        Some(answer)
    }

    /// Nobody waits for the answer to this operation any more.
    pub fn forget(&mut self, operation: u64) {
        self.pending.remove(&operation);
        self.close_unused();
    }

    /// Whom to tell that this process's own service has failed: every watcher.
    pub fn own_failure(&self, text: &str) -> Vec<Death> {
        let told = |watcher: &Watcher| Death {
            on_death: watcher.on_death.clone(),
            ranks: Vec::new(),
            text: text.to_owned(),
        };
        self.watchers.values().flatten().map(told).collect()
    }

    // ---- what the service thread sees ----

    /// Takes in a connection; if there are too many strangers, the oldest leaves.
    pub fn accepted(&mut self, fd: Fd) {
        let id = self.number();
        self.links.insert(id, ProcessLink::new(fd, None, 0));
        let strangers = self.links.iter().filter(|(_, link)| !link.known);
        let strangers: Vec<u64> = strangers.map(|(id, _)| *id).collect();
        if strangers.len() > STRANGER_COUNT {
            self.links.remove(&strangers[0]);
        }
    }

    /// Drops strangers whose time is over and links that are done with.
    pub fn sweep(&mut self) {
        let past = |moment: Moment| moment.past(STRANGER_LIMIT);
        self.links.retain(|_, link| {
            let done = link.closing && link.out.is_empty();
            !done && !link.stranger_since().is_some_and(past)
        });
    }

    pub fn writable(&mut self, id: u64) {
        if let Some(link) = self.links.get_mut(&id) {
            link.flush();
        }
    }

    /// Reads what has come over a link, and adds the deaths that it tells of.
    pub fn readable(&mut self, id: u64, deaths: &mut Vec<Death>) {
        let mut reset = false;
        for _ in 0..READ_COUNT {
            let Some(link) = self.links.get(&id) else {
                return;
            };
            match socket::receive(&link.fd, false) {
                Ok(Received::Frame(frame, _)) => {
                    if !self.understood(id, &frame) {
                        return self.end(id, End::Garbage, deaths);
                    }
                }
                Ok(Received::Garbage) => return self.end(id, End::Garbage, deaths),
                Ok(Received::End) => return self.end(id, End::Closed, deaths),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return,
                    io::ErrorKind::Interrupted => {}
                    // The other side closed before it had read all from here. This error comes
                    // once, *before* messages that still wait, and a goodbye may be among them.
                    io::ErrorKind::ConnectionReset if !reset => reset = true,
                    _ => return self.end(id, End::Closed, deaths),
                },
            }
        }
    }

    /// Acts on a message; false if its sender had no right to it or makes no sense.
    fn understood(&mut self, id: u64, frame: &Frame) -> bool {
        let nonce = Nonce(frame.secret);
        let is_ours = self.watchers.contains_key(&nonce);
        let Some(link) = self.links.get_mut(&id) else {
            return false;
        };
        match frame.kind {
            ServiceKind::Hello if link.address.is_none() => {
                if !is_ours && !link.known {
                    return false;
                }
                let answer = if is_ours {
                    link.known = true;
                    link.pid = frame.pid;
                    link.uses.entry(nonce).or_default().insert(Rank(frame.rank));
                    ServiceKind::Welcome
                } else {
                    ServiceKind::Refused
                };
                link.post(Frame::new(answer, frame.operation, 0));
            }
            ServiceKind::Welcome | ServiceKind::Refused if link.address.is_some() => {
                let welcome = frame.kind == ServiceKind::Welcome;
                self.answered(id, frame.operation, welcome);
            }
            ServiceKind::NoRoom if link.address.is_some() => {
                return self.turned_away(id, frame.slots);
            }
            ServiceKind::GetFd if link.address.is_none() => {
                return offer::hand_over(&self.published, &link.fd, frame);
            }
            ServiceKind::Start if link.known => return self.start_came(id, frame),
            ServiceKind::Close if link.known => self.close_came(id, frame),
            ServiceKind::Closed if link.known => self.closed_came(id, frame.operation),
            ServiceKind::Bye if link.known => {
                if let Some(ranks) = link.uses.get_mut(&nonce) {
                    ranks.remove(&Rank(frame.rank));
                }
                // Whoever left in good order has waited for what others sent.
                self.tell_gone(nonce, &[Rank(frame.rank)]);
                self.relieve(nonce);
            }
            ServiceKind::Leaving if link.known => {
                link.leaving = Some(frame.operation as u32 as i32);
                let uses = link.uses.iter();
                let uses: Vec<_> = uses
                    .map(|(nonce, ranks)| (*nonce, Vec::from_iter(ranks.iter().copied())))
                    .collect();
                for (nonce, ranks) in uses {
                    self.tell_gone(nonce, &ranks);
                }
            }
            ServiceKind::Alarm if link.known => {
                let why = match frame.operation {
                    1 => Alarm::Abort,
                    2 => Alarm::Ask,
                    _ => return false,
                };
                let called = self.heeding(nonce).into_iter();
                self.alarms.extend(called.map(|on_alarm| (on_alarm, why)));
            }
            _ => return false,
        }
        true
    }

    /// The first word on this link, and, as this is false, the last.
    fn turned_away(&mut self, link_id: u64, limit: u64) -> bool {
        let waiting = self.pending.values_mut();
        for pending in waiting.filter(|pending| pending.link == link_id) {
            pending.answer = Some(Answer::NoRoom(limit));
        }
        false
    }

    fn answered(&mut self, link_id: u64, operation: u64, welcome: bool) {
        let Some(pending) = self.pending.get_mut(&operation) else {
            return;
        };
        if pending.link != link_id || pending.answer.is_some() {
            return;
        }
        if !welcome {
            pending.answer = Some(Answer::Refused);
            return;
        }
        pending.answer = Some(Answer::Welcome);
        if let Some(link) = self.links.get_mut(&link_id)
            && self.watchers.contains_key(&pending.nonce)
        {
            let ranks = pending.ranks.iter().copied();
            link.uses.entry(pending.nonce).or_default().extend(ranks);
        }
    }

    /// A link is over: whoever waits for an answer gets none, and the ranks behind it that have
    /// not said goodbye are dead to the watchers of their communicators.
    fn end(&mut self, id: u64, why: End, deaths: &mut Vec<Death>) {
        let Some(link) = self.links.remove(&id) else {
            return;
        };
        for pending in self.pending.values_mut() {
            if pending.link == id {
                pending.answer.get_or_insert(Answer::Lost);
            }
        }
        let fate = why.fate(link.leaving);
        for (nonce, ranks) in link.uses.iter().filter(|(_, ranks)| !ranks.is_empty()) {
            let all: Vec<Rank> = ranks.iter().copied().collect();
            self.tell_gone(*nonce, &all);
            let watchers = self.watchers.get(nonce).into_iter().flatten();
            let posts = self.posts.get(nonce).into_iter().flatten();
            let told = watchers
                .map(|watcher| (&watcher.on_death, &watcher.node))
                .chain(posts.map(|post| (&post.on_death, &post.node)));
            for (on_death, node) in told {
                deaths.push(Death {
                    on_death: on_death.clone(),
                    ranks: all.clone(),
                    text: format!("process {} on {node} {fate}", link.pid),
                });
            }
        }
        link.uses.keys().for_each(|nonce| self.relieve(*nonce));
    }
}

mod alarm;
mod exits;
mod link;
mod offer;
mod posts;
mod proxied;
mod proxy_rank;

use alarm::Post;
pub use alarm::{Alarm, EndStep, OnAlarm, OnDeath, OnEnd, Staying};
use link::{End, ProcessLink};
pub use offer::Maker;
pub(super) use offer::Offer;
pub use proxy_rank::{ProxyRank, Start};
use proxy_rank::{Started, Unfinished};

#[cfg(test)]
mod posts_tests;
#[cfg(test)]
mod proxied_tests;
#[cfg(test)]
mod tests;
