//! Communicators as programs in Rust hold them: making, asking, calling and ending one.
//!
//! Every method here is a thin face of a function below: of [`super::start`] (how one is made),
//! [`super::calling`] (calls), [`super::failing`] (its end).

use super::calling::edges::Edges;
use super::calling::{redop, sum};
use super::faces::graph;
use super::faces::lengths::{require_in, share};
use super::faces::safe::{RunsCalls, ScopeEnd, call, calls};
use super::faces::safe_blocks::block_calls;
use super::failing::parting;
use super::flight::stream::Stream;
use super::queue::Queue;
use super::registered;
use super::start::begun::{self, BegunStart};
use super::start::{joining, mpi, split};
use super::{Blocks, Collective, CommConfig, CommDevice, RedOp, RegisteredBuffer};
use crate::base::{Error, Result};
use crate::bootstrap::{UniqueId, launch};
use crate::dtype::Element;
use crate::dtype::exact::Summand;
use crate::exec::operation::outside_operations;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

/// A group of ranks that call collectives together. Clones are the same communicator.
///
/// One thread at a time may call; two at once is an error that names the mistake. Different
/// communicators are independent. All ranks make the same calls in the same order.
///
/// # Errors of its calls
/// Each call that moves data can fail so: `InvalidArgument` and `InvalidUsage` before anything is
/// touched; `RemoteError` when a rank died or aborted; `Timeout` after `KOLO_TIMEOUT`. After an
/// error of the last two kinds the communicator answers only [`Communicator::abort`],
/// [`Communicator::destroy`] and queries. What a call adds to these it says itself.
#[derive(Clone)]
pub struct Communicator {
    #[doc(hidden)]
    pub queue: Arc<Queue>,
}

impl Communicator {
    pub(in crate::comm) fn of(queue: Arc<Queue>) -> Communicator {
        Communicator { queue }
    }

    /// Makes a new id for one communicator. One process makes it and hands its bytes
    /// ([`UniqueId::as_bytes`]) to the others by any means; it must live until all ranks have
    /// joined.
    ///
    /// # Errors
    /// A bad setting; no usable network interface.
    pub fn unique_id() -> Result<UniqueId> {
        joining::unique_id()
    }

    /// Joins the communicator of `id` as `rank` of `nranks`. Every rank calls it; it returns when
    /// all have.
    ///
    /// # Errors
    /// Wrong ranks, an id that is none, settings that differ between ranks, ranks that died.
    pub fn init_rank(
        nranks: u32,
        id: &UniqueId,
        rank: u32,
        config: &CommConfig,
    ) -> Result<Communicator> {
        joining::over_tcp("CommInitRank", nranks, id, rank, config).map(Communicator::of)
    }

    /// Joins all processes that a launcher has started together, without MPI: over PMIx, PMI,
    /// Slurm variables, or `KOLO_RANK`, `KOLO_NRANKS` and `KOLO_COMM_ID`; one rank alone where
    /// there is nothing of these. Every process calls it, as often as the others.
    ///
    /// # Errors
    /// As [`Communicator::init_rank`]; a launcher whose ranks have no way to meet.
    pub fn init_env(config: &CommConfig) -> Result<Communicator> {
        joining::launched("CommInitEnv", launch::from_environment, config).map(Communicator::of)
    }

    /// Joins all tasks of this process's Slurm step by the variables of the step alone, whatever
    /// `srun --mpi` says. Every task calls it, as often as the others.
    ///
    /// # Errors
    /// As [`Communicator::init_rank`]; this is no task of a step.
    pub fn init_slurm(config: &CommConfig) -> Result<Communicator> {
        joining::launched("CommInitSlurm", launch::from_slurm, config).map(Communicator::of)
    }

    /// A communicator of `nranks` ranks inside this process, one handle a rank.
    ///
    /// # Errors
    /// As [`Communicator::init_rank`].
    pub fn init_all(nranks: u32, config: &CommConfig) -> Result<Vec<Communicator>> {
        let all = joining::all_threads(&vec![config.device; nranks as usize], config)?;
        Ok(all.into_iter().map(Communicator::of).collect())
    }

    /// A communicator of ranks inside this process, where `devices` has the device of each rank.
    ///
    /// # Errors
    /// As [`Communicator::init_rank`].
    pub fn init_all_on(devices: &[CommDevice], config: &CommConfig) -> Result<Vec<Communicator>> {
        let all = joining::all_threads(devices, config)?;
        Ok(all.into_iter().map(Communicator::of).collect())
    }

