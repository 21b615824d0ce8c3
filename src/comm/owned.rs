//! State that only the owner of a communicator's lock touches: connections, tables, and the calls
//! in flight.

use crate::comm::calling::checked::Checked;
use crate::comm::calling::exact;
use crate::comm::calling::past::Past;
use crate::comm::failing::stood::Stood;
use crate::comm::flight::op::Op;
use crate::comm::start::device::carrier::StageCarrier;
use crate::comm::start::net::Supported;
use crate::exec::{CudaEngine, HostEngine};
use crate::plan::{Algorithm, Collective, Geometry, Nodes, Shape};
use crate::tune::{self, Asked, Called, Cards, Choice, Route, Table, ToldRoute};
use std::collections::VecDeque;
use std::sync::Arc;

/// State that only the owner of the lock touches.
pub(in crate::comm) struct Exec {
    /// Carries out plans on host memory.
    pub engine: HostEngine,
    pub table: Table,
    /// Calls in flight, in the order of issue.
    pub in_flight: VecDeque<Op>,
    pub members: Members,
    pub scratch: Reused,
    pub counts: Totals,
    pub sizes: Sizes,
    /// Past of the communicator: the collectives begun so far, in a number.
    pub past: Past,
    /// Answer of the cards of a collective, by its number: the last one that has shown some.
    pub cards: Option<(u64, Cards)>,
    /// Engine and table for calls on streams of a device, where the communicator has one.
    pub device: Option<Box<OnDevice>>,
    /// The ended rank that the queue waits for, as far as it was seen.
    pub stalled: Stood,
    /// Faults that a test has asked for.
    pub faults: Faults,
}

/// Engine and table for calls on streams of a device.
pub(in crate::comm) struct OnDevice {
    pub engine: CudaEngine,
    pub table: Table,
    /// All paths between the devices keep lines of 128 bytes together.
    pub has_ll128: bool,
    /// Who moves what goes to other nodes, if there are some.
    pub carrier: Option<Arc<StageCarrier>>,
    /// Steps that the plans of all its calls have.
    pub steps_planned: u64,
    /// Choice of the plan that was launched last, for those who are told of calls.
    pub launched: Option<Choice>,
    /// The ended rank that messages wait for, as far as it was seen.
    pub stalled: Stood,
    /// Passes of kolo's own thread, which looks for it now and then.
    pub passes: u32,
}

/// Who the ranks are, for planning.
pub(in crate::comm) struct Members {
    pub rank: u32,
    pub nranks: u32,
    /// Which rank lives where.
    pub nodes: Arc<Nodes>,
    /// Channels that collectives begin on in turn; 1 if on the first.
    pub turns: u16,
    /// Types and operations that the network folds, if it folds.
    pub folds: Option<Supported>,
}

/// Memory of one call, kept for the next one.
pub(in crate::comm) struct Reused {
    /// Memory of exact sums.
    pub exact: exact::Scratch,
    /// The op of the blocking call that runs alone.
    pub spare: Option<Box<Op>>,
    /// The word that a barrier sums where it runs as an all-reduce.
    pub barrier_word: Vec<u64>,
}

/// Counts since the communicator was made.
pub(in crate::comm) struct Totals {
    /// Collectives begun.
    pub calls: u64,
    /// Steps that the plans of all other calls have which needed no launch.
    pub steps_planned: u64,
    /// Calls that took the one-shot plan of their collective, by its number. Its steps are counted
    /// when somebody asks: such plans of many ranks take a millisecond to make.
    pub small_calls: [u64; Collective::NUMBERS],
}

impl Totals {
    /// Steps that the plans of all calls have which needed no launch.
    pub fn steps_planned(&self, members: &Members) -> u64 {
        let made = Collective::ALL.into_iter().map(|collective| {
            let calls = self.small_calls[collective as usize];
            let steps = || small_steps(collective, members.rank, &members.nodes);
            if calls == 0 { 0 } else { calls * steps() }
        });
        self.steps_planned + made.sum::<u64>()
    }
}

