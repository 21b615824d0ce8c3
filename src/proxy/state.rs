//! State of the service: links to other processes, communicators, and who waits for what.
//!
//! **Terms.** A *link* is one connection with another process. A process opens links to processes
//! with smaller addresses and accepts them from those with larger ones, so there is one link for a
//! pair, whatever ranks the two have in how many communicators. A link is *known* once the other
//! side has shown the nonce of a communicator of this process; strangers have a few seconds for
//! that. A link's *uses* say which ranks of which communicators live and die with it. A *watcher*
//! is a rank of this process that wants to hear of deaths in its communicator.
//!
//! [`State`] is the table of all that, and what callers ask of it. Above it stand the functions
//! that change several entries at once: messages that come (`incoming`), ranks that leave
//! (`leaving`) and lookouts that stay then (`posts`), calls for others (`proxied`), the exit
//! (`exits`).
//!
//! Nothing here waits. Only the service thread closes links, because it polls their descriptors.

use super::frame::{Frame, ServiceKind};
use super::inquiry::Inquiry;
use super::socket::{self, Address};
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
    /// Questions from outside and whose they are, to be handed over outside all locks.
    pub questions: Vec<(Inquiry, Fd)>,
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
        if let Some(watcher) = self.watcher(nonce, id) {
            watcher.on_alarm = Some(on_alarm);
        }
    }

    /// From now on a watcher's rank sends for others.
    pub fn serve(&mut self, nonce: Nonce, id: u64, proxy: Arc<dyn ProxyRank>) {
        if let Some(watcher) = self.watcher(nonce, id) {
            watcher.proxy = Some(proxy);
        }
    }

    /// Has `on_end` called when this process exits with status 0.
    pub fn at_end(&mut self, nonce: Nonce, id: u64, on_end: OnEnd) {
        if let Some(watcher) = self.watcher(nonce, id) {
            watcher.on_end = Some(on_end);
        }
    }

    fn watcher(&mut self, nonce: Nonce, id: u64) -> Option<&mut Watcher> {
        let mut watchers = self.watchers.get_mut(&nonce)?.iter_mut();
        watchers.find(|watcher| watcher.id == id)
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

    /// Ranks are gone: those who send for them hear of it, outside all locks.
    fn tell_gone(&mut self, nonce: Nonce, ranks: &[Rank]) {
        let watchers = self.watchers.get(&nonce).into_iter().flatten();
        let proxies = watchers.filter_map(|watcher| watcher.proxy.as_ref());
        self.gone
            .extend(proxies.map(|proxy| (proxy.clone(), ranks.to_vec())));
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
}

mod alarm;
pub(super) mod exits;
pub(super) mod incoming;
pub(super) mod leaving;
mod link;
mod offer;
pub(super) mod posts;
pub(super) mod proxied;
mod proxy_rank;

use alarm::Post;
pub use alarm::{Alarm, EndStep, OnAlarm, OnDeath, OnEnd, Staying};
use link::ProcessLink;
pub use offer::Maker;
pub(super) use offer::Offer;
pub use proxy_rank::{ByProxy, ProxyRank, Start};
use proxy_rank::{Started, Unfinished};

#[cfg(test)]
mod posts_tests;
#[cfg(test)]
mod proxied_tests;
#[cfg(test)]
mod tests;
