//! The engine of CUDA devices: it turns orders into launches on a caller's stream.
//!
//! Data path: an order, or a wave of messages, is prepared ([`DeviceWork`]): the plan's program and
//! connections ([`DeviceBound`]), and windows -> image and one [`super::DeviceLaunch`]
//! ([`Starter::start`]) -> the driver puts the kernel on the stream. Nothing here waits for a
//! device: what must be copied first goes by streams of kolo's own.

use super::bound::{DeviceBound, LaunchExtents, wire_of};
use super::choice::KernelChoice;
use super::fit;
use super::messages::{self, DeviceMessage, Wave, WaveKey};
use super::passing::Passing;
use super::places::{KnownStreams, LaunchPlace};
use super::sized::SizeKey;
use super::staged;
use super::starting::{CudaSetup, DeviceWork, Starter};
use crate::base::turns;
use crate::base::{Error, Result};
use crate::cuda::{self, Context, PointerKind, StreamId};
use crate::exec::combine::Combine;
use crate::exec::order::{LaunchOrder, Planner};
use crate::plan::cache::Key;
use crate::plan::pairs::pairs_only;
use crate::plan::{Cache, Direction, Link, Plan, Protocol};
use crate::wire::gpu::DeviceWire;
use lru::LruCache;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Plans that are kept bound, and waves of messages.
const PLANS: usize = 64;
const WAVES: NonZeroUsize = NonZeroUsize::new(64).expect("not 0");

/// An end of a connection on the device.
#[derive(Clone, Copy)]
struct MadeEnd {
    address: u64,
    /// Where the other side counts.
    count: u64,
}

/// Connections, plans and launches of one rank on its device.
pub struct CudaEngine {
    starter: Starter,
    streams: KnownStreams,
    /// The ends that were made.
    ends: HashMap<(DeviceWire, Direction), MadeEnd>,
    passing: Passing,
    plans: Cache<DeviceBound>,
    waves: LruCache<WaveKey, Arc<DeviceBound>>,
    numbers: u64,
}

impl CudaEngine {
    /// An engine without connections yet.
    ///
    /// # Errors
    /// The driver has no memory.
    pub fn new(setup: CudaSetup) -> Result<CudaEngine> {
        Ok(CudaEngine {
            starter: Starter::new(setup)?,
            streams: KnownStreams::default(),
            ends: HashMap::new(),
            passing: Passing::default(),
            plans: Cache::new(PLANS),
            waves: LruCache::new(WAVES),
            numbers: 0,
        })
    }

    /// The number of the device among those that this process sees.
    pub fn device(&self) -> u32 {
        self.starter.setup.context.device()
    }

    /// Whether the device can use a buffer of a call.
    ///
    /// # Errors
    /// `InvalidArgument`: it lies in memory of the host that no device knows, or on another device.
    pub fn check_buffer(&self, name: &str, address: *const u8) -> Result<()> {
        let device = self.device();
        let is_on = |other| format!("the {name} buffer {address:p} lies on CUDA device {other}");
        match cuda::kind_in(&self.starter.setup.context, address as u64)? {
            PointerKind::Device(other) if other == device => Ok(()),
            PointerKind::Device(other) => Err(Error::argument(
                format!(
                    "{}, and the communicator is on device {device}",
                    is_on(other)
                ),
                "pass memory of the communicator's device",
            )),
            PointerKind::Pinned | PointerKind::Managed => Ok(()),
            PointerKind::Pageable => Err(Error::argument(
                format!(
                    "the {name} buffer {address:p} is memory of the host that CUDA device {device} \
                     cannot reach"
                ),
                "pass memory of the device, managed memory, or memory of the host that is \
                 registered with CUDA; or make the communicator on the host",
            )),
        }
    }

    /// The context of the device. Who enters it once for all parts of a call asks less of the
    /// driver.
    pub fn context(&self) -> Arc<Context> {
        Arc::clone(&self.starter.setup.context)
    }

    /// Where launches go that are put on a stream now.
    ///
    /// # Errors
    /// `InvalidArgument`: it belongs to another device. A capture elsewhere forbids its use.
    pub fn place(&mut self, stream: StreamId) -> Result<LaunchPlace> {
        self.streams.place(&self.starter.setup.context, stream)
    }

    /// The collective of this number goes to a stream.
    ///
    /// # Errors
    /// `InvalidUsage`: it would wait there for another rank's, which waits for it.
    pub fn take_stream(&mut self, number: u64, to: &LaunchPlace) -> Result<()> {
        let CudaSetup { seat, context, .. } = &self.starter.setup;
        let Some(seat) = seat else { return Ok(()) };
        let is_blocking = self.streams.is_blocking(context, to)?;
        seat.call(number, to, is_blocking)
    }

    /// Whether a kernel combines elements so.
    ///
    /// # Errors
    /// `InvalidUsage`: none does.
    pub fn can_combine(&self, combine: &Combine) -> Result<()> {
        KernelChoice::of(combine).map(|_| ())
    }

