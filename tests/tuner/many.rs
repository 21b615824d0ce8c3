//! Tests of what jobs of very many ranks choose, and of the work that it takes.

use crate::counting::{ASKED, HELD, MOST};
use crate::guidelines;
use crate::support::inputs;
use kolo::plan::{Algorithm, Collective};
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
