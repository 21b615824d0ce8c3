//! Results of a call on the engine of host memory: the bits that the kernels must give, too.

use super::call::Call;
use super::memory::{StopOnPanic, wires};
use kolo::exec::Progress;
use kolo::exec::host::{Bound, LaneRun, Launch, Wires};
use kolo::plan::{Geometry, Protocol};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most payload of a slot of any call.
const SLOT_BYTES: usize = 16_384;
/// Byte in memory that nobody has written.
pub const POISON: u8 = 0x5a;

/// The receive buffers of all ranks, out of place.
pub fn outputs(call: &Call) -> Vec<Vec<u8>> {
    let stop = AtomicBool::new(false);
    let wires = wires(call.ranks(), usize::from(call.channels), SLOT_BYTES);
    std::thread::scope(|scope| {
        let ranks: Vec<_> = wires
            .into_iter()
            .enumerate()
            .map(|(rank, wires)| {
                let stop = &stop;
                scope.spawn(move || output(call, rank, wires, stop))
            })
            .collect();
        let join =
            |thread: std::thread::ScopedJoinHandle<_>| thread.join().expect("the host's run");
        ranks.into_iter().map(join).collect()
    })
}

fn output(call: &Call, rank: usize, mut wires: Wires, stop: &AtomicBool) -> Vec<u8> {
    let _guard = StopOnPanic(stop);
    let wires = &mut wires;
    let input = call.input(rank);
    let mut output = vec![POISON; call.output_bytes()];
    if call.in_place
        && let Some(offset) = call.in_place_offset(rank)
    {
        output[offset..offset + input.len()].copy_from_slice(&input);
    }
    let plan = call.plans[rank].clone();
    let plan = Bound::new(plan, Protocol::Simple, wires).expect("connections");
    let geometry = Geometry {
        slot_bytes: SLOT_BYTES,
        ..call.geometry
    };
    let buffers = (input.as_ptr(), output.as_mut_ptr());
    let launch = Launch::new(
        Arc::new(plan),
        buffers,
        call.kernel(),
        call.seed | 1,
        geometry,
    );
    let launch = launch.unwrap_or_else(|error| panic!("{}: {error}", call.text()));
    let lanes = 0..call.plans[rank].lanes.len();
    let run = |lane| LaneRun::new(lane, call.window(&call.plans[rank], lane));
    let mut lanes: Vec<LaneRun> = lanes.map(run).collect();
    while !lanes.is_empty() {
        lanes.retain_mut(|lane| {
            // SAFETY: the buffers hold what the call says and belong to this thread.
            let progress = unsafe { lane.progress(&launch, wires, &mut ()) };
            progress.unwrap_or_else(|m| panic!("{}: {m:?}", call.text())) != Progress::Done
        });
        assert!(!stop.load(Ordering::Relaxed), "another rank failed");
        std::thread::yield_now();
    }
    assert_eq!(wires.steps_executed, call.steps(rank), "{}", call.text());
    output
}
