//! The engine of CUDA devices: what turns orders into launches on a caller's stream.
//!
//! Data path: [`CudaEngine::launch`] finds the plan's program and connections ([`DeviceBound`]) ->
//! windows and image -> one [`DeviceLaunch`] -> the driver puts the kernel on the stream. Nothing
//! here waits for a device: what must be copied first goes by streams of kolo's own.

use super::bound::{DeviceBound, LaunchExtents, wire_of};
use super::choice::KernelChoice;
use super::messages::{self, DeviceMessage, WaveKey};
use super::shelf::{Shelf, Shelved};
use super::underway::Underway;
use super::{DeviceLaunch, fit};
use crate::base::{Error, Result};
use crate::cuda::{self, Context, DeviceKernels, DeviceMemory, PointerKind, StreamId};
use crate::exec::combine::Combine;
use crate::exec::order::{LaunchOrder, Planner};
use crate::plan::cache::Key;
use crate::plan::pairs::pairs_only;
use crate::plan::{Cache, Direction, Geometry, Link, Plan, Protocol, Window};
use crate::wire::gpu::{DeviceWire, DeviceWiring};
use lru::LruCache;
use std::any::Any;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Plans that are kept bound; waves of messages; images that do not fit a launch.
const PLANS: usize = 64;
const WAVES: NonZeroUsize = NonZeroUsize::new(64).expect("not 0");
const IMAGES: NonZeroUsize = NonZeroUsize::new(128).expect("not 0");

/// What an engine is made of.
pub struct CudaSetup {
    /// This rank and how many there are.
    pub rank: u32,
    /// Ranks of the communicator.
    pub nranks: u32,
    /// The device.
    pub context: Arc<Context>,
    /// Its kernels.
    pub kernels: DeviceKernels,
    /// Makes connections.
    pub wiring: Box<dyn DeviceWiring>,
    /// A `u32` that every device reads: not 0 ends all launches. And what keeps it there.
    pub abort: (u64, Arc<dyn Any + Send + Sync>),
    /// Most blocks of a launch, and the threads of each.
    pub grid: (u32, u32),
    /// Bytes of a slot, by protocol.
    pub slot_bytes: [usize; 3],
    /// Channels that a message may take.
    pub channels: u16,
}

/// Connections, plans and launches of one rank on its device.
pub struct CudaEngine {
    setup: CudaSetup,
    /// Addresses of the ends that were made.
    ends: HashMap<(DeviceWire, Direction), u64>,
    plans: Cache<DeviceBound>,
    waves: LruCache<WaveKey, Arc<DeviceBound>>,
    images: LruCache<(u64, LaunchExtents), Shelved>,
    shelf: Shelf,
    scratch: Vec<Arc<DeviceMemory>>,
    underway: Underway,
    /// What launches that a graph has captured read: it stays.
    captured: Vec<Arc<DeviceBound>>,
    captured_images: Vec<Shelved>,
    /// Where each block counts its steps.
    steps: u64,
    numbers: u64,
}

/// What one launch runs, beside its plan.
struct DeviceWork<'a> {
    bound: &'a Arc<DeviceBound>,
    windows: &'a [Window],
    kernel: KernelChoice,
    /// Where the image may be kept, if it is large.
    extents: Option<LaunchExtents>,
    input: u64,
    output: u64,
    divisor: u32,
    slice_slots: u32,
    stream: StreamId,
    /// A graph captures it.
    is_captured: bool,
}

impl CudaEngine {
    /// An engine without connections yet.
    ///
    /// # Errors
    /// The driver has no memory.
    pub fn new(setup: CudaSetup) -> Result<CudaEngine> {
        let mut shelf = Shelf::new(&setup.context)?;
        let steps = shelf.keep(8 * setup.grid.0 as usize)?;
        Ok(CudaEngine {
            ends: HashMap::new(),
            plans: Cache::new(PLANS),
            waves: LruCache::new(WAVES),
            images: LruCache::new(IMAGES),
            shelf,
            scratch: Vec::new(),
            underway: Underway::new(&setup.context),
            captured: Vec::new(),
            captured_images: Vec::new(),
            steps,
            numbers: 0,
            setup,
        })
    }

    /// The number of the device among those that this process sees.
    pub fn device(&self) -> u32 {
        self.setup.context.device()
    }

