//! How a driver deals streams to its queues: which streams wait for a kernel of another stream.
//!
//! Kernels spin on some streams, with an event behind each; each other stream gets a fill or a
//! kernel that ends at once. Whatever has not ended after a while waits for a spinning one.

use crate::litmus::{self, MEET, Trial};
use crate::report::{Failure, Outcome, Verdict, hold};
use crate::world::{QUEUES, Setup};
use kolo::cuda::{
    Context, DeviceEvent, DeviceKernels, DeviceMemory, OwnStream, PinnedMemory, fill_async,
};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Streams beside those on which kernels spin.
const OTHERS: usize = 48;
/// Kernels that spin.
const SPINNING: [usize; 4] = [1, 4, 8, 16];
/// How long the others are given.
const WHILE: Duration = Duration::from_millis(100);
/// Looks of a kernel at memory of the host: seconds.
const PATIENCE: u64 = 1 << 22;

/// How many streams wait, by the number of kernels that spin.
pub fn run(setup: &Setup) -> Outcome {
    let mut rows = Vec::new();
    let few = setup.is_small;
    let (spinning, others) = if few {
        (&SPINNING[..2], 4)
    } else {
        (&SPINNING[..], OTHERS)
    };
    let device = Device::new()?;
    for &count in spinning {
        rows.push(device.row(count, others)?);
    }
    let queues = std::env::var(QUEUES).ok();
    Ok(Verdict::Passed(json!({QUEUES: queues, "rows": rows})))
}

struct Device {
    context: Arc<Context>,
    kernels: DeviceKernels,
    memory: DeviceMemory,
}

impl Device {
    fn new() -> Result<Device, Failure> {
        let context = Context::of(0)?;
        Ok(Device {
            kernels: DeviceKernels::load(&context, &litmus::file()?, &[MEET.into()])?,
            memory: DeviceMemory::new(&context, "queues", 64 << 10, &[])?,
            context,
        })
    }

    fn row(&self, spinning: usize, others: usize) -> Result<Value, Failure> {
        let streams = || OwnStream::new(&self.context);
        let first: Vec<OwnStream> = (0..spinning).map(|_| streams()).collect::<Result<_, _>>()?;
        let others: Vec<OwnStream> = (0..others).map(|_| streams()).collect::<Result<_, _>>()?;
        let fill = |stream: &OwnStream| {
            // SAFETY: the memory is longer, and nobody reads it.
            unsafe { fill_async(&self.context, self.memory.address(), 0, 8, stream.id()) }
                .map_err(Failure::from)
        };
        let kernel = |stream: &OwnStream| {
            let place = self.memory.address() + (32 << 10);
            self.meet(place, 1, stream)
        };
        // Whatever is made at the first use is there before kernels spin.
        for stream in first.iter().chain(&others) {
            fill(stream)?;
            kernel(stream)?;
            stream.synchronize()?;
        }
        let fills = self.waiting(&first, &others, fill)?;
        let kernels = self.waiting(&first, &others, kernel)?;
        Ok(
            json!({"spinning": spinning, "others": others.len(), "fills that wait": fills,
            "kernels that wait": kernels}),
        )
    }

    fn meet(&self, place: u64, rounds: u64, on: &OwnStream) -> Result<(), Failure> {
        let trial = Trial::meeting(place, self.memory.address(), rounds, PATIENCE);
        let kernel = self.kernels.get(MEET)?;
        // SAFETY: the structure is the kernel's; what it names lives until the stream has ended.
        Ok(unsafe { kernel.launch(1, 32, &trial.bytes(), on.id()) }?)
    }

    /// The numbers of those streams whose work has not ended while kernels spin.
    fn waiting(
        &self,
        spinning: &[OwnStream],
        others: &[OwnStream],
        put: impl Fn(&OwnStream) -> Result<(), Failure>,
    ) -> Result<Vec<usize>, Failure> {
        let words = PinnedMemory::new(16 * spinning.len())?;
        let mut events = Vec::new();
        for (at, stream) in (0..).zip(spinning) {
            self.meet(words.address() + 16 * at, 2, stream)?;
            let event = DeviceEvent::new(&self.context)?;
            event.record(stream.id())?;
            events.push(event);
        }
        let all = others.iter().try_for_each(&put);
        let begin = Instant::now();
        let mut left: Vec<usize> = (0..others.len()).collect();
        while !left.is_empty() && begin.elapsed() < WHILE {
            std::thread::sleep(Duration::from_millis(2));
            left.retain(|&at| !others[at].id().is_over(&self.context).unwrap_or(false));
        }
        let spun = events.iter().map(DeviceEvent::is_over);
        let ended = spun.collect::<Result<Vec<bool>, _>>()?;
        for at in 0..spinning.len() {
            // SAFETY: the memory has two words for each kernel, aligned to pages.
            let word = unsafe { &*words.as_ptr().cast::<AtomicU64>().add(2 * at + 1) };
            word.store(1, Ordering::Release);
        }
        for stream in spinning.iter().chain(others) {
            stream.synchronize()?;
        }
        hold(!ended.contains(&true), || {
            format!("kernels did not spin as long as the others were given: {ended:?}")
        })?;
        all.map(|()| left)
    }
}
