//! The seam between communicators and devices: all that a communicator asks of the engine that
//! carries out its plans.
//!
//! A communicator decides *what* runs: the route of a call, its plan, the sizes ([`LaunchOrder`]).
//! An engine binds that to its device: connections, fold functions, scratch memory, who drives. A
//! device whose launches are driven by who waits is a variant here and a module beside
//! [`super::host`]; one that runs launches by itself stands behind [`super::streams`]. Nothing in
//! `comm` but the room where engines are made (`comm::becoming`), and nothing in `algo`, names one.

use super::Waiting;
use super::host::{HostEngine, HostFlight};
use super::order::{LaunchOrder, MessageOrder, Planner, Rooted, SmallOrder};
use super::stop::{Progress, Stop};
use crate::base::Result;
use crate::plan::{Collective, Placing};
use crate::wire::ports::Ports;

/// Where the buffers of a communicator lie, and who moves its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommDevice {
    /// Memory of the host, moved by its processors.
    #[default]
    Host,
    /// The CUDA device of this number among those that the process sees.
    Cuda(u32),
}

/// The engine that carries out the plans of one rank of a communicator.
pub enum DeviceEngine {
    /// On host memory.
    Host(HostEngine),
}

/// Launches on their way together, in the form of the engine that they are for.
pub enum EngineFlight {
    /// On host memory.
    Host(HostFlight),
}

impl EngineFlight {
    /// Forgets the launches, which have ended, and keeps their memory.
    pub fn clear(&mut self) {
        let EngineFlight::Host(flight) = self;
        flight.clear();
    }

    /// Lanes that were added so far: the number of the next one.
    pub fn lanes(&self) -> usize {
        let EngineFlight::Host(flight) = self;
        flight.lanes()
    }

    /// Whether peers may be reading the buffers of a launch, or writing into them.
    pub fn is_direct(&self) -> bool {
        let EngineFlight::Host(flight) = self;
        flight.is_direct()
    }
}

impl DeviceEngine {
    /// The device that it drives.
    pub fn device(&self) -> CommDevice {
        match self {
            DeviceEngine::Host(_) => CommDevice::Host,
        }
    }

    /// The connections in memory of the host.
    pub fn ports(&mut self) -> &mut Ports {
        let DeviceEngine::Host(engine) = self;
        &mut engine.wires.ports
    }

    /// A flight without launches.
    pub fn flight(&self) -> EngineFlight {
        match self {
            DeviceEngine::Host(_) => EngineFlight::Host(HostFlight::default()),
        }
    }

    /// Adds a launch to a flight of this engine: *begin*. Returns how many steps it has.
    ///
    /// # Errors
    /// A connection cannot be made, or a token cannot hold its chunks.
    pub fn add(
        &mut self,
        flight: &mut EngineFlight,
        order: LaunchOrder,
        planner: Planner<'_>,
    ) -> Result<u64> {
        let (DeviceEngine::Host(engine), EngineFlight::Host(flight)) = (self, flight);
        engine.add(flight, order, planner)
    }

    /// Moves what can move: *pass*. [`Progress::Done`] when all launches have ended; `ended` is
    /// told the number of each lane that ends.
    ///
    /// # Errors
    /// A rank that called something else, or memory of a peer that cannot be read.
    ///
    /// # Safety
    /// The buffers of the orders hold what these say, and nobody else touches them.
    #[inline(always)]
    pub unsafe fn pass(
        &mut self,
        flight: &mut EngineFlight,
        ended: impl FnMut(usize),
    ) -> std::result::Result<Progress, Stop> {
        let (DeviceEngine::Host(engine), EngineFlight::Host(flight)) = (self, flight);
        // SAFETY: passed on.
        unsafe { engine.pass(flight, ended) }
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
        let DeviceEngine::Host(engine) = self;
        // SAFETY: passed on.
        unsafe { engine.small(order, waiting) }
    }

