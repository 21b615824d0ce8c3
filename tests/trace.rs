//! The monomorphic one-shot executor passes the same tokens in the same order as the interpreter
//! of plans, and gives the same result.

use kolo::algo;
use kolo::base::Result;
use kolo::dtype::{self, DataType, FoldParams, ReduceOp};
use kolo::exec::oneshot::{SmallCall, Stop};
use kolo::exec::trace::Event;
use kolo::exec::{Bound, Kernel, LaneRun, Launch, Progress, Waiting, Wires};
use kolo::plan::{Algorithm, Collective, Geometry, Nodes, Protocol, Shape};
use kolo::transport::node::NodeMemory;
use kolo::transport::segment::Segment;
use kolo::wire::layout::Layout;
use std::sync::Arc;

struct Yielding;

impl Waiting for Yielding {
    fn pause(&mut self, _: usize) -> Result<()> {
        std::thread::yield_now();
        Ok(())
    }
}

/// The wires of every rank of a fresh node.
fn wires(ranks: usize) -> Vec<Wires> {
    let layout = Layout {
        ranks,
        channels: 1,
        slot_bytes: 4096,
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
        commutes: true,
        owner: None,
    }
}

const COUNT: usize = 9;
const ROOT: usize = 1;

fn input(rank: usize) -> Vec<i64> {
    (0..COUNT)
        .map(|element| (rank * 100 + element) as i64)
        .collect()
}

type Traced = (Vec<Event>, Vec<i64>, u64);

/// One rank, interpreted.
fn interpreted(collective: Collective, wires: &mut Wires, count: usize) -> Traced {
    let (me, ranks) = (wires.me(), wires.ranks());
    let algorithm = Algorithm::OneShot;
    let (rank, nranks, root) = (me as u32, ranks as u32, ROOT as u32);
    let shape = Shape {
        collective,
        algorithm,
        rank,
        nranks,
        root,
        channels: 1,
    };
    let plan = algo::plan(&shape, &Nodes::one(nranks)).unwrap();
    let send = input(me);
    let mut recv = vec![-1; COUNT * ranks];
    let buffers = (send.as_ptr().cast(), recv.as_mut_ptr().cast());
    let geometry = Geometry::bundle(8 * 4096);
    let bound = Arc::new(Bound::new(plan, Protocol::Simple, wires).unwrap());
    let launch = Launch::new(bound, buffers, kernel(), 5, geometry).unwrap();
    let blocks = if collective == Collective::AllGather {
        (1, nranks)
    } else {
        (1, 1)
    };
    let mut lane = LaneRun::new(0, launch.window(0, count, blocks));
    let mut events = Vec::new();
    loop {
        // SAFETY: the buffers hold a block for every rank and live until the lane is done.
        match unsafe { lane.progress(&launch, wires, &mut events) }.expect("all call the same") {
            Progress::Done => break,
            _ => std::thread::yield_now(),
        }
    }
    wires.complete_eager();
    (events, recv, wires.steps_executed)
}

/// One rank, by its monomorphic function.
fn monomorphic(collective: Collective, wires: &mut Wires, count: usize) -> Traced {
    let send = input(wires.me());
    let mut recv = vec![-1; COUNT * wires.ranks()];
    let kernel = kernel();
    let call = SmallCall {
        send: send.as_ptr().cast(),
        recv: recv.as_mut_ptr().cast(),
        count,
        kernel: &kernel,
        signature: 5,
        root: ROOT,
    };
    let mut events = Vec::new();
    let mut sources = Vec::new();
    // SAFETY: the buffers hold a block for every rank and live until the call has returned.
    let ended: std::result::Result<(), Stop> = unsafe {
        match collective {
            Collective::AllReduce => {
                call.all_reduce(wires, &mut sources, &mut Yielding, &mut events)
            }
            Collective::AllGather => call.all_gather(wires, &mut Yielding, &mut events),
            Collective::Broadcast => call.broadcast(wires, &mut Yielding, &mut events),
            _ => call.barrier(wires, &mut Yielding, &mut events),
        }
    };
    assert!(ended.is_ok());
    (events, recv, wires.steps_executed)
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
        Collective::Barrier,
    ];
    for ranks in 2..=6 {
        for collective in collectives {
            let count = if collective == Collective::Barrier {
                0
            } else {
                COUNT
            };
            let by_plan = all(ranks, |wires| interpreted(collective, wires, count));
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
