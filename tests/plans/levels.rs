//! Hierarchies: any algorithm at each level, for every collective, on equal and unequal nodes; and
//! what NVLS tree and CollNet look like from outside.

use super::options;
use kolo::algo::levels::{ALL, Bodies};
use kolo::algo::{self, hier, hier_blocks, hier_rooted};
use kolo::plan::check;
use kolo::plan::{Algorithm, Collective, ConnectionUse, Direction, Link, Nodes, Plan, Shape};

type Composition = fn(&Shape, &Nodes, &Bodies, &Bodies) -> Plan;

const COMPOSITIONS: [(Collective, Composition); 6] = [
    (Collective::AllReduce, hier::all_reduce_by),
    (Collective::Broadcast, hier_rooted::broadcast_by),
    (Collective::Reduce, hier_rooted::reduce_by),
    (Collective::AllGather, hier_blocks::all_gather_by),
    (Collective::ReduceScatter, hier_blocks::reduce_scatter_by),
    (Collective::Barrier, hier_blocks::barrier_by),
];

fn shape(collective: Collective, algorithm: Algorithm, nodes: &Nodes, rank: u32) -> Shape {
    Shape {
        collective,
        algorithm,
        rank,
        nranks: nodes.nranks(),
        root: nodes.nranks() / 2,
        channels: 1,
    }
}

#[test]
fn any_algorithm_at_each_level() {
    let machines = [
        Nodes::uniform(4, 4),
        Nodes::uniform(7, 1),
        Nodes::one(6),
        Nodes::sizes(&[3, 5, 4]),
        Nodes::sizes(&[2, 7, 2, 2, 6]),
        Nodes::of(&[0, 1, 2, 2, 1, 0, 0, 2, 1, 1, 1, 0, 2]),
    ];
    for (collective, compose) in COMPOSITIONS {
        let entry = algo::find(collective, Algorithm::Hierarchical).expect("registered");
        for nodes in &machines {
            for (inside, between) in ALL.iter().flat_map(|i| ALL.iter().map(move |b| (i, b))) {
                let shape = |rank| shape(collective, Algorithm::Hierarchical, nodes, rank);
                let plan = |rank| compose(&shape(rank), nodes, inside, between);
                let plans: Vec<Plan> = (0..nodes.nranks()).map(plan).collect();
                let report = check::check(&plans, &options(entry));
                report.unwrap_or_else(|fault| {
                    let (name, i, b) = (collective.name(), inside.name, between.name);
                    panic!("{name}, {i} inside, {b} between, {nodes:?}: {fault}")
                });
            }
        }
    }
}

/// The ends of a plan's connections to other nodes, in the order in which it opens them.
fn crossing(plan: &Plan, nodes: &Nodes) -> Vec<(Direction, u32)> {
    let me = plan.shape.rank;
    let ends = plan.connections.iter().filter_map(|used| {
        let Link::Pair { writer, reader, .. } = used.link else {
            return None;
        };
        let peer = if writer == me { reader } else { writer };
        (nodes.node_of(peer) != nodes.node_of(me)).then_some((used.direction, peer))
    });
    ends.collect()
}

/// A head inside of the tree has six operations over the network: receive from both children, send
/// to the parent, send to both children, receive from the parent.
#[test]
fn nvls_tree_has_six_operations_in_order() {
    use Direction::{Recv, Send};
    let nodes = Nodes::uniform(8, 2);
    let plan = |rank| {
        let shape = shape(Collective::AllReduce, Algorithm::NvlsTree, &nodes, rank);
        algo::plan(&shape, &nodes).expect("registered")
    };
    // Slice 0 runs the first tree over nodes: node 2 has the children 1 and 3, and the parent 4.
    let wanted = [
        (Recv, 2),
        (Recv, 6),
        (Send, 8),
        (Send, 2),
        (Send, 6),
        (Recv, 8),
    ];
    assert_eq!(crossing(&plan(4), &nodes), wanted);
    // Slice 1 runs the mirrored one: node 5 has the children 6 and 4, and the parent 3.
    let wanted = [
        (Recv, 9),
        (Recv, 13),
        (Send, 7),
        (Send, 9),
        (Send, 13),
        (Recv, 7),
    ];
    assert_eq!(crossing(&plan(11), &nodes), wanted);
    for rank in 0..16 {
        let ends = crossing(&plan(rank), &nodes);
        let children = ends.iter().filter(|(direction, _)| *direction == Recv);
        assert!(children.count() <= 3, "two heads and the parent at most");
    }
}

