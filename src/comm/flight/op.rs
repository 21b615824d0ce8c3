//! A call in flight: what the engine has of it, what follows, and whoever waits for it.

use super::completion::Completion;
use crate::base::Result;
use crate::base::place::CallStack;
use crate::comm::calling::exact::Exact;
use crate::comm::calling::notes::Pending;
use crate::exec::{HostFlight, Progress};
use crate::plan::Collective;
use std::sync::Arc;

/// One call, or a bundle of point-to-point calls, in flight.
pub(in crate::comm) struct Op {
    /// The op's launches, as the engine holds them.
    pub flight: HostFlight,
    /// Who waits for a lane and not for the whole op, by the number of the lane.
    pub(super) watchers: Vec<(usize, Option<Arc<Completion>>)>,
    /// An exact sum has several launches in a row.
    pub(super) exact: Option<Box<Exact>>,
    /// Nothing of this op moves before these have ended.
    pub after: Vec<Arc<Completion>>,
    /// It calls a function of the program, which only threads of the program do.
    pub by_program: bool,
    pub completion: Arc<Completion>,
    pub collective: Collective,
    /// Which collective of the communicator it is, counted from 1; none for messages.
    pub number: Option<u64>,
    /// Note that is told when it ends, where calls are traced.
    pub note: Option<Box<Pending>>,
    /// Who has called it, where errors are to name their place: it may fail in another call.
    pub called_by: Option<Box<CallStack>>,
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
            exact: None,
            after: Vec::new(),
            by_program: false,
            completion: Arc::default(),
            collective,
            number: None,
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
        self.exact = None;
        self.by_program = false;
        self.number = None;
        self.collective = collective;
    }

    /// An exact sum, whose launches are made one by one.
    pub fn exact(exact: Exact) -> Op {
        let mut op = Op::new(exact.collective());
        op.exact = Some(Box::new(exact));
        op
    }

    /// Whether peers may be reading the buffers of this op, or writing into them.
    pub fn is_direct(&self) -> bool {
        self.flight.is_direct()
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
            note.ended(self.flight.said(), result);
        }
        for watcher in self.watchers.drain(..).filter_map(|watched| watched.1) {
            watcher.finish(result.clone());
        }
        self.completion.finish(result.clone());
    }
}
