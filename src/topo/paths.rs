//! The way between any two nodes of a graph: its kind, its width, its links.
//!
//! **Idea.** Of all ways the widest is taken, of the widest ones the shortest. GPUs, ranks and
//! network ports do not forward for others, with two exceptions that say so by their kind: two GPUs
//! without a link of their own may go through a third one over NVLink (NVB), and a GPU may send
//! through the NIC of another one (PXN, decided in `nic`).
//!
//! **Terms.** Width: the least bandwidth of the links on the way, in megabytes per second.
//!
//! Reference: widest paths by the maximum-capacity form of Dijkstra's algorithm, M. Pollack, "The
//! Maximum Capacity Through a Network", Operations Research 8(5), 1960, doi:10.1287/opre.8.5.733.

use super::graph::{Graph, LinkKind, NodeKind};
use std::collections::VecDeque;

/// Farthest kind of link on a way, from the nearest to the farthest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum PathKind {
    /// Nothing: both ends are one.
    Loc = 0,
    /// NVLinks and NVSwitches.
    Nvl,
    /// NVLinks through another GPU.
    Nvb,
    /// The coherent link between a GPU and its processor.
    C2c,
    /// A last-level cache.
    Llc,
    /// One PCI switch.
    Pix,
    /// Several PCI switches.
    Pxb,
    /// A coherent link to the processor, then PCI.
    P2c,
    /// NVLink to another GPU, then PCI to a NIC near that one.
    Pxn,
    /// The root of PCI, or the memory of one NUMA node.
    Phb,
    /// The link between NUMA nodes.
    Sys,
    /// The network.
    Net,
}

impl PathKind {
    /// All kinds, from the nearest to the farthest.
    pub const ALL: [PathKind; 12] = [
        PathKind::Loc,
        PathKind::Nvl,
        PathKind::Nvb,
        PathKind::C2c,
        PathKind::Llc,
        PathKind::Pix,
        PathKind::Pxb,
        PathKind::P2c,
        PathKind::Pxn,
        PathKind::Phb,
        PathKind::Sys,
        PathKind::Net,
    ];

    /// `NVL`, `PIX` and so on.
    pub fn word(self) -> &'static str {
        const WORDS: [&str; 12] = [
            "LOC", "NVL", "NVB", "C2C", "LLC", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "NET",
        ];
        WORDS[self as usize]
    }
}

/// A way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// The farthest kind of link that it passes.
    pub kind: PathKind,
    /// Its width in megabytes per second; `u32::MAX` where there is no link on it.
    pub megabytes_per_s: u32,
    /// The links in order, as indices into [`Graph::links`].
    pub links: Vec<u32>,
}

/// The ways between all nodes of a graph.
#[derive(Clone, Debug)]
pub struct Paths {
    nodes: usize,
    table: Vec<Option<Path>>,
}

impl Paths {
    /// Finds them: about `nodes * nodes * links` operations at most.
    pub fn new(graph: &Graph) -> Paths {
        let nodes = graph.nodes.len();
        let mut paths = Paths {
            nodes,
            table: Vec::with_capacity(nodes * nodes),
        };
        for from in 0..nodes {
            paths.table.extend(ways_from(graph, from));
        }
        paths.relay(graph);
        paths
    }

    /// The way between two nodes by their indices; none where nothing joins them.
    pub fn get(&self, from: usize, to: usize) -> Option<&Path> {
        self.table[from * self.nodes + to].as_ref()
    }

    /// Lets pairs of GPUs without a link of their own go through a third one, where that is at
    /// least as wide as their other way.
    fn relay(&mut self, graph: &Graph) {
        let gpus = graph.of_kind(NodeKind::Gpu);
        let link = |a: usize, b: usize| {
            let over =
                |&&l: &&usize| graph.links[l].to == b && graph.links[l].kind == LinkKind::NvLink;
            graph.leaving(a).iter().find(over).copied()
        };
        let mut better = Vec::new();
        for &a in &gpus {
            for &b in gpus.iter().filter(|&&b| b != a) {
                let known = self.get(a, b);
                if known.is_some_and(|path| path.kind == PathKind::Nvl) {
                    continue;
                }
                let through = gpus.iter().filter_map(|&over| {
                    let links = [link(a, over)?, link(over, b)?];
                    let width = links.map(|l| graph.links[l].megabytes_per_s);
                    Some((width[0].min(width[1]), links))
                });
                // The first of the widest: the same one in every process.
                let widest = through.fold(None, |best: Option<(u32, [usize; 2])>, other| {
                    best.filter(|best| best.0 >= other.0).or(Some(other))
                });
                let enough = known.map_or(0, |path| path.megabytes_per_s);
                if let Some((width, links)) = widest.filter(|(width, _)| *width >= enough) {
                    let path = Path {
                        kind: PathKind::Nvb,
                        megabytes_per_s: width,
                        links: links.map(|l| l as u32).to_vec(),
                    };
                    better.push((a * self.nodes + b, path));
                }
            }
        }
        for (at, path) in better {
            self.table[at] = Some(path);
        }
    }
}

