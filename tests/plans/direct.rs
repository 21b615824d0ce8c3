//! Calls that read peers' buffers where they lie: every step may, for every shape.

use kolo::algo;
use kolo::plan::analysis::direct::is_possible;
use kolo::plan::check::{Form, Options, check};
use kolo::plan::{Algorithm, Collective, Nodes, Plan, Shape};

fn plans(collective: Collective, nranks: u32, root: u32) -> Vec<Plan> {
    let nodes = Nodes::one(nranks);
    let of = |rank| Shape {
        collective,
        algorithm: Algorithm::TwoShot,
        rank,
        nranks,
        root,
        channels: 1,
    };
    let plan = |rank| algo::plan(&of(rank), &nodes).expect("registered");
    (0..nranks).map(plan).collect()
}

#[test]
fn two_shot_may_read_directly_in_place_and_out_of_place() {
    let direct = [
        Collective::AllReduce,
        Collective::ReduceScatter,
        Collective::AllGather,
        Collective::Broadcast,
    ];
    for collective in direct {
        for nranks in (2..=17).chain([32, 64]) {
            for root in [0, nranks - 1] {
                let plans = plans(collective, nranks, root);
                assert!(plans.iter().all(is_possible), "{collective:?} {nranks}");
                let options = Options {
                    required: vec![(Form::DirectRead, false), (Form::DirectRead, true)],
                    slices: vec![1],
                    every_capacity: false,
                    ..Options::default()
                };
                if let Err(fault) = check(&plans, &options) {
                    panic!("{collective:?} of {nranks}, root {root}: {fault}");
                }
            }
        }
    }
}

#[test]
fn what_lies_nowhere_is_not_direct() {
    // The owner of a slice sends its fold to the root without keeping it.
    assert!(!plans(Collective::Reduce, 4, 0).iter().all(is_possible));
}
