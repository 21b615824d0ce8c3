//! What a communicator is made of.
//!
//! [`Inner`] is what every thread may see at any time: identity, settings, the shared memory of the
//! node, whether the communicator still works and why not. [`Exec`] is what only the owner of the
//! lock touches: connections, plans, kernels, calls in flight.

use crate::base::{Error, Rank, Result};
use crate::comm::becoming::net::{Network, Supported};
use crate::comm::calling::call::Checked;
use crate::comm::calling::redop::{Kernels, MadeOp};
use crate::comm::failing::fault;
use crate::comm::flight::lock::OwnerLock;
use crate::comm::flight::op::Op;
use crate::config::Settings;
use crate::exec::launch::{self, Base};
use crate::exec::messages::{Contributors, Messages};
use crate::exec::oneshot::Sources;
use crate::exec::{Bound, Kernel, Launch, Wires};
use crate::plan::{self, Algorithm, Cache, Collective, Geometry, Nodes, Placing, Protocol, Shape};
use crate::proxy::net::Links;
use crate::proxy::service::{self, Alarm};
use crate::transport::fork;
use crate::transport::node::NodeMemory;
use crate::transport::segment::Nonce;
use crate::tune::{Choice, Table};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// How a rank waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitSetup {
    /// In short, and what it follows from.
    pub policy: crate::topo::WaitPolicy,
    pub crowding: crate::topo::Crowding,
    /// Polls before the first yield.
    pub spins: u32,
    /// Yields before the first sleep.
    pub yields: u32,
    /// How often the progress thread looks in vain before it sleeps.
    pub thread_looks: u32,
    /// Warning about late ranks.
    pub warn_after: std::time::Duration,
    /// Limit of a wait; zero for none.
    pub timeout: std::time::Duration,
}

/// A function that lets the host MPI make progress, called from waiting callers only.
pub type IdleHook = Arc<dyn Fn() + Send + Sync>;

/// The state of a communicator. Ranks may be threads of one process: what one of them writes in
/// every call must not lie in a cache line of another one, or of its neighbour that is fetched too.
#[repr(align(128))]
pub(super) struct Inner {
    pub rank: u32,
    pub nranks: u32,
    pub name: String,
    pub settings: Settings,
    /// Where each rank runs, `host (pid)`, for messages.
    pub places: Vec<String>,
    /// The other ranks that are threads of this process, in order.
    pub process_mates: Vec<u32>,
    pub node: NodeMemory,
    /// Connections to ranks on other nodes, if there are any.
    pub network: Option<Network>,
    /// Names the communicator on all its nodes.
    pub nonce: Nonce,
    pub wait: WaitSetup,
    pub check_calls: bool,
    /// Whether each call is a line of the log.
    pub traced: bool,
    /// Whether calls are compared or traced: what a call tests where it does neither.
    pub watched: bool,
    pub idle: Option<IdleHook>,
    pub exec: OwnerLock<Exec>,
    /// Nonzero when calls are refused: see [`Inner::stop`].
    pub stopped: AtomicBool,
    pub failure: Mutex<Option<Error>>,
    /// Whether this rank was told why the communicator has stopped.
    pub told: AtomicBool,
    pub destroyed: AtomicBool,
    /// Only destroy, abort and queries are allowed.
    pub finalized: AtomicBool,
    /// The rank that the call at the head of the queue waits for, and that call's number.
    pub blocked_on: AtomicU32,
    pub blocked_in: AtomicU64,
    /// Whether this rank has ever sent a message.
    pub has_sent: AtomicBool,
    /// Operations that the program made, by handle.
    pub made_ops: Mutex<HashMap<i32, MadeOp>>,
    pub next_op: AtomicU32,
    /// Whether the progress thread moves calls in flight while no caller does.
    pub thread_progress: bool,
    /// Where kolo's own threads of this rank run.
    pub pinning: crate::topo::Pinning,
    /// Sees the death of peers; dropping it says goodbye.
    pub watch: Mutex<Option<Arc<crate::proxy::Watch>>>,
    /// What communicators that are split from this one are made of, if they can be made so.
    pub kin: Option<crate::comm::becoming::kin::Kin>,
    /// Where news of deaths goes; the communicator that hears of them first does not keep it.
    pub _deaths: Arc<crate::comm::failing::deaths::Deaths>,
}

