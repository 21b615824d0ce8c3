//! The engine of host memory: what binds plans to connections in memory that ranks share, to fold
//! functions of the processor and to the threads that drive lanes.
//!
//! Data path: [`HostEngine::add`] finds the plan's connections ([`Bound`]), the kernel and the
//! windows of an order -> [`HostEngine::pass`] lets every lane move ([`super::interpreter`]).
//! Small calls have a shorter way ([`super::oneshot`]).

use super::flight::{HostFlight, Run};
use super::kernel::Kernels;
use super::launch::{self, Bound, Launch};
use super::messages::{Contributors, Messages, SmallExchange, SmallReduce};
use super::schedule::Latest;
use super::scratch::Sources;
use super::trials::{LEAST_OVER_SLOTS, StoreTrials};
use super::wires::Wires;
use crate::base::{Error, Result, clock};
use crate::dtype;
use crate::exec::order::{LaunchOrder, MessageOrder, Planner, SmallOrder};
use crate::exec::stop::{Progress, Stop};
use crate::plan::cache::Key;
use crate::plan::{Cache, Geometry, Placing, Protocol};
use crate::wire::ports::Ports;
use std::sync::Arc;

/// Connections, plans and kernels of one rank of a communicator on host memory.
pub struct HostEngine {
    /// All connections.
    pub(super) wires: Wires,
    plans: Cache<Bound>,
    pub(super) kernels: Kernels,
    /// Slices from this size on are written past the cache.
    pub(super) stream_bytes: usize,
    /// Messages of fewer bytes move as they are waited for.
    pub(super) awaits_below: usize,
    /// How results are written.
    trials: StoreTrials,
    pub(super) sources: Sources,
    /// Small messages on their way.
    messages: Messages,
    /// Where a root gets the contributions to a small reduce.
    contributors: Contributors,
    /// The last run of a bundle on each end.
    latest: Latest,
    /// How many plans are still bound until one is refused: fault injection for tests.
    #[cfg(test)]
    refuses_to_bind: Option<u32>,
}

impl HostEngine {
    /// Over these connections, with memory for `plans` bound plans; slices of `stream_bytes` and
    /// more are written to slots past the cache.
    pub fn new(wires: Wires, plans: usize, stream_bytes: usize, trials: StoreTrials) -> HostEngine {
        let ranks = wires.ranks();
        let awaits = !wires.carried.somewhere() && !wires.sends_meet;
        HostEngine {
            awaits_below: if awaits { LEAST_OVER_SLOTS } else { 0 },
            kernels: Kernels::new(ranks as u32),
            plans: Cache::new(plans),
            stream_bytes,
            trials,
            sources: Sources::for_ranks(ranks),
            messages: Messages::default(),
            contributors: Contributors::default(),
            latest: Latest::default(),
            #[cfg(test)]
            refuses_to_bind: None,
            wires,
        }
    }

    /// Slices from this size on are written past the cache.
    pub fn stream_bytes(&self) -> usize {
        self.stream_bytes
    }

    /// The ends of this rank's connections.
    pub fn ports(&mut self) -> &mut Ports {
        &mut self.wires.ports
    }

    /// Whether some ranks are on other nodes.
    #[inline(always)]
    pub fn is_between_nodes(&self) -> bool {
        self.wires.carried.somewhere()
    }

    /// Steps executed since the communicator was made.
    pub fn steps_executed(&self) -> u64 {
        self.wires.steps_executed
    }

    /// Gives memory back that only launches need.
    pub fn free_scratch(&mut self) {
        self.wires.scratch.clear();
    }

