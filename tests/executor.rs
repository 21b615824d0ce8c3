//! The interpreter of plans with data: ranks are threads, plans are made by hand.
//!
//! Buffers are poisoned and guarded on both sides, sizes are random and include 0, 1 and odd ones,
//! elements of one byte put the pieces of packed tokens on odd addresses, small slots make several
//! rounds, and calls follow each other on the same connections without a barrier.

mod memory;
mod samples;

use kolo::dtype::{self, DataType, FoldParams, ReduceOp};
use kolo::exec::host::launch::protocol;

use kolo::exec::host::{Bound, Kernel, LaneRun, Launch, Wires};
use kolo::exec::{Progress, Stop};
use kolo::plan::{Collective, Geometry, Plan, Protocol};
use memory::{StopOnPanic, wires};
use samples::{SAMPLES, Sample};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most bytes of a slot.
const SLOT_BYTES: usize = 16_384;
const CHANNELS: usize = 2;
/// Poisoned elements before and behind each receive buffer.
const GUARD: usize = 32;
const POISON: u8 = 0x5a;

/// One call, the same on all ranks.
struct Call {
    sample: &'static Sample,
    plans: Vec<Arc<Plan>>,
    count: usize,
    bytes_per_element: usize,
    geometry: Geometry,
    protocol: Protocol,
    in_place: bool,
    scaling: Scaling,
    number: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Scaling {
    None,
    /// Inputs times 3.
    Before,
    /// Results divided by the ranks.
    After,
}

impl Call {
    fn draw(sample: &'static Sample, ranks: u32, number: u64, random: &mut fastrand::Rng) -> Call {
        let channels = random.u16(1..=CHANNELS as u16);
        let plans = samples::plans(sample, ranks, channels);
        let count = match random.u32(0..4) {
            0 => random.usize(0..4),
            1 => random.usize(0..100),
            2 => random.usize(0..4000),
            _ => random.usize(0..20_000),
        };
        let (chunk_steps, slice_steps) = [(1, 1), (4, 2), (4, 1), (2, 2)][random.usize(0..4)];
        let reduces = sample.collective.reduces();
        let scaling = match random.u32(0..3) {
            1 if reduces => Scaling::Before,
            2 if reduces => Scaling::After,
            _ => Scaling::None,
        };
        Call {
            sample,
            plans: plans.into_iter().map(Arc::new).collect(),
            count,
            bytes_per_element: if random.bool() { 1 } else { 8 },
            geometry: Geometry {
                slots: Geometry::SLOTS,
                slot_bytes: [1024, 4096, SLOT_BYTES][random.usize(0..3)],
                chunk_steps,
                slice_steps,
            },
            protocol: [Protocol::Simple, Protocol::Ll, Protocol::Ll128][random.usize(0..3)],
            in_place: sample.collective == Collective::AllReduce && random.bool(),
            scaling,
            number,
        }
    }

    fn ranks(&self) -> usize {
        self.plans.len()
    }

    fn blocks(&self) -> (usize, usize) {
        let (ranks, collective) = (self.ranks() as u32, self.sample.collective);
        let blocks = (
            collective.input_blocks(ranks),
            collective.output_blocks(ranks),
        );
        (blocks.0 as usize, blocks.1 as usize)
    }

    fn kernel(&self) -> Kernel {
        let dtype = match self.bytes_per_element {
            1 => DataType::Uint8,
            _ => DataType::Int64,
        };
        let (op, scalar) = match self.scaling {
            Scaling::None => (ReduceOp::Sum, 0u64),
            Scaling::Before => (ReduceOp::PreMulSum, 3),
            Scaling::After => (ReduceOp::Avg, 0),
        };
        Kernel {
            fold: dtype::fold(dtype, op).expect("it combines them"),
            copy: dtype::copy(),
            element_bytes: self.bytes_per_element,
            params: FoldParams {
                scalar: u128::from(scalar).to_le_bytes(),
                ..FoldParams::default()
            },
            pre_scaled: self.scaling == Scaling::Before,
            divisor: NonZeroU32::new(self.ranks() as u32)
                .filter(|_| self.scaling == Scaling::After),
            owner: None,
        }
    }

    /// Small enough that no sum of one-byte elements overflows.
    fn value(&self, rank: usize, element: usize) -> u64 {
        (rank as u64 * 7 + element as u64 * 3 + self.number) % 11
    }

