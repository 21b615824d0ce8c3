//! Pictures: well-formed, inside their sheet, and no text on another one.

use super::{Sheet, report};
use kolo::base::Rank;
use kolo::topo::channels::{ChannelLimits, Channels, merge};
use kolo::topo::graph::{LinkKind, TopoFile};
use kolo::topo::node_graph::NodeGraph;
use kolo::topo::search::{Found, Request};
use kolo::topo::seats::{Seated, spread};
use roxmltree::{Document, Node};
use std::path::Path;

/// A machine with its ranks seated and searched.
struct Case {
    seated: Seated,
    found: Found,
}

fn searched(name: &str, ranks: usize, request: Request) -> Case {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../tests/topologies")
        .join(name);
    let description = TopoFile::read(&path).unwrap().describe().unwrap();
    let seats = spread(&description, ranks).unwrap();
    let seated = Seated::new(&description.graph, &seats, request.several_nodes).unwrap();
    let ranks: Vec<Rank> = (0..ranks as u32).map(Rank).collect();
    let found = seated.search(&ranks, &request).unwrap();
    Case { seated, found }
}

/// Nodes like this one, and their channels.
fn several(name: &str, nodes: u32, ranks: u32) -> (Case, Channels) {
    let request = Request {
        several_nodes: nodes > 1,
        ..Request::default()
    };
    let case = searched(name, ranks as usize, request);
    let node = |node: u32| NodeGraph {
        ranks: (node * ranks..(node + 1) * ranks).map(Rank).collect(),
        ..case.found.graph.clone()
    };
    let all: Vec<NodeGraph> = (0..nodes).map(node).collect();
    let channels = merge(&all, ChannelLimits::default()).unwrap();
    (case, channels)
}

/// A heap, as good as any tree for a picture.
fn heap(is_second: bool, node: u32, nodes: u32) -> Option<u32> {
    let turn = |node: u32| if is_second { nodes - 1 - node } else { node };
    let at = turn(node);
    (at > 0).then(|| turn((at - 1) / 2))
}

fn drawn(name: &str, nodes: u32, ranks: u32) -> String {
    let (case, channels) = several(name, nodes, ranks);
    let sheet = Sheet {
        title: "<a> & \"b\"",
        seated: &case.seated,
        found: &case.found,
        channels: &channels,
        parent: &heap,
    };
    super::draw(&sheet)
}

/// Left, top, right and bottom of a text, with letters as narrow as they come.
fn bounds(text: Node) -> [f64; 4] {
    let number = |name| text.attribute(name).unwrap().parse::<f64>().unwrap();
    let (x, y, size) = (number("x"), number("y"), number("font-size"));
    let width = 0.5 * size * text.text().unwrap().chars().count() as f64;
    let left = match text.attribute("text-anchor").unwrap() {
        "start" => x,
        "middle" => x - width / 2.,
        _ => x - width,
    };
    [left, y - 0.7 * size, left + width, y]
}

#[test]
fn texts_are_inside_the_sheet_and_apart() {
    for (name, nodes, ranks) in [
        ("dgx_a100.xml", 1, 8),
        ("dgx_h100.xml", 8, 8),
        ("dgx_h100.xml", 64, 8),
        ("dgx1_v100.xml", 3, 8),
        ("grace_hopper_4.xml", 16, 4),
        ("pcie_4gpu.xml", 1, 4),
        ("cloud_flat_8gpu.xml", 300, 8),
        ("intel_2s_2nic.xml", 4, 32),
        ("amd_nps4.xml", 1, 64),
        ("amd_nps4.xml", 2, 16),
        ("laptop.xml", 1, 4),
        ("desktop_1gpu.xml", 2, 1),
        ("desktop_1gpu.xml", 1, 1),
        ("nvlink_pairs_hwloc.xml", 2, 4),
    ] {
        let svg = drawn(name, nodes, ranks);
        let document = Document::parse(&svg).unwrap();
        let root = document.root_element();
        let size = ["width", "height"].map(|side| root.attribute(side).unwrap());
        let [width, height] = size.map(|text| text.parse::<f64>().unwrap());
        assert!(width < 1500., "{name}: {width} wide");
        let texts = root.children().filter(|node| node.has_tag_name("text"));
        let texts: Vec<(Node, [f64; 4])> = texts.map(|node| (node, bounds(node))).collect();
        assert_eq!(texts[0].0.text(), Some("<a> & \"b\""));
        for (at, (one, a)) in texts.iter().enumerate() {
            let inside = a[0] >= 0. && a[1] >= 0. && a[2] <= width && a[3] <= height;
            assert!(inside, "{name} x{nodes}: {:?} at {a:?}", one.text());
            for (other, b) in &texts[at + 1..] {
                let apart = a[2] <= b[0] || b[2] <= a[0] || a[3] <= b[1] || b[3] <= a[1];
                let pair = [one.text(), other.text()];
                assert!(apart, "{name} x{nodes}: {pair:?} at {a:?} and {b:?}");
            }
        }
    }
}

