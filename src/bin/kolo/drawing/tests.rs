//! Pictures: well-formed, inside their sheet, and no text on another one.

use super::{Sheet, report};
use kolo::base::Rank;
use kolo::topo::channels::{ChannelLimits, Channels, merge};
use kolo::topo::graph::TopoFile;
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
        .join("tests/machines")
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
    sheet.draw()
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
