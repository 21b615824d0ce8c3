//! From one node's search to the channels of a job: many nodes, uneven nodes, and what it costs.

use super::super::channels::{ChannelLimits, Channels, merge};
use super::super::graph::graph_of;
use super::super::graph_file;
use super::super::node_graph::NodeGraph;
use super::super::search::{Request, STEPS};
use super::super::seats::{Seat, Seated, seat_hosts, spread, usual_count};
use super::loads::described;
use super::*;

const SEVERAL: Request = Request {
    several_nodes: true,
    most_channels: 16,
    cross: super::super::search::Cross::Auto,
    pxn: true,
};

/// Makes the graph of a node whose ranks work on processors, as init does.
fn host_node_graph(machine: &Machine, local: &[&RankPlace]) -> NodeGraph {
    let graph = graph_of(machine, &|_| None).unwrap();
    let ranks: Vec<Rank> = local.iter().map(|place| place.rank).collect();
    let seated = seat_hosts(&graph, local, true).unwrap();
    seated.choose(&ranks, &SEVERAL, None).unwrap().graph
}

/// Searches a machine for the ranks `first..first + count`: the graph, and the steps it took.
fn node(name: &str, first: u32, count: u32) -> (NodeGraph, u64) {
    let description = described(name);
    let seats = spread(&description, count as usize).unwrap();
    let seated = Seated::new(&description.graph, &seats, true).unwrap();
    let ranks: Vec<Rank> = (first..first + count).map(Rank).collect();
    let found = seated.search(&ranks, &SEVERAL).unwrap();
    (found.graph, found.steps)
}

fn holds(channels: &Channels, ranks: usize) {
    for (channel, ring) in channels.rings.iter().enumerate() {
        let mut seen = vec![false; ranks];
        let mut at = Rank(0);
        for _ in 0..ranks {
            assert!(!seen[at.index()], "channel {channel}: rank {at} twice");
            seen[at.index()] = true;
            let next = ring.neighbours(at).1;
            assert_eq!(ring.neighbours(next).0, at);
            at = next;
        }
        assert_eq!(at, Rank(0), "channel {channel} is one ring");
    }
    for tree in &channels.trees {
        let mut all: Vec<u32> = tree
            .nodes
            .iter()
            .flat_map(|n| &n.chain)
            .map(|r| r.0)
            .collect();
        all.sort_unstable();
        assert!(all.iter().enumerate().all(|(at, rank)| *rank == at as u32));
    }
}

/// 64 nodes of 8 GPUs: each node searches once, at the same time as the others; what comes after is
/// the same on every rank. Counted, not timed: steps of the search, and ranks laid by the merge.
#[test]
fn sixty_four_nodes_of_eight_gpus_take_little_work() {
    for (name, channels, most_steps) in [
        ("dgx_a100.xml", 16, 2_000),
        ("dgx_h100.xml", 32, 40_000),
        ("dgx1_v100.xml", 8, 2_000),
    ] {
        let nodes: Vec<(NodeGraph, u64)> = (0..64).map(|i| node(name, 8 * i, 8)).collect();
        let steps = nodes.iter().map(|(_, steps)| *steps).max().unwrap();
        assert!(steps <= most_steps, "{name}: {steps} steps");
        assert!(steps < 2 * STEPS);
        let nodes: Vec<NodeGraph> = nodes.into_iter().map(|(graph, _)| graph).collect();
        let joined = merge(&nodes, ChannelLimits::default()).unwrap();
        assert_eq!(joined.count(), channels, "{name}");
        holds(&joined, 512);
    }
}

#[test]
fn the_node_with_the_fewest_rings_decides() {
    let nodes = [
        node("dgx_a100.xml", 0, 8).0,
        node("hgx_a100_4.xml", 8, 4).0,
        node("dgx_h100.xml", 12, 8).0,
    ];
    let joined = merge(&nodes, ChannelLimits::default()).unwrap();
    assert_eq!(joined.count(), 4, "two rings of the small node, doubled");
    // 24 GB/s of NICs at 200 Gb/s, 22.5 of the H100: halves of the least.
    assert_eq!(joined.ring_megabytes_per_s, 11_250);
    holds(&joined, 20);
    let nets: Vec<u32> = joined
        .rings
        .iter()
        .map(|r| r.ports[0].entry.unwrap())
        .collect();
    assert_ne!(nets[0], nets[1], "two different NICs of the large node");
}

