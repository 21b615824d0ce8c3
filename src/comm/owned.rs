//! What only the owner of a communicator's lock touches: connections, tables, and the calls in
//! flight.

use crate::base::{Error, Result};
use crate::comm::becoming::net::Supported;
use crate::comm::calling::call::Checked;
use crate::comm::calling::exact;
use crate::comm::calling::past::Past;
use crate::comm::calling::redop::Kernels;
use crate::comm::flight::direct::Direct;
use crate::comm::flight::op::{Latest, Op};
use crate::exec::launch::{self, Base};
use crate::exec::messages::{Contributors, Messages};
use crate::exec::oneshot::Sources;
use crate::exec::{Bound, Kernel, Launch, Wires};
use crate::plan::{self, Algorithm, Cache, Collective, Geometry, Nodes, Placing, Protocol, Shape};
use crate::tune::{Choice, Table};
use std::collections::VecDeque;
use std::sync::Arc;

// SAFETY: `Reused::sources` is scratch space within one call; everything else is `Send`.
unsafe impl Send for Exec {}

/// What only the owner of the lock touches.
pub(in crate::comm) struct Exec {
    pub wires: Wires,
    pub table: Table,
    pub plans: Cache<Bound>,
    pub kernels: Kernels,
    pub queue: VecDeque<Op>,
    pub members: Members,
    pub scratch: Reused,
    pub counts: Totals,
    pub sizes: Sizes,
    /// What the collectives begun so far were.
    pub past: Past,
    /// How the buffers of the other ranks are reached.
    pub direct: Direct,
    /// What a test wants to go wrong.
    pub faults: Faults,
}

/// Who the ranks are, for planning.
pub(in crate::comm) struct Members {
    pub rank: u32,
    pub nranks: u32,
    /// Which rank lives where.
    pub nodes: Nodes,
    /// Channels that collectives begin on in turn; 1 if on the first.
    pub turns: u16,
    /// What the network folds, if it does.
    pub folds: Option<Supported>,
}

/// Memory of one call, kept for the next one.
pub(in crate::comm) struct Reused {
    pub sources: Sources,
    /// Small messages on their way.
    pub messages: Messages,
    /// Where a root gets the contributions to a small reduce.
    pub contributors: Contributors,
    /// Memory of exact sums.
    pub exact: exact::Scratch,
    /// The op of the blocking call that runs alone.
    pub spare: Option<Box<Op>>,
    /// The last run of a bundle on each end.
    pub latest: Latest,
    /// What a barrier sums where it runs as an all-reduce.
    pub barrier_word: Vec<u64>,
}

/// What has happened so far.
pub(in crate::comm) struct Totals {
    /// Collectives begun.
    pub calls: u64,
    /// Steps that the plans of all finished calls have.
    pub steps_planned: u64,
    /// Calls whose ranks read each other's buffers where they lie.
    pub direct_calls: u64,
    /// Steps of the one-shot plan of each collective, by its number.
    pub small_steps: [u64; Collective::NUMBERS],
}

/// Sizes in bytes.
pub(in crate::comm) struct Sizes {
    pub buffer: usize,
    pub eager: usize,
    /// Slices from this size on are written past the cache.
    pub stream: usize,
}

/// Faults that are injected, each once.
pub(in crate::comm) struct Faults {
    /// A bit to flip: (call counted from 0, slot).
    pub flip: Option<(u64, u64)>,
    /// Where to panic.
    #[cfg(test)]
    pub panic_in: Option<&'static str>,
    /// How many plans are still bound until one is refused.
    #[cfg(test)]
    pub refuses_to_bind: Option<u32>,
}

impl Faults {
    /// None but this bit to flip.
    pub fn new(flip: Option<(u64, u64)>) -> Faults {
        Faults {
            flip,
            #[cfg(test)]
            panic_in: None,
            #[cfg(test)]
            refuses_to_bind: None,
        }
    }
}

/// Bytes that a token of a direct call stands for, at most: large enough to cost nothing beside
/// the data, small enough that folding begins early.
const DIRECT_SLICE_BYTES: usize = 256 << 10;

/// Plans kept per communicator.
pub(super) const PLANS: usize = 64;
/// Beside them, those of the messages to and from every rank.
pub(super) const PLANS_PER_RANK: usize = 2;

/// Steps of this rank's one-shot plans, by number of the collective.
pub(super) fn small_steps(rank: u32, nodes: &Nodes) -> [u64; Collective::NUMBERS] {
    let nranks = nodes.nranks();
    let mut steps = [0; Collective::NUMBERS];
    for collective in Collective::ALL {
        let algorithm = Algorithm::OneShot;
        let shape = Shape {
            collective,
            algorithm,
            rank,
            nranks,
            root: 0,
            channels: 1,
        };
        if let Ok(plan) = crate::algo::plan(&shape, nodes) {
            steps[collective as usize] = plan.steps_per_round();
        }
    }
    steps
}

/// What an injected panic says.
#[cfg(test)]
pub(super) const PANIC_WORDS: &str = "a check inside kolo failed: injected";

