//! Tests of what may be sent straight from the caller's memory: nothing that is written again.

use kolo::algo;
use kolo::plan::analysis::outlets::outlets;
use kolo::plan::{Algorithm, Collective, Nodes, Operand, Plan, Shape, Space};

fn plan(collective: Collective, algorithm: Algorithm, nranks: u32) -> Plan {
    let shape = Shape {
        collective,
        algorithm,
        rank: 1,
        nranks,
        root: 0,
        channels: 1,
    };
    algo::plan(&shape, &Nodes::uniform(nranks, 1)).expect("a registered algorithm")
}

/// Spaces from which a plan sends straight, and the number of its steps that send.
fn spaces(plan: &Plan, in_place: bool) -> (Vec<Space>, usize) {
    let all = outlets(plan, |_| true, in_place).concat();
    let sends = |step: &&kolo::plan::Step| {
        let dsts = plan.lists.get(step.dsts).iter();
        dsts.filter_map(Operand::as_connection).next().is_some()
    };
    let found = all.into_iter().flatten().map(|of| of.space).collect();
    (found, plan.steps.iter().filter(sends).count())
}

#[test]
fn what_is_written_again_is_copied() {
    use Space::{Input, Output};
    let ring = plan(Collective::AllReduce, Algorithm::Ring, 4);
    // The contribution of this rank, and results: what is folded on the way has no place.
    let (apart, _) = spaces(&ring, false);
    assert!(
        apart.contains(&Input) && apart.contains(&Output),
        "{apart:?}"
    );
    // In place the contribution is overwritten by the result.
    let (in_place, _) = spaces(&ring, true);
    assert!(
        !in_place.contains(&Input) && in_place.contains(&Output),
        "{in_place:?}"
    );
    // Doubling folds into what it has sent.
    let doubling = plan(Collective::AllReduce, Algorithm::RecursiveDoubling, 2);
    assert_eq!(spaces(&doubling, true), (vec![], 1));
    let gather = plan(Collective::AllGather, Algorithm::Ring, 4);
    for in_place in [false, true] {
        let (found, sends) = spaces(&gather, in_place);
        assert_eq!(found.len(), sends, "an all-gather only copies");
    }
}

/// Buffers that coincide can only be written more often.
#[test]
fn in_place_sends_no_more_straight() {
    let entries = algo::REGISTRY.iter();
    for entry in entries.filter(|entry| !entry.collective.is_point_to_point()) {
        for n in [2, 3, 4, 6, 8] {
            let plan = plan(entry.collective, entry.algorithm, n);
            let apart = outlets(&plan, |_| true, false).concat();
            let in_place = outlets(&plan, |_| true, true).concat();
            for (apart, in_place) in apart.iter().zip(&in_place) {
                let text = format!("{:?} {:?} {n}", entry.collective, entry.algorithm);
                assert!(in_place.is_none() || in_place == apart, "{text}");
            }
        }
    }
}
