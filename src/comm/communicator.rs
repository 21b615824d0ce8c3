//! Making, asking and ending a communicator.

use super::start::{init, joining, split};
use super::calling::tally;
use super::flight::turn;
use super::{CommConfig, CommDevice, Communicator, IdleHook, logging};
use crate::base::starts::{self, Start};
use crate::base::{Code, Error, Result};
use crate::bootstrap::{Bootstrap, NetSettings, UniqueId, launch};
use crate::config::Settings;
use crate::exec::operation::outside_operations;
use crate::proxy::net::Rail;
use crate::proxy::progress::{Engine, Work};
use crate::transport::fork;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Communicator {
    /// Makes a new id for one communicator. One process makes it and hands its bytes
    /// ([`UniqueId::as_bytes`]) to the others by any means; it must live until all ranks have
    /// joined.
    ///
    /// # Errors
    /// A bad setting; no usable network interface.
    pub fn unique_id() -> Result<UniqueId> {
        // The first parts of a process, if nothing has started them: the root is the second one.
        logging::ensure();
        starts::note(Start::Bootstrap);
        UniqueId::create(&NetSettings::from(&Settings::load(&[])?))
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
        joining::over_tcp("CommInitRank", nranks, id, rank, config)
    }

    /// Joins all processes that a launcher has started together, without MPI: over PMIx, PMI,
    /// Slurm variables, or `KOLO_RANK`, `KOLO_NRANKS` and `KOLO_COMM_ID`; one rank alone where
    /// there is nothing of these. Every process calls it, as often as the others.
    ///
    /// # Errors
    /// As [`Communicator::init_rank`]; a launcher whose ranks have no way to meet.
    pub fn init_env(config: &CommConfig) -> Result<Communicator> {
        joining::launched("CommInitEnv", launch::from_environment, config)
    }

    /// Joins all tasks of this process's Slurm step by the variables of the step alone, whatever
    /// `srun --mpi` says. Every task calls it, as often as the others.
    ///
    /// # Errors
    /// As [`Communicator::init_rank`]; this is no task of a step.
    pub fn init_slurm(config: &CommConfig) -> Result<Communicator> {
        joining::launched("CommInitSlurm", launch::from_slurm, config)
    }

    /// Joins over a bootstrap that exists already, such as an MPI communicator's.
    ///
    /// # Errors
    /// As [`Communicator::init_rank`].
    #[doc(hidden)]
    pub fn init_bootstrap(
        bootstrap: Box<dyn Bootstrap>,
        config: &CommConfig,
    ) -> Result<Communicator> {
        joining::over(&*bootstrap, config, init::Means::default())
    }

    /// Joins over a bootstrap that exists already. Callers that wait call `idle` now and then, so
    /// that the MPI of the program makes progress too.
    ///
    /// # Errors
    /// As [`Communicator::init_rank`].
    #[doc(hidden)]
    pub fn init_bootstrap_with_idle(
        bootstrap: Box<dyn Bootstrap>,
        config: &CommConfig,
        idle: Option<IdleHook>,
    ) -> Result<Communicator> {
        if let Some(idle) = &idle {
            turn::offer(idle);
        }
        let means = init::Means {
            idle,
            net: None,
            adopts: true,
        };
        joining::over(&*bootstrap, config, means)
    }

    /// A communicator of `nranks` ranks inside this process, one handle a rank.
    ///
    /// # Errors
    /// As [`Communicator::init_rank`].
    pub fn init_all(nranks: u32, config: &CommConfig) -> Result<Vec<Communicator>> {
        joining::all_threads(&vec![config.device; nranks as usize], config)
    }

    /// A communicator of ranks inside this process, where `devices` has the device of each rank.
    ///
    /// # Errors
    /// As [`Communicator::init_rank`].
    pub fn init_all_on(devices: &[CommDevice], config: &CommConfig) -> Result<Vec<Communicator>> {
        joining::all_threads(devices, config)
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
        let alive = self.inner.alive();
        alive.map_err(|error| error.during("CommSplit"))?;
        let _timed = tally::waiting("CommSplit");
        split::split(self, color, key, config).map_err(|mut error| {
            // What it does by calls of its own is nothing that the program has called.
            error.operation = Some("CommSplit".into());
            self.inner.tells(error)
        })
    }

    /// This rank.
    pub fn rank(&self) -> u32 {
        self.inner.rank
    }

    /// Whether it has neither connections to other nodes, nor a device, nor operations of the
    /// program: then nothing but memory stays while somebody keeps a handle of it after its end.
    #[inline]
    pub fn holds_memory_only(&self) -> bool {
        self.inner.links().is_none()
            && self.inner.device == CommDevice::Host
            && self.inner.ops.next.load(Ordering::Relaxed) == 0
    }

    /// Ranks of the communicator.
    pub fn nranks(&self) -> u32 {
        self.inner.nranks
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// An error of a call on it, with rank, name, and where it is wanted the place of the call.
    #[doc(hidden)]
    pub fn tells(&self, error: Error) -> Error {
        self.inner.tells(error)
    }

    /// The settings it was made with.
    #[doc(hidden)]
    pub fn settings(&self) -> &crate::config::Settings {
        &self.inner.settings
    }

    /// The table from which algorithms are chosen, as it was bound at init.
    ///
    /// # Errors
    /// `InvalidUsage` while another thread is inside a call of this communicator.
    #[doc(hidden)]
    pub fn tuner(&self) -> Result<crate::tune::Table> {
        Ok(self.inner.user()?.asked_table().clone())
    }

    /// The ring of a channel, all ranks in order from rank 0 on. Channels beyond the last begin
    /// again with the first.
    ///
    /// # Errors
    /// As [`Communicator::tuner`].
    #[doc(hidden)]
    pub fn ring_order(&self, channel: u16) -> Result<Vec<u32>> {
        let exec = self.inner.user()?;
        let natural = || (0..self.inner.nranks).collect();
        let mut order = exec
            .members
            .nodes
            .ring(channel)
            .map_or_else(natural, <[u32]>::to_vec);
        let first = order.iter().position(|&rank| rank == 0).unwrap_or(0);
        order.rotate_left(first);
        Ok(order)
    }

    /// The ranks of a node, counted from 0 in the order of their lowest ranks, as the tree of a
    /// channel passes them, from the head down.
    ///
    /// # Errors
    /// As [`Communicator::tuner`]; there is no such node.
    #[doc(hidden)]
    pub fn tree_chain(&self, channel: u16, node: u32) -> Result<Vec<u32>> {
        let exec = self.inner.user()?;
        if node >= exec.members.nodes.count() {
            let what = format!("node {node} of {}", exec.members.nodes.count());
            return Err(Error::argument(what, "nodes count from 0"));
        }
        Ok(exec.members.nodes.chain(channel, node).ranks)
    }

    /// Waits until every call in flight on this communicator has ended; after it none is taken.
    ///
    /// # Errors
    /// The error that stopped the communicator. `InvalidUsage`, and nothing was done: CUDA graphs
    /// have calls of it that go to other nodes.
    pub fn finalize(&self) -> Result<()> {
        self.finish().map_err(|error| self.inner.tells(error))
    }

    fn finish(&self) -> Result<()> {
        outside_operations("finalizes a communicator")?;
        let alive = self.inner.alive();
        alive.map_err(|error| error.during("CommFinalize"))?;
        let _timed = tally::waiting("CommFinalize");
        let mut exec = self.inner.user()?;
        if let Some(carrier) = exec.device.as_ref().and_then(|on| on.carrier.as_ref()) {
            carrier.refuse_graphs()?;
        }
        if let Some(last) = exec.queue.back().map(|op| Arc::clone(&op.completion)) {
            self.inner
                .drive_until(&mut exec, &last, ("CommFinalize", None))?;
        }
        self.inner.settle_device(&mut exec, "CommFinalize")?;
        self.inner.ending.finalized.store(true, Ordering::Relaxed);
        Ok(())
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
        outside_operations("destroys a communicator")?;
        if self.inner.ending.destroyed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        if fork::in_child_of_user() {
            // The communicator is its parent's, and so are the threads that may hold its locks.
            return Ok(());
        }
        let timed = tally::waiting("CommDestroy");
        let ended = if self.inner.is_stopped() {
            let untold = self.inner.untold();
            self.inner.let_go();
            untold.map_or(Ok(()), Err)
        } else {
            self.finalize()
        };
        if ended
            .as_ref()
            .is_err_and(|error| error.code == Code::InvalidUsage)
            && !self.inner.is_stopped()
        {
            // Another thread is inside a call: nothing was done.
            self.inner.ending.destroyed.store(false, Ordering::Release);
            return ended;
        }
        let ended = ended.and_then(|()| self.inner.farewell());
        drop(timed);
        if self.inner.seen.tallied {
            tally::leaving(self.inner.nonce);
        }
        if let Ok(mut exec) = self.inner.user() {
            exec.engine.free_scratch();
            // Its end waits for kernels: they leave when the communicator has stopped.
            exec.device = None;
        }
        crate::cuda::drop_unused();
        let ended = ended.and(self.inner.registrations.end());
        // Whoever waits for data of this rank must not hear that it has left before they came.
        if let Some(links) = self.inner.links() {
            links.close(self.inner.is_stopped());
        }
        let parted = self.inner.take_leave();
        let ended = ended.and(parted);
        self.inner.node.wake_others();
        self.inner.ending.stopped.store(true, Ordering::Release);
        self.inner.leave();
        // What the last handle frees is freed on the program's thread, now.
        let work: Arc<dyn Work> = self.inner.clone();
        Engine::global().release(&work);
        // That code says that nothing was done.
        ended.map_err(|error| {
            let error = match error.code {
                Code::InvalidUsage => error.with_code(Code::RemoteError),
                _ => error,
            };
            self.inner.tells(error).during("CommDestroy")
        })
    }

    /// Stops the communicator at once, here and on all ranks: their calls return an error that
    /// names this rank. When it returns, calls on streams have let go of their buffers; a call of
    /// another thread lets go when that call returns, and so does a call that runs the operation of
    /// the program which this is called from.
    ///
    /// # Errors
    /// None; safe to call from any thread, at any time.
    pub fn abort(&self) -> Result<()> {
        self.abort_for(&called_off(self.inner.rank, "called CommAbort"));
        Ok(())
    }

    /// Aborts the communicator for a reason that the others hear.
    pub(in crate::comm) fn abort_for(&self, why: &Error) {
        if !self.inner.ending.destroyed.load(Ordering::Acquire) {
            self.inner.stop(why);
            self.inner.let_go();
        }
    }

    /// Whether the communicator still works.
    ///
    /// # Errors
    /// The error that stopped it.
    pub fn async_error(&self) -> Result<()> {
        self.inner.look_at_device();
        match self.inner.is_stopped() {
            true => Err(self.inner.stop_error()),
            false => Ok(()),
        }
    }

    /// Records from now on what the engine of connections between nodes does for this rank; for
    /// tests and for studies, as the record grows until it is taken.
    #[doc(hidden)]
    pub fn record_network(&self) {
        if let Some(links) = self.inner.links() {
            links.record();
        }
    }

    /// Returns the events that were recorded since the last time; none where all ranks are on one
    /// node.
    #[doc(hidden)]
    pub fn network_events(&self) -> Vec<crate::proxy::net::trace::Event> {
        let links = self.inner.links();
        links.map(|links| links.recorded()).unwrap_or_default()
    }

    /// Lets `profiler` hear when each step of each operation between nodes begins and ends to be
    /// posted, transmitted and done, from now on. Not of what goes through other ranks (`pxn`).
    #[doc(hidden)]
    pub fn profile_network(&self, profiler: Arc<dyn crate::proxy::net::profile::Profiler>) {
        if let Some(links) = self.inner.links() {
            links.profile(profiler);
        }
    }

    /// Pictures what is under way between nodes, and counts the operations that the engine has
    /// taken over since the beginning; `None` where all ranks are on one node. It may be printed.
    #[doc(hidden)]
    pub fn network_picture(&self) -> Option<crate::proxy::net::live::Picture> {
        self.inner.links().map(|links| links.picture())
    }

    /// Where the buffers of its calls lie, and who moves its data.
    pub fn device(&self) -> CommDevice {
        self.inner.device
    }

    /// The network that carries data to other nodes, by the name that it has in the log: `socket`,
    /// `verbs`, `mpi`, or what a plugin calls itself. `None` where all ranks are on one node.
    pub fn network_name(&self) -> Option<&str> {
        self.inner.links().map(|links| links.net().name())
    }

    /// Connections that this rank has made for other ranks of its node, which send through it.
    #[doc(hidden)]
    pub fn proxied_connections(&self) -> usize {
        let network = self.inner.network.as_ref();
        let proxied = network.and_then(|network| network.proxied.as_ref());
        proxied.map_or(0, |proxied| proxied.connections())
    }

    /// Where kolo's own threads run for this rank, and why there.
    #[doc(hidden)]
    pub fn pinning(&self) -> &crate::topo::Pinning {
        &self.inner.pinning
    }

    /// Connections to (sending) and from (receiving) ranks of other nodes that have been made.
    #[doc(hidden)]
    pub fn network_connections(&self) -> (usize, usize) {
        let links = self.inner.links();
        links.map(|links| links.connections()).unwrap_or_default()
    }

    /// Connections by which this rank sends to other nodes: peer, channel, and the devices here and
    /// there.
    #[doc(hidden)]
    pub fn rails(&self) -> Vec<(u32, u16, Rail)> {
        let rails = self.inner.links().map(|links| links.rails());
        let rails = rails.into_iter().flatten();
        rails
            .map(|(peer, channel, rail)| (peer.0, channel, rail))
            .collect()
    }

    /// Steps executed so far on this rank, and the steps that the plans of all its calls have:
    /// equal when nothing is in flight, because there is no path beside the plan.
    #[doc(hidden)]
    pub fn step_counts(&self) -> Result<(u64, u64)> {
        let mut exec = self.inner.user()?;
        self.inner.settle_device(&mut exec, "step_counts")?;
        let (done, planned) = match exec.device.as_deref() {
            None => (0, 0),
            Some(on) => (on.engine.steps_executed()?, on.steps_planned),
        };
        let (host, of_host) = (exec.engine.steps_executed(), exec.counts.steps_planned);
        Ok((host + done, of_host + planned))
    }

    /// Calls so far in which the ranks have read each other's buffers where they lie.
    ///
    /// # Errors
    /// As [`Communicator::tuner`].
    #[doc(hidden)]
    pub fn direct_calls(&self) -> Result<u64> {
        Ok(self.inner.user()?.counts.direct_calls)
    }
}

/// Makes the error that the ranks hear of a rank whose program ended its communicator, because it
/// `did` something.
pub(in crate::comm) fn called_off(rank: u32, did: &str) -> Error {
    Error::new(
        Code::RemoteError,
        format!("rank {rank} {did}"),
        "see why the program aborted; make a new communicator to go on",
    )
}

impl std::fmt::Debug for Communicator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} (rank {} of {})",
            self.inner.name, self.inner.rank, self.inner.nranks
        )
    }
}