/// The value of an element's attribute.
fn said<'a>(node: &Node<'a, '_>, name: &str) -> &'a str {
    node.attribute(name).unwrap_or("")
}

#[test]
fn every_line_of_the_legend_is_in_the_picture() {
    let kinds = ["NVLink ", "C2C ", "PCI ", "memory ", "SYS ", "network "];
    for (name, nodes, ranks) in [
        ("dgx_a100.xml", 1, 8),
        ("dgx_h100.xml", 2, 8),
        ("dgx1_v100.xml", 3, 8),
        ("grace_hopper_4.xml", 2, 4),
        ("pcie_4gpu.xml", 1, 4),
        ("hgx_a100_4.xml", 2, 4),
        ("intel_2s_2nic.xml", 4, 32),
        ("amd_nps4.xml", 1, 64),
        ("laptop.xml", 1, 4),
        ("desktop_1gpu.xml", 2, 1),
        ("nvlink_pairs_hwloc.xml", 2, 4),
    ] {
        let svg = drawn(name, nodes, ranks);
        let document = Document::parse(&svg).unwrap();
        let all: Vec<Node> = document.descendants().collect();
        let is_entry = |node: &&Node| {
            let text = node.text().filter(|_| node.has_tag_name("text"));
            let is_kind = |text: &str| kinds.iter().any(|kind| text.starts_with(kind));
            text.is_some_and(|text| is_kind(text) && text.contains("GB/s"))
        };
        let entries: Vec<&Node> = all.iter().filter(is_entry).collect();
        assert!(!entries.is_empty(), "{name}");
        for entry in entries {
            let number = |axis| said(entry, axis).parse::<f64>().unwrap();
            let (x, y) = (number("x") - 28., number("y") - 4.);
            let data = format!("M{x:.1} {y:.1}L{:.1} {y:.1}", x + 22.);
            let sample = all.iter().find(|node| said(node, "d") == data);
            let sample = sample.unwrap_or_else(|| panic!("{name}: no line at {:?}", entry.text()));
            let stroke = said(sample, "stroke");
            let drawn = all.iter().filter(|node| said(node, "d") != data);
            let count = drawn.filter(|node| said(node, "stroke") == stroke).count();
            let is_box = |node: &Node| node.has_tag_name("rect") && said(node, "stroke") == stroke;
            let boxes = all.iter().filter(|node| is_box(node)).count();
            assert!(count > boxes, "{name}: {:?} is nowhere drawn", entry.text());
        }
    }
}

