//! What a communicator is made of.
//!
//! [`Inner`] is what every thread may see at any time: identity, settings, the shared memory of the
//! node, whether the communicator still works and why not. [`Exec`] is what only the owner of the
//! lock touches: connections, plans, kernels, calls in flight.

use super::call::{Call, Checked};
use super::lock::OwnerLock;
use super::op::Op;
use crate::base::{Error, Rank, Result};
use crate::config::Settings;
use crate::dtype::{self, DataType, FoldParams, ReduceOp};
use crate::exec::launch::Base;
use crate::exec::oneshot::Sources;
use crate::exec::{Bound, Kernel, Launch, Wires};
use crate::plan::{Algorithm, Cache, Collective, Geometry, Nodes, Protocol, Shape};
use crate::transport::fork;
use crate::transport::node::NodeMemory;
use crate::tune::{Choice, Table};
use std::collections::{HashMap, VecDeque};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// How a rank waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitSetup {
    /// Polls before the first yield.
    pub spins: u32,
    /// Yields before the first sleep.
    pub yields: u32,
    /// Warning about late ranks.
    pub warn_after: std::time::Duration,
    /// Limit of a wait; zero for none.
    pub timeout: std::time::Duration,
}

/// A function that lets the host MPI make progress, called from waiting callers only.
pub type IdleHook = Arc<dyn Fn() + Send + Sync>;

/// The state of a communicator.
pub(super) struct Inner {
    pub rank: u32,
    pub nranks: u32,
    pub name: String,
    pub settings: Settings,
    /// Where each rank runs, `host (pid)`, for messages.
    pub places: Vec<String>,
    pub node: NodeMemory,
    pub wait: WaitSetup,
    pub check_calls: bool,
    pub idle: Option<IdleHook>,
    pub exec: OwnerLock<Exec>,
    /// Nonzero when calls are refused: see [`Inner::stop`].
    pub stopped: AtomicBool,
    pub failure: Mutex<Option<Error>>,
    pub destroyed: AtomicBool,
    /// Only destroy, abort and queries are allowed.
    pub finalized: AtomicBool,
    /// The rank that the call at the head of the queue waits for, and that call's number.
    pub blocked_on: AtomicU32,
    pub blocked_in: AtomicU64,
    /// Pre-multiplied sums by handle.
    pub dynamic_ops: Mutex<HashMap<i32, (DataType, [u8; 8])>>,
    pub next_op: AtomicU32,
    pub thread_progress: bool,
    /// Where kolo's own threads of this rank run.
    pub pinning: crate::topo::Pinning,
    /// Sees the death of peers; dropping it says goodbye.
    pub watch: Mutex<Option<crate::proxy::Watch>>,
}

// SAFETY: `sources` is scratch space within one call; everything else is `Send`.
unsafe impl Send for Exec {}

/// What only the owner of the lock touches.
pub(super) struct Exec {
    pub wires: Wires,
    pub table: Table,
    pub plans: Cache<Bound>,
    /// Which rank lives where, for planning.
    pub nodes: Nodes,
    pub kernels: Vec<Kernel>,
    pub sources: Sources,
    pub queue: VecDeque<Op>,
    /// The op of the blocking call that runs alone, kept for its memory.
    pub spare: Option<Box<Op>>,
    /// The last run of a bundle on each end.
    pub latest: super::op::Latest,
    /// Collectives begun.
    pub calls: u64,
    /// Steps that the plans of all finished calls have.
    pub steps_planned: u64,
    /// Steps of the one-shot plan of each collective, by its number.
    pub small_steps: [u64; 16],
    pub buffer_bytes: usize,
    pub eager_bytes: usize,
    pub rank: u32,
    pub nranks: u32,
    /// How the buffers of the other ranks are reached.
    pub direct: super::direct::Direct,
    /// Fault injection: (call counted from 0, slot).
    pub flip: Option<(u64, u64)>,
}

/// Bytes that a token of a direct call stands for, at most: large enough to cost nothing beside
/// the data, small enough that folding begins early.
const DIRECT_SLICE_BYTES: usize = 256 << 10;