// SAFETY: `sources` is scratch space within one call; everything else is `Send`.
unsafe impl Send for Exec {}

/// What only the owner of the lock touches.
pub(super) struct Exec {
    pub wires: Wires,
    pub table: Table,
    pub plans: Cache<Bound>,
    /// What the network folds, if it does.
    pub folds: Option<Supported>,
    /// Which rank lives where, for planning.
    pub nodes: Nodes,
    pub kernels: Kernels,
    pub sources: Sources,
    /// Small messages on their way.
    pub messages: Messages,
    /// Where a root gets the contributions to a small reduce.
    pub contributors: Contributors,
    /// Memory of exact sums.
    pub exact: crate::comm::calling::exact::Scratch,
    pub queue: VecDeque<Op>,
    /// The op of the blocking call that runs alone, kept for its memory.
    pub spare: Option<Box<Op>>,
    /// The last run of a bundle on each end.
    pub latest: crate::comm::flight::op::Latest,
    /// Collectives begun.
    pub calls: u64,
    /// What they were.
    pub past: crate::comm::calling::past::Past,
    /// What a barrier sums where it runs as an all-reduce.
    pub barrier_word: Vec<u64>,
    /// Steps that the plans of all finished calls have.
    pub steps_planned: u64,
    /// Calls whose ranks read each other's buffers where they lie.
    pub direct_calls: u64,
    /// Steps of the one-shot plan of each collective, by its number.
    pub small_steps: [u64; Collective::NUMBERS],
    pub buffer_bytes: usize,
    pub eager_bytes: usize,
    /// Slices from this size on are written past the cache.
    pub stream_bytes: usize,
    pub rank: u32,
    pub nranks: u32,
    /// Channels that collectives begin on in turn; 1 if on the first.
    pub turns: u16,
    /// How the buffers of the other ranks are reached.
    pub direct: crate::comm::flight::direct::Direct,
    /// Fault injection: (call counted from 0, slot).
    pub flip: Option<(u64, u64)>,
    /// Where to panic, once.
    #[cfg(test)]
    pub panic_in: Option<&'static str>,
    /// How many plans are still bound until one is refused, once.
    #[cfg(test)]
    pub refuses_to_bind: Option<u32>,
}

/// Bytes that a token of a direct call stands for, at most: large enough to cost nothing beside
/// the data, small enough that folding begins early.
const DIRECT_SLICE_BYTES: usize = 256 << 10;

/// Plans kept per communicator.
pub(super) const PLANS: usize = 64;
/// Beside them, those of the messages to and from every rank.
pub(super) const PLANS_PER_RANK: usize = 2;

impl Inner {
    /// The error that stopped the communicator.
    #[cold]
    pub fn stop_reason(&self) -> Error {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        let reason = failure.clone().unwrap_or_else(|| {
            Error::usage(
                "the communicator was destroyed",
                "create a new communicator",
            )
        });
        reason.at(Rank(self.rank))
    }

    /// Refuses calls from now on, for this reason (the first one counts), and tells the others.
    /// In a forked child nobody is told: the communicator is its parent's.
    pub fn stop(&self, error: &Error) {
        self.told.store(true, Ordering::Relaxed);
        {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert_with(|| error.clone().at(Rank(self.rank)));
        }
        self.stopped.store(true, Ordering::Release);
        if !fork::in_child_of_user() {
            self.node.abort(self.rank, error);
            self.alarm(Alarm::Abort);
        }
    }

