//! What the engine of host memory makes of a call: the bits that the kernels must give, too.

use super::call::Call;
use kolo::exec::Progress;
use kolo::exec::host::{Bound, LaneRun, Launch, Wires};
use kolo::plan::{Geometry, Protocol};
use kolo::transport::node::NodeMemory;
use kolo::transport::segment::Segment;
use kolo::wire::layout::Layout;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most payload of a slot of any call.
const SLOT_BYTES: usize = 16_384;
/// What nobody has written.
pub const POISON: u8 = 0x5a;

fn wires(ranks: usize, channels: usize) -> Vec<Wires> {
    let layout = Layout {
        ranks,
        channels,
        slot_bytes: SLOT_BYTES,
        eager_bytes: SLOT_BYTES,
    };
    let segment = Arc::new(Segment::anonymous(layout.total()).expect("memory"));
    (0..ranks)
        .map(|me| {
            let owner = Arc::clone(&segment);
            // SAFETY: an anonymous segment of this size is zero and page-aligned.
            let node = unsafe { NodeMemory::new(segment.as_ptr(), layout, me, owner) };
            let (source, bell) = (Box::new(node.clone()), Box::new(node.clone()));
            Wires::new((me, ranks, channels), node.fans(), source, bell)
        })
        .collect()
}

/// The receive buffers of all ranks, out of place.
pub fn outputs(call: &Call) -> Vec<Vec<u8>> {
    let stop = AtomicBool::new(false);
    let wires = wires(call.ranks(), usize::from(call.channels));
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

struct StopOnPanic<'a>(&'a AtomicBool);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
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