    /// Splits: ranks with the same `color` make a new communicator, ordered by (`key`, rank).
    /// Every rank calls it; without color a rank gets none.
    ///
    /// # Errors
    /// As [`Communicator::init_rank`].
    pub fn split(
        &self,
        color: Option<u32>,
        key: i32,
        config: &CommConfig,
    ) -> Result<Option<Communicator>> {
        let made = split::split(&self.queue, color, key, config);
        Ok(made?.map(Communicator::of))
    }

    /// This rank.
    pub fn rank(&self) -> u32 {
        self.queue.rank
    }

    /// Whether it has neither connections to other nodes, nor a device, nor operations of the
    /// program: then nothing but memory stays while somebody keeps a handle of it after its end.
    #[inline]
    pub fn holds_memory_only(&self) -> bool {
        self.queue.holds_memory_only()
    }

    /// Ranks of the communicator.
    pub fn nranks(&self) -> u32 {
        self.queue.nranks
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.queue.name
    }

    /// Where the buffers of its calls lie, and who moves its data.
    pub fn device(&self) -> CommDevice {
        self.queue.device
    }

    /// The network that carries data to other nodes, by the name that it has in the log: `socket`,
    /// `verbs`, `mpi`, or what a plugin calls itself. `None` where all ranks are on one node.
    pub fn network_name(&self) -> Option<&str> {
        self.queue.links().map(|links| links.net().name())
    }

    /// The correctly rounded sum of all terms of all ranks: the same bits on every rank, for every
    /// number of ranks and every distribution of the terms over them. Ranks may have different
    /// numbers of terms, or none; without any term the sum is +0. Blocks until it is known.
    ///
    /// # Errors
    /// Those of every call ([`Communicator`]); `InvalidUsage` inside a group.
    pub fn sum_exact<T: Summand>(&self, terms: &[T]) -> Result<T> {
        sum::sum_exact(&self.queue, terms)
    }

    /// [`Communicator::sum_exact`] of the terms whose mask is true.
    ///
    /// # Errors
    /// As [`Communicator::sum_exact`], and for a mask of another length.
    pub fn sum_exact_masked<T: Summand>(&self, terms: &[T], mask: &[bool]) -> Result<T> {
        sum::sum_exact_masked(&self.queue, terms, mask)
    }

    /// Makes an operation of a function for one element type: `combine(first, second)` writes
    /// `first op second` into `second`, element by element. With `commutes` false, contributions
    /// are combined in the order of ranks: `((r0 op r1) op r2) ...`, in blocks of elements and
    /// perhaps with other brackets (the function must be associative).
    ///
    /// It may be called on any thread that waits in a call of the communicator. All ranks must
    /// make it alike. A panic in it ends the process: other ranks wait for the result.
    ///
    /// # Errors
    /// The error that stopped the communicator.
    pub fn user_op<T: Element>(
        &self,
        commutes: bool,
        combine: impl Fn(&[T], &mut [T]) + Send + Sync + 'static,
    ) -> Result<RedOp> {
        redop::user_op(&self.queue, commutes, combine)
    }

    /// Forgets an operation that the program made; calls in flight keep it.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no such operation.
    pub fn destroy_op(&self, op: RedOp) -> Result<()> {
        redop::destroy_op(&self.queue, op)
    }

    /// Registers a buffer of `bytes` bytes: large calls on it, or on parts of it, are then read by
    /// the other ranks of the node where they lie, if all ranks have registered theirs (or have
    /// them from `koloMemAlloc`). Each rank calls it for itself; any thread.
    ///
    /// The whole pages of the buffer are moved onto a file in memory, at the same addresses and
    /// with the same content. `docs/memory.md` says which memory that can be done with, and what
    /// fork() and `madvise` do to it then. Where it gains nothing, nothing is moved.
    ///
    /// # Safety
    /// The memory is the program's, and stays mapped until the registration has ended. Until this
    /// returns, and while the registration ends, no thread writes into it.
    ///
    /// # Errors
    /// `InvalidArgument` for memory that cannot be moved, with the reason; `SystemError` where the
    /// system or a limit refuses; those of a communicator that has stopped. Nothing has changed.
    pub unsafe fn register(&self, start: *const u8, bytes: usize) -> Result<RegisteredBuffer> {
        // SAFETY: the promise of the caller.
        unsafe { registered::register(&self.queue, start, bytes) }
    }

    /// Ends a registration, after the last call on the buffer. Memory that no other registration
    /// holds is moved back. Ending the communicator does the same for those that are left. Any
    /// thread.
    ///
    /// # Errors
    /// `InvalidArgument` for one that is not there, or of another communicator; `SystemError` if
    /// memory cannot be moved back: it stays usable where it is, and the registration has ended.
    pub fn deregister(&self, registration: RegisteredBuffer) -> Result<()> {
        registered::deregister(&self.queue, registration)
    }