    /// Puts one call on a stream. Returns how many steps it has.
    ///
    /// # Errors
    /// `InvalidUsage`: no kernel combines such elements, or a token cannot hold them; no memory;
    /// the driver refuses.
    ///
    /// # Safety
    /// The buffers hold what the order says, and nobody else touches them until the stream has
    /// passed the launch.
    pub unsafe fn launch(
        &mut self,
        order: &LaunchOrder,
        planner: Planner<'_>,
        to: &LaunchPlace,
    ) -> Result<u64> {
        let work = self.prepare(order, planner)?;
        self.starter.start(&work, to)?;
        Ok(work.sized.steps)
    }

    /// Rounds in which a call would pass its data.
    ///
    /// # Errors
    /// As [`CudaEngine::launch`].
    pub fn rounds(&mut self, order: &LaunchOrder, planner: Planner<'_>) -> Result<u64> {
        Ok(self.prepare(order, planner)?.sized.rounds())
    }

    fn prepare(&mut self, order: &LaunchOrder, planner: Planner<'_>) -> Result<DeviceWork> {
        let kernel = KernelChoice::of(&order.combine)?;
        let bound = self.bound((order.shape, order.protocol, order.placing), planner)?;
        let steps = match self.starter.setup.carrier {
            // Between nodes a slot is a message.
            Some(_) => (1, 1),
            None => (order.geometry.chunk_steps, order.geometry.slice_steps),
        };
        let fitting = (bound.pieces(), kernel.element_bytes());
        let slot_bytes = self.slot_bytes(order.protocol);
        let geometry = fit::geometry(order.protocol, slot_bytes, steps, fitting)?;
        let extents = extents(order, &kernel);
        let key = SizeKey {
            bound: bound.number,
            extents,
            slots: (geometry.chunk_steps, geometry.slice_steps),
        };
        let windows = || bound.windows(&geometry, &extents);
        Ok(DeviceWork {
            sized: self.starter.sized(&bound, key, windows)?,
            bound,
            kernel,
            input: order.send as u64,
            output: order.recv as u64,
            divisor: if kernel.is_average {
                order.shape.nranks
            } else {
                0
            },
        })
    }

    /// The launch of a wave of messages, which have their addresses in their windows.
    fn prepare_wave(&mut self, wave: &Wave, key: &WaveKey) -> Result<(DeviceWork, u32)> {
        let bound = self.wave(key)?;
        let slot_bytes = self.slot_bytes(Protocol::Simple);
        let geometry = fit::geometry(Protocol::Simple, slot_bytes, (1, 1), (1, 1))?;
        let (windows, slice) = (wave.windows(key, &geometry), geometry.slice_steps);
        let work = DeviceWork {
            sized: self.starter.size(&bound, windows, slice, 1)?,
            bound,
            kernel: KernelChoice::bytes(),
            input: 0,
            output: 0,
            divisor: 0,
        };
        Ok((work, slice))
    }

    /// Puts messages on a stream, which move together. Returns how many steps they have.
    ///
    /// # Errors
    /// As [`CudaEngine::launch`].
    ///
    /// # Safety
    /// The addresses hold the bytes, and nobody else touches them until the stream has passed the
    /// launches.
    pub unsafe fn exchange(&mut self, messages: &[DeviceMessage], to: &LaunchPlace) -> Result<u64> {
        let (waves, own) = messages::waves(self.starter.setup.rank, messages);
        for (sent, received) in own {
            let bytes = sent.bytes.min(received.bytes);
            // SAFETY: the caller's promise.
            unsafe { self.copy(sent.address, received.address, bytes, to)? };
        }
        let mut steps = 0;
        for wave in waves {
            let key = wave.key(self.starter.setup.channels);
            let (work, slice) = self.prepare_wave(&wave, &key)?;
            let windows = &work.sized.windows;
            self.passing.begin(&key, windows, slice, to.is_captured());
            self.starter.start(&work, to)?;
            steps += work.sized.steps;
        }
        Ok(steps)
    }

    /// Copies on a stream, as a rank does that is alone, in the order of the calls.
    ///
    /// # Errors
    /// The driver refuses.
    ///
    /// # Safety
    /// As [`CudaEngine::exchange`].
    pub unsafe fn copy(
        &mut self,
        from: u64,
        to: u64,
        bytes: usize,
        at: &LaunchPlace,
    ) -> Result<()> {
        if from == to || bytes == 0 {
            return Ok(());
        }
        let end = self.starter.underway.before(at)?;
        // SAFETY: passed on.
        unsafe { cuda::copy_async(&self.starter.setup.context, to, from, bytes, at.stream)? };
        self.starter.underway.after(at, end)
    }

    /// Lets all that is put on stream `later` from now on wait for all that is on `earlier` now.
    ///
    /// # Errors
    /// The driver refuses.
    pub fn join(&mut self, earlier: StreamId, later: StreamId) -> Result<()> {
        self.starter.underway.join(earlier, later)
    }

    /// Whether all launches have ended.
    ///
    /// # Errors
    /// A fault of the device.
    pub fn is_quiet(&mut self) -> Result<bool> {
        self.starter.underway.look()
    }

