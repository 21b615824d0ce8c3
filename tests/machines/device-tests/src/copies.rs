//! Copies by the driver, which show what a device can do by itself, and one launch that adds two
//! halves of a buffer by the interpreter's fold. Every byte that is read or written counts.

use crate::clock::{REPETITIONS, median, rounded, seconds, spread};
use crate::local::Fold;
use crate::report::{Failure, Outcome, Verdict};
use crate::world::Setup;
use kolo::config::Settings;
use kolo::cuda::{Context, DeviceKernels, DeviceMemory, OwnStream, copy_async};
use kolo::dtype::{DataType, ReduceOp};
use kolo::exec::cuda::names;
use kolo::plan::Protocol;
use serde_json::{Value, json};

/// Bytes of a slot, as communicators have them.
const SLOT_BYTES: usize = 64 << 10;
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
    for blocks in [USUAL_BLOCKS, 32, 64, resident] {
        if blocks > resident {
            continue;
        }
        let fold = Fold::new(&context, &stream, &memory, blocks, bytes, SLOT_BYTES)?;
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
