//! From a plan that is bound to a kernel on a stream, or in a graph.

use super::blocks::BlockShare;
use super::bound::DeviceBound;
use super::choice::KernelChoice;
use super::fit::LaunchGrid;
use super::kernel_table::KernelTable;
use super::places::LaunchPlace;
use super::seats::DeviceSeat;
use super::shelf::Shelf;
use super::sized::{SizeKey, SizedLaunch};
use super::underway::Underway;
use crate::base::Result;
use crate::cuda::{
    self, Context, DeviceKernels, DeviceMemory, GraphKeeps, StreamCapture, StreamId,
};
use crate::plan::Window;
use crate::wire::carrier::{CarriedSlots, DeviceCarrier};
use crate::wire::gpu::DeviceWiring;
use lru::LruCache;
use std::any::Any;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Sizes of plans that are kept, each with 4 KB and perhaps an image on the device.
const SIZES: NonZeroUsize = NonZeroUsize::new(128).expect("not 0");

/// Parts of which an engine is made.
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
    /// Where it notes its streams, if other ranks of the process are on the device.
    pub seat: Option<DeviceSeat>,
    /// Moves what goes to other nodes, if there are some.
    pub carrier: Option<Arc<dyn DeviceCarrier>>,
    /// A `u32` that every device reads: not 0 ends all launches. And what keeps it there.
    pub abort: (u64, Arc<dyn Any + Send + Sync>),
    /// Its blocks on the device: no launch has more.
    pub share: Arc<BlockShare>,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of a slot, by protocol.
    pub slot_bytes: [usize; 3],
    /// Channels that a message may take.
    pub channels: u16,
}

/// Puts launches on streams, and knows what of theirs must stay.
pub(super) struct Starter {
    pub setup: CudaSetup,
    pub underway: Underway,
    pub shelf: Shelf,
    kernels: KernelTable,
    sizes: LruCache<SizeKey, Arc<SizedLaunch>>,
    scratch: Vec<Arc<DeviceMemory>>,
    /// Where each block counts its steps.
    steps: u64,
}

/// Work of one launch, prepared but for its stream: a plan that is bound, its sizes, and what only
/// this call has.
pub(super) struct DeviceWork {
    pub bound: Arc<DeviceBound>,
    pub sized: Arc<SizedLaunch>,
    pub kernel: KernelChoice,
    pub input: u64,
    pub output: u64,
    pub divisor: u32,
}

impl Starter {
    /// Without launches yet.
    pub fn new(setup: CudaSetup) -> Result<Starter> {
        let mut shelf = Shelf::new(&setup.context)?;
        let steps = shelf.keep(8 * setup.share.blocks() as usize)?;
        Ok(Starter {
            shelf,
            kernels: KernelTable::new(&setup.kernels)?,
            sizes: LruCache::new(SIZES),
            scratch: Vec::new(),
            underway: Underway::new(&setup.context),
            steps,
            setup,
        })
    }

    /// Returns the memory of this engine that must not be freed while launches are under way; and
    /// their blocks, which nobody else gets meanwhile.
    pub fn memory(&self) -> Vec<Arc<dyn Any + Send + Sync>> {
        let mut held: Vec<Arc<dyn Any + Send + Sync>> = vec![Arc::clone(&self.setup.abort.1)];
        held.push(self.setup.wiring.memory());
        held.push(Arc::clone(&self.setup.share) as Arc<dyn Any + Send + Sync>);
        let own = self.shelf.memory().chain(&self.scratch);
        held.extend(own.map(|memory| Arc::clone(memory) as Arc<dyn Any + Send + Sync>));
        held
    }

    /// Steps that the device has done, of all launches that have ended.
    ///
    /// # Errors
    /// A fault of the device.
    pub fn steps_executed(&self) -> Result<u64> {
        let mut counts = vec![0; 8 * self.setup.share.blocks() as usize];
        self.shelf.read(self.steps, &mut counts)?;
        let counts = counts.as_chunks::<8>().0.iter();
        Ok(counts.map(|count| u64::from_le_bytes(*count)).sum())
    }

    /// Blocks and threads for so many lanes.
    pub fn grid(&self, lanes: usize) -> LaunchGrid {
        let blocks = (lanes as u32).clamp(1, self.setup.share.blocks());
        let threads = self.setup.threads;
        LaunchGrid { blocks, threads }
    }

