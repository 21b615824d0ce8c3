//! The graph, the ways, the rings and the trees as text: what `kolo topo` prints below the machine.

use super::sheet::gigabytes;
use kolo::topo::channels::Channels;
use kolo::topo::graph::{Graph, LinkKind, NodeKind};
use kolo::topo::nic;
use kolo::topo::node_graph::{NodeGraph, RingPart};
use kolo::topo::paths::{Path, Paths};
use kolo::topo::search::Found;
use kolo::topo::seats::Seated;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Most rows and columns of the table of ways.
const MOST_COLUMNS: usize = 18;
/// The column of names is not wider than this; longer names push their line.
const MOST_ABOUT: usize = 24;
/// Most members of an order that are written out.
const MOST_MEMBERS: usize = 40;

/// Every node of the graph with its links. Nodes of one kind that have the same are one line.
pub fn graph_text(graph: &Graph) -> String {
    let mut out = String::from("Graph (GB/s and direction)\n");
    let mut lines: Vec<(String, Vec<usize>)> = Vec::new();
    for kind in NodeKind::ALL {
        for node in graph.of_kind(kind) {
            let links = links_text(graph, node);
            match lines.last_mut() {
                // Workers are many and alike; other nodes are worth a line each.
                Some((text, nodes)) if kind == NodeKind::Worker && *text == links => {
                    nodes.push(node);
                }
                _ => lines.push((links, vec![node])),
            }
        }
    }
    let name = |nodes: &[usize]| {
        let first = graph.nodes[nodes[0]].label();
        match nodes {
            [_] => first,
            [.., last] => format!("{first}-{}", graph.nodes[*last].number),
            [] => first,
        }
    };
    let width = lines
        .iter()
        .map(|(_, nodes)| name(nodes).len())
        .max()
        .unwrap_or(0);
    let abouts = lines.iter().map(|(_, nodes)| match nodes.as_slice() {
        [one] => about(graph, *one),
        _ => String::new(),
    });
    let abouts: Vec<String> = abouts.collect();
    let wide = abouts
        .iter()
        .map(String::len)
        .max()
        .unwrap_or(0)
        .min(MOST_ABOUT);
    for ((links, nodes), about) in lines.iter().zip(&abouts) {
        let _ = writeln!(out, "  {:<width$}  {about:<wide$}  {links}", name(nodes));
    }
    out
}

/// Name of a node, or the processors that it has.
fn about(graph: &Graph, node: usize) -> String {
    let node = &graph.nodes[node];
    match node.kind {
        NodeKind::Cpu | NodeKind::Cache if !node.cpus.is_empty() => format!("PUs {}", node.cpus),
        _ if node.name.is_empty() => String::new(),
        _ => node.name.clone(),
    }
}

/// `PCI 24: GPU/0 GPU/1; SYS 20: CPU/1`.
fn links_text(graph: &Graph, node: usize) -> String {
    type Speed = (LinkKind, u32, bool);
    let mut groups: BTreeMap<Speed, Vec<String>> = BTreeMap::new();
    for &link in graph.leaving(node) {
        let link = graph.links[link];
        let speed = (link.kind, link.megabytes_per_s, link.is_guess);
        groups
            .entry(speed)
            .or_default()
            .push(graph.nodes[link.to].label());
    }
    let text = |((kind, rate, is_guess), labels): (&Speed, &Vec<String>)| {
        let labels = match labels.as_slice() {
            [first, .., last] if labels.len() > 8 => format!("{first} ... {last}"),
            all => all.join(" "),
        };
        let speed = if *is_guess {
            format!("unknown (planned as {})", gigabytes(*rate))
        } else {
            gigabytes(*rate)
        };
        format!("{} {speed}: {labels}", kind.word())
    };
    groups.iter().map(text).collect::<Vec<_>>().join("; ")
}

/// The ports to the network with their speeds, for programs; null where nobody knows it.
pub fn ports_document(graph: &Graph) -> Value {
    let of = |net: usize| {
        let links = graph.leaving(net).iter().map(|&link| graph.links[link]);
        let link = links.clone().find(|link| link.kind == LinkKind::Port);
        let known = link.filter(|link| !link.is_guess);
        json!({
            "label": graph.nodes[net].label(),
            "name": graph.nodes[net].name,
            "megabytes_per_s": known.map(|link| link.megabytes_per_s),
            "planned_megabytes_per_s": link.map(|link| link.megabytes_per_s),
        })
    };
    graph.of_kind(NodeKind::Net).into_iter().map(of).collect()
}

