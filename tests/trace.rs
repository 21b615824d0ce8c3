//! The short executors pass the same tokens as the interpreter of plans, those of one-shot plans in
//! the same order, and give the same result.

use kolo::algo;
use kolo::base::Result;
use kolo::dtype::{self, DataType, FoldParams, ReduceOp};
use kolo::exec::host::exchange::Bundle;
use kolo::exec::host::kernel::Kernels;
use kolo::exec::host::oneshot::SmallCall;
use kolo::exec::host::scratch::Sources;
use kolo::exec::host::{Bound, Kernel, LaneRun, Launch, Wires};
use kolo::exec::order::SmallOrder;
use kolo::exec::trace::{Event, Tracer};
use kolo::exec::{Progress, Waiting};
use kolo::plan::{Algorithm, Collective, Geometry, Nodes, Placing, Protocol, Shape};
use kolo::transport::node::NodeMemory;
use kolo::transport::segment::Segment;
use kolo::wire::layout::Layout;
use std::sync::Arc;

#[path = "trace/awaited.rs"]
mod awaited;
#[path = "trace/growing.rs"]
mod growing;
#[path = "trace/levels.rs"]
mod levels;
#[path = "trace/slices.rs"]
mod slices;
#[path = "trace/wishes.rs"]
mod wishes;

/// A token of so many bytes is more than two parts of one that grows.
const SLOT_BYTES: usize = 40 << 10;

/// Lets others run where it waits, and notes what moved.
#[derive(Default)]
struct Yielding(Vec<Event>);

impl Tracer for Yielding {
    fn event(&mut self, event: Event) {
        self.0.push(event);
    }
}

impl Waiting for Yielding {
    fn pause(&mut self, _: usize) -> Result<()> {
        std::thread::yield_now();
        Ok(())
    }
}

/// A call of this rank, whose elements are summed.
fn order(collective: Collective, send: &[i64], recv: &mut [i64], count: usize) -> SmallOrder {
    SmallOrder {
        collective,
        send: send.as_ptr().cast(),
        recv: recv.as_mut_ptr().cast(),
        count,
        dtype: DataType::Int64,
        op: Some(ReduceOp::Sum),
        signature: 5,
        root: ROOT,
    }
}

/// The wires of every rank of a fresh node.
fn wires(ranks: usize) -> Vec<Wires> {
    let layout = Layout {
        ranks,
        channels: 1,
        slot_bytes: SLOT_BYTES,
        eager_bytes: 4096,
    };
    let segment = Arc::new(Segment::anonymous(layout.total()).unwrap());
    (0..ranks)
        .map(|me| {
            let owner = Arc::clone(&segment);
            // SAFETY: an anonymous segment of this size is zero and page-aligned.
            let node = unsafe { NodeMemory::new(segment.as_ptr(), layout, me, owner) };
            let (source, bell) = (Box::new(node.clone()), Box::new(node.clone()));
            Wires::new((me, ranks, 1), node.fans(), source, bell)
        })
        .collect()
}

fn kernel() -> Kernel {
    Kernel {
        fold: dtype::fold(DataType::Int64, ReduceOp::Sum).unwrap(),
        copy: dtype::copy(),
        element_bytes: 8,
        params: FoldParams::default(),
        pre_scaled: false,
        divisor: None,
        owner: None,
    }
}

const COUNT: usize = 9;
const ROOT: usize = 1;

fn input(rank: usize, ranks: usize) -> Vec<i64> {
    (0..COUNT * ranks)
        .map(|element| (rank * 100 + element) as i64)
        .collect()
}

type Traced = (Vec<Event>, Vec<i64>, u64);

fn many(rank: usize, ranks: usize, count: usize) -> Vec<i64> {
    (0..count * ranks)
        .map(|element| (rank * 100_000 + element) as i64)
        .collect()
}

/// One rank, interpreted.
fn interpreted(plan: (Collective, Algorithm), wires: &mut Wires, count: usize) -> Traced {
    let buffers = (
        input(wires.me(), wires.ranks()),
        vec![-1; COUNT * wires.ranks()],
    );
    interpreted_on(plan, wires, count, buffers)
}

/// Runs a plan with buffers that hold `count` elements for each rank.
fn sized(plan: (Collective, Algorithm), wires: &mut Wires, count: usize) -> Traced {
    let buffers = (
        many(wires.me(), wires.ranks(), count),
        vec![-1; count * wires.ranks()],
    );
    interpreted_on(plan, wires, count, buffers)
}

fn interpreted_on(
    (collective, algorithm): (Collective, Algorithm),
    wires: &mut Wires,
    count: usize,
    (send, recv): (Vec<i64>, Vec<i64>),
) -> Traced {
    let shape = shape_of(collective, algorithm, wires, ROOT as u32);
    let nodes = Nodes::one(shape.nranks);
    interpreted_plan(&shape, &nodes, wires, count, (send, recv))
}

fn shape_of(collective: Collective, algorithm: Algorithm, wires: &Wires, root: u32) -> Shape {
    Shape {
        collective,
        algorithm,
        rank: wires.me() as u32,
        nranks: wires.ranks() as u32,
        root,
        channels: 1,
    }
}