/// Sizes in bytes.
pub(in crate::comm) struct Sizes {
    pub buffer: usize,
    pub eager: usize,
}

impl Sizes {
    /// Of a slot of a pair.
    #[inline(always)]
    pub fn slot(&self) -> usize {
        Geometry::bundle(self.buffer).slot_bytes
    }
}

/// Faults that are injected, each once.
pub(in crate::comm) struct Faults {
    /// A bit to flip: (call counted from 0, slot).
    pub flip: Option<(u64, u64)>,
    /// Where to panic.
    #[cfg(test)]
    pub panic_in: Option<&'static str>,
}

impl Faults {
    /// None but this bit to flip.
    pub fn new(flip: Option<(u64, u64)>) -> Faults {
        Faults {
            flip,
            #[cfg(test)]
            panic_in: None,
        }
    }
}

/// Plans kept per communicator.
pub(super) const PLANS: usize = 64;
/// Beside them, those of the messages to and from every rank.
pub(super) const PLANS_PER_RANK: usize = 2;

/// Steps of this rank's one-shot plan.
fn small_steps(collective: Collective, rank: u32, nodes: &Nodes) -> u64 {
    let shape = Shape {
        collective,
        algorithm: Algorithm::OneShot,
        rank,
        nranks: nodes.nranks(),
        root: 0,
        channels: 1,
    };
    let plan = crate::algo::plan(&shape, nodes);
    plan.map_or(0, |plan| plan.steps_per_round())
}

/// Words of an injected panic.
#[cfg(test)]
pub(super) const PANIC_WORDS: &str = "a check inside kolo failed: injected";

impl Exec {
    /// The table of the communicator's calls: that of its device, if it has one.
    pub fn asked_table(&self) -> &Table {
        self.device.as_deref().map_or(&self.table, |on| &on.table)
    }

    /// The route of a call on the communicator's device, if it has one, and the table that says it.
    pub fn asked_route(&self, asked: &Asked) -> (&Table, Route) {
        match self.device.as_deref() {
            None => (&self.table, self.route(asked)),
            Some(on) => (&on.table, tune::device::route(asked, &on.table)),
        }
    }

    /// The route of a call on the host.
    #[inline(always)]
    pub fn route(&self, asked: &Asked) -> Route {
        Route::of(asked, &self.table)
    }

    /// How a blocking call is made at this moment.
    #[inline]
    pub fn called(&self) -> Called {
        if self.in_flight.is_empty() {
            Called::AtOnce
        } else {
            Called::Queued
        }
    }

    /// Answer of the cards of a call, if it has asked for some and none has since.
    pub fn cards_of(&self, checked: &Checked) -> Option<Cards> {
        let of_it = self.cards.filter(|&(number, _)| number == checked.number);
        of_it.map(|(_, cards)| cards)
    }

    /// The route of a call on the host that is made so, by all facts and for those who tell of it.
    #[cold]
    pub fn told(&self, checked: &Checked, called: Called) -> ToldRoute {
        let asked = checked.asked_all(called, self.members.nranks);
        ToldRoute::of(self.route(&asked), &asked, &self.table)
    }

    /// A choice of that table, as the communicator runs it.
    pub fn on_its_device(&self, asked: &Asked, choice: Choice) -> Choice {
        let size = (asked.collective, asked.bytes);
        self.device.as_deref().map_or(choice, |on| {
            tune::device::choice(&on.table, size, choice, on.has_ll128)
        })
    }

    /// Panics if a test wants it at this place.
    #[inline(always)]
    pub fn may_panic(&mut self, _place: &str) {
        #[cfg(test)]
        if self
            .faults
            .panic_in
            .take_if(|place| *place == _place)
            .is_some()
        {
            panic!("injected in {_place}");
        }
    }

    /// An op without lanes; the one of the last call that ran alone, if it is there.
    pub fn spare_op(&mut self, collective: Collective) -> Box<Op> {
        match self.scratch.spare.take() {
            Some(mut op) => {
                op.recycle(collective);
                op
            }
            None => Box::new(Op::new(collective)),
        }
    }
}