/// The ways between all ranks and ports: kind and width. Left out where it would not fit.
pub fn paths_text(seated: &Seated) -> String {
    let (graph, paths) = (&seated.graph, &seated.paths);
    let mut ends = seated.members.clone();
    ends.extend(nic::nets(graph));
    if ends.len() > MOST_COLUMNS {
        let count = ends.len();
        return format!("Ways: {count} ranks and ports, left out above {MOST_COLUMNS}\n");
    }
    let labels: Vec<String> = ends.iter().map(|&end| graph.nodes[end].label()).collect();
    let cell = |from: usize, to: usize| way_text(graph, paths, from, to);
    let mut width = labels.iter().map(String::len).max().unwrap_or(0);
    let mut mark = "";
    for (&from, &to) in ends
        .iter()
        .flat_map(|from| ends.iter().map(move |to| (from, to)))
    {
        let cell = cell(from, to);
        width = width.max(cell.len());
        if cell.ends_with('?') {
            mark = "; ?: planned, not known";
        }
    }
    let mut out = format!("Ways (kind and GB/s{mark})\n");
    let first = labels.iter().map(String::len).max().unwrap_or(0);
    let row = |name: &str, cells: &mut dyn Iterator<Item = String>| {
        let cells: Vec<String> = cells.map(|cell| format!("{cell:>width$}")).collect();
        format!("  {name:<first$}  {}\n", cells.join("  "))
    };
    out += &row("", &mut labels.iter().cloned());
    for (&from, label) in ends.iter().zip(&labels) {
        out += &row(label, &mut ends.iter().map(|&to| cell(from, to)));
    }
    out
}

/// A mark stands behind a width that nobody knows.
fn way_text(graph: &Graph, paths: &Paths, from: usize, to: usize) -> String {
    let is_guess = |path: &Path| {
        let mut links = path.links.iter().map(|&link| graph.links[link as usize]);
        links.any(|link| link.is_guess && link.megabytes_per_s == path.megabytes_per_s)
    };
    match paths.get(from, to) {
        None => "-".to_owned(),
        Some(path) if path.links.is_empty() => path.kind.word().to_owned(),
        Some(path) => {
            let mark = if is_guess(path) { "?" } else { "" };
            format!(
                "{} {}{mark}",
                path.kind.word(),
                gigabytes(path.megabytes_per_s)
            )
        }
    }
}

/// The rings and trees of one node, and what all nodes make of them.
pub fn channels_text(seated: &Seated, found: &Found, channels: &Channels) -> String {
    let graph = &found.graph;
    let mut out = String::new();
    let nodes = channels.nets.len();
    let alike = if nodes > 1 {
        format!(", on each of {nodes} nodes")
    } else {
        String::new()
    };
    let kind = |at: usize| {
        let ports = if graph.nets.is_empty() {
            String::new()
        } else {
            format!(", to ports at most {}", found.outer[at].word())
        };
        format!("ways at most {}{ports}", found.inner[at].word())
    };
    let rate = gigabytes(graph.ring_megabytes_per_s);
    let count = graph.rings.len();
    let _ = writeln!(out, "Rings: {count} of {rate} GB/s{alike} ({})", kind(0));
    for (index, ring) in graph.rings.iter().enumerate() {
        let mut words = members(seated, &ring.order);
        if let (Some(entry), Some(exit)) = (ring.entry, ring.exit) {
            words.insert(0, net(graph, entry));
            if ring.order.last() != Some(&exit.proxy) {
                words.push(format!("({})", seated.name(exit.proxy)));
            }
            words.push(net(graph, exit.net));
        }
        let _ = writeln!(out, "  {index:>2}  {}", words.join(" "));
    }
    let rate = gigabytes(graph.tree_megabytes_per_s);
    let count = graph.trees.len();
    let _ = writeln!(out, "Trees: {count} of {rate} GB/s{alike} ({})", kind(1));
    for (index, tree) in graph.trees.iter().enumerate() {
        let mut words = members(seated, &tree.chain);
        if let Some(exit) = tree.head_exit {
            words.insert(0, net(graph, exit.net));
            words.push(format!("[second child: {}]", seated.name(tree.second)));
        }
        let _ = writeln!(out, "  {index:>2}  {}", words.join(" "));
    }
    let by = match found.steps {
        0 => String::new(),
        steps => format!("; {steps} steps of search"),
    };
    let _ = writeln!(
        out,
        "Channels: {}, each with a ring of {} GB/s and a tree of {} GB/s{by}",
        channels.count(),
        gigabytes(channels.ring_megabytes_per_s),
        gigabytes(channels.tree_megabytes_per_s),
    );
    let by_proxy = |ring: &RingPart| {
        let last = ring.order.last();
        ring.exit.is_some_and(|exit| last != Some(&exit.proxy))
    };
    if graph.rings.iter().any(by_proxy) {
        out.push_str(
            "A rank in brackets sends for the one before it, as its GPU is nearer to the NIC.\n",
        );
    }
    out
}

fn net(graph: &NodeGraph, index: u32) -> String {
    let name = graph.nets.get(index as usize);
    name.cloned().unwrap_or_else(|| format!("NET/{index}"))
}

fn members(seated: &Seated, order: &[u32]) -> Vec<String> {
    let name = |&member: &u32| seated.name(member);
    if order.len() <= MOST_MEMBERS {
        return order.iter().map(name).collect();
    }
    let mut words: Vec<String> = order[..MOST_MEMBERS - 4].iter().map(name).collect();
    words.push(format!("... {} more ...", order.len() - (MOST_MEMBERS - 1)));
    words.extend(order[order.len() - 3..].iter().map(name));
    words
}
