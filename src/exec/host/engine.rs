//! The engine of host memory: what binds plans to connections in memory that ranks share, to fold
//! functions of the processor and to the threads that drive lanes.
//!
//! Data path: [`HostEngine::add`] finds the plan's connections ([`Bound`]), the kernel and the
//! windows of an order -> [`HostEngine::pass`] lets every lane move ([`super::interpreter`]).
//! Small calls and messages have shorter ways ([`super::oneshot`], [`super::exchange`]).

use super::cards::CardExchange;
use super::exchange::{self, Bundle, RootedExchange};
use super::flight::{HostFlight, Run};
use super::kernel::Kernels;
use super::launch::{self, Bound, Launch};
use super::oneshot::SmallCall;
use super::ran::{Executor, Ran};
use super::schedule::Latest;
use super::scratch::Sources;
use super::trials::StoreTrials;
use super::wires::Wires;
use crate::base::{Error, Result, clock};
use crate::dtype;
use crate::exec::Waiting;
use crate::exec::order::{DirectOrder, LaunchOrder, MessageOrder, OwnPlanner, SmallOrder};
use crate::exec::stop::{Progress, Stop};
use crate::plan::cache::Key;
use crate::plan::{Cache, Cards, Geometry, Placing, Protocol};
use crate::wire::ports::Ports;
use std::sync::Arc;

/// Most lanes of a flight among which those that hand over to other nodes go first.
const MOST_URGENT: usize = 64;

/// Connections, plans and kernels of one rank of a communicator on host memory.
pub struct HostEngine {
    /// All connections.
    wires: Wires,
    planner: OwnPlanner,
    plans: Cache<Bound>,
    /// Cards of calls that may be direct.
    cards: CardExchange,
    /// Fold functions of each type and operation.
    kernels: Kernels,
    /// How results are written.
    trials: StoreTrials,
    /// The places of one fold.
    sources: Sources,
    /// Small messages on their way.
    bundle: Bundle,
    /// The last run of a bundle on each end.
    latest: Latest,
    /// Steps of all launches so far.
    steps_planned: u64,
    /// Launches so far whose ranks read each other's buffers where they lie.
    direct_launches: u64,
    /// How many plans are still bound until one is refused: fault injection for tests.
    #[cfg(test)]
    refuses_to_bind: Option<u32>,
}