    /// Has this node's lookout tell the other nodes, or ask them.
    pub fn alarm(&self, why: Alarm) {
        // Where there is no service any more, nobody is left to be told.
        if self.network.is_some()
            && let Ok(service) = service::get()
        {
            service.alarm(self.nonce, why);
        }
    }

    /// Connections to ranks on other nodes, if there are any.
    #[inline(always)]
    pub fn links(&self) -> Option<&Links> {
        self.network.as_ref().map(|network| &*network.links)
    }

    /// Whether it stopped here or elsewhere, or belongs to a parent process: there the shared
    /// memory does not exist and must not be looked at.
    #[inline(always)]
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
            || fork::in_child_of_user()
            || self.node.aborted()
            || self.links().is_some_and(Links::failed)
    }

    /// The reason, wherever it happened.
    #[cold]
    pub fn stop_error(&self) -> Error {
        if fork::in_child_of_user() {
            return Error::usage(
                "this process was forked from the one that made the communicator",
                "make calls only in the process that made the communicator; create communicators \
                 after fork",
            )
            .at(Rank(self.rank));
        }
        if let Some(error) = self.links().and_then(Links::failure)
            && !self.stopped.load(Ordering::Acquire)
            && !self.node.aborted()
            && let Some(error) = fault::of_network(self, error)
        {
            self.stop(&error);
        }
        if !self.stopped.load(Ordering::Acquire)
            && let Some(abort) = self.node.abort_reason()
        {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(abort);
            self.stopped.store(true, Ordering::Release);
        }
        self.told.store(true, Ordering::Relaxed);
        self.stop_reason()
    }

    /// Refuses calls on a communicator that does not work any more.
    #[inline(always)]
    pub fn alive(&self) -> Result<()> {
        if self.is_stopped() {
            Err(self.stop_error())
        } else {
            Ok(())
        }
    }

    /// Refuses operations on a communicator that does not work any more, or was finalised.
    #[inline(always)]
    pub fn callable(&self) -> Result<()> {
        if self.finalized.load(Ordering::Relaxed) && !self.is_stopped() {
            return Err(Error::usage(
                "the communicator was finalised",
                "make calls before CommFinalize; only CommDestroy is left",
            ));
        }
        self.alive()
    }

    /// Whom the queue waits for.
    pub fn blocked_on(&self) -> usize {
        self.blocked_on.load(Ordering::Relaxed) as usize
    }

    /// Says goodbye to the other ranks: from now on this process may end without harm to them.
    pub fn leave(&self) {
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
            service.see_off(self.nonce);
        }
    }

    /// Whether a rank is another one on this node.
    pub fn is_mate(&self, rank: u32) -> bool {
        let remote = |links: &Links| links.is_remote(rank as usize);
        rank != self.rank && !self.links().is_some_and(remote)
    }

    /// Host and process of a rank, for messages.
    pub fn place(&self, rank: u32) -> &str {
        self.places.get(rank as usize).map_or("?", String::as_str)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // In a forked child a thread of the parent may hold the lock of the watch for ever.
        if !fork::in_child_of_user() {
            self.leave();
        }
    }
}

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
        if self.panic_in.take_if(|place| *place == _place).is_some() {
            panic!("injected in {_place}");
        }
    }

    /// An op without lanes; the one of the last call that ran alone, if it is there.
    pub fn spare_op(&mut self, collective: Collective) -> Box<Op> {
        match self.spare.take() {
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
        if let Some(left) = self.refuses_to_bind {
            self.refuses_to_bind = left.checked_sub(1);
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
        let mut plan = crate::algo::plan(&shape, &self.nodes)?;
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
            _ => (self.rank, self.nranks),
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
        let memory = (self.buffer_bytes, self.eager_bytes);
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
        launch.stream_bytes = self.stream_bytes;
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
        self.direct_calls += 1;
        Ok(launch)
    }
}