    fn store(&self, values: impl Iterator<Item = u64>) -> Vec<u8> {
        let size = self.bytes_per_element;
        values
            .flat_map(|value| value.to_le_bytes().into_iter().take(size))
            .collect()
    }

    fn input(&self, rank: usize) -> Vec<u8> {
        let elements = self.count * self.blocks().0;
        self.store((0..elements).map(|element| self.value(rank, element)))
    }

    /// Output that a rank must have; `None` where it stays untouched.
    fn wanted(&self, rank: usize) -> Option<Vec<u8>> {
        let fold = |element: usize| {
            let values = (0..self.ranks()).map(|rank| self.value(rank, element));
            match self.scaling {
                Scaling::None => values.sum::<u64>(),
                Scaling::Before => values.map(|value| 3 * value).sum(),
                Scaling::After => values.sum::<u64>() / self.ranks() as u64,
            }
        };
        let (count, blocks) = (self.count, self.blocks().1);
        let elements = (0..count * blocks).map(|at| (at / count.max(1), at % count.max(1)));
        let first = rank * count;
        Some(match self.sample.collective {
            Collective::AllReduce => self.store(elements.map(|(_, e)| fold(e))),
            Collective::Reduce if rank == 0 => self.store(elements.map(|(_, e)| fold(e))),
            Collective::ReduceScatter => self.store(elements.map(|(_, e)| fold(first + e))),
            Collective::Broadcast => self.store(elements.map(|(_, e)| self.value(0, e))),
            Collective::AllGather => self.store(elements.map(|(b, e)| self.value(b, e))),
            Collective::AllToAll => self.store(elements.map(|(b, e)| self.value(b, first + e))),
            Collective::Gather if rank == 0 => self.store(elements.map(|(b, e)| self.value(b, e))),
            Collective::Scatter => self.store(elements.map(|(_, e)| self.value(0, first + e))),
            _ => return None,
        })
    }

    fn text(&self) -> String {
        let chunks = (self.geometry.chunk_steps, self.geometry.slice_steps);
        format!(
            "call {}: {}, {} ranks, {} x {} bytes, chunks of {chunks:?}, {:?}, {}, in place {}",
            self.number,
            self.sample.name,
            self.ranks(),
            self.count,
            self.bytes_per_element,
            self.scaling,
            self.protocol.name(),
            self.in_place,
        )
    }
}

/// One rank's part of one call.
fn run(call: &Call, rank: usize, wires: &mut Wires, stop: &AtomicBool) {
    let input = call.input(rank);
    let guard = GUARD * call.bytes_per_element;
    let bytes = call.count * call.blocks().1 * call.bytes_per_element;
    let mut memory = vec![POISON; bytes + 2 * guard];
    let mut send = input.as_ptr();
    if call.in_place {
        memory[guard..guard + bytes].copy_from_slice(&input);
        send = memory[guard..].as_ptr();
    }
    let buffers = (send, memory[guard..].as_mut_ptr());
    let plan = (*call.plans[rank]).clone();
    let how = protocol(
        plan.pieces,
        call.protocol,
        &call.geometry,
        call.bytes_per_element,
    );
    let plan = Bound::new(plan, how, wires).expect("connections");
    let signature = call.number + 1;
    let launch = Launch::new(
        Arc::new(plan),
        buffers,
        call.kernel(),
        signature,
        call.geometry,
    )
    .unwrap_or_else(|error| panic!("{}: {error}", call.text()));
    let (inputs, outputs) = call.blocks();
    let mut planned = wires.steps_executed;
    let mut lanes: Vec<LaneRun> = (0..launch.plan.lanes().len())
        .map(|lane| {
            let window = launch.window(lane, call.count, (inputs as u32, outputs as u32));
            planned += launch.plan.lane_steps_per_round(lane) * window.rounds();
            LaneRun::new(lane, window)
        })
        .collect();
    while !lanes.is_empty() {
        lanes.retain_mut(|lane| {
            // SAFETY: the buffers hold what the call says and belong to this thread.
            let progress = unsafe { lane.progress(&launch, wires, &mut ()) };
            progress.unwrap_or_else(|m| panic!("{}: {m:?}", call.text())) != Progress::Done
        });
        assert!(!stop.load(Ordering::Relaxed), "another rank failed");
        std::thread::yield_now();
    }
    assert_eq!(wires.steps_executed, planned, "{}", call.text());
    let untouched = vec![POISON; bytes];
    let wanted = call.wanted(rank).unwrap_or(untouched);
    let got = &memory[guard..guard + bytes];
    if let Some(at) = (0..bytes).find(|&at| got[at] != wanted[at]) {
        let element = at / call.bytes_per_element;
        panic!("{}: rank {rank}, element {element} is wrong", call.text());
    }
    let edges = memory[..guard].iter().chain(&memory[guard + bytes..]);
    assert!(
        edges.clone().all(|&b| b == POISON),
        "{}: rank {rank} wrote beyond",
        call.text()
    );
}

/// All calls, back to back, on the connections of one node.
fn run_all(ranks: usize, calls: &[Call]) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (rank, mut wires) in wires(ranks, CHANNELS, SLOT_BYTES).into_iter().enumerate() {
            let stop = &stop;
            scope.spawn(move || {
                let _guard = StopOnPanic(stop);
                for call in calls {
                    run(call, rank, &mut wires, stop);
                }
            });
        }
    });
}

