//! A call in flight: what the engine has of it, what follows, and whoever waits for it.

use super::completion::Completion;
use super::direct::Card;
use crate::base::Result;
use crate::base::place::CallStack;
use crate::comm::calling::exact::Exact;
use crate::comm::calling::notes::Pending;
use crate::exec::order::LaunchOrder;
use crate::exec::pushed::Exposed;
use crate::exec::reach::Copied;
use crate::exec::{HostFlight, Progress};
use crate::plan::Collective;
use crate::tune::Cards;
use std::sync::Arc;

/// One call, or a bundle of point-to-point calls, in flight.
pub(in crate::comm) struct Op {
    /// The op's launches, as the engine holds them.
    pub(super) flight: HostFlight,
    /// Who waits for a lane and not for the whole op, by the number of the lane.
    pub(super) watchers: Vec<(usize, Option<Arc<Completion>>)>,
    /// The stage that follows when the launches have ended.
    pub(super) then: Option<Next>,
    /// The cards of all ranks, and behind them the own one as it is sent.
    pub(super) cards: Vec<Card>,
    /// Bytes of this rank's buffers of which peers read copies.
    pub(super) copies: Vec<Copied>,
    /// The memory of this rank into which peers may write since its card is out: address and bytes
    /// of whole pages. Peers that have all cards do not wait for this rank.
    pub(super) exposed: Option<Exposed>,
    /// Nothing of this op moves before these have ended.
    pub after: Vec<Arc<Completion>>,
    /// It calls a function of the program, which only threads of the program do.
    pub by_program: bool,
    pub completion: Arc<Completion>,
    pub collective: Collective,
    /// Which collective of the communicator it is, counted from 1; none for messages.
    pub number: Option<u64>,
    /// Answer of its cards, if it has asked for some.
    pub cards_said: Option<Cards>,
    /// Note that is told when it ends, where calls are traced.
    pub note: Option<Box<Pending>>,
    /// Who has called it, where errors are to name their place: it may fail in another call.
    pub called_by: Option<Box<CallStack>>,
}

/// The stage that follows the launches of an op.
pub(super) enum Next {
    /// The call that begins when all cards are there.
    Direct(Box<Then>),
    /// An exact sum has several launches in a row.
    Exact(Box<Exact>),
}

/// A call that waits for the cards of all ranks.
pub(super) struct Then {
    /// Over slots: what runs if the call cannot be direct.
    pub order: LaunchOrder,
    /// Number of the call.
    pub number: u64,
    /// How far it is with the cards.
    pub cards: CardStage,
}

/// How far a call is with its cards.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CardStage {
    /// Whether they are shown is decided when it begins.
    Undecided,
    /// They will be shown.
    Decided,
    /// They are on their way.
    Shown,
}

/// Result of a pass over an op.
pub(in crate::comm) enum Step {
    Moved,
    /// The missing local rank.
    Blocked(usize),
    Done,
}

impl From<Progress> for Step {
    fn from(progress: Progress) -> Step {
        match progress {
            Progress::Done => Step::Done,
            Progress::Moved(_) => Step::Moved,
            Progress::Blocked(peer) => Step::Blocked(peer),
        }
    }
}

impl Op {
    /// An op without lanes, which ends at once.
    pub fn new(collective: Collective) -> Op {
        Op {
            flight: HostFlight::default(),
            watchers: Vec::new(),
            then: None,
            cards: Vec::new(),
            copies: Vec::new(),
            exposed: None,
            after: Vec::new(),
            by_program: false,
            completion: Arc::default(),
            collective,
            number: None,
            cards_said: None,
            note: None,
            called_by: None,
        }
    }

    /// Whether all that must end before it has ended.
    pub fn may_begin(&self) -> bool {
        self.after.iter().all(|earlier| earlier.result().is_some())
    }

    /// Makes a finished op, which nobody waits for, ready for another call.
    pub fn recycle(&mut self, collective: Collective) {
        self.flight.clear();
        self.watchers.clear();
        self.then = None;
        self.exposed = None;
        self.cards_said = None;
        self.by_program = false;
        self.collective = collective;
    }

    /// Makes this a collective that is direct if the buffers of all ranks allow it. Whether it asks
    /// for them is decided when it begins: by then all earlier calls have ended, on every rank.
    pub fn direct(&mut self, order: LaunchOrder, number: u64) {
        self.then = Some(Next::Direct(Box::new(Then {
            order,
            number,
            cards: CardStage::Undecided,
        })));
    }

    /// The call that may be direct begins now and shows its cards.
    pub fn shows_cards(&mut self) {
        if let Some(Next::Direct(then)) = &mut self.then {
            then.cards = CardStage::Decided;
        }
    }

    /// An exact sum, whose launches are made one by one.
    pub fn exact(exact: Exact) -> Op {
        let mut op = Op::new(exact.collective());
        op.then = Some(Next::Exact(Box::new(exact)));
        op
    }

    /// Whether peers may be reading the buffers of this op, or writing into them.
    pub fn is_direct(&self) -> bool {
        self.exposed.is_some() || self.flight.is_direct()
    }

    /// The memory of this rank into which peers may be writing: first byte, length.
    pub fn written(&self) -> impl Iterator<Item = (*mut u8, usize)> {
        let parts = self.exposed.into_iter().flatten();
        parts.map(|(address, bytes)| (std::ptr::with_exposed_provenance_mut(address), bytes))
    }

    /// A completion of the lane that was added last.
    pub fn watch_last(&mut self) -> Arc<Completion> {
        let watcher = Arc::<Completion>::default();
        let Some(last) = self.flight.lanes().checked_sub(1) else {
            watcher.finish(Ok(()));
            return watcher;
        };
        match self.watchers.last() {
            Some((lane, Some(known))) if *lane == last => Arc::clone(known),
            // A lane is watched when it has just been added, so they are in order.
            _ => {
                self.watchers.push((last, Some(Arc::clone(&watcher))));
                watcher
            }
        }
    }

    /// Tells all who wait how it ended.
    pub fn finish(&mut self, result: &Result<()>) {
        if let Some(note) = self.note.take() {
            note.ended(self.cards_said, result);
        }
        for watcher in self.watchers.drain(..).filter_map(|watched| watched.1) {
            watcher.finish(result.clone());
        }
        self.completion.finish(result.clone());
    }
}
