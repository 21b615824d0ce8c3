//! Health of a communicator: whether it still works, and why not.
//!
//! **Problem.** A communicator can end here, on another rank of the node, or on another node, and
//! every call must see that before it touches anything.
//!
//! **Idea.** One look at three words says it ([`Health::is_stopped`]): the own flag, the abort
//! record of the node, and the state of the connections to other nodes. Why it ended is found out
//! afterwards, by whoever has to say it ([`Health::stop_error`]). The boards, on which each rank
//! notes its calls and its end, belong here too.

use super::failing::deaths::Deaths;
use super::failing::gone;
use super::failing::whereabouts::Whereabouts;
use super::identity::Identity;
use super::network::Network;
use crate::base::{Error, Result};
use crate::proxy::Watch;
use crate::proxy::net::Links;
use crate::proxy::service::{self, Alarm};
use crate::transport::fork;
use crate::transport::node::NodeMemory;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// How far a communicator has come to its end.
#[derive(Default)]
pub(super) struct Ending {
    /// Calls are refused: see [`Health::stop`].
    pub stopped: AtomicBool,
    /// Why.
    pub failure: Mutex<Option<Error>>,
    /// This rank was told why.
    pub told: AtomicBool,
    pub destroyed: AtomicBool,
    /// Only destroy, abort and queries are allowed.
    pub finalized: AtomicBool,
}

/// The rank and call that the call at the head of the queue waits for.
#[derive(Default)]
pub(super) struct Blocked {
    /// The rank.
    pub on: AtomicU32,
    /// The number of the call.
    pub call: AtomicU64,
}

impl Blocked {
    /// The number of the call, if one waits.
    pub fn queued(&self) -> Option<u64> {
        Some(self.call.load(Ordering::Relaxed)).filter(|call| *call != 0)
    }
}

/// Memory and connections that a rank shares with the others, and how far all have come to their
/// end.
pub struct Health {
    pub(super) identity: Identity,
    pub(super) node: NodeMemory,
    /// Connections to ranks on other nodes, if there are any.
    pub(super) network: Option<Network>,
    /// Where this rank is, for who asks from outside.
    pub(super) whereabouts: Arc<Whereabouts>,
    /// How far it has come to its end, and why.
    pub(super) ending: Ending,
    /// The rank and call that the call at the head of the queue waits for.
    pub(super) blocked: Blocked,
    /// Sees the death of peers; dropping it says goodbye.
    pub(super) watch: Mutex<Option<Arc<Watch>>>,
    /// Where news of deaths goes; the communicator that hears of them first does not keep it.
    pub(super) _deaths: Arc<Deaths>,
}

impl Deref for Health {
    type Target = Identity;

    #[inline(always)]
    fn deref(&self) -> &Identity {
        &self.identity
    }
}

impl Health {
    /// The error that stopped the communicator; its place is that of the call which failed.
    #[cold]
    pub(in crate::comm) fn stop_reason(&self) -> Error {
        let failure = self
            .ending
            .failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let reason = failure.clone().unwrap_or_else(|| {
            Error::usage(
                "the communicator was destroyed",
                "create a new communicator",
            )
        });
        self.named(reason)
    }

    /// Refuses calls from now on, for this reason (the first one counts), and tells the others.
    /// In a forked child nobody is told: the communicator is its parent's.
    pub(in crate::comm) fn stop(&self, error: &Error) {
        self.ending.told.store(true, Ordering::Relaxed);
        {
            let mut failure = self
                .ending
                .failure
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert_with(|| self.named(error.clone()));
        }
        self.ending.stopped.store(true, Ordering::Release);
        if !fork::in_child_of_user() {
            self.node.abort(self.rank, error);
            self.alarm(Alarm::Abort);
        }
    }

    /// Has this node's lookout tell the other nodes, or ask them.
    pub(in crate::comm) fn alarm(&self, why: Alarm) {
        // Where there is no service any more, nobody is left to be told.
        if self.network.is_some()
            && let Ok(service) = service::get()
        {
            service.alarm(self.nonce, why);
        }
    }

    /// Connections to ranks on other nodes, if there are any.
    #[inline(always)]
    pub(in crate::comm) fn links(&self) -> Option<&Links> {
        self.network.as_ref().map(|network| &*network.links)
    }

