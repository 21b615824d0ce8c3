//! Tests of what jobs of very many ranks choose, and of the work that it takes.

use crate::counting::{ASKED, HELD, MOST};
use crate::guidelines;
use crate::support::inputs;
use kolo::algo::REGISTRY;
use kolo::plan::{Algorithm, Collective, Nodes, Program, Shape};
use kolo::price::Cluster;
use kolo::tune::Table;

#[test]
fn tables_of_many_ranks_are_bound_with_as_little_work_as_those_of_few() {
    // Counted, not timed: how often memory is asked for, and how much is held at once.
    let work = |nodes| {
        let (asked, held) = (ASKED.get(), HELD.get());
        MOST.set(held);
        let table = Table::new(inputs(Cluster::uniform(nodes, 1)));
        (table, ASKED.get() - asked, MOST.get() - held)
    };
    let (_, few_asked, few_held) = work(100);
    let (table, asked, held) = work(100_000);
    // A thousand times as many ranks have ten more levels of two.
    assert!(asked <= 4 * few_asked, "{asked} and {few_asked} calls");
    assert!(held <= 4 * few_held, "{held} and {few_held} bytes");
    assert_ne!(
        table.choose(Collective::AllReduce, 1 << 20).algorithm,
        Algorithm::Ring
    );
}

/// Jobs of a thousand ranks and of many thousands choose alike: a small call takes few hand-overs
/// more, and what one of them can do the other one can.
#[test]
fn jobs_of_any_size_choose_as_those_of_a_thousand_ranks_do() {
    let expected = |nodes, per_node| {
        let table = Table::new(inputs(Cluster::uniform(nodes, per_node)));
        let small = |&collective: &Collective| table.expected_ns(collective, 8);
        LOGARITHMIC.iter().map(small).collect::<Vec<f64>>()
    };
    for (per_node, nodes) in [
        (128, [8, 9, 64]),
        (16, [64, 65, 400]),
        (1, [1000, 1025, 8192]),
    ] {
        let [few, more, many] = nodes.map(|nodes| expected(nodes, per_node));
        for (at, collective) in LOGARITHMIC.iter().enumerate() {
            let what = format!("{collective:?} of {nodes:?} x {per_node}");
            assert!(
                more[at] <= 1.5 * few[at],
                "{what}: {} {}",
                few[at],
                more[at]
            );
            assert!(
                many[at] <= 3.0 * few[at],
                "{what}: {} {}",
                few[at],
                many[at]
            );
        }
        let table = Table::new(inputs(Cluster::uniform(nodes[2], per_node)));
        for collective in Collective::ALL
            .into_iter()
            .filter(|it| !it.is_point_to_point() && !it.is_vector())
        {
            for bytes in [8, 4 << 10, 1 << 20] {
                guidelines::runs(&table, collective, bytes);
            }
        }
    }
}

/// Of what every rank gets, or gives, 8 bytes.
const LOGARITHMIC: [Collective; 6] = [
    Collective::AllReduce,
    Collective::Broadcast,
    Collective::Reduce,
    Collective::Barrier,
    Collective::Scan,
    Collective::Exscan,
];

/// The tuner takes no algorithm whose tokens would have more pieces than a slot has places for: it
/// asks what the registry says.
#[test]
fn tokens_have_no_more_pieces_than_is_said() {
    for (nodes, per_node) in [(1, 7), (96, 1), (67, 1), (24, 8), (4, 24), (3, 5)] {
        let n = nodes * per_node;
        let of_nodes = Nodes::uniform(nodes, per_node);
        for entry in REGISTRY.iter().filter(|entry| n <= entry.most_ranks) {
            for rank in [0, 1, n / 2, n - 1] {
                let shape = Shape {
                    collective: entry.collective,
                    algorithm: entry.algorithm,
                    rank,
                    nranks: n,
                    root: 0,
                    channels: entry.channels,
                };
                let plan = kolo::algo::plan(&shape, &of_nodes).unwrap();
                let pieces = Program::lower(&plan).unwrap().pieces();
                let most = (entry.most_pieces)(n, nodes).max(entry.blocks_in_token(n) as u32);
                assert!(pieces <= most, "{shape:?}: {pieces} and {most}");
            }
        }
    }
}

/// Where slots are too small for the pieces of all ranks, a ring has one in each token.
#[test]
fn slots_that_are_too_small_for_packed_tokens_get_none() {
    for (nodes, per_node, slot, packs) in [
        (8, 1000, 128 << 10, true),
        (8, 1100, 128 << 10, false),
        (4, 100, 8 << 10, true),
        (6, 100, 8 << 10, false),
    ] {
        let mut inputs = inputs(Cluster::uniform(nodes, per_node));
        inputs.setting.buffer_bytes = 8 * slot;
        let table = Table::new(inputs);
        for collective in [Collective::AllGather, Collective::ReduceScatter] {
            let choice = table.choose(collective, 8);
            let entry = kolo::algo::find(collective, choice.algorithm).unwrap();
            let pieces = (entry.most_pieces)(nodes * per_node, nodes);
            let what = format!("{nodes} x {per_node}: {collective:?} by {choice:?}");
            assert_eq!(
                choice.composed || pieces > 1,
                packs || choice.composed,
                "{what}"
            );
        }
    }
}