    /// Whether the device can use a buffer of a call.
    ///
    /// # Errors
    /// `InvalidArgument`: it lies in memory of the host that no device knows, or on another device.
    pub fn check_buffer(&self, name: &str, address: *const u8) -> Result<()> {
        let device = self.device();
        let is_on = |other| format!("the {name} buffer {address:p} lies on CUDA device {other}");
        let _current = self.setup.context.enter()?;
        match cuda::kind_of(address as u64)? {
            PointerKind::Device { device: other, .. } if other == device => Ok(()),
            PointerKind::Device { device: other, .. } => Err(Error::argument(
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

    /// Whether launches can go to a stream.
    ///
    /// # Errors
    /// `InvalidArgument`: it belongs to another device. A capture elsewhere forbids its use.
    pub fn check_stream(&self, stream: StreamId) -> Result<()> {
        let device = self.device();
        // A default stream is that of whatever context is current: here the engine's.
        if !stream.is_default() && stream.context(device)?.device() != device {
            return Err(Error::argument(
                format!("the stream is none of CUDA device {device}, the communicator's"),
                "give a stream of the communicator's device",
            ));
        }
        stream.is_capturing(&self.setup.context).map(|_| ())
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
    /// # Errors `InvalidUsage`: no kernel combines such elements, or a token cannot hold them; no
    /// memory; the driver refuses.
    ///
    /// # Safety
    /// The buffers hold what the order says, and nobody else touches them until the stream has
    /// passed the launch.
    pub unsafe fn launch(
        &mut self,
        order: &LaunchOrder,
        planner: Planner<'_>,
        stream: StreamId,
    ) -> Result<u64> {
        let is_captured = stream.is_capturing(&self.setup.context)?;
        let (bound, windows, geometry, kernel) = self.prepare(order, planner)?;
        let is_average = kernel.is_average;
        let work = DeviceWork {
            bound: &bound,
            windows: &windows,
            extents: Some(extents(order, &kernel)),
            kernel,
            input: order.send as u64,
            output: order.recv as u64,
            divisor: if is_average { order.shape.nranks } else { 0 },
            slice_slots: geometry.slice_steps,
            stream,
            is_captured,
        };
        self.start(&work)?;
        Ok(bound.steps(&windows))
    }

    /// Rounds in which a call would pass its data.
    ///
    /// # Errors
    /// As [`CudaEngine::launch`].
    pub fn rounds(&mut self, order: &LaunchOrder, planner: Planner<'_>) -> Result<u64> {
        let (_, windows, ..) = self.prepare(order, planner)?;
        Ok(windows.iter().map(Window::rounds).max().unwrap_or(1))
    }

    fn prepare(
        &mut self,
        order: &LaunchOrder,
        planner: Planner<'_>,
    ) -> Result<(Arc<DeviceBound>, Vec<Window>, Geometry, KernelChoice)> {
        let kernel = KernelChoice::of(&order.combine)?;
        let bound = self.bound((order.shape, order.protocol, order.placing), planner)?;
        let steps = (order.geometry.chunk_steps, order.geometry.slice_steps);
        let fitting = (bound.pieces(), kernel.element_bytes());
        let slot_bytes = self.slot_bytes(order.protocol);
        let geometry = fit::geometry(order.protocol, slot_bytes, steps, fitting)?;
        let windows = bound.windows(&geometry, &extents(order, &kernel));
        Ok((bound, windows, geometry, kernel))
    }

    /// Puts messages on a stream, which move together. Returns how many steps they have.
    ///
    /// # Errors
    /// As [`CudaEngine::launch`].
    ///
    /// # Safety
    /// The addresses hold the bytes, and nobody else touches them until the stream has passed the
    /// launches.
    pub unsafe fn exchange(&mut self, messages: &[DeviceMessage], stream: StreamId) -> Result<u64> {
        let is_captured = stream.is_capturing(&self.setup.context)?;
        let (waves, own) = messages::waves(self.setup.rank, messages);
        for (sent, received) in own {
            let bytes = sent.bytes.min(received.bytes);
            // SAFETY: the caller's promise.
            unsafe { self.copy(sent.address, received.address, bytes, stream)? };
        }
        let mut steps = 0;
        for wave in waves {
            let key = wave.key(self.setup.channels);
            let bound = self.wave(&key)?;
            let slot_bytes = self.slot_bytes(Protocol::Simple);
            let geometry = fit::geometry(Protocol::Simple, slot_bytes, (1, 1), (1, 1))?;
            let windows = wave.windows(&key, &geometry);
            let kernel = KernelChoice::bytes();
            self.start(&DeviceWork {
                bound: &bound,
                windows: &windows,
                kernel,
                extents: None,
                input: 0,
                output: 0,
                divisor: 0,
                slice_slots: geometry.slice_steps,
                stream,
                is_captured,
            })?;
            steps += bound.steps(&windows);
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
        stream: StreamId,
    ) -> Result<()> {
        if from == to || bytes == 0 {
            return Ok(());
        }
        let is_captured = stream.is_capturing(&self.setup.context)?;
        let end = self.underway.before(stream, is_captured)?;
        // SAFETY: passed on.
        unsafe { cuda::copy_async(&self.setup.context, to, from, bytes, stream)? };
        self.underway.after(stream, end)
    }

    /// What is put on stream `later` from now on waits for what is on `earlier` now.
    ///
    /// # Errors
    /// The driver refuses.
    pub fn join(&mut self, earlier: StreamId, later: StreamId) -> Result<()> {
        self.underway.join(earlier, later)
    }

    /// What stays of this engine while launches are under way, and must not be freed before.
    pub fn memory(&self) -> Vec<Arc<dyn Any + Send + Sync>> {
        let mut held: Vec<Arc<dyn Any + Send + Sync>> = vec![Arc::clone(&self.setup.abort.1)];
        held.push(self.setup.wiring.memory());
        let own = self.shelf.memory().chain(&self.scratch);
        held.extend(own.map(|memory| Arc::clone(memory) as Arc<dyn Any + Send + Sync>));
        held
    }

    /// Whether all launches have ended.
    ///
    /// # Errors
    /// A fault of the device.
    pub fn is_quiet(&mut self) -> Result<bool> {
        self.underway.look()
    }

    /// Steps that the device has done, of all launches that have ended.
    ///
    /// # Errors
    /// A fault of the device.
    pub fn steps_executed(&self) -> Result<u64> {
        let mut counts = vec![0; 8 * self.setup.grid.0 as usize];
        self.shelf.read(self.steps, &mut counts)?;
        let counts = counts.as_chunks::<8>().0.iter();
        Ok(counts.map(|count| u64::from_le_bytes(*count)).sum())
    }

    fn slot_bytes(&self, protocol: Protocol) -> usize {
        self.setup.slot_bytes[protocol as usize]
    }

    // ---- plans and connections

    fn bound(&mut self, key: Key, planner: Planner<'_>) -> Result<Arc<DeviceBound>> {
        if let Some(bound) = self.plans.find(&key) {
            return Ok(bound);
        }
        let (shape, protocol, _) = key;
        let bound = self.bind(pairs_only(&planner(&shape)?), protocol)?;
        Ok(self.plans.insert(key, bound))
    }

    fn wave(&mut self, key: &WaveKey) -> Result<Arc<DeviceBound>> {
        if let Some(bound) = self.waves.get(key) {
            return Ok(Arc::clone(bound));
        }
        let plan = messages::plan(self.setup.rank, self.setup.nranks, key);
        let bound = Arc::new(self.bind(plan, Protocol::Simple)?);
        self.waves.put(key.clone(), Arc::clone(&bound));
        Ok(bound)
    }

    fn bind(&mut self, plan: Plan, protocol: Protocol) -> Result<DeviceBound> {
        fit::check_grid(&plan, self.grid(plan.lanes.len()))?;
        let uses = plan.connections.iter();
        let ends = uses.map(|used| self.end(used.link, used.direction, protocol));
        let ends: Vec<u64> = ends.collect::<Result<_>>()?;
        let table: Vec<u8> = ends.iter().flat_map(|end| end.to_le_bytes()).collect();
        let table = match table.is_empty() {
            true => None,
            false => Some(self.shelf.put(&table, self.underway.ended())?),
        };
        self.numbers += 1;
        DeviceBound::new(plan, (self.numbers, protocol), table)
    }

    /// The address of an end on the device.
    fn end(&mut self, link: Link, direction: Direction, protocol: Protocol) -> Result<u64> {
        let slot_bytes = self.slot_bytes(protocol);
        let wire = wire_of(link, protocol, slot_bytes);
        if let Some(&end) = self.ends.get(&(wire, direction)) {
            return Ok(end);
        }
        let halves = self.setup.wiring.halves(wire)?;
        let end = halves.end(wire.slot_bytes);
        let address = self.shelf.keep_with(end.as_bytes())?;
        self.ends.insert((wire, direction), address);
        Ok(address)
    }

    // ---- launches

    /// Blocks and threads for so many lanes.
    fn grid(&self, lanes: usize) -> (u32, u32) {
        let (blocks, threads) = self.setup.grid;
        ((lanes as u32).clamp(1, blocks.max(1)), threads)
    }

    /// Puts a launch on its stream.
    fn start(&mut self, work: &DeviceWork<'_>) -> Result<()> {
        let bound = work.bound;
        if bound.lanes() == 0 {
            return Ok(());
        }
        let image = bound.image(work.windows);
        let mut launch = DeviceLaunch::new(&image, work.slice_slots);
        launch.connections = bound.table.as_ref().map_or(0, Shelved::address);
        launch.input = work.input;
        launch.output = work.output;
        launch.abort = self.setup.abort.0;
        launch.steps = self.steps;
        launch.scalar = work.kernel.scalar;
        launch.pre_scaled = work.kernel.is_pre_scaled.into();
        launch.divisor = work.divisor;
        let name = work.kernel.name(bound.protocol)?;
        let function = self.setup.kernels.get(&name)?.clone();
        let each = bound.scratch_bytes(work.windows, work.kernel.element_bytes());
        let each = each.next_multiple_of(128);
        launch.scratch = self.scratch(each * bound.lanes())?;
        launch.scratch_bytes = each as u64;
        let number = self.underway.next();
        let image = match launch.is_inline() {
            true => None,
            false => Some(self.large_image(work, image.bytes())?),
        };
        launch.image = image.as_ref().map_or(0, Shelved::address);
        if let Some(table) = &bound.table {
            table.is_read_by(number);
        }
        if let Some(image) = &image {
            image.is_read_by(number);
        }
        let end = self.underway.before(work.stream, work.is_captured)?;
        let (blocks, threads) = self.grid(bound.lanes());
        // SAFETY: the kernel takes this structure; what it names stays until the launch has ended:
        // the engine's memory by its end, the caller's by its promise.
        unsafe { function.launch(blocks, threads, launch.as_bytes(), work.stream)? };
        self.keep(work, image);
        self.underway.after(work.stream, end)
    }

    /// Keeps what the launch reads for the next one, or as long as a graph may run it.
    fn keep(&mut self, work: &DeviceWork<'_>, image: Option<Shelved>) {
        if work.is_captured {
            self.captured.push(Arc::clone(work.bound));
            self.captured_images.extend(image);
        } else if let (Some(image), Some(extents)) = (image, work.extents) {
            self.images.put((work.bound.number, extents), image);
        }
    }

    fn large_image(&mut self, work: &DeviceWork<'_>, bytes: &[u8]) -> Result<Shelved> {
        let known = work.extents.map(|extents| (work.bound.number, extents));
        if let Some(image) = known.and_then(|key| self.images.pop(&key)) {
            return Ok(image);
        }
        self.shelf.put(bytes, self.underway.ended())
    }

    /// Scratch memory of so many bytes. What was smaller stays: launches may be using it.
    fn scratch(&mut self, bytes: usize) -> Result<u64> {
        if bytes == 0 {
            return Ok(0);
        }
        if let Some(memory) = self.scratch.last().filter(|memory| memory.bytes() >= bytes) {
            return Ok(memory.address());
        }
        let bytes = bytes.next_power_of_two();
        let _relaxed = cuda::exchange_capture_mode_relaxed()?;
        let memory = DeviceMemory::new(&self.setup.context, "scratch memory", bytes, &[])?;
        let address = memory.address();
        self.scratch.push(Arc::new(memory));
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
            match self.underway.look() {
                Ok(true) => return,
                Ok(false) => std::thread::sleep(std::time::Duration::from_millis(1)),
                // The device has failed: nothing runs any more.
                Err(_) => return,
            }
        }
        tracing::warn!(
            "kernels on CUDA device {} have not ended: their memory is kept until the process ends",
            self.device()
        );
        std::mem::forget(self.memory());
    }
}
