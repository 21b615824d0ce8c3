//! Tests of what may be sent straight from the caller's memory: nothing that is written again.

use kolo::algo;
use kolo::plan::analysis::inlets::inlets;
use kolo::plan::analysis::outlets::{outlets, shown};
use kolo::plan::check::{Form, Options, check};
use kolo::plan::{Algorithm, Collective, Direction, Link, Nodes, Operand, Plan, Shape, Space};

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

/// For each connection that a plan reads: whether all its tokens go to the output as they are.
fn read(plan: &Plan) -> Vec<bool> {
    let all = inlets(plan, &vec![true; plan.connections.len()]);
    let used = plan.connections.iter().zip(all);
    let reads = used.filter(|(used, _)| used.direction == Direction::Recv);
    reads.map(|(_, is_inlet)| is_inlet).collect()
}

#[test]
fn only_what_is_copied_to_the_output_alone_is_an_inlet() {
    let gather = plan(Collective::AllGather, Algorithm::Ring, 4);
    let broadcast = plan(Collective::Broadcast, Algorithm::Ring, 4);
    assert_eq!((read(&gather), read(&broadcast)), (vec![true], vec![true]));
    // What comes is folded first, and copied later.
    let ring = plan(Collective::AllReduce, Algorithm::Ring, 4);
    let doubling = plan(Collective::AllReduce, Algorithm::RecursiveDoubling, 2);
    assert_eq!((read(&ring), read(&doubling)), (vec![false], vec![false]));
    // Nothing becomes one that does not lead to another node.
    let none = vec![false; gather.connections.len()];
    assert_eq!(inlets(&gather, &none), none);
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

/// The plans of all ranks of a call on these nodes.
fn plans(algorithm: Algorithm, nodes: &Nodes) -> Vec<Plan> {
    let nranks = nodes.nranks();
    let of = |rank| Shape {
        collective: Collective::AllReduce,
        algorithm,
        rank,
        nranks,
        root: 0,
        channels: 2,
    };
    let plan = |rank| algo::plan(&of(rank), nodes).expect("a registered algorithm");
    (0..nranks).map(plan).collect()
}

/// Proved by the checker: memory that ranks show stays until it was read, also what they contribute
/// in place, which is overwritten later.
#[test]
fn contributions_in_place_are_read_before_they_are_overwritten() {
    let blocks: [&[u32]; 7] = [
        &[2, 2],
        &[3, 3],
        &[1, 4],
        &[4, 2, 3],
        &[2, 2, 2, 2],
        &[5, 1, 2],
        &[4, 4, 4, 4, 4],
    ];
    let dealt: [&[u32]; 2] = [&[0, 1, 0, 1], &[0, 1, 2, 0, 1, 2, 0, 0]];
    let layouts = blocks.map(Nodes::sizes).into_iter();
    let mut layouts: Vec<Nodes> = layouts.chain(dealt.map(Nodes::of)).collect();
    // Where ranks share caches and sockets, the hierarchy climbs these.
    for sizes in [&[8, 8][..], &[8, 8, 8], &[8, 8, 8, 8]] {
        let ranks = 0..sizes.iter().sum::<u32>();
        let (caches, sockets) = ranks.map(|rank| (rank / 2, rank / 4)).unzip();
        layouts.push(Nodes::sizes(sizes).with_parts(&[caches, sockets]));
    }
    for algorithm in [Algorithm::Hierarchical, Algorithm::Ring] {
        let mut contributions = 0;
        for nodes in &layouts {
            let plans = plans(algorithm, nodes);
            let options = Options {
                slices: vec![1],
                every_capacity: false,
                ..Options::default()
            };
            let report = check(&plans, &options).unwrap_or_else(|fault| panic!("{fault}"));
            for (rank, plan) in plans.iter().enumerate() {
                // More nodes than two may be parts of real ones, whose ranks are near then.
                let reach = if nodes.count() > 2 { 2 } else { 1 };
                let near = |index: usize, many: u32| match plan.connections[index].link {
                    Link::Pair { writer, reader, .. } => {
                        many > 1 || nodes.node_of(writer) == nodes.node_of(reader)
                    }
                    _ => false,
                };
                let cases = (1..=reach).flat_map(|many| [(many, false), (many, true)]);
                for (many, in_place) in cases {
                    let all = shown(plan, |index| near(index, many), in_place).concat();
                    for (at, found) in all.iter().enumerate().filter(|it| it.1.is_some()) {
                        let step = &plan.steps[at];
                        if step.is_packed() {
                            continue;
                        }
                        assert!(
                            report.forms.allows(rank, at, Form::DirectRead, in_place),
                            "{algorithm:?} on {nodes:?}: rank {rank}, step {at}"
                        );
                        let is_input = found.is_some_and(|of| of.space == Space::Input);
                        contributions += usize::from(in_place && is_input);
                    }
                }
            }
        }
        assert!(contributions > 10, "{algorithm:?}: {contributions}");
    }
}

/// A rank that doubles folds into what it has sent, which its partner may not have read.
#[test]
fn what_is_folded_into_is_not_shown() {
    let doubling = plan(Collective::AllReduce, Algorithm::RecursiveDoubling, 2);
    let found = |in_place| shown(&doubling, |_| true, in_place).concat();
    assert!(found(true).iter().all(Option::is_none));
    assert!(found(false).iter().any(Option::is_some));
}
