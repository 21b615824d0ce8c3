//! Where a rank is: notes for who asks from outside, by `kolo ras` or by a signal that is about to
//! end the process.
//!
//! **Problem.** A job that hangs ends at its time limit, and its output does not say where it hung.
//! The thread that hangs is inside a call and cannot be asked; what it works on is behind a lock
//! that it holds.
//!
//! **Idea.** A wait that takes longer than some yields notes for whom, when it looks at the clock
//! anyway: a call that does not wait notes nothing. Where the setting `on_signal` asks for it, each
//! call notes before it begins what it is, too. These notes hold no communicator alive, so that
//! whoever reads them never ends one. What is said of them when a signal comes stands in
//! [`super::report`], what `kolo ras` is told in [`super::shown`].

use crate::base::Rank;
use crate::base::clock::{self, Moment};
use crate::comm::calling::checked::Checked;
use crate::comm::calling::waiting_call::WaitingCall;
use crate::proxy::lookout::Lookout;
use crate::transport::node::NodeMemory;
use crate::transport::segment::Nonce;
use crate::tune::{Cards, ToldRoute};
use crate::wire::signature::Signature;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// Facts that whoever reads the notes needs.
pub(in crate::comm) struct Noting {
    /// The communicator.
    pub nonce: Nonce,
    /// Its name.
    pub name: String,
    /// Whose notes these are.
    pub rank: Rank,
    /// Where each rank runs, `host (pid)`.
    pub places: Arc<[String]>,
    /// Boards of all ranks.
    pub node: NodeMemory,
    /// The rank's lookout, if it is one.
    pub lookout: Weak<Lookout>,
    /// Each call is noted.
    pub calls: bool,
}

/// Waits look more often than that: they sleep for 20 ms at most, and may not get a core at once.
const QUIET: Duration = Duration::from_secs(1);

/// The notes of one rank of one communicator.
pub(in crate::comm) struct Whereabouts {
    pub(super) of: Noting,
    pub(super) call: Mutex<Option<Under>>,
    /// Waits of threads at this moment, in the order in which they began: a call, and a stream
    /// beside it.
    pub(super) waits: Mutex<Vec<Wait>>,
    /// Waits that have begun.
    begun: AtomicU64,
}

/// A blocking call.
pub(super) struct Under {
    pub number: Option<u64>,
    pub signature: Signature,
    pub told: ToldRoute,
}

/// A wait that has looked at the clock.
pub(super) struct Wait {
    number: u64,
    /// The rank that it is for, once that is known.
    pub peer: Option<usize>,
    pub call: WaitingCall,
    pub since: Moment,
    /// When it has last looked for whom it is.
    pub looked: Moment,
    /// Number of the call at the head of the queue, where that is moved.
    pub queued: Option<u64>,
    /// Number of the thread.
    pub thread: u32,
}

impl Wait {
    /// Whether it waits now: whoever has not looked for so long moves data, or is inside an
    /// operation of the program.
    pub fn is_now(&self) -> bool {
        self.looked.elapsed() < QUIET
    }

    /// The number of the collective that waits.
    pub fn collective(&self) -> Option<u64> {
        self.call.number.or(self.queued)
    }
}