/// Plans a host communicator as init does: gathered places, one graph a node, the same channels.
#[test]
fn ranks_on_host_memory_agree_on_their_channels() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/topologies/intel_2s_2nic.xml");
    let machine = Machine::from_xml_file(&path).unwrap();
    // Four ranks a node; ranks of the two nodes take turns.
    let places: Vec<RankPlace> = (0..8)
        .map(|rank| bound(&machine, rank, &format!("{}", rank / 2 * 8)))
        .collect();
    let graphs: Vec<NodeGraph> = (0..2)
        .map(|node| {
            let local: Vec<&RankPlace> = places.iter().filter(|p| p.rank.0 % 2 == node).collect();
            host_node_graph(&machine, &local)
        })
        .collect();
    let joined = merge(&graphs, ChannelLimits { least: 1, most: 4 }).unwrap();
    holds(&joined, 8);
    assert_eq!((joined.count(), joined.nets[1].len()), (4, 2));
    let order: Vec<u32> = joined.rings[0].order.iter().map(|rank| rank.0).collect();
    assert!(
        order[..4].iter().all(|rank| rank % 2 == 0),
        "node by node: {order:?}"
    );
}

#[test]
fn seats_are_checked() {
    let pcie = described("pcie_4gpu.xml");
    let error = |seats: &[Seat]| {
        Seated::new(&pcie.graph, seats, false)
            .unwrap_err()
            .into_what()
    };
    assert!(error(&[Seat::Gpu(4)]).contains("GPU 4 is not there"));
    assert!(error(&[Seat::Gpu(1), Seat::Gpu(1)]).contains("GPU 1 has two ranks"));
    assert!(error(&[Seat::Gpu(1), Seat::Cpus(CpuSet::new())]).contains("others on processors"));
    let many = spread(&pcie, 5).unwrap_err();
    assert!(many.what.contains("5 ranks for 4 GPUs"), "{many}");
    assert!(spread(&pcie, 0).is_err());
    // Two GPUs of four, and as many workers as one likes where there is no GPU.
    assert_eq!(spread(&pcie, 2).unwrap(), [Seat::Gpu(0), Seat::Gpu(1)]);
    let intel = described("intel_2s_2nic.xml");
    let spreaded = spread(&intel, 4).unwrap();
    let lists = ["0,32", "8,40", "16,48", "24,56"].map(|list| Seat::Cpus(cpus(list)));
    assert_eq!(spreaded, lists);
    let usual: Vec<usize> = [
        "dgx_a100.xml",
        "intel_2s_2nic.xml",
        "amd_nps4.xml",
        "laptop.xml",
    ]
    .iter()
    .map(|name| usual_count(&described(name)))
    .collect();
    assert_eq!(usual, [8, 2, 16, 4]);
}

/// A network nobody described is assumed where there are several nodes, and said so by its name.
#[test]
fn a_node_without_a_nic_still_gets_rings() {
    let path = path("desktop.xml");
    let machine = Machine::from_xml_file(&path).unwrap();
    let local = [bound(&machine, 0, "0"), bound(&machine, 1, "1")];
    let local: Vec<&RankPlace> = local.iter().collect();
    let graph = host_node_graph(&machine, &local);
    assert_eq!(graph.nets, ["unknown network"]);
    assert_eq!((graph.rings.len(), graph.ring_megabytes_per_s), (1, 1250));
}

/// A loaded graph names its ports; on the machine they may stand in another order.
#[test]
fn a_loaded_graph_finds_its_ports_by_name() {
    let description = described("dgx_h100.xml");
    let seats = spread(&description, 8).unwrap();
    let seated = Seated::new(&description.graph, &seats, true).unwrap();
    let ranks: Vec<Rank> = (0..8).map(Rank).collect();
    let found = seated.search(&ranks, &SEVERAL).unwrap();
    let text = graph_file::to_text(&found.graph, &|member| seated.name(member));
    let turned = text.replace(
        "nets = [\"mlx5_0\", \"mlx5_1\"",
        "nets = [\"mlx5_1\", \"mlx5_0\"",
    );
    assert_ne!(turned, text);
    let read = |text: &str| graph_file::from_text(text, "g.toml", &ranks).unwrap();
    let loaded = seated.loaded(read(&turned)).unwrap();
    assert_eq!(loaded.graph, found.graph);
    assert_eq!((loaded.inner, loaded.outer), (found.inner, found.outer));
    let strange = seated
        .loaded(read(&text.replace("mlx5_7", "ib7")))
        .unwrap_err();
    assert!(strange.what.contains("no network port ib7"), "{strange}");
    assert!(strange.remedy.contains("mlx5_7"), "{strange}");
    let few = Seated::new(&description.graph, &seats[..4], true).unwrap();
    assert!(
        few.loaded(read(&text))
            .unwrap_err()
            .what
            .contains("for 8 ranks, here are 4")
    );
}
