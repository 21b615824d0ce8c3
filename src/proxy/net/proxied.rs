//! Connections that a rank moves for other ranks of its node.
//!
//! **Problem.** The rank nearest to a NIC is not always the one that has something to send, and
//! whoever has something to send may be computing while the network has room.
//!
//! **Idea.** What a rank sends lies in slots that all ranks of its node can read. So another one,
//! its *proxy rank*, can move it to the network: it runs an engine of its own in the sender's name,
//! on its progress thread, and the sender tells it by way of the services how many slots each
//! launch will pass. The sender's executor notices no difference, nor does the receiver. (PXN in
//! the field's words; receivers never need it, as they may listen wherever they are near.)
//!
//! Path: executor -> slot -> engine of the proxy rank, woken by the services -> network.
//!
//! **The end.** A rank that leaves tells its proxy ranks and waits until all has arrived. A proxy
//! rank may leave before them: the engines live on, and so does the watch over its process, until
//! the last of those who may send through it has left.

use super::closing::Closing;
use super::live::{self, Picture};
use super::{Links, Op};
use crate::base::{Error, Rank, own_thread};
use crate::proxy::progress::{Engine, NAP, Pass, Rest, Work};
use crate::proxy::service::{ProxyRank, Watch};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The communicator, as engines for others see it.
pub trait Owner: Send + Sync {
    /// Whether it has stopped, for any reason but that this rank has left it. Called under locks:
    /// looks, and drops nothing.
    fn is_stopped(&self) -> bool;

    /// A connection has failed; `error.rank` is who sends over it. May wait for news of why.
    fn failed(&self, error: Error);
}

/// Makes the engine for a rank, once.
pub type Make = Box<dyn Fn(Rank) -> Option<Links> + Send + Sync>;

/// The engine for one rank.
struct ProxiedSender {
    /// Its connections, once the rank sends nothing more. Before `links`, which keep the memory.
    closing: Mutex<Option<Closing>>,
    /// Operations that the engine has not taken over yet.
    backlog: Mutex<VecDeque<Op>>,
    links: Links,
    fate: Arc<Fate>,
}

/// State that all engines share.
#[derive(Default)]
struct Fate {
    given_up: AtomicBool,
    owner: OnceLock<Arc<dyn Owner>>,
}

impl Fate {
    /// Whether the others know that nothing moves any more.
    fn is_told(&self) -> bool {
        let given_up = || self.given_up.load(Ordering::Acquire);
        self.owner.get().map_or_else(given_up, |it| it.is_stopped())
    }

    /// Whether nothing moves any more.
    fn is_over(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
            || self.owner.get().is_some_and(|owner| owner.is_stopped())
    }
}

/// The ranks that send through this rank.
struct Senders {
    engines: BTreeMap<Rank, Arc<ProxiedSender>>,
    /// Those who may still send.
    open: BTreeSet<Rank>,
    /// The watch of this rank, once it has left itself.
    watch: Option<Watch>,
}

