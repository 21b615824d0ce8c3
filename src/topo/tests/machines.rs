//! Described machines: what rings and trees must satisfy on each.

use super::super::graph::{Graph, LinkKind, NodeKind};
use super::super::nic;
use super::super::node_graph::{Exit, RingPart};
use super::super::paths::PathKind;
use super::super::search::{Cross, Request};
use super::super::seats::{Seat, Seated};
use super::loads::{Case, searched, sorted};
use super::*;

fn one_node(name: &str, ranks: usize) -> Case {
    searched(name, ranks, Request::default())
}

fn of_several(name: &str, ranks: usize) -> Case {
    let request = Request {
        several_nodes: true,
        ..Request::default()
    };
    searched(name, ranks, request)
}

#[test]
fn nvswitches_carry_rings_that_use_all_nvlinks() {
    for (name, rings) in [
        ("dgx_a100.xml", 6),
        ("dgx_h100.xml", 9),
        ("cloud_flat_8gpu.xml", 6),
    ] {
        let case = one_node(name, 8);
        assert_eq!(case.rings(), (rings, 40_000), "{name}");
        assert_eq!(case.trees(), (rings, 40_000), "{name}");
        // All of what 12 (18) links of a GPU carry, in and out.
        let loads = case.loads_of(LinkKind::NvLink, &case.ring_loads());
        assert_eq!(loads, [rings as u32 * 40_000], "{name}");
        assert!(case.loads_of(LinkKind::Pci, &case.ring_loads()).is_empty());
        assert_eq!(case.found.inner, [PathKind::Nvl; 2]);
    }
}

#[test]
fn a_dgx_a100_uses_its_eight_nics_evenly_from_beside_them() {
    let case = of_several("dgx_a100.xml", 8);
    assert_eq!((case.rings(), case.trees()), ((8, 24_000), (8, 24_000)));
    assert_eq!(
        case.found.outer,
        [PathKind::Pix; 2],
        "never over the processor"
    );
    assert_eq!(case.loads_of(LinkKind::Port, &case.ring_loads()), [24_000]);
    assert_eq!(case.loads_of(LinkKind::Port, &case.tree_loads()), [24_000]);
    let first: Vec<u32> = case
        .graph()
        .rings
        .iter()
        .map(|ring| ring.order[0])
        .collect();
    assert_eq!(
        sorted(first),
        [0, 1, 2, 3, 4, 5, 6, 7],
        "each GPU receives from one NIC"
    );
    for ring in &case.graph().rings {
        let exit = ring.exit.unwrap();
        assert_eq!(ring.entry, Some(exit.net), "the same rail");
        assert_eq!(exit.net / 2, ring.order[0] / 2, "behind the same switch");
        assert_eq!(ring.order.last(), Some(&exit.proxy), "no detour is needed");
    }
    for tree in &case.graph().trees {
        assert_eq!(
            [tree.second / 2, tree.chain[1]],
            [tree.chain[0] / 2, tree.second]
        );
    }
}

#[test]
fn a_dgx_h100_sends_through_the_gpu_beside_the_nic() {
    let case = of_several("dgx_h100.xml", 8);
    // 16 rings at a sixteenth of the NVLinks, two a NIC: 360 GB/s of the 384 that the NICs give.
    assert_eq!((case.rings(), case.trees()), ((16, 22_500), (16, 24_000)));
    assert_eq!(case.loads_of(LinkKind::Port, &case.ring_loads()), [45_000]);
    assert_eq!(
        case.loads_of(LinkKind::NvLink, &case.ring_loads()),
        [360_000]
    );
    assert_eq!(case.found.outer, [PathKind::Pxn, PathKind::Pix]);
    for ring in &case.graph().rings {
        let exit = ring.exit.unwrap();
        assert_eq!((ring.entry, ring.order[0]), (Some(exit.net), exit.net));
        assert_eq!(exit.proxy, exit.net, "PXN: the GPU beside the NIC sends");
        assert_ne!(ring.order.last(), Some(&exit.proxy));
    }
    for tree in &case.graph().trees {
        assert_eq!(
            (tree.chain[0], tree.second),
            (tree.head_exit.unwrap().net, tree.chain[0])
        );
    }
}

#[test]
fn without_pxn_data_goes_over_the_processor_or_crosses() {
    let request = Request {
        several_nodes: true,
        pxn: false,
        ..Request::default()
    };
    let case = searched("dgx_h100.xml", 8, request);
    assert_eq!(
        case.found.outer[0],
        PathKind::Phb,
        "crossing would bring nothing more"
    );
    assert!(!case.graph().rings.iter().any(crosses));
    let always = Request {
        cross: Cross::Always,
        ..request
    };
    let case = searched("dgx_h100.xml", 8, always);
    assert_eq!(
        (case.rings(), case.found.outer[0]),
        ((16, 24_000), PathKind::Pix)
    );
    assert!(case.graph().rings.iter().all(crosses));
    assert_eq!(case.loads_of(LinkKind::Port, &case.ring_loads()), [48_000]);
}