fn ways_from(graph: &Graph, from: usize) -> Vec<Option<Path>> {
    let widths = widths_from(graph, from);
    let mut levels: Vec<u32> = widths.iter().copied().filter(|&width| width > 0).collect();
    levels.sort_unstable_by(|a, b| b.cmp(a));
    levels.dedup();
    let mut ways: Vec<Option<Path>> = vec![None; graph.nodes.len()];
    for level in levels {
        // The shortest ways over links that are wide enough; only nodes of this width take them.
        let came_by = shortest(graph, from, level);
        for to in 0..ways.len() {
            if widths[to] == level {
                ways[to] = Some(way(graph, from, to, level, &came_by));
            }
        }
    }
    ways
}

/// Whether data that came to `node` may go on.
fn passes(graph: &Graph, from: usize, node: usize) -> bool {
    node == from || graph.nodes[node].kind.forwards()
}

/// The width of the widest way to every node; 0 where there is none.
fn widths_from(graph: &Graph, from: usize) -> Vec<u32> {
    let mut widths = vec![0; graph.nodes.len()];
    let mut done = vec![false; graph.nodes.len()];
    widths[from] = u32::MAX;
    let next = |widths: &[u32], done: &[bool]| {
        let open = (0..widths.len()).filter(|&node| !done[node] && widths[node] > 0);
        open.max_by_key(|&node| (widths[node], std::cmp::Reverse(node)))
    };
    while let Some(node) = next(&widths, &done) {
        done[node] = true;
        if !passes(graph, from, node) {
            continue;
        }
        for &link in graph.leaving(node) {
            let link = graph.links[link];
            let width = widths[node].min(link.megabytes_per_s);
            widths[link.to] = widths[link.to].max(width);
        }
    }
    widths
}

/// For every node the link by which the shortest way over links of at least this width comes.
fn shortest(graph: &Graph, from: usize, least: u32) -> Vec<Option<usize>> {
    let mut came_by = vec![None; graph.nodes.len()];
    let mut queue = VecDeque::from([from]);
    while let Some(node) = queue.pop_front() {
        if !passes(graph, from, node) {
            continue;
        }
        // Of equally short ways the one over the nearer kinds of links.
        let mut leaving = graph.leaving(node).to_vec();
        leaving.sort_by_key(|&index| graph.links[index].kind);
        for index in leaving {
            let link = graph.links[index];
            let wide = link.megabytes_per_s >= least;
            if wide && link.to != from && came_by[link.to].is_none() {
                came_by[link.to] = Some(index);
                queue.push_back(link.to);
            }
        }
    }
    came_by
}

fn way(graph: &Graph, from: usize, to: usize, width: u32, came_by: &[Option<usize>]) -> Path {
    let mut links = Vec::new();
    let mut at = to;
    while at != from {
        let link = came_by[at].expect("a node with a width was reached");
        links.push(link as u32);
        at = graph.links[link].from;
    }
    links.reverse();
    Path {
        kind: kind_of(graph, &links),
        megabytes_per_s: width,
        links,
    }
}

/// The kind of a way, from the links and nodes that it passes.
fn kind_of(graph: &Graph, links: &[u32]) -> PathKind {
    let has = |kind| {
        links
            .iter()
            .any(|&link| graph.links[link as usize].kind == kind)
    };
    let inner = links
        .iter()
        .skip(1)
        .map(|&link| graph.links[link as usize].from);
    let passed: Vec<NodeKind> = inner.map(|node| graph.nodes[node].kind).collect();
    let count = |kind| passed.iter().filter(|&&one| one == kind).count();
    if links.is_empty() {
        PathKind::Loc
    } else if has(LinkKind::Sys) {
        PathKind::Sys
    } else if has(LinkKind::C2c) {
        let on = has(LinkKind::Pci) || has(LinkKind::Memory);
        if on { PathKind::P2c } else { PathKind::C2c }
    } else if count(NodeKind::Cpu) > 0 {
        PathKind::Phb
    } else if has(LinkKind::NvLink) {
        PathKind::Nvl
    } else if has(LinkKind::Pci) {
        match count(NodeKind::Pci) {
            _ if ends_at_cpu(graph, links) => PathKind::Phb,
            0..=1 => PathKind::Pix,
            _ => PathKind::Pxb,
        }
    } else if has(LinkKind::Memory) && !ends_at_cpu(graph, links) {
        PathKind::Llc
    } else if has(LinkKind::Memory) {
        PathKind::Phb
    } else {
        PathKind::Loc
    }
}