#[test]
fn samples_with_data() {
    for ranks in [1, 2, 3, 4, 5, 8] {
        let mut random = fastrand::Rng::with_seed(u64::from(ranks));
        let fitting: Vec<&Sample> = SAMPLES.iter().filter(|s| (s.fits)(ranks)).collect();
        let calls: Vec<Call> = (0..60)
            .map(|number| {
                let sample = fitting[number as usize % fitting.len()];
                Call::draw(sample, ranks, number, &mut random)
            })
            .collect();
        run_all(ranks as usize, &calls);
    }
}

/// Ranks that disagree hear of it, whatever the protocol, even if they wait for more bytes than
/// the other one sends.
#[test]
fn a_rank_that_calls_something_else() {
    let sample = &SAMPLES[0];
    for protocol in [Protocol::Simple, Protocol::Ll, Protocol::Ll128] {
        let mut both = wires(2, CHANNELS, SLOT_BYTES);
        let mut run = |rank: usize, count: usize, signature: u64| {
            let plan = samples::plans(sample, 2, 1).swap_remove(rank);
            let (send, mut recv) = (vec![0u8; count], vec![0u8; 2 * count]);
            let buffers = (send.as_ptr(), recv.as_mut_ptr());
            let mut random = fastrand::Rng::with_seed(1);
            let mut call = Call::draw(sample, 2, 0, &mut random);
            call.bytes_per_element = 1;
            let geometry = Geometry::bundle(8 * SLOT_BYTES);
            let wires = &mut both[rank];
            let plan = Arc::new(Bound::new(plan, protocol, wires).expect("connections"));
            let launch = Launch::new(plan, buffers, call.kernel(), signature, geometry);
            let launch = launch.expect("a good launch");
            let mut lane = LaneRun::new(0, launch.window(0, count, (1, 2)));
            // SAFETY: the buffers live as long as the lane.
            unsafe { lane.progress(&launch, wires, &mut ()) }
        };
        assert_eq!(run(0, 1000, 5), Ok(Progress::Moved(1)), "{protocol:?}");
        let Err(Stop::Mismatch(mismatch)) = run(1, 3000, 6) else {
            panic!("rank 0 calls something else, {protocol:?}");
        };
        assert_eq!(
            (mismatch.peer, mismatch.theirs.0, mismatch.mine.0),
            (0, 5, 6)
        );
    }
}

/// Ranks whose packed tokens cannot hold an element of each chunk are refused, with a remedy.
#[test]
fn tokens_too_large_for_their_slots() {
    let mut wires = wires(1, CHANNELS, SLOT_BYTES);
    let sample = &SAMPLES[0];
    let mut random = fastrand::Rng::with_seed(0);
    let mut call = Call::draw(sample, 1, 0, &mut random);
    let mut plan = (*call.plans[0]).clone();
    plan.pieces = 5000;
    call.plans[0] = Arc::new(plan);
    call.bytes_per_element = 8;
    let kernel = call.kernel();
    let geometry = Geometry::bundle(8 * 4096);
    let buffers = (std::ptr::null(), std::ptr::null_mut());
    let plan = (*call.plans[0]).clone();
    let plan = Bound::new(plan, Protocol::Simple, &mut wires[0]).expect("connections");
    let launch = Launch::new(Arc::new(plan), buffers, kernel, 1, geometry);
    let error = launch.err().expect("40,000 bytes do not fit 4,096");
    assert!(error.what.contains("40000 bytes"), "{error}");
    assert!(error.remedy.contains("KOLO_BUFFSIZE"), "{error}");
}