/// Two GPUs with a NIC each on two sockets that are badly joined.
#[test]
fn rings_cross_ports_where_that_gives_more() {
    let mut graph = Graph::new("test");
    let cpus = [0, 1].map(|number| graph.add(NodeKind::Cpu, number, "", CpuSet::new()));
    graph.join(cpus[0], cpus[1], LinkKind::Sys, 1000);
    let mut gpus = Vec::new();
    for (number, cpu) in (0..).zip(cpus) {
        gpus.push(graph.add(NodeKind::Gpu, number, "", CpuSet::new()));
        let nic = graph.add(NodeKind::Nic, number, "", CpuSet::new());
        let net = graph.add(NodeKind::Net, number, "", CpuSet::new());
        graph.join(gpus[number as usize], cpu, LinkKind::Pci, 24_000);
        graph.join(nic, cpu, LinkKind::Pci, 24_000);
        graph.join(nic, net, LinkKind::Port, 25_000);
    }
    graph.join(gpus[0], gpus[1], LinkKind::NvLink, 80_000);
    let seats = [Seat::Gpu(0), Seat::Gpu(1)];
    let seated = Seated::new(&graph, &seats, true).unwrap();
    let search = |cross, pxn| {
        let request = Request {
            several_nodes: true,
            cross,
            pxn,
            ..Request::default()
        };
        seated.search(&[Rank(0), Rank(1)], &request).unwrap().graph
    };
    let auto = search(Cross::Auto, false);
    assert!(auto.rings.iter().all(crosses));
    assert_eq!((auto.rings.len(), auto.ring_megabytes_per_s), (2, 24_000));
    let never = search(Cross::Never, false);
    assert!(!never.rings.iter().any(crosses));
    assert!(never.ring_megabytes_per_s <= 1000);
    // The way to a NIC over the processor counts as far: a GPU beside it is none.
    assert_eq!(search(Cross::Never, true).rings, never.rings);
}

fn crosses(ring: &RingPart) -> bool {
    ring.entry != ring.exit.map(|exit| exit.net)
}

#[test]
fn a_hybrid_cube_mesh_gives_all_its_links() {
    let case = one_node("dgx1_v100.xml", 8);
    assert_eq!((case.rings(), case.trees()), ((6, 20_000), (6, 20_000)));
    // Every lane in both directions: single links carry 20, double ones 40.
    for (link, load) in case.seated.graph.links.iter().zip(case.ring_loads()) {
        let expected = if link.kind == LinkKind::NvLink {
            link.megabytes_per_s
        } else {
            0
        };
        assert_eq!(load, expected, "{link:?}");
    }
    assert_eq!(
        case.found.inner[0],
        PathKind::Nvl,
        "no GPU forwards for others"
    );
    let case = of_several("dgx1_v100.xml", 8);
    assert_eq!((case.rings(), case.trees()), ((4, 12_000), (4, 12_000)));
    assert_eq!(case.found.outer, [PathKind::Pix; 2]);
    assert_eq!(case.loads_of(LinkKind::Port, &case.ring_loads()), [12_000]);
}

#[test]
fn four_gpus_joined_pair_by_pair_use_every_pair() {
    let case = one_node("hgx_a100_4.xml", 4);
    assert_eq!((case.rings(), case.trees()), ((6, 40_000), (6, 40_000)));
    assert_eq!(
        case.loads_of(LinkKind::NvLink, &case.ring_loads()),
        [80_000],
        "all, all of it"
    );
    let case = of_several("hgx_a100_4.xml", 4);
    assert_eq!((case.rings(), case.trees()), ((2, 24_000), (2, 24_000)));
    assert_eq!(case.loads_of(LinkKind::Port, &case.ring_loads()), [24_000]);
    assert_eq!(
        case.found.outer,
        [PathKind::Phb; 2],
        "not over the other socket"
    );
}

#[test]
fn grace_hopper_nodes_go_to_the_nic_of_their_own_processor() {
    let case = one_node("grace_hopper_4.xml", 4);
    assert_eq!(
        case.rings(),
        (8, 40_000),
        "320 of 360 GB/s, as 40 a channel is the most"
    );
    let loads = case.loads_of(LinkKind::NvLink, &case.ring_loads());
    assert!(loads.len() <= 2 && loads[0] >= 80_000, "{loads:?}");
    let case = of_several("grace_hopper_4.xml", 4);
    assert_eq!((case.rings(), case.trees()), ((4, 24_000), (4, 24_000)));
    assert_eq!(case.found.outer, [PathKind::Pxn, PathKind::P2c]);
    assert_eq!(case.loads_of(LinkKind::Port, &case.ring_loads()), [24_000]);
    assert!(case.loads_of(LinkKind::Sys, &case.ring_loads()).is_empty());
    assert!(case.loads_of(LinkKind::Sys, &case.tree_loads()).is_empty());
}