/// Plans kept per communicator.
pub(super) const PLANS: usize = 64;

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
        {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert_with(|| error.clone().at(Rank(self.rank)));
        }
        self.stopped.store(true, Ordering::Release);
        if !fork::in_child_of_user() {
            self.node.abort(self.rank, error);
        }
    }

    /// Whether it stopped here or elsewhere, or belongs to a parent process: there the shared
    /// memory does not exist and must not be looked at.
    #[inline(always)]
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire) || fork::in_child_of_user() || self.node.aborted()
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
        if !self.stopped.load(Ordering::Acquire)
            && let Some(abort) = self.node.abort_reason()
        {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(abort);
            self.stopped.store(true, Ordering::Release);
        }
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
        drop(watch);
    }

    /// Host and process of a rank, for messages.
    pub fn place(&self, rank: u32) -> &str {
        self.places.get(rank as usize).map_or("?", String::as_str)
    }

    /// The kernel of a call that does not reduce, or with a built-in operation.
    pub fn builtin_kernel(&self, exec: &Exec, checked: &Checked) -> Kernel {
        let call = &checked.call;
        let op = if call.collective.reduces() {
            call.op.0 as usize
        } else {
            0
        };
        exec.kernels[call.dtype as usize * BUILTIN_OPS + op].clone()
    }

    /// The kernel of a call.
    pub fn kernel(&self, exec: &Exec, checked: &Checked) -> Result<Kernel> {
        let Call {
            collective,
            dtype,
            op,
            ..
        } = checked.call;
        if !collective.reduces() || (0..BUILTIN_OPS as i32).contains(&op.0) {
            return Ok(self.builtin_kernel(exec, checked));
        }
        let ops = self
            .dynamic_ops
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match ops.get(&op.0) {
            Some(&(made_for, scalar)) if made_for == dtype => {
                let mut kernel = make_kernel(dtype, ReduceOp::PreMulSum, exec.nranks);
                kernel.params.scalar = scalar;
                kernel.pre_scaled = true;
                Ok(kernel)
            }
            Some(&(made_for, _)) => Err(Error::argument(
                format!(
                    "operation {} was made for {}, not {}",
                    op.0,
                    made_for.name(),
                    dtype.name()
                ),
                "make an operation for this type with RedOpCreatePreMulSum",
            )),
            None => Err(Error::argument(
                format!("{} is not a reduction operation of this communicator", op.0),
                "use koloSum, koloProd, koloMax, koloMin, koloAvg or one made on this communicator",
            )),
        }
    }
}

/// Sum, product, maximum, minimum, average.
pub(super) const BUILTIN_OPS: usize = 5;

fn make_kernel(dtype: DataType, op: ReduceOp, nranks: u32) -> Kernel {
    Kernel {
        fold: dtype::fold(dtype, op),
        copy: dtype::copy(),
        element_bytes: dtype.size_bytes(),
        params: FoldParams::default(),
        pre_scaled: false,
        divisor: NonZeroU32::new(nranks).filter(|_| op == ReduceOp::Avg),
    }
}

/// Steps of this rank's one-shot plans, by number of the collective.
pub(super) fn small_steps(rank: u32, nodes: &Nodes) -> [u64; 16] {
    let nranks = nodes.nranks();
    let mut steps = [0; 16];
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

/// The kernels of all types and built-in operations, by `type * BUILTIN_OPS + operation`.
pub(super) fn kernels(nranks: u32) -> Vec<Kernel> {
    let ops = [
        ReduceOp::Sum,
        ReduceOp::Prod,
        ReduceOp::Max,
        ReduceOp::Min,
        ReduceOp::Avg,
    ];
    DataType::ALL
        .iter()
        .flat_map(|&dtype| ops.iter().map(move |&op| make_kernel(dtype, op, nranks)))
        .collect()
}

impl Exec {
    /// Slots and slices of an algorithm.
    fn geometry(&self, collective: Collective, algorithm: Algorithm) -> Geometry {
        match (algorithm, collective) {
            (Algorithm::Ring, Collective::Broadcast | Collective::Reduce) => {
                Geometry::bundle(self.buffer_bytes)
            }
            (Algorithm::Ring, _) => Geometry::ring(self.buffer_bytes),
            // One-shot reduce goes over pairs, and so in their slots; the others over fans.
            (Algorithm::OneShot, Collective::Reduce) => Geometry::bundle(self.buffer_bytes),
            (Algorithm::OneShot, _) => {
                Geometry::bundle(self.eager_bytes * Geometry::SLOTS as usize)
            }
            _ => Geometry::bundle(self.buffer_bytes),
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

    fn bound(&mut self, shape: &Shape) -> Result<Arc<Bound>> {
        match self.plans.find(shape) {
            Some(plan) => Ok(plan),
            None => {
                let plan = crate::algo::plan(shape, &self.nodes)?;
                let bound = Bound::new(plan, Protocol::Simple, &mut self.wires)?;
                Ok(self.plans.insert(*shape, bound))
            }
        }
    }

    fn shape(&self, checked: &Checked, choice: Choice) -> Shape {
        let call = &checked.call;
        let rooted = call.collective.has_root() || call.collective.is_point_to_point();
        Shape {
            collective: call.collective,
            algorithm: choice.algorithm,
            rank: self.rank,
            nranks: self.nranks,
            root: if rooted { call.peer } else { 0 },
            channels: choice.channels,
        }
    }

    /// Binds the plan of a call.
    pub fn launch(&mut self, checked: &Checked, kernel: Kernel, choice: Choice) -> Result<Launch> {
        let call = &checked.call;
        let plan = self.bound(&self.shape(checked, choice))?;
        let geometry = self.geometry(call.collective, choice.algorithm);
        let buffers = (call.send, call.recv);
        Launch::new(plan, buffers, kernel, checked.signature, geometry)
    }

    /// Binds the plan of a call whose buffers all ranks read where they lie.
    pub fn direct_launch(
        &mut self,
        checked: &Checked,
        kernel: Kernel,
        bases: Vec<[Base; 2]>,
    ) -> Result<Launch> {
        let choice = Choice {
            algorithm: Algorithm::TwoShot,
            channels: 1,
        };
        let plan = self.bound(&self.shape(checked, choice))?;
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
        Ok(launch)
    }
}
