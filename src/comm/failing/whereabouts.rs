//! Where a rank is: notes for who asks from outside, by a signal that is about to end the process.
//!
//! **Problem.** A job that hangs ends at its time limit, and its output does not say where it hung.
//! The thread that hangs is inside a call and cannot be asked; what it works on is behind a lock
//! that it holds.
//!
//! **Idea.** Where the setting `on_signal` asks for it, each call notes what it is before it
//! begins, and a wait that takes longer notes for whom. What is said of these notes when the signal
//! comes stands in [`super::report`]. Without the setting nothing is noted.

use crate::base::clock::{self, Moment};
use crate::comm::calling::checked::Checked;
use crate::comm::calling::waiting_call::WaitingCall;
use crate::config::{OnSignal, Settings};
use crate::tune::{Cards, ToldRoute};
use crate::wire::signature::Signature;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The notes of one rank of one communicator.
#[derive(Default)]
pub(in crate::comm) struct Whereabouts {
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

/// A wait that takes longer than a few polls.
pub(super) struct Wait {
    number: u64,
    /// The rank that it is for, once that is known.
    pub peer: Option<usize>,
    pub call: WaitingCall,
    pub since: Moment,
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
    /// Those that the settings ask for.
    pub fn wanted(settings: &Settings) -> Option<Whereabouts> {
        (settings.on_signal() == OnSignal::Report).then(Whereabouts::default)
    }

    /// A blocking call begins.
    pub fn enter(&self, checked: &Checked, number: Option<u64>, told: ToldRoute) -> Noted<'_> {
        *lock(&self.call) = Some(Under {
            number,
            // As it was before the calls before it were mixed in.
            signature: Signature(checked.signature ^ checked.past),
            told,
        });
        Noted(self)
    }

    /// The cards of this collective have said more. It may be another than the blocking call.
    pub fn settle(&self, number: u64, cards: Cards) {
        let mut call = lock(&self.call);
        let call = call.as_mut().filter(|it| it.number == Some(number));
        if let Some(under) = call {
            under.told = under.told.after(cards);
        }
    }

    /// A wait has begun; its number.
    pub fn waits(&self, call: impl Into<WaitingCall>) -> u64 {
        // Relaxed: only distinct numbers are wanted.
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        let since = clock::now();
        lock(&self.waits).push(Wait {
            number,
            peer: None,
            call: call.into(),
            since,
        });
        number
    }

    /// It is for this rank.
    pub fn waits_for(&self, number: u64, peer: usize) {
        let mut waits = lock(&self.waits);
        if let Some(wait) = waits.iter_mut().find(|wait| wait.number == number) {
            wait.peer = Some(peer);
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
    use crate::dtype::DataType;
    use crate::plan::{Algorithm, Collective};
    use crate::tune::{CallForm, Choice, Route};

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
        let here = Whereabouts::default();
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
        let here = Whereabouts::default();
        let peers = || {
            let waits = lock(&here.waits);
            waits
                .iter()
                .map(|wait| (wait.call.name, wait.peer))
                .collect::<Vec<_>>()
        };
        let (first, second) = (
            here.waits(("AllReduce", None)),
            here.waits(("Stream", None)),
        );
        here.waits_for(second, 3);
        here.waits_for(first, 5);
        assert_eq!(peers(), [("AllReduce", Some(5)), ("Stream", Some(3))]);
        here.goes_on(second);
        assert_eq!(peers(), [("AllReduce", Some(5))]);
        here.waits_for(second, 7);
        here.goes_on(first);
        assert_eq!(peers(), []);
    }
}