fn interpreted_plan(
    shape: &Shape,
    nodes: &Nodes,
    wires: &mut Wires,
    count: usize,
    (send, mut recv): (Vec<i64>, Vec<i64>),
) -> Traced {
    let (collective, nranks) = (shape.collective, shape.nranks);
    let plan = algo::plan(shape, nodes).unwrap();
    let buffers = (send.as_ptr().cast(), recv.as_mut_ptr().cast());
    let geometry = Geometry::bundle(8 * SLOT_BYTES);
    let bound = Arc::new(Bound::new(plan, Protocol::Simple, wires).unwrap());
    let launch = Launch::new(bound, buffers, kernel(), 5, geometry).unwrap();
    let blocks = (
        collective.input_blocks(nranks),
        collective.output_blocks(nranks),
    );
    let mut lanes: Vec<LaneRun> = (0..launch.plan.lanes().len())
        .map(|lane| LaneRun::new(lane, launch.window(lane, count, blocks)))
        .collect();
    let mut events = Vec::new();
    while !lanes.is_empty() {
        lanes.retain_mut(|lane| {
            // SAFETY: the buffers hold a block for every rank and live until the lane is done.
            let progress = unsafe { lane.progress(&launch, wires, &mut events) };
            progress.expect("all call the same") != Progress::Done
        });
        std::thread::yield_now();
    }
    wires.ports.complete_eager();
    (events, recv, wires.steps_executed)
}

/// One rank, by the row of the table.
fn monomorphic(collective: Collective, wires: &mut Wires, count: usize) -> Traced {
    let send = input(wires.me(), wires.ranks());
    let mut recv = vec![-1; COUNT * wires.ranks()];
    let order = &order(collective, &send, &mut recv, count);
    let kernel = &kernel();
    let (mut sources, mut yielding) = (Sources::default(), Yielding::default());
    // SAFETY: the buffers hold a block for every rank and live until the call has returned.
    let ended = unsafe { SmallCall { order, kernel }.run(wires, &mut sources, &mut yielding) };
    assert!(ended.is_ok());
    (yielding.0, recv, wires.steps_executed)
}

/// One rank, by a bundle.
fn bundled(collective: Collective, wires: &mut Wires) -> Traced {
    let send = input(wires.me(), wires.ranks());
    let mut recv = vec![-1; COUNT * wires.ranks()];
    let order = order(collective, &send, &mut recv, COUNT);
    let kernels = Kernels::new(wires.ranks() as u32);
    let (mut events, mut bundle) = (Vec::new(), Bundle::default());
    // SAFETY: the buffers hold a block for every rank and live until all messages have moved.
    let copied = unsafe { bundle.begin(&order, Placing::Planned, wires) }.unwrap();
    // SAFETY: as above.
    while unsafe { bundle.pass(&kernels, wires, &mut events) }.unwrap() != Progress::Done {
        std::thread::yield_now();
    }
    assert_eq!(bundle.steps() + copied, wires.steps_executed);
    (events, recv, wires.steps_executed)
}

/// Which peer is first is a matter of time.
fn sorted(mut events: Vec<Event>) -> Vec<Event> {
    events.sort_by_key(|event| format!("{event:?}"));
    events
}

/// A way of each rank passes the tokens of the plan, in any order, and gives the same.
fn same_tokens(
    ranks: usize,
    plan: (Collective, Algorithm),
    way: impl Fn(Collective, &mut Wires) -> Traced + Sync,
) {
    let by_plan = all(ranks, |wires| interpreted(plan, wires, COUNT));
    let by_way = all(ranks, |wires| way(plan.0, wires));
    for (rank, (plan_of, way_of)) in by_plan.into_iter().zip(by_way).enumerate() {
        let what = format!("rank {rank} of {ranks}, {:?}", plan.0);
        assert!(!plan_of.0.is_empty());
        assert_eq!(sorted(plan_of.0), sorted(way_of.0), "tokens of {what}");
        assert_eq!(plan_of.1, way_of.1, "result of {what}");
        assert_eq!(plan_of.2, way_of.2, "steps of {what}");
    }
}

#[test]
fn small_messages_are_those_of_the_plan() {
    for ranks in 2..=6 {
        for (collective, algorithm) in [
            (Collective::Gather, Algorithm::Bundle),
            (Collective::Scatter, Algorithm::Bundle),
            (Collective::AllToAll, Algorithm::Bundle),
            (Collective::Reduce, Algorithm::OneShot),
        ] {
            same_tokens(ranks, (collective, algorithm), bundled);
        }
    }
}

fn all(ranks: usize, run: impl Fn(&mut Wires) -> Traced + Sync) -> Vec<Traced> {
    let run = &run;
    std::thread::scope(|scope| {
        let threads: Vec<_> = wires(ranks)
            .into_iter()
            .map(|mut wires| scope.spawn(move || run(&mut wires)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    })
}

#[test]
fn same_tokens_same_order_same_result() {
    let collectives = [
        Collective::AllReduce,
        Collective::AllGather,
        Collective::Broadcast,
        Collective::ReduceScatter,
        Collective::AllToAll,
        Collective::Scatter,
        Collective::Scan,
        Collective::Exscan,
        Collective::Barrier,
    ];
    for ranks in 2..=6 {
        for collective in collectives {
            let count = if collective == Collective::Barrier {
                0
            } else {
                COUNT
            };
            let plan = (collective, Algorithm::OneShot);
            let by_plan = all(ranks, |wires| interpreted(plan, wires, count));
            let direct = all(ranks, |wires| monomorphic(collective, wires, count));
            for (rank, (plan, direct)) in by_plan.iter().zip(&direct).enumerate() {
                assert!(!plan.0.is_empty());
                assert_eq!(
                    plan.0, direct.0,
                    "tokens of rank {rank}, {collective:?}, {ranks}"
                );
                assert_eq!(
                    plan.1, direct.1,
                    "result of rank {rank}, {collective:?}, {ranks}"
                );
                assert_eq!(
                    plan.2, direct.2,
                    "steps of rank {rank}, {collective:?}, {ranks}"
                );
            }
        }
    }
}
