//! Traffic between switches, by the plans themselves: nodes that are numbered switch by switch
//! against the order in which a launcher dealt them.

use super::plans_on;
use kolo::algo;
use kolo::plan::{Algorithm, Chain, Collective, Link, Nodes, Operand, Orders, Plan};
use kolo::topo::switches;

const PER_NODE: u32 = 2;
const CHANNELS: u16 = 2;

/// Rings and trees node by node, as those of a search are joined.
fn in_a_row(nodes: Nodes) -> Nodes {
    let all = 0..nodes.count();
    let ring: Vec<u32> = all
        .clone()
        .flat_map(|node| nodes.ranks_of(node).to_vec())
        .collect();
    let chain = |node| Chain {
        ranks: nodes.ranks_of(node).to_vec(),
        second_behind: false,
    };
    let orders = Orders {
        trees: vec![all.map(chain).collect()],
        rings: vec![ring],
    };
    nodes.in_orders(orders).expect("permutations")
}

/// How often the data of one rank pass from one switch to another. Node i of the launcher hangs on
/// switch i modulo `count`.
fn crossings(plans: &[Plan], count: u32) -> f64 {
    let switch = |rank: u32| rank / PER_NODE % count;
    let mut passed = 0.0;
    for plan in plans {
        let share = f64::from(plan.chunks) * f64::from(plan.shape.channels);
        for step in &plan.steps {
            let ends = plan.lists.get(step.dsts).iter();
            let links = ends.filter_map(Operand::as_connection);
            for at in links {
                let Link::Pair { writer, reader, .. } = plan.connections[at].link else {
                    panic!("no pair");
                };
                if switch(writer) != switch(reader) {
                    passed += f64::from(step.chunks) * f64::from(step.repeat) / share;
                }
            }
        }
    }
    passed
}

#[test]
fn least_data_cross_between_switches() {
    let algorithms = [Algorithm::Ring, Algorithm::Tree, Algorithm::Hierarchical];
    for (count, on_each) in [(2, 2), (2, 4), (2, 8), (4, 4), (3, 5), (4, 16)] {
        let machines = count * on_each;
        let address = |node: u32| format!("spine/leaf{}/{node}", node % count);
        let addresses: Vec<String> = (0..machines).map(address).collect();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        let numbers: Vec<u32> = (0..machines).collect();
        let order = switches::order(&addresses, &numbers).expect("dealt in turn");
        let dealt = Nodes::uniform(machines, PER_NODE);
        let sorted = dealt.clone().numbered(&order).expect("a permutation");
        let (dealt, sorted) = (in_a_row(dealt), in_a_row(sorted));
        for algorithm in algorithms {
            let entry = algo::find(Collective::AllReduce, algorithm).expect("registered");
            let by = |nodes: &Nodes| crossings(&plans_on(entry, nodes, 0, CHANNELS), count);
            let (before, after) = (by(&dealt), by(&sorted));
            println!(
                "{count} x {on_each} {}: {before:.2} -> {after:.2}",
                algorithm.name()
            );
            let ranks = f64::from(machines * PER_NODE);
            let around = 2.0 * (ranks - 1.0) / ranks;
            match algorithm {
                // Every link of a ring carries the same: with the last switch it is closed.
                Algorithm::Ring => {
                    assert!(
                        (before - f64::from(machines) * around).abs() < 1e-6,
                        "{before}"
                    );
                    assert!((after - f64::from(count) * around).abs() < 1e-6, "{after}");
                }
                _ => assert!(
                    after <= before && (on_each < 4 || 1.5 * after < before),
                    "{count} x {on_each} {algorithm:?}: {before} -> {after}"
                ),
            }
        }
    }
}