#[test]
fn a_flat_virtual_machine_uses_its_nics_evenly() {
    let case = of_several("cloud_flat_8gpu.xml", 8);
    assert_eq!((case.rings(), case.trees()), ((4, 12_000), (4, 12_000)));
    assert_eq!(case.loads_of(LinkKind::Port, &case.ring_loads()), [12_000]);
    assert_eq!(
        case.found.outer,
        [PathKind::Phb; 2],
        "all that a flat bus shows"
    );
    let case = of_several("cloud_tree_only.xml", 2);
    assert_eq!((case.rings(), case.trees()), ((2, 12_000), (2, 12_000)));
    assert_eq!(case.graph().nets, ["0101:00:00.0", "0102:00:00.0"]);
}

#[test]
fn pci_gpus_share_the_link_between_the_sockets() {
    let case = one_node("pcie_4gpu.xml", 4);
    assert_eq!((case.rings(), case.trees()), ((1, 20_000), (1, 24_000)));
    assert_eq!(
        case.loads_of(LinkKind::Sys, &case.ring_loads()),
        [20_000],
        "once each way"
    );
    let case = of_several("pcie_4gpu.xml", 4);
    assert_eq!((case.rings(), case.trees()), ((1, 12_500), (1, 12_500)));
    let ring = &case.graph().rings[0];
    assert!(ring.order[0] < 2, "it begins on the NIC's socket: {ring:?}");
}

#[test]
fn pairs_of_gpus_that_hwloc_describes() {
    let seated = one_node("nvlink_pairs_hwloc.xml", 4);
    let graph = &seated.seated.graph;
    let count = |kind| graph.of_kind(kind).len();
    let counts = [
        NodeKind::Cpu,
        NodeKind::Cache,
        NodeKind::Pci,
        NodeKind::Gpu,
        NodeKind::Net,
    ];
    assert_eq!(counts.map(count), [2, 8, 2, 4, 2]);
    let members = &seated.seated.members;
    let kind = |a: usize, b: usize| {
        seated
            .seated
            .paths
            .get(members[a], members[b])
            .unwrap()
            .kind
    };
    assert_eq!(
        [kind(0, 1), kind(1, 2), kind(2, 3)],
        [PathKind::Nvl, PathKind::Sys, PathKind::Nvl]
    );
    assert_eq!(seated.rings(), (1, 24_000));
    let case = of_several("nvlink_pairs_hwloc.xml", 4);
    assert_eq!(case.found.outer, [PathKind::Pix; 2]);
    assert_eq!(case.loads_of(LinkKind::Port, &case.ring_loads()), [12_000]);
}

#[test]
fn ranks_on_processors_go_cache_by_cache_and_cross_sockets_once() {
    for (name, ranks, rate) in [
        ("intel_2s_2nic.xml", 32, 4_000),
        ("amd_nps4.xml", 64, 8_000),
        ("amd_numa_per_l3.xml", 64, 8_000),
        ("arm_80.xml", 80, 800),
        ("laptop.xml", 4, 8_000),
    ] {
        let case = one_node(name, ranks);
        assert_eq!(
            (case.rings(), case.trees()),
            ((1, rate), (1, rate)),
            "{name}"
        );
        let loads = case.loads_of(LinkKind::Sys, &case.ring_loads());
        assert!(loads.is_empty() || loads == [rate], "{name}: {loads:?}");
        // A ring enters every NUMA node and every cache once.
        let places = |kind| {
            let at: Vec<usize> = case.graph().rings[0]
                .order
                .iter()
                .map(|&m| case.place(m, kind))
                .collect();
            at.iter()
                .zip(at.iter().cycle().skip(1))
                .filter(|(a, b)| a != b)
                .count()
        };
        for kind in [NodeKind::Cpu, NodeKind::Cache] {
            // Without shared caches the NUMA nodes count.
            let count = |kind| case.seated.graph.of_kind(kind).len();
            let domains = count(kind).max(count(NodeKind::Cpu));
            assert!(places(kind) <= domains, "{name}: {kind:?}");
        }
    }
}