/// A call is under way until this is dropped.
pub(in crate::comm) struct Noted<'a>(&'a Whereabouts);

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        *lock(&self.0.call) = None;
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Whereabouts {
    /// No notes yet.
    pub fn new(of: Noting) -> Whereabouts {
        Whereabouts {
            of,
            call: Mutex::new(None),
            waits: Mutex::new(Vec::new()),
            begun: AtomicU64::new(0),
        }
    }

    /// A blocking call begins; noted where that is wanted.
    pub fn enter(
        &self,
        checked: &Checked,
        number: Option<u64>,
        told: ToldRoute,
    ) -> Option<Noted<'_>> {
        if !self.of.calls {
            return None;
        }
        *lock(&self.call) = Some(Under {
            number,
            // As it was before the calls before it were mixed in.
            signature: Signature(checked.signature ^ checked.past),
            told,
        });
        Some(Noted(self))
    }

    /// The cards of this collective have said more. It may be another than the blocking call.
    pub fn settle(&self, number: u64, cards: Cards) {
        if !self.of.calls {
            return;
        }
        let mut call = lock(&self.call);
        let call = call.as_mut().filter(|it| it.number == Some(number));
        if let Some(under) = call {
            under.told = under.told.after(cards);
        }
    }

    /// A wait of this thread, which has begun then; its number.
    pub fn waits(&self, call: impl Into<WaitingCall>, since: Moment) -> u64 {
        // Relaxed: only distinct numbers are wanted.
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        lock(&self.waits).push(Wait {
            number,
            peer: None,
            call: call.into(),
            since,
            looked: since,
            queued: None,
            // SAFETY: takes nothing.
            thread: unsafe { libc::gettid() } as u32,
        });
        number
    }

    /// It is for this rank, and, where the call at the head of the queue is moved, for that call.
    pub fn waits_for(&self, number: u64, peer: usize, queued: Option<u64>) {
        let mut waits = lock(&self.waits);
        if let Some(wait) = waits.iter_mut().find(|wait| wait.number == number) {
            wait.peer = Some(peer);
            wait.queued = queued;
            wait.looked = clock::now();
        }
    }

    /// It is over.
    pub fn goes_on(&self, number: u64) {
        lock(&self.waits).retain(|wait| wait.number != number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::RedOp;
    use crate::comm::calling::call::Call;
    use crate::comm::health::Health;
    use crate::dtype::DataType;
    use crate::plan::{Algorithm, Collective};
    use crate::tune::{CallForm, Choice, Route};

    fn noting(calls: bool) -> Whereabouts {
        let health = Health::alone(2, 0).remove(0);
        let of = Noting {
            calls,
            node: health.node.clone(),
            name: health.name.to_string(),
            places: Arc::clone(&health.places),
            nonce: health.nonce,
            rank: Rank(0),
            lookout: Weak::new(),
        };
        Whereabouts::new(of)
    }

    /// A report of a call follows its own cards, and no others.
    #[test]
    fn cards_say_more_of_the_call_under_way() {
        let call = Call {
            collective: Collective::AllReduce,
            send: std::ptr::null(),
            recv: std::ptr::null_mut(),
            count: 0,
            dtype: DataType::Float64,
            op: RedOp::SUM,
            peer: 0,
        };
        let told = ToldRoute {
            route: Route::MayDirect {
                choice: Choice::plain(Collective::AllReduce, Algorithm::Ring, 1),
                form: CallForm::Cards,
                unread: CallForm::Interpreted,
            },
            collective: Collective::AllReduce,
            choice: Some(Choice::plain(Collective::AllReduce, Algorithm::Ring, 1)),
        };
        let here = noting(true);
        let words = || {
            let call = lock(&here.call);
            call.as_ref().map(|under| under.told.words())
        };
        let noted = here.enter(&Checked::unseen(&call), Some(7), told);
        assert!(words().is_some_and(|words| words.contains(" where the buffers ")));
        here.settle(6, Cards::Private);
        assert!(words().is_some_and(|words| words.contains(" where the buffers ")));
        here.settle(7, Cards::Readable);
        let direct = "twoshot, protocol simple, form direct";
        assert_eq!(words().as_deref(), Some(direct));
        drop(noted);
        assert_eq!(words(), None);
    }

    /// Two threads may wait on one communicator: who goes on first takes only its own note away.
    #[test]
    fn a_wait_that_ends_leaves_the_other() {
        let here = noting(false);
        let peers = || {
            let waits = lock(&here.waits);
            waits
                .iter()
                .map(|wait| (wait.call.name, wait.peer))
                .collect::<Vec<_>>()
        };
        let (first, second) = (
            here.waits(("AllReduce", None), clock::now()),
            here.waits(("Stream", None), clock::now()),
        );
        here.waits_for(second, 3, Some(7));
        here.waits_for(first, 5, None);
        assert_eq!(peers(), [("AllReduce", Some(5)), ("Stream", Some(3))]);
        here.goes_on(second);
        assert_eq!(peers(), [("AllReduce", Some(5))]);
        here.waits_for(second, 7, None);
        here.goes_on(first);
        assert_eq!(peers(), []);
    }
}