/// Engines of the ranks of its node that send through this rank.
pub struct ProxiedSenders {
    make: Make,
    senders: Mutex<Senders>,
    fate: Arc<Fate>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ProxiedSenders {
    /// For these ranks.
    pub fn new(senders: BTreeSet<Rank>, make: Make) -> ProxiedSenders {
        ProxiedSenders {
            make,
            senders: Mutex::new(Senders {
                engines: BTreeMap::new(),
                open: senders,
                watch: None,
            }),
            fate: Arc::default(),
        }
    }

    /// Whose engines these are; only the first call counts.
    pub fn belong_to(&self, owner: Arc<dyn Owner>) {
        let _ = self.fate.owner.set(owner);
    }

    /// The rank leaves: its watch is kept as long as others may send.
    pub fn leave(&self, watch: Watch) {
        let mut senders = lock(&self.senders);
        if !senders.open.is_empty() && !self.fate.is_over() {
            senders.watch = Some(watch);
            return;
        }
        drop(senders);
        drop(watch);
    }

    /// The communicator has stopped: nothing moves any more.
    pub fn give_up(&self) {
        self.fate.given_up.store(true, Ordering::Release);
        let mut senders = lock(&self.senders);
        let engines = std::mem::take(&mut senders.engines);
        senders.open.clear();
        let watch = senders.watch.take();
        drop(senders);
        close_aside(engines.into_values().collect());
        drop(watch);
    }

    /// Connections that are up, of all who send through this rank.
    pub fn connections(&self) -> usize {
        let engines: Vec<_> = lock(&self.senders).engines.values().cloned().collect();
        engines
            .iter()
            .map(|it| live::connections(&it.links).0)
            .sum()
    }

    /// Whether others may still send through this rank.
    pub fn has_open(&self) -> bool {
        !lock(&self.senders).open.is_empty()
    }

    /// Pictures what is under way, for each rank that sends through this one.
    pub fn pictures(&self) -> Vec<Picture> {
        let engines: Vec<_> = lock(&self.senders).engines.values().cloned().collect();
        engines.iter().map(|it| live::picture(&it.links)).collect()
    }

    fn engine(&self, from: Rank) -> Option<Arc<ProxiedSender>> {
        lock(&self.senders).engines.get(&from).cloned()
    }

    /// These send nothing more.
    fn close(&self, ranks: &[Rank]) {
        let mut senders = lock(&self.senders);
        let mut ended = Vec::new();
        for rank in ranks {
            ended.extend(senders.engines.remove(rank));
            senders.open.remove(rank);
        }
        let watch = match senders.open.is_empty() {
            true => senders.watch.take(),
            false => None,
        };
        drop(senders);
        close_aside(ended);
        // It may be what keeps this alive, and locks what its holder may have locked.
        drop(watch);
    }
}

/// Ends engines. Connections that are given up in the middle of something may take their time to
/// close, for which the service thread and callers cannot wait.
fn close_aside(engines: Vec<Arc<ProxiedSender>>) {
    if engines.is_empty() {
        return;
    }
    let close = move || {
        for engine in engines {
            // In this order, what is closed last is closed here.
            engine.links.close(true);
            drop(lock(&engine.closing).take());
        }
    };
    let builder = std::thread::Builder::new().name("kolo closing".into());
    // Where no thread can be made, the process is about to end for other reasons.
    drop(own_thread::start(builder, close));
}

impl ProxyRank for ProxiedSenders {
    fn start(&self, from: Rank, op: Op) {
        let mut senders = lock(&self.senders);
        if self.fate.is_over() || !senders.open.contains(&from) {
            return;
        }
        let known = senders.engines.get(&from).cloned();
        let made = || {
            Some(Arc::new(ProxiedSender {
                links: (self.make)(from)?,
                backlog: Mutex::default(),
                closing: Mutex::default(),
                fate: Arc::clone(&self.fate),
            }))
        };
        let Some(engine) = known.or_else(made) else {
            return;
        };
        senders.engines.insert(from, Arc::clone(&engine));
        drop(senders);
        if !engine.links.knows(&op) {
            return;
        }
        lock(&engine.backlog).push_back(op);
        Engine::global().add(engine as Arc<dyn Work>);
    }

    fn is_done(&self, from: Rank) -> bool {
        let engine = self.engine(from);
        if engine.is_some_and(|engine| !engine.is_done()) {
            return false;
        }
        self.close(&[from]);
        true
    }

    fn gone(&self, ranks: &[Rank]) {
        self.close(ranks);
    }

    fn left_open(&self) -> Vec<Rank> {
        let senders = lock(&self.senders);
        match senders.watch.is_some() && !self.fate.is_told() {
            true => senders.open.iter().copied().collect(),
            false => Vec::new(),
        }
    }
}

impl ProxiedSender {
    /// Whether all that was begun has arrived. Once asked, nothing more is begun.
    fn is_done(&self) -> bool {
        if self.links.failed() || self.fate.is_over() {
            return true;
        }
        if !lock(&self.backlog).is_empty() || self.links.is_busy() {
            return false;
        }
        let mut closing = lock(&self.closing);
        let closing = closing.get_or_insert_with(|| self.links.end());
        closing.is_settled()
    }
}

impl Work for ProxiedSender {
    fn pass(&self) -> Pass {
        if self.fate.is_over() {
            return Pass::Idle;
        }
        let mut backlog = lock(&self.backlog);
        while let Some(op) = backlog.pop_front() {
            if let Err(op) = self.links.offer(op) {
                backlog.push_front(op);
                break;
            }
        }
        drop(backlog);
        let passed = self.links.pass();
        if let Some(error) = self.links.failure() {
            self.tell(error);
        }
        passed
    }

    fn broken(&self, error: Error) {
        self.tell(error);
    }

    /// Its rank fills slots without a sign.
    fn rest<'a>(&'a self, rest: &mut Rest<'a>) {
        rest.network(|set| live::watch(&self.links, set));
        rest.at_most(NAP);
    }
}

impl ProxiedSender {
    /// Has the owner hear of a failure, once.
    fn tell(&self, error: Error) {
        if !self.fate.given_up.swap(true, Ordering::AcqRel)
            && let Some(owner) = self.fate.owner.get().cloned()
        {
            // Whoever drives must not wait for news.
            let builder = std::thread::Builder::new().name("kolo failure".into());
            let told = owner.clone();
            let late = error.clone();
            if own_thread::start(builder, move || told.failed(error)).is_err() {
                owner.failed(late);
            }
        }
    }
}

impl std::fmt::Debug for ProxiedSenders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let senders = lock(&self.senders);
        write!(f, "ProxiedSenders(ranks {:?})", senders.open)
    }
}