#[test]
fn ranks_on_processors_use_both_nics_from_their_sockets() {
    for (name, ranks) in [
        ("intel_2s_2nic.xml", 2),
        ("intel_2s_2nic.xml", 32),
        ("amd_nps4.xml", 64),
    ] {
        let case = of_several(name, ranks);
        assert_eq!(case.rings().0, 2, "{name}");
        let loads = case.loads_of(LinkKind::Port, &case.ring_loads());
        assert_eq!(loads, [case.rings().1], "{name}");
        for ring in &case.graph().rings {
            let nic = nic::nets(&case.seated.graph)[ring.entry.unwrap() as usize];
            let way = case
                .seated
                .paths
                .get(nic, case.seated.members[ring.order[0] as usize]);
            assert_eq!(way.unwrap().kind, PathKind::Phb, "{name}");
        }
    }
    let laptop = of_several("laptop.xml", 4);
    assert_eq!(
        (laptop.rings(), laptop.graph().nets[0].as_str()),
        ((1, 400), "wlan0")
    );
    let arm = of_several("arm_80.xml", 80);
    assert_eq!(arm.rings(), (1, 800));
}

#[test]
fn no_nic_is_left_idle_by_ranks_on_processors() {
    for (name, ranks) in [
        ("intel_2s_2nic.xml", 32),
        ("amd_nps4.xml", 64),
        ("arm_80.xml", 80),
    ] {
        let case = of_several(name, ranks);
        let Seated {
            graph,
            paths,
            members,
            ..
        } = &case.seated;
        for count in [1, 2, 5, ranks / 2, ranks] {
            let chosen = nic::choose_nets(graph, paths, &members[..count], true);
            let mut loads = vec![0.0; nic::nets(graph).len()];
            for (member, exits) in chosen.iter().enumerate() {
                let nearest = nic::choose_net(graph, paths, members, member, true);
                assert!(exits.starts_with(&nearest), "{name}: {member} of {count}");
                for exit in exits {
                    assert_eq!(exit.proxy as usize, member);
                    loads[exit.net as usize] += 1.0 / exits.len() as f64;
                }
            }
            // Some are nearer to one of them.
            let [least, most] = [f64::min, f64::max]
                .map(|pick| loads.iter().copied().reduce(pick).expect("a port"));
            assert!(
                least > 0.0 && most <= 2.0 * least,
                "{name} {count}: {loads:?}"
            );
        }
    }
}

#[test]
fn one_gpu_is_a_ring_of_its_own() {
    let case = one_node("desktop_1gpu.xml", 1);
    assert_eq!(case.graph().rings[0].order, [0]);
    let case = of_several("desktop_1gpu.xml", 1);
    let exit = Some(Exit { net: 0, proxy: 0 });
    assert_eq!(
        (case.graph().rings[0].entry, case.graph().rings[0].exit),
        (Some(0), exit)
    );
    assert_eq!(case.graph().nets, ["enp5s0"]);
}

#[test]
fn messages_take_the_nic_beside_their_gpu() {
    let h100 = of_several("dgx_h100.xml", 8).seated;
    let choose = |seated: &Seated, member: u32| -> Vec<(u32, u32)> {
        let (graph, paths) = (&seated.graph, &seated.paths);
        let exits = nic::choose_net(graph, paths, &seated.members, member as usize, true);
        exits.iter().map(|exit| (exit.net, exit.proxy)).collect()
    };
    for member in 0..8 {
        assert_eq!(choose(&h100, member), [(member, member)]);
    }
    let a100 = of_several("dgx_a100.xml", 8).seated;
    for member in 0..8 {
        let first = member / 2 * 2;
        let both = [(first, member), (first + 1, member)];
        assert_eq!(choose(&a100, member), both, "two GPUs, two NICs");
    }
    // On one socket only there is a NIC: NVLink to a GPU there would be near, PCI is not.
    let pcie = of_several("pcie_4gpu.xml", 4).seated;
    assert_eq!(choose(&pcie, 3), [(0, 3)]);
    let dgx1 = of_several("dgx1_v100.xml", 8).seated;
    let way = |pxn| {
        nic::way_out(
            &dgx1.paths,
            nic::nets(&dgx1.graph)[0],
            &dgx1.members,
            4,
            pxn,
        )
    };
    assert_eq!(
        (way(true).unwrap().kind, way(true).unwrap().proxy),
        (PathKind::Pxn, 0)
    );
    assert_eq!(
        (way(false).unwrap().kind, way(false).unwrap().proxy),
        (PathKind::Sys, 4)
    );
}

#[test]
fn a_second_search_finds_the_same() {
    for name in ["dgx_h100.xml", "dgx1_v100.xml"] {
        let [one, two] = [of_several(name, 8), of_several(name, 8)];
        assert_eq!(
            (&one.found.graph, one.found.steps),
            (&two.found.graph, two.found.steps)
        );
    }
}