impl Exec {
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

    /// An error if a test wants one where the memory of connections is taken.
    #[inline(always)]
    fn may_refuse(&mut self) -> Result<()> {
        #[cfg(test)]
        if let Some(left) = self.faults.refuses_to_bind {
            self.faults.refuses_to_bind = left.checked_sub(1);
            if left == 0 {
                let what = "the connection from rank 0 to rank 1 has no room: injected";
                return Err(Error::new(crate::base::Code::SystemError, what, "none"));
            }
        }
        Ok(())
    }

    fn bound(&mut self, key: plan::cache::Key) -> Result<Arc<Bound>> {
        self.may_refuse()?;
        if let Some(plan) = self.plans.find(&key) {
            return Ok(plan);
        }
        let (shape, protocol, placing) = key;
        let mut plan = crate::algo::plan(&shape, &self.members.nodes)?;
        if self.wires.carried.somewhere() {
            let is_remote = |rank| self.wires.carried.is_remote(rank as usize);
            plan.place(placing, self.wires.channels(), is_remote);
        }
        let bound = Bound::new(plan, protocol, &mut self.wires)?;
        Ok(self.plans.insert(key, bound))
    }

    fn shape(&self, checked: &Checked, choice: Choice) -> Shape {
        let call = &checked.call;
        let rooted = call.collective.has_root() || call.collective.is_point_to_point();
        // What a rank does for itself only is the plan of one rank alone.
        let (rank, nranks) = match choice.algorithm {
            Algorithm::Local => (0, 1),
            _ => (self.members.rank, self.members.nranks),
        };
        Shape {
            collective: call.collective,
            algorithm: choice.algorithm,
            rank,
            nranks,
            root: if rooted { call.peer } else { 0 },
            channels: choice.channels,
        }
    }

    /// The numbers by which the network folds a call, if it does.
    fn folding(&self, checked: &Checked, kernel: &Kernel, choice: Choice) -> Option<(i32, i32)> {
        let asks = choice.algorithm == Algorithm::CollNet && checked.made.is_none();
        let folds = self
            .members
            .folds
            .filter(|_| asks && kernel.params.user.is_none())?;
        folds.numbers(checked.call.dtype, checked.op?)
    }

    /// Binds the plan of a call.
    pub fn launch(&mut self, checked: &Checked, kernel: Kernel, choice: Choice) -> Result<Launch> {
        let call = &checked.call;
        let folding = self.folding(checked, &kernel, choice);
        let mut shape = self.shape(checked, choice);
        if folding.is_some() {
            shape.algorithm = Algorithm::Switch;
        }
        let wanted = choice.protocol.of_pairs();
        let memory = (self.sizes.buffer, self.sizes.eager);
        let usual = Choice::plain(call.collective, choice.algorithm, 1).protocol;
        let mut geometry = crate::tune::geometry(call.collective, choice.algorithm, usual, memory);
        if self.wires.carried.somewhere() {
            // A slot is a message.
            geometry.slice_steps = 1;
        }
        let placing = self.placing(checked, choice.algorithm, choice.channels);
        let mut plan = self.bound((shape, wanted, placing))?;
        // Elements of exact sums may be too large for lines, and the tuner does not know types.
        let fitting = launch::protocol(&plan, wanted, &geometry, kernel.element_bytes);
        if fitting != wanted {
            plan = self.bound((shape, fitting, placing))?;
        }
        let buffers = (call.send, call.recv);
        let mut launch = Launch::new(plan, buffers, kernel, checked.signature, geometry)?;
        launch.number = self.wires.carried.number_launch();
        if let Some((dtype, operation)) = folding {
            let (number, bytes) = (launch.number, launch.kernel.element_bytes);
            self.wires.carried.announce(number, dtype, operation, bytes);
        }
        launch.in_place = call.in_place(self.wires.me() as u32, checked.bytes);
        launch.stream_bytes = self.sizes.stream;
        Ok(launch)
    }

    /// Binds the plan of a call whose buffers all ranks read where they lie.
    pub fn direct_launch(
        &mut self,
        checked: &Checked,
        kernel: Kernel,
        bases: Vec<[Base; 2]>,
    ) -> Result<Launch> {
        let choice = Choice::plain(checked.call.collective, Algorithm::TwoShot, 1);
        let shape = self.shape(checked, choice);
        let plan = self.bound((shape, Protocol::Simple, Placing::Planned))?;
        if !plan.is_direct {
            return Err(Error::internal(
                "a call without a direct form was to be direct",
            ));
        }
        let geometry = Geometry::bundle(DIRECT_SLICE_BYTES * Geometry::SLOTS as usize);
        let buffers = (checked.call.send, checked.call.recv);
        let mut launch = Launch::new(plan, buffers, kernel, checked.signature, geometry)?;
        launch.bytes = checked.bytes;
        launch.direct = Some(bases);
        self.counts.direct_calls += 1;
        Ok(launch)
    }
}