    /// The watch over the processes of the ranks; `None` once this rank has left.
    pub(in crate::comm) fn watch(&self) -> Option<Arc<crate::proxy::Watch>> {
        let watch = self.watch.lock();
        watch.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether it stopped here or elsewhere, or belongs to a parent process: there the shared
    /// memory does not exist and must not be looked at.
    #[inline(always)]
    pub(in crate::comm) fn is_stopped(&self) -> bool {
        self.ending.stopped.load(Ordering::Acquire)
            || fork::in_child_of_user()
            || self.node.aborted()
            || self.links().is_some_and(Links::failed)
    }

    /// Refuses calls on a communicator that does not work any more.
    #[inline(always)]
    pub(in crate::comm) fn alive(&self) -> Result<()> {
        if self.is_stopped() {
            Err(self.tells(self.stop_error().refusing()))
        } else {
            Ok(())
        }
    }

    /// Refuses operations on a communicator that does not work any more, or was finalised.
    #[inline(always)]
    pub(in crate::comm) fn callable(&self) -> Result<()> {
        if self.ending.finalized.load(Ordering::Relaxed) && !self.is_stopped() {
            return Err(Error::usage(
                "the communicator was finalised",
                "make calls before CommFinalize; only CommDestroy is left",
            ));
        }
        self.alive()
    }

    /// Whom the queue waits for.
    pub(in crate::comm) fn blocked_on(&self) -> usize {
        self.blocked.on.load(Ordering::Relaxed) as usize
    }

    /// Says goodbye to the other ranks: from now on this process may end without harm to them.
    pub(in crate::comm) fn leave(&self) {
        let watch = self
            .watch
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        // Idempotent; a clone that is dropped without destroy leaves like any other.
        let board = self.node.board(self.rank as usize);
        board.leave(std::thread::panicking());
        let Some(network) = &self.network else {
            return;
        };
        if let Some(watch) = &watch {
            network.retire(watch);
        }
        // Between nodes nothing is split from it that would have the watch too.
        match (&network.proxied, watch.map(Arc::into_inner)) {
            // The watch lives on as long as others send through this rank.
            (Some(proxied), Some(Some(watch))) => {
                if self.node.aborted() {
                    proxied.give_up();
                }
                proxied.leave(watch);
            }
            (None, watch) => drop(watch),
            (Some(_), _) => {}
        }
        network.close();
        if let Ok(service) = service::get() {
            service::see_off(service, self.nonce);
        }
    }

    /// Whether a rank is another one on this node.
    pub(in crate::comm) fn is_mate(&self, rank: u32) -> bool {
        let remote = |links: &Links| links.is_remote(rank as usize);
        rank != self.rank && !self.links().is_some_and(remote)
    }

    /// The error to report for a network that failed: see [`gone::of_network`].
    pub(in crate::comm) fn of_network(&self, error: Error) -> Option<Error> {
        let ask = || self.alarm(Alarm::Ask);
        gone::of_network(self, &self.node, |rank| self.is_mate(rank), ask, error)
    }

    /// The reason, wherever it happened.
    #[cold]
    pub(in crate::comm) fn stop_error(&self) -> Error {
        if fork::in_child_of_user() {
            let error = Error::usage(
                "this process was forked from the one that made the communicator",
                "make calls only in the process that made the communicator; create communicators \
                 after fork",
            );
            return self.tells(error);
        }
        if let Some(error) = self.links().and_then(Links::failure)
            && !self.ending.stopped.load(Ordering::Acquire)
            && !self.node.aborted()
            && let Some(error) = self.of_network(error)
        {
            self.stop(&error);
        }
        if !self.ending.stopped.load(Ordering::Acquire)
            && let Some(abort) = self.node.abort_reason()
        {
            let mut failure = self
                .ending
                .failure
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(abort);
            self.ending.stopped.store(true, Ordering::Release);
        }
        self.ending.told.store(true, Ordering::Relaxed);
        self.stop_reason()
    }
}

#[cfg(test)]
impl Health {
    /// The healths of ranks that share memory and have no communicators: `yields` before the first
    /// sleep of a wait.
    pub(in crate::comm) fn alone(nranks: u32, yields: u32) -> Vec<Health> {
        use crate::wire::layout::Layout;
        use std::cell::UnsafeCell;

        #[repr(C, align(4096))]
        struct Page(UnsafeCell<[u8; 4096]>);
        // SAFETY: the memory of a node is shared by construction, and `wire` decides who touches
        // what.
        unsafe impl Sync for Page {}

        let layout = Layout {
            ranks: nranks as usize,
            channels: 1,
            slot_bytes: 4096,
            eager_bytes: 4096,
        };
        let pages = (0..layout.total().div_ceil(4096)).map(|_| Page(UnsafeCell::new([0; 4096])));
        let pages: Arc<Vec<Page>> = Arc::new(pages.collect());
        let of_rank = |rank: u32| {
            // All pages lie side by side, and each is written through its cell.
            let base = pages.as_ptr().cast_mut().cast();
            let owner = Arc::clone(&pages);
            let identity = Identity::alone(rank, nranks, yields);
            // SAFETY: zeroed pages, enough of them, that live as long as their `Arc`.
            let node = unsafe { NodeMemory::new(base, layout, rank as usize, owner) };
            Health {
                whereabouts: Arc::new(Whereabouts::new(identity.noting(&node, None))),
                identity,
                node,
                network: None,
                ending: Ending::default(),
                blocked: Blocked::default(),
                watch: Mutex::new(None),
                _deaths: Arc::default(),
            }
        };
        (0..nranks).map(of_rank).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Code;

    #[test]
    fn the_first_reason_counts_on_all_ranks() {
        let [one, two, three] = <[Health; 3]>::try_from(Health::alone(3, 0)).ok().unwrap();
        assert!([&one, &two, &three].iter().all(|it| it.alive().is_ok()));
        let error = |what: &str| Error::new(Code::RemoteError, what, "mend it");
        two.stop(&error("the first"));
        one.stop(&error("the second"));
        for health in [&one, &two, &three] {
            let told = health.alive().unwrap_err().to_string();
            let own = std::ptr::eq(health, &one);
            let words = if own { "the second" } else { "the first" };
            assert!(health.is_stopped() && told.contains(words), "{told}");
            assert!(told.contains(&format!("rank {}", health.rank)), "{told}");
        }
    }

    #[test]
    fn a_finalised_one_takes_no_calls_and_is_alive() {
        let [one] = <[Health; 1]>::try_from(Health::alone(1, 0)).ok().unwrap();
        assert!(one.callable().is_ok());
        one.ending.finalized.store(true, Ordering::Relaxed);
        assert!(one.alive().is_ok());
        let told = one.callable().unwrap_err().to_string();
        assert!(told.contains("was finalised"), "{told}");
    }
}