impl HostEngine {
    /// Over these connections, with memory for `plans` bound plans, which `planner` makes; slices
    /// of `stream_bytes` and more are written to slots past the cache.
    pub fn new(
        mut wires: Wires,
        plans: usize,
        stream_bytes: usize,
        trials: StoreTrials,
        planner: OwnPlanner,
        cards: CardExchange,
    ) -> HostEngine {
        let ranks = wires.ranks();
        wires.stream_bytes = stream_bytes;
        HostEngine {
            kernels: Kernels::new(ranks as u32),
            planner,
            plans: Cache::new(plans),
            cards,
            trials,
            sources: Sources::for_ranks(ranks),
            bundle: Bundle::default(),
            latest: Latest::default(),
            steps_planned: 0,
            direct_launches: 0,
            #[cfg(test)]
            refuses_to_bind: None,
            wires,
        }
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

    /// Steps of the plans that were launched since the communicator was made.
    pub fn steps_planned(&self) -> u64 {
        self.steps_planned
    }

    /// Launches since the communicator was made whose ranks read each other's buffers.
    pub fn direct_launches(&self) -> u64 {
        self.direct_launches
    }

    /// Tokens since the communicator was made that this rank has shown to ranks of its node in no
    /// slot, in a job on several nodes.
    pub fn tokens_shown(&self) -> u64 {
        self.wires.mates.tokens_shown
    }

    /// Gives memory back that only launches need.
    pub fn free_scratch(&mut self) {
        self.wires.scratch.clear();
    }

    /// Counts of who carried this rank's calls out.
    pub fn ran(&self) -> Ran {
        self.wires.ran
    }

    /// Whether a rank is a thread of this process.
    pub fn is_of_this_process(&self, rank: usize) -> bool {
        self.wires.mates.buffers.is_of_this_process(rank)
    }

    /// Takes the turn of the call of so many bytes that begins now, once, and returns whether it
    /// shows cards. Who takes it here tells the flight ([`HostFlight::decide_to_show`]), which else
    /// takes it when it begins.
    #[inline(always)]
    pub fn take_turn_of_cards(&mut self, bytes: usize) -> bool {
        self.cards.take_turn(&*self.wires.mates.buffers, bytes)
    }

    /// Slices from this size on are written past the cache.
    pub fn stream_bytes(&self) -> usize {
        self.wires.stream_bytes
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

    fn bound(&mut self, key: Key) -> Result<Arc<Bound>> {
        self.may_refuse()?;
        if let Some(plan) = self.plans.find(&key) {
            return Ok(plan);
        }
        let (shape, protocol, placing) = key;
        let mut plan = (self.planner)(&shape)?;
        if self.wires.carried.somewhere() {
            let is_remote = |rank| self.wires.carried.is_remote(rank as usize);
            placing.place(&mut plan, self.wires.channels(), is_remote);
        }
        let bound = Bound::new(plan, protocol, &mut self.wires)?;
        Ok(self.plans.insert(key, bound))
    }

    /// Binds the plan of an order to buffers, sizes and connections.
    fn launch(&mut self, order: &mut LaunchOrder, beside: &[Launch]) -> Result<Launch> {
        let kernel = self.kernels.of(&order.combine)?;
        let mut geometry = order.geometry;
        let (shape, wanted, placing) = (order.shape, order.protocol, order.placing);
        let mut plan = self.bound((shape, wanted, placing))?;
        if self.wires.carried.somewhere() && order.reach.is_none() {
            geometry = launch::between_nodes(geometry, plan.pieces(), kernel.element_bytes);
        }
        // Elements of exact sums may be too large for lines, and the tuner does not know types.
        let fitting = launch::protocol(plan.pieces(), wanted, &geometry, kernel.element_bytes);
        if fitting != wanted {
            plan = self.bound((shape, fitting, placing))?;
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
        launch.stream_bytes = self.wires.stream_bytes;
        let mates = &mut self.wires.mates;
        launch.near = mates.show(order, &launch.plan.near, launch.is_plain)?;
        Ok(launch)
    }

    /// Adds a launch to a flight.
    ///
    /// # Errors
    /// A connection cannot be made, or a token cannot hold its chunks.
    pub fn add(&mut self, flight: &mut HostFlight, mut order: LaunchOrder) -> Result<()> {
        let launch = self.launch(&mut order, &flight.launches)?;
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
        for lane in 0..launch.plan.lanes().len() {
            let mut window = launch.window(lane, order.count, order.blocks);
            if order.meets && self.wires.meets_afar(&order.shape) {
                window = window.and_empty_rounds(u64::from(Geometry::SLOTS));
            }
            self.steps_planned += launch.plan.lane_steps_per_round(lane) * window.rounds();
            flight.push(lane, window, after);
        }
        self.direct_launches += u64::from(launch.direct.is_some());
        flight.launches.push(launch);
        Ok(())
    }

    /// Adds a call that may be direct, alone, to a flight; its launches follow as it goes on.
    pub fn add_direct(&mut self, flight: &mut HostFlight, order: DirectOrder) {
        flight.shown.order = Some(Box::new(order));
    }

    /// The beginning of a call that may be direct: its cards, unless the last ones were in vain.
    fn show_cards(&mut self, flight: &mut HostFlight, order: Box<DirectOrder>) -> Result<()> {
        if !order.is_decided && !self.take_turn_of_cards(order.otherwise.bytes()) {
            flight.shown.said = Some(Cards::NotShown);
            return self.add(flight, order.launch(None));
        }
        let buffers = &mut *self.wires.mates.buffers;
        let cards = self
            .cards
            .show(buffers, &order.otherwise, &mut flight.shown)?;
        self.add(flight, cards)?;
        flight.shown.order = Some(order);
        flight.shown.is_shown = true;
        Ok(())
    }

    /// All cards are there: the call itself.
    fn take_cards(&mut self, flight: &mut HostFlight, order: Box<DirectOrder>) -> Result<()> {
        flight.clear_launches();
        let buffers = &mut *self.wires.mates.buffers;
        let reached = self
            .cards
            .take(buffers, &order.otherwise, &mut flight.shown)?;
        self.add(flight, order.launch(reached))
    }

    /// Moves what can move; `ended` is told the number of each lane that ends. A call that may be
    /// direct shows its cards first, and goes on by what they say.
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
        if !flight.shown.is_shown
            && let Some(order) = flight.shown.order.take()
        {
            self.show_cards(flight, order)?;
        }
        let HostFlight {
            launches,
            runs,
            eager,
            ..
        } = flight;
        let wires = &mut self.wires;
        // Messages are a lane each: of thousands none is asked for after each other one.
        let is_plan = launches.len() == 1 && runs.len() <= MOST_URGENT;
        let is_urgent = |run: &Run| is_plan && run.lane.crosses(&launches[run.launch]);
        let step = |number: usize, Run { launch, lane }: &mut Run| {
            // SAFETY: our caller's promise; the owner lock makes us the only driver.
            let progress = unsafe { lane.progress(&launches[*launch], wires, &mut ())? };
            if progress == Progress::Done {
                ended(number);
            }
            Ok::<_, Stop>(progress)
        };
        let passed = runs.pass_with(step, is_urgent)?;
        if runs.pending() == 0 {
            if std::mem::take(eager) {
                wires.ports.complete_eager();
            }
            for launch in launches.iter() {
                wires.ran.note(match launch.direct {
                    None => Executor::Interpreted,
                    Some(_) => Executor::Direct,
                });
            }
            for (trial, begun) in launches.iter().filter_map(|launch| launch.trial) {
                self.trials.ended(trial, begun.elapsed());
            }
            return match flight.shown.order.take() {
                None => Ok(Progress::Done),
                Some(order) => {
                    self.take_cards(flight, order)?;
                    Ok(Progress::Moved(self.wires.me()))
                }
            };
        }
        Ok(match passed.missing {
            Some(peer) if !passed.moved => Progress::Blocked(peer),
            _ => Progress::Moved(wires.me()),
        })
    }

    /// Runs a small call, waiting where a token is missing.
    ///
    /// # Errors
    /// A rank that called something else, or the error of a wait.
    ///
    /// # Safety
    /// The buffers of the order hold what it says, and nobody else touches them.
    #[inline(always)]
    pub unsafe fn small(
        &mut self,
        order: &SmallOrder,
        waiting: &mut impl Waiting,
    ) -> std::result::Result<(), Stop> {
        let kernel = self.kernels.get(order.dtype, order.op);
        let call = SmallCall { order, kernel };
        // SAFETY: passed on.
        unsafe { call.run(&mut self.wires, &mut self.sources, waiting) }
    }

    /// Runs a call of one rank alone, of any size.
    ///
    /// # Safety
    /// As [`HostEngine::small`].
    #[inline(always)]
    pub unsafe fn alone(&mut self, order: &SmallOrder) {
        let kernel = self.kernels.get(order.dtype, order.op);
        // SAFETY: passed on.
        unsafe { SmallCall { order, kernel }.alone(&mut self.wires) };
    }

    /// Runs a rooted collective of one node in which this rank sends one message, or none; to all
    /// others if `to_all`. Its tokens have at most `slice_bytes`. Returns how many steps that was.
    ///
    /// # Errors
    /// A rank that called something else, or the error of a wait.
    ///
    /// # Safety
    /// As [`HostEngine::small`].
    #[inline(always)]
    pub unsafe fn rooted(
        &mut self,
        order: &SmallOrder,
        to_all: bool,
        slice_bytes: usize,
        waiting: &mut impl Waiting,
    ) -> std::result::Result<u64, Stop> {
        let kernel = self.kernels.get(order.dtype, order.op);
        let exchange = RootedExchange {
            call: SmallCall { order, kernel },
            to_all,
            slice_bytes,
        };
        // SAFETY: passed on.
        unsafe { exchange.wait(&mut self.wires, &mut self.sources, waiting) }
    }

    /// Moves one message on one node.
    ///
    /// # Errors
    /// Those of [`HostEngine::small`].
    ///
    /// # Safety
    /// The place of the message holds what was said, and nobody else touches it.
    #[inline(always)]
    pub unsafe fn message(
        &mut self,
        order: &MessageOrder,
        waiting: &mut impl Waiting,
    ) -> std::result::Result<(), Stop> {
        // SAFETY: passed on.
        unsafe { exchange::message(order, &mut self.wires, waiting) }
    }

    /// Sends one message and receives another, side by side, on one node.
    ///
    /// # Errors
    /// Those of [`HostEngine::small`].
    ///
    /// # Safety
    /// As [`HostEngine::message`], for both.
    #[inline(always)]
    pub unsafe fn exchange(
        &mut self,
        halves: [&MessageOrder; 2],
        waiting: &mut impl Waiting,
    ) -> std::result::Result<(), Stop> {
        // SAFETY: passed on.
        unsafe { exchange::both(halves, &mut self.wires, waiting) }
    }

    /// Copies a block that this rank has for itself: one step of a plan.
    ///
    /// # Safety
    /// Both places have so many bytes, and nobody else touches them; they are apart.
    pub unsafe fn copy_own(&mut self, from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: passed on.
        unsafe { dtype::move_bytes(from, to, bytes) };
        self.wires.steps_executed += 1;
    }

    /// Begins a bundle of small messages.
    pub fn clear_messages(&mut self) {
        self.bundle.clear();
    }

    /// Adds a small message to the bundle.
    ///
    /// # Errors
    /// The connection cannot be made.
    pub fn add_message(&mut self, message: &MessageOrder) -> Result<()> {
        let placing = Placing::ByPair;
        self.bundle.add(message, placing, &mut self.wires)
    }

    /// Begins a bundle of the messages of a small collective, or of a fold at the root of a reduce,
    /// and moves what this rank sends to itself. Returns how many steps that was.
    ///
    /// # Errors
    /// A connection cannot be made.
    ///
    /// # Safety
    /// The buffers hold what the order says, and nobody else touches them until it is done.
    pub unsafe fn begin_exchange(&mut self, order: &SmallOrder, placing: Placing) -> Result<u64> {
        // SAFETY: passed on.
        unsafe { self.bundle.begin(order, placing, &mut self.wires) }
    }

    /// Messages of the bundle; a fold counts as one.
    pub fn messages(&self) -> u64 {
        self.bundle.steps()
    }

    /// Moves what can move of the bundle.
    ///
    /// # Errors
    /// A rank that called something else.
    ///
    /// # Safety
    /// The places of the messages hold what was said, and nobody else touches them.
    pub unsafe fn pass_messages(&mut self) -> std::result::Result<Progress, Stop> {
        // SAFETY: passed on.
        unsafe { self.bundle.pass(&self.kernels, &mut self.wires, &mut ()) }
    }
}