/// A card of which neither the system nor the file knows how fast it is.
#[test]
fn a_speed_that_nobody_knows_is_called_unknown() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/topologies/laptop.xml");
    let text = std::fs::read_to_string(path).unwrap();
    let unknown = text.replace(" pci_link_speed=\"0.500000\"", "");
    assert_ne!(text, unknown);
    for (text, is_known) in [(text.as_str(), true), (unknown.as_str(), false)] {
        let machine = kolo::topo::Machine::from_xml(text, "a file", &kolo::topo::Notes::strict());
        let rate: &dyn Fn(&str) -> Option<u32> = &|_| is_known.then_some(1000);
        let graph = kolo::topo::graph::graph_of(&machine.unwrap(), rate).unwrap();
        let shown = report::graph_text(&graph);
        let row = shown.lines().find(|line| line.contains("NET/0  ")).unwrap();
        let port = row.split("network ").nth(1).unwrap();
        let ports = report::ports_document(&graph);
        let legend = super::machine::legend_texts(&graph);
        let entry = |kind| &legend.iter().find(|one| one.0 == kind).unwrap().1;
        let (network, pci) = (entry(LinkKind::Port), entry(LinkKind::Pci));
        if is_known {
            assert_eq!(port, "0.1: NIC/0", "{shown}");
            assert_eq!(ports[0]["megabytes_per_s"], 125);
            assert_eq!(network, "network 0.1 GB/s");
            assert!(!shown.contains("unknown"), "{shown}");
        } else {
            assert_eq!(port, "unknown (planned as 12): NIC/0", "{shown}");
            assert!(
                shown.contains("PCI unknown (planned as 12): NIC/0"),
                "{shown}"
            );
            assert!(ports[0]["megabytes_per_s"].is_null(), "{ports}");
            assert_eq!(ports[0]["planned_megabytes_per_s"], 12_000);
            assert_eq!(network, "network unknown (planned as 12 GB/s)");
            assert_eq!(pci, "PCI unknown (planned as 12 GB/s)");
        }
        assert_eq!(ports[0]["name"], "wlan0");
    }
}

#[test]
fn every_rank_channel_and_port_is_shown() {
    let svg = drawn("dgx_h100.xml", 8, 8);
    let document = Document::parse(&svg).unwrap();
    let texts = document
        .descendants()
        .filter(|node| node.has_tag_name("text"));
    let texts: Vec<&str> = texts.filter_map(|node| node.text()).collect();
    for rank in 0..64 {
        let rank = rank.to_string();
        assert!(texts.contains(&rank.as_str()), "rank {rank}");
    }
    for text in [
        "NVSwitch",
        "mlx5_7",
        "GPU 7",
        "node 7",
        "channels 0, 8, 16, 24",
        "PS",
    ] {
        assert!(texts.contains(&text), "{text}: {texts:?}");
    }
    let large = drawn("dgx_h100.xml", 64, 8);
    assert!(large.contains("53 more nodes") && large.contains(">node 63<"));
    assert!(drawn("cloud_flat_8gpu.xml", 300, 8).contains("too large for this picture"));
}

#[test]
fn the_report_names_rings_trees_and_ways() {
    let (case, channels) = several("dgx_h100.xml", 2, 8);
    let text = report::channels_text(&case.seated, &case.found, &channels);
    for line in [
        "Rings: 16 of 22.5 GB/s, on each of 2 nodes (ways at most NVL, to ports at most PXN)\n",
        "   4  mlx5_1 GPU/1 GPU/2 GPU/3 GPU/4 GPU/5 GPU/6 GPU/7 GPU/0 (GPU/1) mlx5_1\n",
        "   1  mlx5_1 GPU/1 GPU/2 GPU/3 GPU/4 GPU/5 GPU/6 GPU/7 GPU/0 [second child: GPU/1]\n",
        "Channels: 32, each with a ring of 11.2 GB/s and a tree of 12 GB/s;",
        "A rank in brackets sends for the one before it",
    ] {
        assert!(text.contains(line), "{text}");
    }
    let ways = report::paths_text(&case.seated);
    let row = ways.lines().nth(2).unwrap();
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(words[..6], ["GPU/0", "LOC", "NVL", "360", "NVL", "360"]);
    assert!(
        row.ends_with("SYS 20") && row.contains("PIX 48   PHB 48"),
        "{row}"
    );
    assert!(!ways.contains('?'), "{ways}");
    let (case, _) = several("desktop_1gpu.xml", 2, 1);
    let ways = report::paths_text(&case.seated);
    assert!(
        ways.contains("; ?: planned") && ways.contains("?\n"),
        "{ways}"
    );
    let (case, channels) = several("intel_2s_2nic.xml", 1, 64);
    assert!(report::paths_text(&case.seated).contains("66 ranks and ports, left out"));
    let graph = report::graph_text(&case.seated.graph);
    let expected = "RANK/0-31 ";
    assert!(
        graph.contains(expected) && graph.contains("PUs 0-15,32-47"),
        "{graph}"
    );
    let text = report::channels_text(&case.seated, &case.found, &channels);
    assert!(
        text.contains("... 25 more ...") && !text.contains("brackets"),
        "{text}"
    );
}