    /// Runs a call of one rank alone, of any size.
    ///
    /// # Safety
    /// As [`DeviceEngine::small`].
    #[inline(always)]
    pub unsafe fn alone(&mut self, order: &SmallOrder) {
        let DeviceEngine::Host(engine) = self;
        // SAFETY: passed on.
        unsafe { engine.alone(order) };
    }

    /// Whether a small collective that consists of messages moves as it is waited for.
    #[inline(always)]
    pub fn awaits(&self, collective: Collective) -> bool {
        let DeviceEngine::Host(engine) = self;
        engine.awaits(collective)
    }

    /// Whether a message of so many bytes does.
    #[inline(always)]
    pub fn awaits_message(&self, bytes: usize) -> bool {
        let DeviceEngine::Host(engine) = self;
        engine.awaits_message(bytes)
    }

    /// Runs a small gather or reduce. Returns how many steps its plan has.
    ///
    /// # Errors
    /// A rank that called something else, or the error of a wait.
    ///
    /// # Safety
    /// As [`DeviceEngine::small`].
    #[inline(always)]
    pub unsafe fn awaited(
        &mut self,
        order: &SmallOrder,
        waiting: &mut impl Waiting,
    ) -> std::result::Result<u64, Stop> {
        let DeviceEngine::Host(engine) = self;
        // SAFETY: passed on.
        unsafe { engine.awaited(order, waiting) }
    }

    /// Runs a rooted collective of one node that is one message, whose tokens have at most
    /// `slice_bytes`. Returns how many steps that was.
    ///
    /// # Errors
    /// As [`DeviceEngine::awaited`].
    ///
    /// # Safety
    /// As [`DeviceEngine::small`].
    pub unsafe fn rooted(
        &mut self,
        order: &SmallOrder,
        rooted: Rooted,
        slice_bytes: usize,
        waiting: &mut impl Waiting,
    ) -> std::result::Result<u64, Stop> {
        let DeviceEngine::Host(engine) = self;
        // SAFETY: passed on.
        unsafe { engine.rooted(order, rooted, slice_bytes, waiting) }
    }

    /// Moves one message on one node.
    ///
    /// # Errors
    /// As [`DeviceEngine::awaited`].
    ///
    /// # Safety
    /// The place of the message holds what was said, and nobody else touches it.
    #[inline(always)]
    pub unsafe fn message(
        &mut self,
        order: &MessageOrder,
        waiting: &mut impl Waiting,
    ) -> std::result::Result<(), Stop> {
        let DeviceEngine::Host(engine) = self;
        // SAFETY: passed on.
        unsafe { engine.message(order, waiting) }
    }

    /// Sends one message and receives another, side by side, on one node.
    ///
    /// # Errors
    /// As [`DeviceEngine::awaited`].
    ///
    /// # Safety
    /// As [`DeviceEngine::message`], for both.
    #[inline(always)]
    pub unsafe fn exchange(
        &mut self,
        halves: [&MessageOrder; 2],
        waiting: &mut impl Waiting,
    ) -> std::result::Result<(), Stop> {
        let DeviceEngine::Host(engine) = self;
        // SAFETY: passed on.
        unsafe { engine.exchange(halves, waiting) }
    }

    /// Copies a block that this rank has for itself: one step of a plan.
    ///
    /// # Safety
    /// Both places have so many bytes, and nobody else touches them; they are apart.
    pub unsafe fn copy_own(&mut self, from: *const u8, to: *mut u8, bytes: usize) {
        let DeviceEngine::Host(engine) = self;
        // SAFETY: passed on.
        unsafe { engine.copy_own(from, to, bytes) }
    }

    /// Begins a bundle of small messages.
    pub fn clear_messages(&mut self) {
        let DeviceEngine::Host(engine) = self;
        engine.clear_messages();
    }

