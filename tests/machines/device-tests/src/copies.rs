//! Copies by the driver, which show what a device can do by itself, and one launch that adds two
//! halves of a buffer by the interpreter's fold. Every byte that is read or written counts.

use crate::clock::{REPETITIONS, median, rounded, seconds, spread};
use crate::report::{Failure, Outcome, Verdict, hold};
use crate::world::Setup;
use kolo::config::Settings;
use kolo::cuda::{
    Context, DeviceKernels, DeviceMemory, Function, OwnStream, PinnedMemory, copy_async,
    copy_from_device, copy_to_device,
};
use kolo::dtype::{DataType, ReduceOp};
use kolo::exec::cuda::{DeviceLaunch, Image, fit, names};
use kolo::plan::window::Binding;
use kolo::plan::{
    Algorithm, Collective, Emitter, Layout, Operand, Plan, Program, Protocol, Shape, Window,
};
use serde_json::{Value, json};
use std::sync::Arc;

/// Bytes of a slot, slots of a chunk and of a slice: as communicators have them.
const SLOT_BYTES: usize = 64 << 10;
const STEPS: (u32, u32) = (4, 2);
/// Blocks of a launch where nobody sets another number, and threads of a block.
const USUAL_BLOCKS: u32 = 8;
const THREADS: u32 = 544;

/// Bytes that are copied, or of each half that is folded.
fn bytes(setup: &Setup) -> usize {
    if setup.is_small { 96 << 10 } else { 256 << 20 }
}

/// Copies by the driver.
pub fn copies(setup: &Setup) -> Outcome {
    let context = Context::of(0)?;
    let stream = OwnStream::new(&context)?;
    let most = bytes(setup);
    let memory = DeviceMemory::new(&context, "copies", 2 * most, &[])?;
    let mut figures = serde_json::Map::new();
    for bytes in [most / 512, most / 64, most / 8, most] {
        let times = copy_times(&context, &stream, memory.address(), bytes)?;
        figures.insert(format!("{bytes} bytes, GB/s"), rates(&times, 2 * bytes));
    }
    Ok(Verdict::Passed(Value::Object(figures)))
}

/// Times of copies from the first bytes of a buffer to those behind them.
fn copy_times(
    context: &Context,
    stream: &OwnStream,
    from: u64,
    bytes: usize,
) -> Result<Vec<f64>, Failure> {
    repeat(bytes, stream, || {
        // SAFETY: the buffer has twice that many bytes, and nobody else uses it.
        Ok(unsafe { copy_async(context, from + bytes as u64, from, bytes, stream.id()) }?)
    })
}

/// Seconds of one of several runs behind each other, five times.
fn repeat(
    bytes: usize,
    stream: &OwnStream,
    mut body: impl FnMut() -> Result<(), Failure>,
) -> Result<Vec<f64>, Failure> {
    // Small sizes are those of a GPU made of software, where a run takes long.
    let runs = match bytes {
        0..262_144 => 2,
        _ => ((4 << 30) / bytes).clamp(1, 50),
    };
    body()?;
    stream.synchronize()?;
    let once = |_| {
        let all = seconds(|| {
            (0..runs).try_for_each(|_| body())?;
            stream.synchronize().map_err(Failure::from)
        })?;
        Ok(all / runs as f64)
    };
    (0..REPETITIONS).map(once).collect()
}

/// Gigabytes a second.
fn rates(times: &[f64], bytes: usize) -> Value {
    let rates: Vec<f64> = times.iter().map(|time| bytes as f64 / time / 1e9).collect();
    spread(&rates, 1.0)
}

/// The fold alone, with few and with all blocks of the device, and its share of a copy's rate.
pub fn folds(setup: &Setup) -> Outcome {
    let context = Context::of(0)?;
    let stream = OwnStream::new(&context)?;
    let bytes = bytes(setup);
    let memory = DeviceMemory::new(&context, "folds", 3 * bytes, &[])?;
    let copy = copy_times(&context, &stream, memory.address(), bytes)?;
    let copy_rate = 2.0 * bytes as f64 / median(&copy);
    let op = Some(ReduceOp::Sum);
    let name = names::kernel(Protocol::Simple, DataType::Float32, op);
    let name = name.ok_or_else(|| Failure("no such kernel".into()))?;
    let file = Settings::load(&[])?.kernels()?;
    let kernels = DeviceKernels::load(&context, &file, std::slice::from_ref(&name))?;
    let threads = if setup.is_small { 96 } else { THREADS };
    let resident = kernels.resident_blocks(threads)?;
    let mut figures = serde_json::Map::new();
    figures.insert("copy, GB/s".into(), rates(&copy, 2 * bytes));
    for blocks in [USUAL_BLOCKS.min(resident), resident] {
        let fold = Fold::new(&context, &stream, &memory, (blocks, bytes))?;
        let kernel = kernels.get(&name)?;
        fold.check(kernel, threads)?;
        let times = repeat(bytes, &stream, || fold.launch(kernel, threads))?;
        let rate = 3.0 * bytes as f64 / median(&times);
        figures.insert(format!("{blocks} blocks, GB/s"), rates(&times, 3 * bytes));
        let share = json!(rounded(rate / copy_rate));
        figures.insert(format!("{blocks} blocks, share of a copy"), share);
    }
    Ok(Verdict::Passed(Value::Object(figures)))
}