    /// Whether messages under way wait for a rank, with what that one has counted so far: without
    /// it they never end.
    ///
    /// # Errors
    /// A fault of the device.
    pub fn waits_for(&self, peer: u32) -> Result<Option<u64>> {
        let (mut total, mut waits) = (0_u64, false);
        for (end, wanted) in self.passing.wanted(peer) {
            let link = messages::link(self.starter.setup.rank, end);
            let wire = wire_of(link, Protocol::Simple, self.slot_bytes(Protocol::Simple));
            let Some(made) = self.ends.get(&(wire, end.1)) else {
                continue;
            };
            let mut count = [0; 8];
            self.starter.shelf.read(made.count, &mut count)?;
            let count = u64::from_le_bytes(count);
            total = total.wrapping_add(count);
            waits |= count < wanted;
        }
        Ok(waits.then_some(total))
    }

    /// Steps that the device has done, of all launches that have ended.
    ///
    /// # Errors
    /// A fault of the device.
    pub fn steps_executed(&self) -> Result<u64> {
        self.starter.steps_executed()
    }

    fn slot_bytes(&self, protocol: Protocol) -> usize {
        self.starter.setup.slot_bytes[protocol as usize]
    }

    // ---- plans and connections

    fn bound(&mut self, key: Key, planner: Planner<'_>) -> Result<Arc<DeviceBound>> {
        if let Some(bound) = self.plans.find(&key) {
            return Ok(bound);
        }
        let (shape, protocol, _) = key;
        let plan = planner(&shape)?;
        if self.starter.setup.carrier.is_some() {
            staged::check(&plan)?;
        }
        let bound = self.bind(pairs_only(&plan), protocol)?;
        Ok(self.plans.insert(key, bound))
    }

    fn wave(&mut self, key: &WaveKey) -> Result<Arc<DeviceBound>> {
        if let Some(bound) = self.waves.get(key) {
            return Ok(Arc::clone(bound));
        }
        let plan = messages::plan(self.starter.setup.rank, self.starter.setup.nranks, key);
        let bound = Arc::new(self.bind(plan, Protocol::Simple)?);
        self.waves.put(key.clone(), Arc::clone(&bound));
        Ok(bound)
    }

    fn bind(&mut self, plan: Plan, protocol: Protocol) -> Result<DeviceBound> {
        fit::check_grid(&plan, self.starter.grid(plan.lanes.len()))?;
        let uses = plan.connections.iter();
        let ends = uses.map(|used| self.end(used.link, used.direction, protocol));
        let ends: Vec<u64> = ends.collect::<Result<_>>()?;
        let table: Vec<u8> = ends.iter().flat_map(|end| end.to_le_bytes()).collect();
        let table = match table.is_empty() {
            true => None,
            false => Some(
                self.starter
                    .shelf
                    .shelve(&table, self.starter.underway.ended())?,
            ),
        };
        self.numbers += 1;
        let staged = match self.starter.setup.carrier.as_deref() {
            Some(carrier) => staged::of_plan(&plan, carrier),
            None => Vec::new(),
        };
        DeviceBound::new(plan, self.numbers, protocol, table, staged)
    }

    /// The address of an end on the device.
    fn end(&mut self, link: Link, direction: Direction, protocol: Protocol) -> Result<u64> {
        // Tokens that are counted are the same in every protocol.
        let carrier = self.starter.setup.carrier.as_deref();
        let protocol = match carrier.is_some_and(|it| staged::is_between(it, link)) {
            true => Protocol::Simple,
            false => protocol,
        };
        let wire = wire_of(link, protocol, self.slot_bytes(protocol));
        if let Some(end) = self.ends.get(&(wire, direction)) {
            return Ok(end.address);
        }
        let halves = self.starter.setup.wiring.halves(wire)?;
        let end = halves.end();
        let address = self.starter.shelf.keep_with(end.as_bytes())?;
        let count = match direction {
            Direction::Send => halves.head,
            Direction::Recv => halves.tail,
        };
        let made = MadeEnd { address, count };
        self.ends.insert((wire, direction), made);
        Ok(address)
    }
}

fn extents(order: &LaunchOrder, kernel: &KernelChoice) -> LaunchExtents {
    LaunchExtents {
        count: order.count * kernel.scale,
        element_bytes: kernel.element_bytes(),
        blocks: order.blocks,
    }
}

/// How long the end of an engine waits for its launches, in looks of a millisecond.
const LAST_LOOKS: u32 = 10_000;

impl Drop for CudaEngine {
    /// Nothing is freed before the kernels have left. Where they do not leave, what they use is
    /// kept until the process ends.
    fn drop(&mut self) {
        for _ in 0..LAST_LOOKS {
            match self.starter.underway.look() {
                Ok(true) => return,
                Ok(false) => turns::sleep(std::time::Duration::from_millis(1)),
                // The device has failed: nothing runs any more.
                Err(_) => return,
            }
        }
        tracing::warn!(
            "kernels on CUDA device {} have not ended: their memory is kept until the process ends",
            self.device()
        );
        std::mem::forget(self.starter.memory());
    }
}
