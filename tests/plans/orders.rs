//! Algorithms whose channels pass the ranks in an order that the machine gives: random orders, on
//! one node and on several uneven ones. What the checker proves for counting holds for every order.

use super::grid::{self, Case};
use super::{collectives, plans_on};
use kolo::algo::{self, Entry};
use kolo::plan::{Algorithm, Chain, Collective, Link, Nodes, Orders};
use std::sync::atomic::{AtomicU64, Ordering};

/// Communicators larger than those that are all tried.
const LARGER: [u32; 5] = [24, 33, 64, 100, 128];
/// Random orders for every number of ranks up to 16.
const SEEDS: u64 = 6;

/// Entries that look at orders.
fn ordered() -> impl Iterator<Item = &'static Entry> {
    let looks = [Algorithm::Ring, Algorithm::Tree, Algorithm::Chain];
    collectives()
        .filter(move |entry| looks.contains(&entry.algorithm) && !entry.collective.is_scan())
}

/// Random rings and chains of so many channels over `nodes`. A ring passes node by node, as a
/// search leaves it, or not.
fn shuffled(nodes: Nodes, channels: u16, random: &mut fastrand::Rng) -> Nodes {
    let of_node = |node: u32, random: &mut fastrand::Rng| {
        let mut ranks = nodes.ranks_of(node).to_vec();
        random.shuffle(&mut ranks);
        ranks
    };
    let all = 0..nodes.count();
    let mut orders = Orders::default();
    for _ in 0..channels {
        let mut ring: Vec<u32> = all.clone().flat_map(|node| of_node(node, random)).collect();
        if random.bool() {
            random.shuffle(&mut ring);
        }
        orders.rings.push(ring);
        let chain = |node| Chain {
            ranks: of_node(node, random),
            second_behind: random.bool(),
        };
        orders.trees.push(all.clone().map(chain).collect());
    }
    nodes.in_orders(orders).expect("permutations")
}

/// Nodes of random sizes with `n` ranks in all, dealt in blocks or mixed; one node now and then.
fn uneven(n: u32, random: &mut fastrand::Rng) -> Nodes {
    let count = random.u32(1..=n.min(6));
    let mut names: Vec<u32> = (0..n)
        .map(|rank| {
            if rank < count {
                rank
            } else {
                random.u32(0..count)
            }
        })
        .collect();
    if random.bool() {
        names.sort_unstable();
    } else {
        random.shuffle(&mut names);
    }
    Nodes::of(&names)
}

#[test]
fn random_orders_are_as_right_as_counting() {
    let mut cases = Vec::new();
    let many = (2..=16).flat_map(|n| (0..SEEDS).map(move |seed| (n, seed)));
    let few = LARGER.into_iter().map(|n| (n, 0));
    for (n, seed) in many.chain(few) {
        println!("{n} ranks, seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed << 32 | u64::from(n));
        for entry in ordered() {
            let channels = random.u16(1..=3);
            let root = if entry.collective.has_root() {
                random.u32(0..n)
            } else {
                0
            };
            // Fewer orders than channels: they begin again.
            let listed = random.u16(1..=channels);
            let nodes = uneven(n, &mut random);
            let nodes = shuffled(nodes, listed, &mut random);
            cases.push(Case {
                entry,
                nodes,
                root,
                channels,
            });
        }
    }
    let wanted = cases.len() as u64;
    let proved = AtomicU64::new(0);
    grid::run(cases, |_, _, _| {
        proved.fetch_add(1, Ordering::Relaxed);
    });
    assert_eq!(proved.into_inner(), wanted);
    assert!(wanted > 10 * 15 * SEEDS, "{wanted}");
}

/// The plans of a ring connect neighbours in its order, on every channel in its own.
#[test]
fn rings_connect_neighbours_of_their_order() {
    let rings = vec![vec![0, 3, 1, 4, 2], vec![0, 4, 3, 2, 1]];
    let nodes = Nodes::one(5).in_orders(Orders {
        rings: rings.clone(),
        trees: Vec::new(),
    });
    let nodes = nodes.expect("permutations");
    for collective in [
        Collective::AllReduce,
        Collective::AllGather,
        Collective::ReduceScatter,
        Collective::Broadcast,
        Collective::Reduce,
    ] {
        let entry = algo::find(collective, Algorithm::Ring).expect("registered");
        for plan in plans_on(entry, &nodes, 2, 2) {
            for used in &plan.connections {
                let Link::Pair {
                    writer,
                    reader,
                    channel,
                } = used.link
                else {
                    panic!("{:?}", used.link);
                };
                let ring = &rings[usize::from(channel)];
                let at = ring.iter().position(|&rank| rank == writer).unwrap();
                assert_eq!(
                    ring[(at + 1) % 5],
                    reader,
                    "{collective:?} channel {channel}"
                );
            }
        }
    }
}

/// Between nodes the head talks to parent and first child, the rank behind it to the second child.
#[test]
fn trees_hang_where_the_machine_says() {
    let chain = |ranks: [u32; 3]| Chain {
        ranks: ranks.to_vec(),
        second_behind: true,
    };
    let chains = (0..8).map(|node| chain([3 * node + 2, 3 * node, 3 * node + 1]));
    let nodes = Nodes::uniform(8, 3).in_orders(Orders {
        rings: Vec::new(),
        trees: vec![chains.collect()],
    });
    let nodes = nodes.expect("permutations");
    let entry = algo::find(Collective::AllReduce, Algorithm::Tree).expect("registered");
    let mut second = 0;
    for plan in plans_on(entry, &nodes, 0, 1) {
        for used in &plan.connections {
            let Link::Pair { writer, reader, .. } = used.link else {
                panic!("{:?}", used.link);
            };
            if nodes.node_of(writer) == nodes.node_of(reader) {
                let local = [writer % 3, reader % 3];
                assert!(
                    [[2, 0], [0, 1], [0, 2], [1, 0]].contains(&local),
                    "{local:?}"
                );
                continue;
            }
            assert!(writer % 3 == 2 || reader % 3 == 2, "one end is a head");
            assert!(
                writer % 3 != 1 && reader % 3 != 1,
                "the last of a chain has no child"
            );
            second += u32::from(writer % 3 == 0);
        }
    }
    // Nodes 2, 4 and 6 have two children; each link is seen from both ends.
    assert_eq!(second, 2 * 3);
}