/// A launch that adds two halves of a buffer: a plan without connections.
struct Fold<'a> {
    context: &'a Context,
    stream: &'a OwnStream,
    memory: &'a DeviceMemory,
    bytes: usize,
    blocks: u32,
    launch: DeviceLaunch,
    // What the launch names.
    _image: DeviceMemory,
    _abort: PinnedMemory,
}

/// A plan that adds two halves, with a lane for each block.
fn plan(lanes: u32) -> Plan {
    let shape = Shape {
        collective: Collective::AllReduce,
        algorithm: Algorithm::Local,
        rank: 0,
        nranks: 1,
        root: 0,
        channels: lanes as u16,
    };
    let mut e = Emitter::new(shape, 2, Layout::Blocks);
    for lane in 0..lanes {
        let halves = [Operand::INPUT, Operand::INPUT.at(1)];
        e.lane(lane as u16).fold(&halves, 0);
    }
    e.finish()
}

impl Fold<'_> {
    fn new<'a>(
        context: &'a Arc<Context>,
        stream: &'a OwnStream,
        memory: &'a DeviceMemory,
        (blocks, bytes): (u32, usize),
    ) -> Result<Fold<'a>, Failure> {
        let plan = plan(blocks);
        let geometry = fit::geometry(Protocol::Simple, SLOT_BYTES, STEPS, (1, 4))?;
        let window = |lane: u32| {
            let binding = Binding {
                count: bytes / 4,
                element_bytes: 4,
                input_blocks: 2,
                output_blocks: 1,
                lane,
                lanes: blocks,
                pieces: 1,
            };
            Window::bind(Layout::Blocks, plan.chunks, &geometry, &binding)
        };
        let windows: Vec<Window> = (0..blocks).map(window).collect();
        let image = Image::new(&Program::lower(&plan)?, &windows);
        let place = DeviceMemory::new(context, "an image", image.bytes().len(), &[])?;
        // SAFETY: the memory is new and that long.
        unsafe { copy_to_device(context, place.address(), image.bytes(), stream.id()) }?;
        let abort = PinnedMemory::new(8)?;
        let mut launch = DeviceLaunch::new(&image, STEPS.1);
        launch.image = if launch.is_inline() {
            0
        } else {
            place.address()
        };
        launch.input = memory.address();
        launch.output = memory.address() + 2 * bytes as u64;
        launch.abort = abort.address();
        Ok(Fold {
            context,
            stream,
            memory,
            bytes,
            blocks,
            launch,
            _image: place,
            _abort: abort,
        })
    }

    fn launch(&self, kernel: &Function, threads: u32) -> Result<(), Failure> {
        let (parameter, on) = (self.launch.as_bytes(), self.stream.id());
        // SAFETY: the launch is made for this kernel, and what it names lives as long as this.
        Ok(unsafe { kernel.launch(self.blocks, threads, parameter, on) }?)
    }

    /// Adds known numbers, and holds each sum against what it must be.
    fn check(&self, kernel: &Function, threads: u32) -> Result<(), Failure> {
        // Sums of numbers below 2^23 are exact.
        let element = |at: usize| (at % 8_388_593) as f32;
        let count = self.bytes / 4;
        let input = (0..2 * count).flat_map(|at| element(at).to_le_bytes());
        let input: Vec<u8> = input.chain((0..self.bytes).map(|_| 0xa5)).collect();
        let at = self.memory.address();
        // SAFETY: the memory has three times that many bytes, and no kernel uses it now.
        unsafe { copy_to_device(self.context, at, &input, self.stream.id()) }?;
        self.launch(kernel, threads)?;
        let mut sums = vec![0; self.bytes];
        let (from, on) = (self.launch.output, self.stream.id());
        // SAFETY: as above.
        unsafe { copy_from_device(self.context, &mut sums, from, on) }?;
        let sums = sums.as_chunks::<4>().0.iter();
        let wrong = (0..)
            .zip(sums)
            .find(|(at, sum)| f32::from_le_bytes(**sum) != element(*at) + element(at + count));
        hold(wrong.is_none(), || {
            format!("with {} blocks a sum is wrong: {wrong:?}", self.blocks)
        })
    }
}
