//! Connections that a rank moves for other ranks of its node.
//!
//! **Problem.** The rank nearest to a NIC is not always the one that has something to send, and
//! many ranks with a connection each to many ranks of another node are many connections.
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
use super::{Links, Op};
use crate::base::{Error, Rank};
use crate::proxy::progress::{Engine, Pass, Work};
use crate::proxy::service::{ProxyRank, Watch};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Called when a connection has failed, on the progress thread. It must not block.
pub type OnFailure = Box<dyn Fn(&Error) + Send + Sync>;

/// Makes the engine for a rank, once.
pub type Make = Box<dyn Fn(Rank) -> Option<Links> + Send + Sync>;

/// The engine for one rank.
struct Stand {
    links: Links,
    /// What the engine has not taken over yet.
    backlog: Mutex<VecDeque<Op>>,
    /// Its connections, once the rank sends nothing more.
    closing: Mutex<Option<Closing>>,
    whole: Arc<Fate>,
}

/// What concerns all engines.
#[derive(Default)]
struct Fate {
    given_up: AtomicBool,
    on_failure: OnceLock<OnFailure>,
}

/// What is known of those who send through this rank.
struct Senders {
    stands: BTreeMap<Rank, Arc<Stand>>,
    /// Those who may still send.
    open: BTreeSet<Rank>,
    /// The watch of this rank, once it has left itself.
    watch: Option<Watch>,
}

/// What a rank does for the ranks of its node that send through it.
pub struct Behalf {
    make: Make,
    senders: Mutex<Senders>,
    whole: Arc<Fate>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Behalf {
    /// For these ranks.
    pub fn new(senders: BTreeSet<Rank>, make: Make) -> Behalf {
        Behalf {
            make,
            senders: Mutex::new(Senders {
                stands: BTreeMap::new(),
                open: senders,
                watch: None,
            }),
            whole: Arc::default(),
        }
    }

    /// Who hears of connections that fail; only the first call counts.
    pub fn on_failure(&self, on_failure: OnFailure) {
        let _ = self.whole.on_failure.set(on_failure);
    }

    /// The rank leaves: its watch is kept as long as others may send.
    pub fn leave(&self, watch: Watch) {
        let mut senders = lock(&self.senders);
        if !senders.open.is_empty() && !self.has_given_up() {
            senders.watch = Some(watch);
            return;
        }
        drop(senders);
        drop(watch);
    }

    /// The communicator has stopped: nothing moves any more.
    pub fn give_up(&self) {
        self.whole.given_up.store(true, Ordering::Release);
        let mut senders = lock(&self.senders);
        let stands = std::mem::take(&mut senders.stands);
        senders.open.clear();
        let watch = senders.watch.take();
        drop(senders);
        for stand in stands.values() {
            stand.links.close(true);
        }
        drop(watch);
    }

    /// Connections that are up, of all who send through this rank.
    pub fn connections(&self) -> usize {
        let stands: Vec<_> = lock(&self.senders).stands.values().cloned().collect();
        stands.iter().map(|it| it.links.connections().0).sum()
    }

    fn has_given_up(&self) -> bool {
        self.whole.given_up.load(Ordering::Acquire)
    }

    fn stand(&self, from: Rank) -> Option<Arc<Stand>> {
        lock(&self.senders).stands.get(&from).cloned()
    }

    /// These send nothing more.
    fn close(&self, ranks: &[Rank]) {
        let mut senders = lock(&self.senders);
        let mut ended = Vec::new();
        for rank in ranks {
            ended.extend(senders.stands.remove(rank));
            senders.open.remove(rank);
        }
        let watch = match senders.open.is_empty() {
            true => senders.watch.take(),
            false => None,
        };
        drop(senders);
        for stand in ended {
            stand.links.close(true);
        }
        // It may be what keeps this alive, and locks what its holder may have locked.
        drop(watch);
    }
}

impl ProxyRank for Behalf {
    fn start(&self, from: Rank, op: Op) {
        let mut senders = lock(&self.senders);
        if self.has_given_up() || !senders.open.contains(&from) {
            return;
        }
        let known = senders.stands.get(&from).cloned();
        let made = || {
            Some(Arc::new(Stand {
                links: (self.make)(from)?,
                backlog: Mutex::default(),
                closing: Mutex::default(),
                whole: Arc::clone(&self.whole),
            }))
        };
        let Some(stand) = known.or_else(made) else {
            return;
        };
        senders.stands.insert(from, Arc::clone(&stand));
        drop(senders);
        lock(&stand.backlog).push_back(op);
        Engine::global().add(stand as Arc<dyn Work>);
    }

    fn is_done(&self, from: Rank) -> bool {
        let stand = self.stand(from);
        if stand.is_some_and(|stand| !stand.is_done()) {
            return false;
        }
        self.close(&[from]);
        true
    }

    fn gone(&self, ranks: &[Rank]) {
        self.close(ranks);
    }

    fn is_left_open(&self) -> bool {
        let senders = lock(&self.senders);
        senders.watch.is_some() && !senders.open.is_empty()
    }
}

impl Stand {
    /// Whether all that was begun has arrived. Once asked, nothing more is begun.
    fn is_done(&self) -> bool {
        if self.links.failed() || self.whole.given_up.load(Ordering::Acquire) {
            return true;
        }
        if !lock(&self.backlog).is_empty() || self.links.is_busy() {
            return false;
        }
        let mut closing = lock(&self.closing);
        let closing = closing.get_or_insert_with(|| self.links.end());
        closing.late().is_none()
    }
}

impl Work for Stand {
    fn pass(&self) -> Pass {
        let mut backlog = lock(&self.backlog);
        while let Some(op) = backlog.pop_front() {
            if let Err(op) = self.links.offer(op) {
                backlog.push_front(op);
                break;
            }
        }
        drop(backlog);
        let passed = self.links.pass();
        if let Some(error) = self.links.failure()
            && !self.whole.given_up.swap(true, Ordering::AcqRel)
            && let Some(on_failure) = self.whole.on_failure.get()
        {
            on_failure(&error);
        }
        passed
    }
}

impl std::fmt::Debug for Behalf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let senders = lock(&self.senders);
        write!(f, "Behalf(of ranks {:?})", senders.open)
    }
}