    /// Fault injection for tests: the binding after `left` more fails.
    #[cfg(test)]
    pub fn refuse_to_bind_after(&mut self, left: u32) {
        self.refuses_to_bind = Some(left);
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

    fn bound(&mut self, key: Key, planner: Planner<'_>) -> Result<Arc<Bound>> {
        self.may_refuse()?;
        if let Some(plan) = self.plans.find(&key) {
            return Ok(plan);
        }
        let (shape, protocol, placing) = key;
        let mut plan = planner(&shape)?;
        if self.wires.carried.somewhere() {
            let is_remote = |rank| self.wires.carried.is_remote(rank as usize);
            plan.place(placing, self.wires.channels(), is_remote);
        }
        let bound = Bound::new(plan, protocol, &mut self.wires)?;
        Ok(self.plans.insert(key, bound))
    }

    /// Binds the plan of an order to buffers, sizes and connections.
    fn launch(
        &mut self,
        order: &mut LaunchOrder,
        planner: Planner<'_>,
        beside: &[Launch],
    ) -> Result<Launch> {
        let kernel = self.kernels.of(&order.combine)?;
        let mut geometry = order.geometry;
        if self.wires.carried.somewhere() && order.reach.is_none() {
            // A slot is a message.
            geometry.slice_steps = 1;
        }
        let (shape, wanted, placing) = (order.shape, order.protocol, order.placing);
        let mut plan = self.bound((shape, wanted, placing), planner)?;
        // Elements of exact sums may be too large for lines, and the tuner does not know types.
        let fitting = launch::protocol(plan.pieces(), wanted, &geometry, kernel.element_bytes);
        if fitting != wanted {
            plan = self.bound((shape, fitting, placing), planner)?;
        }
        if order.reach.is_some() && !plan.is_direct {
            let what = "a call without a direct form was to be direct";
            return Err(Error::internal(what));
        }
        let buffers = (order.send, order.recv);
        let mut launch = Launch::new(plan, buffers, kernel, order.signature, geometry)?;
        let bytes = order.count * order.combine.element_bytes();
        let collective = order.shape.collective;
        let beside = beside.iter().filter_map(|launch| launch.trial);
        let beside = beside.map(|(trial, _)| trial);
        if let Some(reach) = order.reach.take() {
            let trial = self.trials.direct(collective, bytes, beside);
            launch.trial = Some((trial, clock::now()));
            launch.direct = Some(reach);
            return Ok(launch);
        }
        if fitting == Protocol::Simple && !self.wires.carried.somewhere() {
            let trial = self.trials.over_slots(collective, bytes, beside);
            launch.trial = trial.map(|trial| (trial, clock::now()));
        }
        launch.number = self.wires.carried.number_launch();
        if let Some((dtype, operation)) = order.folding
            && let Some(carrier) = self.wires.carried.carrier()
        {
            let (number, bytes) = (launch.number, launch.kernel.element_bytes);
            carrier.announce(number, dtype, operation, bytes);
        }
        launch.in_place = order.in_place;
        launch.stream_bytes = self.stream_bytes;
        Ok(launch)
    }

    /// Adds a launch to a flight. Returns how many steps it has.
    ///
    /// # Errors
    /// A connection cannot be made, or a token cannot hold its chunks.
    pub fn add(
        &mut self,
        flight: &mut HostFlight,
        mut order: LaunchOrder,
        planner: Planner<'_>,
    ) -> Result<u64> {
        let launch = self.launch(&mut order, planner, &flight.launches)?;
        flight.eager |= launch.plan.has_fans;
        let mut after = None;
        if order.follows {
            if flight.stamp == 0 {
                flight.stamp = self.latest.next();
            }
            let end = launch.plan.ends.first();
            let number = flight.lanes();
            after = end.and_then(|&end| self.latest.replace(flight.stamp, end, number));
        }
        let mut steps = 0;
        for lane in 0..launch.plan.lanes().len() {
            let mut window = launch.window(lane, order.count, order.blocks);
            if order.meets && self.wires.meets_afar(&order.shape) {
                window = window.and_empty_rounds(u64::from(Geometry::SLOTS));
            }
            steps += launch.plan.lane_steps_per_round(lane) * window.rounds();
            flight.push(lane, window, after);
        }
        flight.launches.push(launch);
        Ok(steps)
    }

    /// Moves what can move; `ended` is told the number of each lane that ends.
    ///
    /// # Errors
    /// A rank that called something else, or memory of a peer that cannot be read.
    ///
    /// # Safety
    /// The buffers of the orders hold what these say, and nobody else touches them.
    pub unsafe fn pass(
        &mut self,
        flight: &mut HostFlight,
        mut ended: impl FnMut(usize),
    ) -> std::result::Result<Progress, Stop> {
        let HostFlight {
            launches,
            runs,
            eager,
            ..
        } = flight;
        let wires = &mut self.wires;
        let passed = runs.pass(|number, Run { launch, lane }| {
            // SAFETY: our caller's promise; the owner lock makes us the only driver.
            let progress = unsafe { lane.progress(&launches[*launch], wires, &mut ())? };
            if progress == Progress::Done {
                ended(number);
            }
            Ok::<_, Stop>(progress)
        })?;
        if runs.pending() == 0 {
            if std::mem::take(eager) {
                wires.ports.complete_eager();
            }
            for (trial, begun) in launches.iter().filter_map(|launch| launch.trial) {
                self.trials.ended(trial, begun.elapsed());
            }
            return Ok(Progress::Done);
        }
        Ok(match passed.missing {
            Some(peer) if !passed.moved => Progress::Blocked(peer),
            _ => Progress::Moved(wires.me()),
        })
    }

    /// Copies a block that this rank has for itself: one step of a plan.
    ///
    /// # Safety
    /// Both places have so many bytes, and nobody else touches them; they are apart.
    pub unsafe fn copy_own(&mut self, from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: our caller's promise.
        unsafe { dtype::move_bytes(from, to, bytes) };
        self.wires.steps_executed += 1;
    }

    /// Forgets the last bundle of small messages.
    pub fn clear_messages(&mut self) {
        self.messages.clear();
        self.latest.next();
    }

    /// Takes a small message to or from another rank down.
    ///
    /// # Errors
    /// The connection cannot be made.
    pub fn add_message(&mut self, message: &MessageOrder) -> Result<()> {
        let HostEngine {
            latest,
            messages,
            wires,
            ..
        } = self;
        let after = |end, number| latest.replace(latest.stamp(), end, number);
        let peer = (message.peer, message.direction, Placing::ByPair);
        let data = (message.place, message.bytes);
        messages.add(wires, peer, data, message.signature, after)
    }

    /// Takes the messages of a small collective down, and moves what this rank sends to itself.
    /// Returns how many steps that was.
    ///
    /// # Errors
    /// A connection cannot be made.
    ///
    /// # Safety
    /// The buffers hold what the order says, and nobody else touches them until it is done.
    pub unsafe fn begin_exchange(&mut self, order: &SmallOrder, placing: Placing) -> Result<u64> {
        self.messages.clear();
        let small = SmallExchange {
            collective: order.collective,
            send: order.send,
            recv: order.recv,
            bytes: order.count * order.dtype.size_bytes(),
            peer: order.root,
            signature: order.signature,
            placing,
        };
        // SAFETY: our caller's promise.
        unsafe { small.begin(&mut self.messages, &mut self.wires) }
    }

    /// Small messages that were taken down.
    pub fn messages(&self) -> u64 {
        self.messages.len() as u64
    }

    /// Moves what can move of the small messages.
    ///
    /// # Errors
    /// A rank that called something else.
    ///
    /// # Safety
    /// The places of the messages hold what was said, and nobody else touches them.
    pub unsafe fn pass_messages(&mut self) -> std::result::Result<Progress, Stop> {
        // SAFETY: our caller's promise.
        Ok(unsafe { self.messages.progress(&mut self.wires, &mut ()) }?)
    }

    /// Before a small reduce at its root.
    pub fn begin_reduce(&mut self) {
        self.contributors.reset();
    }

    /// Folds the contributions to a small reduce at its root, if all are there.
    ///
    /// # Errors
    /// A rank that called something else; a connection cannot be made.
    ///
    /// # Safety
    /// As [`HostEngine::begin_exchange`].
    pub unsafe fn pass_reduce(
        &mut self,
        order: &SmallOrder,
        placing: Placing,
    ) -> std::result::Result<Progress, Stop> {
        let small = SmallReduce {
            send: order.send,
            recv: order.recv,
            count: order.count,
            kernel: self.kernels.get(order.dtype, order.op),
            signature: order.signature,
            placing,
        };
        let (wires, ends) = (&mut self.wires, &mut self.contributors);
        // SAFETY: our caller's promise.
        unsafe { small.progress(wires, ends, &mut self.sources, &mut ()) }
    }
}