    /// A graph on this communicator. Every rank calls it with its own neighbours: `sources` send to
    /// it, `destinations` receive from it. A rank may occur several times, and may be the own one:
    /// the k-th edge from a to b in a's destinations is the k-th in b's sources. `None` makes a
    /// block that is not exchanged. All blocks of neighbour calls have the order of these lists.
    ///
    /// # Errors
    /// `InvalidArgument`, on all ranks, if a neighbour is no rank, or if a rank lists an edge that
    /// the other end does not list.
    pub fn graph(&self, sources: &[Option<u32>], destinations: &[Option<u32>]) -> Result<Graph> {
        graph::graph(&self.queue, sources, destinations).map(Graph::of)
    }

    /// The symmetric graph of a Cartesian grid: for each dimension the neighbour below and the one
    /// above, `None` beyond the end of a dimension that is not periodic. Ranks are numbered row by
    /// row, the last dimension fastest. In a periodic dimension of one or two ranks, what goes
    /// down arrives from above.
    ///
    /// # Errors
    /// `InvalidArgument` if the grid has not as many places as the communicator ranks.
    pub fn cartesian(&self, dims: &[u32], periodic: &[bool]) -> Result<Graph> {
        graph::cartesian(&self.queue, dims, periodic).map(Graph::of)
    }

    /// Waits until every call in flight on this communicator has ended; after it none is taken.
    ///
    /// # Errors
    /// The error that stopped the communicator. `InvalidUsage`, and nothing was done: CUDA graphs
    /// have calls of it that go to other nodes.
    pub fn finalize(&self) -> Result<()> {
        parting::finalize(&self.queue)
    }

    /// Ends the use of the communicator by this rank: waits for calls in flight, says goodbye to
    /// the other ranks, and frees what it holds once no clone is left. Idempotent. While another
    /// thread is inside a call of it, nothing is done, and `InvalidUsage` says so; a call that
    /// begins later is refused.
    ///
    /// # Errors
    /// That of a call in flight that failed; ranks that have called different things, unless a call
    /// has said so. The communicator is destroyed all the same.
    pub fn destroy(&self) -> Result<()> {
        parting::destroy(&self.queue)
    }

    /// Stops the communicator at once, here and on all ranks: their calls return an error that
    /// names this rank. When it returns, calls on streams have let go of their buffers; a call of
    /// another thread lets go when that call returns, and so does a call that runs the operation of
    /// the program which this is called from.
    ///
    /// # Errors
    /// None; safe to call from any thread, at any time.
    pub fn abort(&self) -> Result<()> {
        parting::abort(&self.queue);
        Ok(())
    }

    /// Whether the communicator still works.
    ///
    /// # Errors
    /// The error that stopped it.
    pub fn async_error(&self) -> Result<()> {
        parting::async_error(&self.queue)
    }

    /// Begins to join, and returns at once: [`Starting`] tells when the communicator is there. One
    /// thread may begin many so, even several ranks of one communicator. Only a start by unique id
    /// has this form: one by MPI, by a launcher or by [`Communicator::split`] blocks.
    ///
    /// # Errors
    /// Wrong ranks, an id that is none; `SystemError` without a thread for it. Every other error of
    /// [`Communicator::init_rank`] comes from [`Starting`].
    pub fn begin(nranks: u32, id: &UniqueId, rank: u32, config: &CommConfig) -> Result<Starting> {
        begun::begin(nranks, id, rank, config).map(Starting)
    }

    /// Makes a communicator of the ranks of an MPI communicator, with the same ranks. Collective
    /// over it. With crate `mpi` (rsmpi) it is `world.as_raw()`; any other `MPI_Comm` by value is
    /// as good.
    ///
    /// kolo is linked to no MPI: it loads `libkolo_mpi.so` of the family that this process runs,
    /// from `../lib/kolo/FAMILY` beside the program, or from where `KOLO_MPI_LIBRARY` says. The
    /// communicator stays the program's. It is used only here and in [`Communicator::split`], and
    /// may be freed when there are no more such calls. MPI may be finalised before or after
    /// [`Communicator::destroy`]; with `KOLO_NET=mpi` only after it. Below `MPI_THREAD_MULTIPLE` a
    /// blocking call of kolo counts as an MPI call of its thread.
    ///
    /// # Errors
    /// As [`Communicator::init_rank`]; MPI that is not there, not initialised or finalised; no
    /// library for it; MPI_COMM_NULL; an inter-communicator.
    ///
    /// # Safety
    /// `comm` is an `MPI_Comm` of the MPI that this process is linked to: MPI_COMM_NULL or alive.
    pub unsafe fn init_mpi<C: Copy>(comm: C, config: &CommConfig) -> Result<Communicator> {
        // SAFETY: our caller's promise.
        let queue = unsafe { mpi::join(comm, config) }?;
        Ok(Communicator { queue })
    }