fn ends_at_cpu(graph: &Graph, links: &[u32]) -> bool {
    let first = links.first().map(|&link| graph.links[link as usize].from);
    let last = links.last().map(|&link| graph.links[link as usize].to);
    let is_cpu = |node: usize| graph.nodes[node].kind == NodeKind::Cpu;
    first.is_some_and(is_cpu) || last.is_some_and(is_cpu)
}

#[cfg(test)]
mod tests {
    use super::super::CpuSet;
    use super::*;
    use LinkKind as L;

    fn graph(kinds: &[NodeKind], links: &[(usize, usize, LinkKind, u32)]) -> Graph {
        let mut graph = Graph::new("test");
        for (index, &kind) in kinds.iter().enumerate() {
            graph.add(kind, index as u32, "", CpuSet::new());
        }
        for &(a, b, kind, rate) in links {
            graph.join(a, b, kind, rate);
        }
        graph
    }

    fn between(graph: &Graph, a: usize, b: usize) -> (&'static str, u32, usize) {
        let paths = Paths::new(graph);
        let path = paths.get(a, b).unwrap();
        (path.kind.word(), path.megabytes_per_s, path.links.len())
    }

    #[test]
    fn of_the_widest_ways_the_shortest() {
        use NodeKind::*;
        // The way over switch 2 is narrow, over 3 and 4 wide, over 5 as wide and shorter; the last
        // link is narrower than all, so the search may not settle early on the narrow way's shape.
        let kinds = [Gpu, Nic, Pci, Pci, Pci, Pci, Net];
        let links = [
            (0, 2, L::Pci, 10),
            (2, 1, L::Pci, 10),
            (0, 3, L::Pci, 30),
            (3, 4, L::Pci, 30),
            (4, 1, L::Pci, 30),
            (0, 5, L::Pci, 30),
            (5, 1, L::Pci, 30),
            (1, 6, L::Port, 8),
        ];
        let graph = graph(&kinds, &links);
        assert_eq!(between(&graph, 0, 1), ("PIX", 30, 2));
        assert_eq!(between(&graph, 0, 6), ("PIX", 8, 3));
        assert_eq!(between(&graph, 0, 0), ("LOC", u32::MAX, 0));
        assert_eq!(between(&graph, 3, 1), ("PIX", 30, 2));
    }

    #[test]
    fn gpus_forward_for_gpus_only_and_only_over_nvlink() {
        use NodeKind::*;
        let kinds = [Gpu, Gpu, Gpu, Pci, Cpu];
        let mut links = vec![
            (0, 1, L::NvLink, 20),
            (1, 2, L::NvLink, 40),
            (0, 3, L::Pci, 12),
            (1, 3, L::Pci, 12),
            (2, 4, L::Pci, 12),
            (3, 4, L::Pci, 12),
        ];
        let relayed = graph(&kinds, &links);
        assert_eq!(between(&relayed, 0, 1), ("NVL", 20, 1));
        assert_eq!(between(&relayed, 0, 2), ("NVB", 20, 2));
        assert_eq!(between(&relayed, 0, 4), ("PHB", 12, 2));
        links[2].3 = 30;
        links[4].3 = 30;
        links[5].3 = 30;
        let wider = graph(&kinds, &links);
        assert_eq!(
            between(&wider, 0, 2),
            ("PHB", 30, 3),
            "wider without the relay"
        );
        links.truncate(2);
        let alone = graph(&kinds, &links);
        assert!(Paths::new(&alone).get(0, 4).is_none());
    }

    #[test]
    fn kinds_follow_from_what_is_passed() {
        use NodeKind::*;
        let kinds = [
            Cpu, Cpu, Worker, Worker, Worker, Cache, Gpu, Nic, Net, Pci, Pci, Gpu,
        ];
        let links = [
            (0, 1, L::Sys, 20),
            (2, 5, L::Memory, 8),
            (3, 5, L::Memory, 8),
            (5, 0, L::Memory, 40),
            (4, 1, L::Memory, 8),
            (6, 0, L::C2c, 450),
            (6, 0, L::Pci, 24),
            (7, 0, L::Pci, 24),
            (7, 8, L::Port, 25),
            (9, 1, L::Pci, 24),
            (10, 9, L::Pci, 24),
            (11, 10, L::Pci, 24),
        ];
        let graph = graph(&kinds, &links);
        assert_eq!(between(&graph, 2, 3), ("LLC", 8, 2));
        assert_eq!(between(&graph, 2, 0), ("PHB", 8, 2));
        assert_eq!(between(&graph, 2, 4), ("SYS", 8, 4));
        assert_eq!(between(&graph, 6, 0), ("C2C", 450, 1));
        assert_eq!(between(&graph, 6, 8), ("P2C", 24, 3));
        assert_eq!(between(&graph, 2, 8), ("PHB", 8, 4));
        assert_eq!(between(&graph, 11, 9), ("PIX", 24, 2));
        assert_eq!(between(&graph, 11, 1), ("PHB", 24, 3));
    }
}
