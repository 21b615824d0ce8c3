//! Cost of a frame: slices of a fold that follow each other in one block, by their size.
//!
//! The leader prepares one frame while the workers fold another, so a frame costs what the slower
//! of the two takes.

use crate::clock::{REPETITIONS, median, rounded, seconds};
use crate::local::{Fold, slice_bytes};
use crate::report::{Failure, Outcome, Verdict};
use crate::world::Setup;
use kolo::config::Settings;
use kolo::cuda::{Context, DeviceKernels, DeviceMemory, OwnStream};
use kolo::dtype::{DataType, ReduceOp};
use kolo::exec::cuda::names;
use kolo::plan::Protocol;
use serde_json::{Value, json};

const THREADS: u32 = 544;
/// Bytes of slots: a slice has two.
const SLOTS: [usize; 8] = [
    16,
    256,
    2 << 10,
    8 << 10,
    32 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
];
/// Slices of the shorter and of the longer launch: their difference is what slices cost.
const SLICES: [usize; 2] = [32, 288];
/// Bytes of each half whose sums are checked: it is the host that checks.
const CHECKED: usize = 16 << 20;
/// Launches behind each other.
const RUNS: usize = 20;

/// Microseconds of a frame by the bytes of its slice, and of a launch with one frame.
pub fn run(setup: &Setup) -> Outcome {
    let context = Context::of(0)?;
    let stream = OwnStream::new(&context)?;
    let slots = if setup.is_small { &SLOTS[..3] } else { &SLOTS };
    let largest = slice_bytes(slots.last().copied().unwrap_or(16)) * SLICES[1];
    let memory = DeviceMemory::new(&context, "frames", 3 * largest, &[])?;
    let op = Some(ReduceOp::Sum);
    let name = names::kernel(Protocol::Simple, DataType::Float32, op);
    let name = name.ok_or_else(|| Failure("no such kernel".into()))?;
    let file = Settings::load(&[])?.kernels()?;
    let kernels = DeviceKernels::load(&context, &file, std::slice::from_ref(&name))?;
    let kernel = kernels.get(&name)?;
    let threads = if setup.is_small { 96 } else { THREADS };
    let runs = if setup.is_small { 1 } else { RUNS };
    let of = |slot: usize, slices: usize| -> Result<f64, Failure> {
        let bytes = slices * slice_bytes(slot);
        let fold = Fold::new(&context, &stream, &memory, 1, bytes, slot)?;
        if bytes <= CHECKED {
            fold.check(kernel, threads)?;
        }
        let once = |_| {
            seconds(|| {
                (0..runs).try_for_each(|_| fold.launch(kernel, threads))?;
                stream.synchronize().map_err(Failure::from)
            })
        };
        let times: Vec<f64> = (0..REPETITIONS).map(once).collect::<Result<_, _>>()?;
        Ok(median(&times) / runs as f64)
    };
    let mut rows: Vec<Value> = Vec::new();
    for &slot in slots {
        let (few, many) = (of(slot, SLICES[0])?, of(slot, SLICES[1])?);
        let frame = (many - few) / (SLICES[1] - SLICES[0]) as f64;
        let bytes = slice_bytes(slot);
        rows.push(json!({
            "bytes": bytes,
            "us a frame": rounded(frame * 1e6),
            "GB/s": rounded(3.0 * bytes as f64 / frame / 1e9),
        }));
    }
    let launch = of(slots[0], 1)?;
    Ok(Verdict::Passed(
        json!({"us a launch with one frame": rounded(launch * 1e6), "frames": rows}),
    ))
}