/// Of two channels each runs a tree of its own: who has children in the one is a leaf of the other.
#[test]
fn channels_share_both_trees() {
    let nodes = Nodes::uniform(8, 1);
    // Of one parent and no child comes one token, and so it does to the top from its one child.
    let inside = |wanted: u16| -> Vec<u32> {
        let sources = |rank| {
            let one = shape(Collective::AllReduce, Algorithm::Tree, &nodes, rank);
            let both = Shape { channels: 2, ..one };
            let plan = algo::plan(&both, &nodes).expect("registered");
            let comes = |used: &&ConnectionUse| match used.link {
                Link::Pair { channel, .. } => {
                    channel == wanted && used.direction == Direction::Recv
                }
                _ => false,
            };
            plan.connections.iter().filter(comes).count()
        };
        (0..8).filter(|&rank| sources(rank) > 1).collect()
    };
    assert_eq!([inside(0), inside(1)], [[2, 4, 6], [1, 3, 5]]);
}

/// A head that is not the switch has one link to it each way, and none to other nodes.
#[test]
fn heads_of_collnet_talk_to_the_switch_only() {
    let nodes = Nodes::uniform(5, 3);
    for rank in 0..15 {
        let shape = shape(Collective::AllReduce, Algorithm::CollNet, &nodes, rank);
        let ends = crossing(&algo::plan(&shape, &nodes).expect("registered"), &nodes);
        let (node, slice) = (rank / 3, rank % 3);
        let switch = slice * 3 + slice;
        match node == slice {
            true => assert_eq!(ends.len(), 8, "rank {rank} stands for the switch"),
            false => assert_eq!(
                ends,
                [(Direction::Send, switch), (Direction::Recv, switch)],
                "rank {rank}"
            ),
        }
    }
}

/// Where the network folds, the plan of every head is that of one which is no switch: it puts in on
/// a channel of its own where that one sends, and takes from there where that one receives. Only
/// the scaling of the result, which a switch does once, is left to each.
#[test]
fn heads_of_a_network_that_folds_do_what_heads_of_collnet_do() {
    for nodes in [
        Nodes::uniform(5, 3),
        Nodes::sizes(&[2, 4, 3]),
        Nodes::uniform(2, 1),
    ] {
        for rank in 0..nodes.nranks() {
            let plan = |algorithm| {
                let shape = shape(Collective::AllReduce, algorithm, &nodes, rank);
                algo::plan(&shape, &nodes).expect("known")
            };
            let (played, folded) = (plan(Algorithm::CollNet), plan(Algorithm::Switch));
            let heads = algo::collnet::heads(&nodes, rank);
            let Some((heads, me)) = heads else {
                assert_eq!(played.steps, folded.steps, "no head");
                assert_eq!(played.connections, folded.connections, "no head");
                continue;
            };
            let next = heads[(me + 1) % heads.len()];
            let previous = heads[(me + heads.len() - 1) % heads.len()];
            let ends = crossing(&folded, &nodes);
            let expected = [(Direction::Send, next), (Direction::Recv, previous)];
            assert_eq!(ends, expected, "rank {rank}");
            let is_fold = |used: &ConnectionUse| match used.link {
                Link::Pair { channel, .. } => channel == Link::FOLDS,
                _ => false,
            };
            let crosses: Vec<bool> = folded.connections.iter().map(is_fold).collect();
            assert_eq!(crosses.iter().filter(|&&crosses| crosses).count(), 2);
            let slice = nodes.local_rank(rank);
            if me as u32 == slice % heads.len() as u32 {
                continue;
            }
            let pairs = played.connections.iter().zip(&folded.connections);
            for ((one, other), crosses) in pairs.zip(crosses) {
                assert_eq!(one.direction, other.direction);
                assert!(
                    crosses || one.link == other.link,
                    "rank {rank}: {one:?} {other:?}"
                );
            }
            let unscaled = |plan: &Plan| {
                let plain = |step: &kolo::plan::Step| kolo::plan::Step {
                    flags: step.flags & !kolo::plan::POST_SCALE,
                    ..*step
                };
                plan.steps.iter().map(plain).collect::<Vec<_>>()
            };
            assert_eq!(unscaled(&played), unscaled(&folded), "rank {rank}");
            assert_eq!(
                (&played.lists, &played.lanes),
                (&folded.lists, &folded.lanes)
            );
        }
    }
}

/// A hierarchy crosses the links between nodes with as little as there is: each rank of a node
/// sends its column, not the whole data, to other nodes.
#[test]
fn every_leader_works() {
    let nodes = Nodes::uniform(4, 4);
    for rank in 0..16 {
        let shape = shape(Collective::AllReduce, Algorithm::Hierarchical, &nodes, rank);
        let ends = crossing(&algo::plan(&shape, &nodes).expect("registered"), &nodes);
        assert!(!ends.is_empty());
        assert!(
            ends.iter().all(|(_, peer)| peer % 4 == rank % 4),
            "rank {rank}: {ends:?}"
        );
    }
}
