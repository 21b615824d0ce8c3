//! Communicators that pass their ranks in the orders of a graph file.

use super::algorithms::forced_in_orders;
use super::support::{made, ranks};
use kolo::comm::Inspect;
use std::path::PathBuf;

/// A file of its own for a test, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let name = format!("kolo-orders-{}-{name}.toml", std::process::id());
        Scratch(std::env::temp_dir().join(name))
    }

    fn holding(name: &str, text: &str) -> Scratch {
        let scratch = Scratch::new(name);
        std::fs::write(&scratch.0, text).expect("a file in the temporary folder");
        scratch
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("UTF-8")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A graph file for nodes of so many ranks with these rings and chains. `port`: for several nodes.
fn graph(count: usize, orders: &[Vec<u32>], chains: &[Vec<u32>], port: bool) -> String {
    let mut text = format!("version = 1\nranks = {count}\n");
    let (mut ends, mut net) = ("", "");
    if port {
        text += "nets = [\"unknown network\"]\n";
        ends = "entry = \"unknown network\"\nexit = \"unknown network\"\n";
        net = "net = \"unknown network\"\n";
    }
    text += "ring_bandwidth = 8.0\ntree_bandwidth = 8.0\n";
    for order in orders {
        text += &format!("[[ring]]\norder = {order:?}\n{ends}");
    }
    for chain in chains {
        text += &format!("[[tree]]\nchain = {chain:?}\n{net}");
    }
    text
}

/// Two random orders; the second member of a chain is any.
fn two(count: u32, seed: u64) -> Vec<Vec<u32>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let one = |_| {
        let mut order: Vec<u32> = (0..count).collect();
        random.shuffle(&mut order);
        order
    };
    (0..2).map(one).collect()
}

#[test]
fn every_algorithm_that_looks_at_orders_is_right_in_random_ones() {
    for n in [2, 3, 5, 8] {
        println!("seed {n}");
        let text = graph(
            n as usize,
            &two(n, u64::from(n)),
            &two(n, u64::from(n) + 100),
            false,
        );
        let file = Scratch::holding(&format!("one-{n}"), &text);
        for algorithm in ["ring", "chain", "tree"] {
            forced_in_orders(algorithm, n, &[("graph_file", file.path())]);
        }
    }
}

#[test]
fn one_file_serves_all_nodes() {
    for (nodes, per_node) in [(2, 2), (3, 3)] {
        let (rings, chains) = (two(per_node, 7), two(per_node, 8));
        let text = graph(per_node as usize, &rings, &chains, true);
        let file = Scratch::holding(&format!("nodes-{nodes}"), &text);
        let per_node_text = per_node.to_string();
        let settings = [
            ("graph_file", file.path()),
            ("ranks_per_node", &*per_node_text),
        ];
        for algorithm in ["ring", "chain", "tree"] {
            forced_in_orders(algorithm, nodes * per_node, &settings);
        }
        ranks(nodes * per_node, &settings, |comm| {
            for channel in 0..2 {
                let chain = comm.tree_chain(channel, 1).expect("idle");
                let wanted = chains[usize::from(channel)]
                    .iter()
                    .map(|member| member + per_node);
                assert_eq!(chain, wanted.collect::<Vec<_>>());
            }
        });
    }
}

#[test]
fn the_file_gives_the_order_and_every_channel_its_own() {
    let rings = vec![vec![0, 2, 1, 3], vec![1, 3, 0, 2], vec![0, 1, 2, 3]];
    let text = graph(4, &rings, &[vec![3, 0, 2, 1]], false);
    let file = Scratch::holding("order", &text);
    let settings = [("graph_file", file.path()), ("max_nchannels", "3")];
    ranks(4, &settings, |comm| {
        let ring = |channel| comm.ring_order(channel).expect("idle");
        assert_eq!([ring(0), ring(1)], [[0, 2, 1, 3], [0, 2, 1, 3]]);
        assert_eq!(ring(2), [0, 1, 2, 3]);
        assert_eq!(comm.tree_chain(1, 0).expect("idle"), [3, 0, 2, 1]);
        // A part has other ranks, and orders of its own.
        let half = comm.split(Some(comm.rank() % 2), 0, &Default::default());
        let half = half.expect("split").expect("a color");
        assert_eq!(half.ring_order(0).expect("idle"), [0, 1]);
        half.destroy().expect("destroy");
    });
    // Fewer channels: the first ones.
    ranks(4, &settings[..1], |comm| {
        assert_eq!(comm.ring_order(1).expect("idle"), [0, 2, 1, 3]);
    });
}

/// The file that init writes has the orders that it used, and that it reads again.
#[test]
fn a_dump_that_is_loaded_gives_the_same_orders() {
    let machines = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/topologies/");
    let amd = format!("{machines}amd_numa_per_l3.xml");
    let cases: [&[(&str, &str)]; 3] = [
        &[("max_nchannels", "4")],
        &[("topo_file", &amd), ("max_nchannels", "4")],
        &[("ranks_per_node", "3"), ("max_nchannels", "4")],
    ];
    for (number, settings) in cases.into_iter().enumerate() {
        let file = Scratch::new(&format!("dump-{number}"));
        let orders = |more: &[(&str, &str)]| {
            let settings = [settings, more].concat();
            let comms = made(6, &settings);
            let one = |comm: &kolo::comm::Communicator| {
                let channels = 0..4;
                let both = channels.map(|channel| {
                    (
                        comm.ring_order(channel).unwrap(),
                        comm.tree_chain(channel, 0).unwrap(),
                    )
                });
                both.collect::<Vec<_>>()
            };
            let all: Vec<_> = comms.iter().map(one).collect();
            assert!(all.iter().all(|orders| *orders == all[0]), "ranks disagree");
            comms.iter().for_each(|comm| comm.destroy().unwrap());
            all[0].clone()
        };
        let plain = orders(&[]);
        assert_eq!(
            orders(&[("graph_dump_file", file.path())]),
            plain,
            "{settings:?}"
        );
        assert_eq!(
            orders(&[("graph_file", file.path())]),
            plain,
            "{settings:?}"
        );
    }
}