    /// Puts a launch on its stream.
    ///
    /// # Errors
    /// No memory; the driver refuses.
    pub fn start(&mut self, work: &DeviceWork, to: &LaunchPlace) -> Result<()> {
        let bound = &*work.bound;
        if bound.lanes() == 0 {
            return Ok(());
        }
        cuda::drop_unused();
        let context = Arc::clone(&self.setup.context);
        let _current = context.enter()?;
        let sized = &*work.sized;
        let mut launch = sized.launch;
        launch.input = work.input;
        launch.output = work.output;
        launch.abort = self.setup.abort.0;
        launch.steps = self.steps;
        launch.scalar = work.kernel.scalar;
        launch.pre_scaled = work.kernel.is_pre_scaled.into();
        launch.divisor = work.divisor;
        launch.scratch = self.scratch(sized.scratch_bytes * bound.lanes())?;
        launch.scratch_bytes = sized.scratch_bytes as u64;
        let number = self.underway.next();
        for read in bound.table.iter().chain(&sized.image) {
            read.is_read_by(number);
        }
        let end = self.underway.before(to)?;
        let LaunchGrid { blocks, threads } = self.grid(bound.lanes());
        let slots = bound.staged(&sized.windows);
        if let Some(capture) = to.capture {
            self.keep_for_graph(work, slots, to.stream, capture)?;
        } else if let Some(carrier) = self.setup.carrier.as_ref().filter(|_| !slots.is_empty()) {
            // A driver may launch and wait (CUDA_LAUNCH_BLOCKING): who moves slots hears first.
            carrier.expect(&slots);
        }
        let function = self.kernels.get(work.kernel.number(bound.protocol));
        // SAFETY: the kernel takes this structure; what it names stays until the launch has ended:
        // the engine's memory by its end, the caller's by its promise.
        unsafe { function.launch(blocks, threads, launch.as_bytes(), to.stream)? };
        self.underway.after(to, end)
    }

    /// Parts that launches of a bound plan with these sizes have in common, made unless kept.
    /// `windows` makes the window of each lane.
    ///
    /// # Errors
    /// No memory; the driver cannot copy.
    pub fn sized(
        &mut self,
        bound: &DeviceBound,
        key: SizeKey,
        windows: impl FnOnce() -> Vec<Window>,
    ) -> Result<Arc<SizedLaunch>> {
        if let Some(known) = self.sizes.get(&key) {
            return Ok(Arc::clone(known));
        }
        let made = self.size(bound, windows(), key.slots.1, key.extents.element_bytes)?;
        self.sizes.put(key, Arc::clone(&made));
        Ok(made)
    }

    /// A launch of a bound plan with these windows, of elements of so many bytes.
    ///
    /// # Errors
    /// Those of [`Starter::sized`].
    pub fn size(
        &mut self,
        bound: &DeviceBound,
        windows: Vec<Window>,
        slice_slots: u32,
        element_bytes: usize,
    ) -> Result<Arc<SizedLaunch>> {
        let (shelf, ended) = (&mut self.shelf, self.underway.ended());
        let shelve = |image: &[u8]| shelf.shelve(image, ended);
        let made = SizedLaunch::new(bound, windows, slice_slots, element_bytes, shelve)?;
        Ok(Arc::new(made))
    }

    /// Has the graph of a capture keep all that a launch needs whenever the graph runs: whoever
    /// moves its slots hears of them at each replay.
    fn keep_for_graph(
        &self,
        work: &DeviceWork,
        slots: Vec<CarriedSlots>,
        stream: StreamId,
        capture: StreamCapture,
    ) -> Result<()> {
        let context = &self.setup.context;
        let carrier = self.setup.carrier.clone().filter(|_| !slots.is_empty());
        let act = carrier.map(|carrier| {
            let act = move || carrier.expect(&slots);
            Box::new(act) as Box<dyn Fn() + Send + Sync>
        });
        let mut held = self.memory();
        held.push(Arc::clone(&work.bound) as Arc<dyn Any + Send + Sync>);
        held.push(Arc::clone(&work.sized) as Arc<dyn Any + Send + Sync>);
        held.push(Arc::new(self.setup.kernels.clone()));
        GraphKeeps::new(act, held).put(context, stream, capture)
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