    calls!();
    block_calls!();

    /// Runs `body`, whose calls begin in order and progress together, and returns when all of
    /// them have ended. Neighbouring sends and receives progress together, in any order of peers.
    ///
    /// # Errors
    /// The error of `body`, else that of the first call that failed; `InvalidUsage` inside an
    /// operation of the program.
    pub fn scope<'env, R>(
        &'env self,
        body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> Result<R>,
    ) -> Result<R> {
        let named = |error: Error| self.queue.tells(error).during("scope");
        // The end of the scope must be able to wait, for the buffers are only borrowed.
        outside_operations("opens a scope").map_err(named)?;
        let scope = Scope {
            queue: &self.queue,
            stream: Stream::new().map_err(named)?,
            scope: PhantomData,
            env: PhantomData,
        };
        let end = ScopeEnd(&scope.stream);
        let result = body(&scope);
        let ended = end.0.synchronize();
        drop(end);
        result.and_then(|value| ended.map(|()| value).map_err(named))
    }
}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.queue.fmt(f)
    }
}

/// The neighbours of a rank, on a communicator. Cheap to clone; clones are the same graph. It keeps
/// its communicator.
#[derive(Clone)]
pub struct Graph {
    comm: Communicator,
    edges: Edges,
}

impl Graph {
    fn of(edges: Edges) -> Graph {
        let comm = Communicator::of(Arc::clone(&edges.queue));
        Graph { comm, edges }
    }

    /// Blocks that go out, and blocks that come in: missing neighbours count.
    pub fn degrees(&self) -> (usize, usize) {
        self.edges.degrees()
    }

    /// Whom the rank receives from, block by block.
    pub fn sources(&self) -> &[Option<u32>] {
        self.edges.sources()
    }

    /// Whom the rank sends to, block by block.
    pub fn destinations(&self) -> &[Option<u32>] {
        self.edges.destinations()
    }

    /// The communicator it was made on.
    pub fn communicator(&self) -> &Communicator {
        &self.comm
    }
}

impl Deref for Graph {
    type Target = Edges;

    fn deref(&self) -> &Edges {
        &self.edges
    }
}

impl fmt::Debug for Starting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (outs, ins) = self.degrees();
        write!(f, "graph on {:?}, {ins} in, {outs} out", self.comm)
    }
}

/// A communicator that was begun by [`Communicator::begin`], and is being made meanwhile.
///
/// Dropped before it is there, it is called off as by [`Starting::abort`].
pub struct Starting(BegunStart);

impl Deref for Starting {
    type Target = BegunStart;

    fn deref(&self) -> &BegunStart {
        &self.0
    }
}

impl Starting {
    /// The rank that this will be.
    pub fn rank(&self) -> u32 {
        self.0.rank()
    }

    /// How many ranks there will be.
    pub fn nranks(&self) -> u32 {
        self.0.nranks()
    }

    /// The phase it is in, in a word; the last one of those that are over where it has ended.
    pub fn phase(&self) -> &'static str {
        self.0.phase()
    }

    /// The communicator, if it is there by now. Does not wait. It is the program's then, and ends
    /// when the program drops it, whether this is kept or not.
    ///
    /// # Errors
    /// Why there will be none: as [`Communicator::init_rank`]; `RemoteError` after
    /// [`BegunStart::abort`]; `InvalidUsage` in a forked child, and once it was dropped.
    pub fn poll(&self) -> Result<Option<Communicator>> {
        Ok(self.0.poll_queue()?.map(Communicator::of))
    }

    /// Waits until the communicator is there.
    ///
    /// # Errors
    /// Those of [`Starting::poll`].
    pub fn wait(self) -> Result<Communicator> {
        loop {
            if let Some(communicator) = self.poll()? {
                return Ok(communicator);
            }
            self.0.when_ended(Duration::MAX);
        }
    }

    /// Ends the start in whatever phase it is, and lets the other ranks know; they fail, for a
    /// communicator has all of its ranks or none. Waits until nothing is left of it, at most 5 s: a
    /// thread inside a call of the system or of a network plugin ends when that call does. A
    /// communicator that is there already is aborted. Any thread, any time.
    pub fn abort(&self) {
        self.0.abort();
    }
}

/// Asynchronous calls on one communicator; see [`Communicator::scope`].
pub struct Scope<'scope, 'env: 'scope> {
    pub(super) queue: &'env Arc<Queue>,
    pub(super) stream: Stream,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl<'env> Scope<'_, 'env> {
    calls!(['env]);
    block_calls!(['env]);
}
