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
use super::{Links, Op};
use crate::base::{Error, Rank, own_thread};
use crate::proxy::progress::{Engine, Pass, Work};
use crate::proxy::service::{ProxyRank, Watch};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// What engines for others need to know of their communicator, and tell it.
pub trait Concern: Send + Sync {
    /// Whether it has stopped, for any reason but that this rank has left it.
    fn is_stopped(&self) -> bool;

    /// A connection has failed; `error.rank` is who sends over it. May wait for news of why.
    fn failed(&self, error: Error);
}

/// Makes the engine for a rank, once.
pub type Make = Box<dyn Fn(Rank) -> Option<Links> + Send + Sync>;

/// The engine for one rank.
struct Stand {
    /// Its connections, once the rank sends nothing more. Before `links`, which keep the memory.
    closing: Mutex<Option<Closing>>,
    /// What the engine has not taken over yet.
    backlog: Mutex<VecDeque<Op>>,
    links: Links,
    whole: Arc<Fate>,
}

/// What concerns all engines.
#[derive(Default)]
struct Fate {
    given_up: AtomicBool,
    concern: OnceLock<Arc<dyn Concern>>,
}

impl Fate {
    /// Whether nothing moves any more.
    fn is_over(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
            || self.concern.get().is_some_and(|it| it.is_stopped())
    }
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

    /// Whose engines these are; only the first call counts.
    pub fn belong_to(&self, concern: Arc<dyn Concern>) {
        let _ = self.whole.concern.set(concern);
    }

    /// The rank leaves: its watch is kept as long as others may send.
    pub fn leave(&self, watch: Watch) {
        let mut senders = lock(&self.senders);
        if !senders.open.is_empty() && !self.whole.is_over() {
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
        drop_aside(stands.into_values().collect());
        drop(watch);
    }

    /// Connections that are up, of all who send through this rank.
    pub fn connections(&self) -> usize {
        let stands: Vec<_> = lock(&self.senders).stands.values().cloned().collect();
        stands.iter().map(|it| it.links.connections().0).sum()
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
        drop_aside(ended);
        // It may be what keeps this alive, and locks what its holder may have locked.
        drop(watch);
    }
}

/// Ends engines. Connections that are given up in the middle of something may take their time to
/// close, for which the service thread and callers cannot wait.
fn drop_aside(stands: Vec<Arc<Stand>>) {
    if stands.is_empty() {
        return;
    }
    let close = move || stands.iter().for_each(|stand| stand.links.close(true));
    let builder = std::thread::Builder::new().name("kolo closing".into());
    // Where no thread can be made, the process is about to end for other reasons.
    drop(own_thread::start(builder, close));
}

impl ProxyRank for Behalf {
    fn start(&self, from: Rank, op: Op) {
        let mut senders = lock(&self.senders);
        if self.whole.is_over() || !senders.open.contains(&from) {
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
        if !stand.links.knows(&op) {
            return;
        }
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

    fn left_open(&self) -> Vec<Rank> {
        let senders = lock(&self.senders);
        match senders.watch.is_some() && !self.whole.is_over() {
            true => senders.open.iter().copied().collect(),
            false => Vec::new(),
        }
    }
}

impl Stand {
    /// Whether all that was begun has arrived. Once asked, nothing more is begun.
    fn is_done(&self) -> bool {
        if self.links.failed() || self.whole.is_over() {
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

impl Work for Stand {
    fn pass(&self) -> Pass {
        if self.whole.is_over() {
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
        if let Some(error) = self.links.failure()
            && !self.whole.given_up.swap(true, Ordering::AcqRel)
            && let Some(concern) = self.whole.concern.get().cloned()
        {
            // Whoever drives must not wait for news.
            let builder = std::thread::Builder::new().name("kolo failure".into());
            let told = concern.clone();
            let late = error.clone();
            if own_thread::start(builder, move || told.failed(error)).is_err() {
                concern.failed(late);
            }
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