    /// Adds a small message to the bundle.
    ///
    /// # Errors
    /// The connection cannot be made.
    pub fn add_message(&mut self, message: &MessageOrder) -> Result<()> {
        let DeviceEngine::Host(engine) = self;
        engine.add_message(message)
    }

    /// Begins a bundle of the messages of a small collective, and moves what this rank sends to
    /// itself. Returns how many steps that was.
    ///
    /// # Errors
    /// A connection cannot be made.
    ///
    /// # Safety
    /// The buffers hold what the order says, and nobody else touches them until it is done.
    pub unsafe fn begin_exchange(&mut self, order: &SmallOrder, placing: Placing) -> Result<u64> {
        let DeviceEngine::Host(engine) = self;
        // SAFETY: passed on.
        unsafe { engine.begin_exchange(order, placing) }
    }

    /// Messages of the bundle.
    pub fn messages(&self) -> u64 {
        let DeviceEngine::Host(engine) = self;
        engine.messages()
    }

    /// Moves what can move of the bundle.
    ///
    /// # Errors
    /// A rank that called something else.
    ///
    /// # Safety
    /// The places of the messages hold what was said, and nobody else touches them.
    pub unsafe fn pass_messages(&mut self) -> std::result::Result<Progress, Stop> {
        let DeviceEngine::Host(engine) = self;
        // SAFETY: passed on.
        unsafe { engine.pass_messages() }
    }

    /// Before a small reduce at its root.
    pub fn begin_reduce(&mut self) {
        let DeviceEngine::Host(engine) = self;
        engine.begin_reduce();
    }

    /// Folds the contributions to a small reduce at its root, if all are there.
    ///
    /// # Errors
    /// A rank that called something else; a connection cannot be made.
    ///
    /// # Safety
    /// As [`DeviceEngine::begin_exchange`].
    pub unsafe fn pass_reduce(
        &mut self,
        order: &SmallOrder,
        placing: Placing,
    ) -> std::result::Result<Progress, Stop> {
        let DeviceEngine::Host(engine) = self;
        // SAFETY: passed on.
        unsafe { engine.pass_reduce(order, placing) }
    }

    /// Whether some ranks are on other nodes.
    #[inline(always)]
    pub fn is_between_nodes(&self) -> bool {
        let DeviceEngine::Host(engine) = self;
        engine.wires.carried.somewhere()
    }

    /// Whether a rank that `counts` has not taken every message of this one.
    pub fn is_awaited(&mut self, counts: impl Fn(usize) -> bool) -> bool {
        let DeviceEngine::Host(engine) = self;
        engine.wires.ports.is_awaited(counts)
    }

    /// Whether a rank has yet to read what this one wrote into slots.
    pub fn is_unread(&mut self) -> bool {
        let DeviceEngine::Host(engine) = self;
        engine.wires.ports.is_unread()
    }

    /// Steps executed since the communicator was made.
    pub fn steps_executed(&self) -> u64 {
        let DeviceEngine::Host(engine) = self;
        engine.wires.steps_executed
    }

    /// Slices from this size on are written past the cache.
    pub fn stream_bytes(&self) -> usize {
        let DeviceEngine::Host(engine) = self;
        engine.stream_bytes()
    }

    /// Gives memory back that only launches need.
    pub fn free_scratch(&mut self) {
        let DeviceEngine::Host(engine) = self;
        engine.wires.scratch.clear();
    }

    /// Fault injection for tests: flips one bit of the `token`-th payload published from now on.
    pub fn flip_bit_in(&mut self, token: u64) {
        let DeviceEngine::Host(engine) = self;
        engine.wires.ports.flip_bit_in(token);
    }

    /// Fault injection for tests: the binding of a plan after `left` more fails.
    #[cfg(test)]
    pub fn refuse_to_bind_after(&mut self, left: u32) {
        let DeviceEngine::Host(engine) = self;
        engine.refuse_to_bind_after(left);
    }
}
