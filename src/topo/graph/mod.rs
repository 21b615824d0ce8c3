//! The machine as places that data passes, joined by links of known bandwidth.
//!
//! **Problem.** A tree of processors ([`Machine`](super::Machine)) says what is near to what, not
//! how fast data flows: GPUs have links of their own, a switch shares its uplink, a NIC hangs
//! somewhere.
//!
//! **Idea.** One small directed graph for every kind of machine. Each link has one capacity per
//! direction; a search then lays rings and trees over it and takes away what they use.
//!
//! **Terms.** CPU: a NUMA node with its processors. Worker: a rank that computes on processors.
//! Net: a port to the network; it stands for the world outside. Bandwidths are planning figures in
//! megabytes (10^6 bytes) per second and direction, what a good program gets and not what the
//! standard says ([`mod@speed`]).

mod hwloc;
mod load;
pub mod speed;
mod system;
mod system_links;

pub use hwloc::graph_of;
pub(super) use hwloc::join_nvlinks;
pub use load::{Description, TopoFile};

use super::CpuSet;
use crate::base::{Error, Result};

/// More nodes than this are no machine.
pub const MAX_NODES: usize = 4096;
/// More NUMA nodes than this are no machine, as every two of them are joined.
pub const MAX_CPU_NODES: usize = 1024;

/// Kind of a node of the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeKind {
    /// A NUMA node with its processors.
    Cpu,
    /// A last-level cache that is shared by a part of a NUMA node.
    Cache,
    /// A PCI switch.
    Pci,
    /// A GPU.
    Gpu,
    /// A rank that works on processors.
    Worker,
    /// All switches that join NVLinks.
    NvSwitch,
    /// A network card.
    Nic,
    /// A port to the network.
    Net,
}

impl NodeKind {
    /// All kinds, in the order in which a machine is shown.
    pub const ALL: [NodeKind; 8] = [
        NodeKind::Cpu,
        NodeKind::Cache,
        NodeKind::Pci,
        NodeKind::Gpu,
        NodeKind::Worker,
        NodeKind::NvSwitch,
        NodeKind::Nic,
        NodeKind::Net,
    ];

    /// The word before the number: `GPU` in `GPU/3`.
    pub fn word(self) -> &'static str {
        match self {
            NodeKind::Cpu => "CPU",
            NodeKind::Cache => "L3",
            NodeKind::Pci => "PCI",
            NodeKind::Gpu => "GPU",
            NodeKind::Worker => "RANK",
            NodeKind::NvSwitch => "NVS",
            NodeKind::Nic => "NIC",
            NodeKind::Net => "NET",
        }
    }

    /// Whether data may pass through on its way. GPUs and workers do not forward for others unless
    /// a path says so by its kind; a port leads out.
    pub fn forwards(self) -> bool {
        !matches!(self, NodeKind::Gpu | NodeKind::Worker | NodeKind::Net)
    }
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its kind.
    pub kind: NodeKind,
    /// Its number among its kind: the device number of a GPU, the number of a NUMA node.
    pub number: u32,
    /// Name that people use: a bus address, `mlx5_0`; may be empty.
    pub name: String,
    /// Processors in it or near it; empty where that is unknown.
    pub cpus: CpuSet,
}

impl Node {
    /// `GPU/3`.
    pub fn label(&self) -> String {
        format!("{}/{}", self.kind.word(), self.number)
    }
}

/// How two nodes are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkKind {
    /// NVLink, all lanes between the two together.
    NvLink,
    /// A coherent link between a GPU and its processor.
    C2c,
    /// PCI.
    Pci,
    /// From a worker or a cache to memory.
    Memory,
    /// Between NUMA nodes.
    Sys,
    /// From a network card out of its port.
    Port,
}

impl LinkKind {
    /// Name that people use.
    pub fn word(self) -> &'static str {
        match self {
            LinkKind::NvLink => "NVLink",
            LinkKind::C2c => "C2C",
            LinkKind::Pci => "PCI",
            LinkKind::Memory => "memory",
            LinkKind::Sys => "SYS",
            LinkKind::Port => "network",
        }
    }
}

/// One direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphLink {
    /// Index of the node where data enters.
    pub from: usize,
    /// Index of the node where it leaves.
    pub to: usize,
    /// Its kind.
    pub kind: LinkKind,
    /// Bandwidth of this direction, in megabytes per second.
    pub megabytes_per_s: u32,
    /// Whether nobody has said that bandwidth: it is a usual one, to plan with.
    pub is_guess: bool,
}

/// A machine as a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// Where the description came from.
    pub source: String,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The links: each stands beside its other direction ([`Graph::reverse`]).
    pub links: Vec<GraphLink>,
    /// For every node the links that leave it.
    leaving: Vec<Vec<usize>>,
}

impl Graph {
    /// A graph without nodes.
    pub fn new(source: &str) -> Graph {
        Graph {
            source: source.to_owned(),
            nodes: Vec::new(),
            links: Vec::new(),
            leaving: Vec::new(),
        }
    }

    /// Adds a node and gives its index.
    pub fn add(&mut self, kind: NodeKind, number: u32, name: &str, cpus: CpuSet) -> usize {
        self.nodes.push(Node {
            kind,
            number,
            name: name.to_owned(),
            cpus,
        });
        self.leaving.push(Vec::new());
        self.nodes.len() - 1
    }

    /// Joins two different nodes with so much bandwidth in each direction; links of one kind
    /// between the same nodes add up.
    pub fn join(&mut self, a: usize, b: usize, kind: LinkKind, megabytes_per_s: u32) {
        assert!(a != b, "a link joins two nodes");
        let same = |&&link: &&usize| self.links[link].to == b && self.links[link].kind == kind;
        if let Some(&link) = self.leaving[a].iter().find(same) {
            for half in [link, self.reverse(link)] {
                let link = &mut self.links[half];
                link.megabytes_per_s = link.megabytes_per_s.saturating_add(megabytes_per_s);
            }
            return;
        }
        self.lay(a, b, kind, megabytes_per_s);
    }

    /// Joins two different nodes that no link of this kind joins yet.
    fn lay(&mut self, a: usize, b: usize, kind: LinkKind, megabytes_per_s: u32) {
        for (from, to) in [(a, b), (b, a)] {
            self.leaving[from].push(self.links.len());
            self.links.push(GraphLink {
                from,
                to,
                kind,
                megabytes_per_s,
                is_guess: false,
            });
        }
    }

    /// Says of the links of this kind that end at a node, from number `first` on, that their
    /// bandwidth is not known.
    pub(super) fn doubt(&mut self, first: usize, node: usize, kind: LinkKind) {
        for link in &mut self.links[first..] {
            link.is_guess |= link.kind == kind && (link.from == node || link.to == node);
        }
    }

    /// The other direction of a link.
    pub fn reverse(&self, link: usize) -> usize {
        link ^ 1
    }

    /// The links that leave a node.
    pub fn leaving(&self, node: usize) -> &[usize] {
        &self.leaving[node]
    }

    /// Sets the bandwidth of both directions.
    pub(super) fn set_speed(&mut self, link: usize, megabytes_per_s: u32) {
        for half in [link, self.reverse(link)] {
            self.links[half].megabytes_per_s = megabytes_per_s;
        }
    }

    /// Indices of the nodes of one kind, by ascending number.
    pub fn of_kind(&self, kind: NodeKind) -> Vec<usize> {
        let is_it = |&index: &usize| self.nodes[index].kind == kind;
        let mut found: Vec<usize> = (0..self.nodes.len()).filter(is_it).collect();
        found.sort_by_key(|&index| self.nodes[index].number);
        found
    }

    /// The node of this kind and number.
    pub fn find(&self, kind: NodeKind, number: u32) -> Option<usize> {
        self.nodes
            .iter()
            .position(|node| node.kind == kind && node.number == number)
    }

    /// The node at the other end of the first link of one kind, where there is one.
    pub fn neighbour(&self, node: usize, kind: LinkKind) -> Option<usize> {
        let is_it = |&&link: &&usize| self.links[link].kind == kind;
        let link = self.leaving[node].iter().find(is_it)?;
        Some(self.links[*link].to)
    }

    /// The CPU above a device or a switch: the first link of each leads up.
    pub fn cpu_above(&self, node: usize) -> Option<usize> {
        let mut at = node;
        // A way up passes no node twice.
        for _ in 0..self.nodes.len() {
            if self.nodes[at].kind == NodeKind::Cpu {
                return Some(at);
            }
            at = self.links[*self.leaving[at].first()?].to;
        }
        None
    }

    /// Seats workers (ranks on processors) near their processors and gives their nodes. An empty
    /// set is seated on the least filled CPU. A worker moves what one core moves, or its share of
    /// its NUMA node's memory bandwidth if that is less. Errors: there is no CPU.
    pub fn add_workers(&mut self, seats: &[CpuSet]) -> Result<Vec<usize>> {
        let places = [self.of_kind(NodeKind::Cache), self.of_kind(NodeKind::Cpu)].concat();
        let cpus = self.of_kind(NodeKind::Cpu);
        if cpus.is_empty() {
            return Err(self.no_cpu());
        }
        let mut filled = vec![0_u32; self.nodes.len()];
        let mut workers = Vec::new();
        for (number, seat) in seats.iter().enumerate() {
            let inside = |&&at: &&usize| seat.is_subset(&self.nodes[at].cpus);
            let touches = |&&at: &&usize| seat.intersects(&self.nodes[at].cpus);
            let known = || places.iter().find(inside).or(cpus.iter().find(touches));
            let at = match known() {
                Some(&at) if !seat.is_empty() => at,
                _ => *cpus
                    .iter()
                    .min_by_key(|&&at| filled[at])
                    .unwrap_or(&cpus[0]),
            };
            let worker = self.add(
                NodeKind::Worker,
                number as u32,
                &format!("PUs {seat}"),
                seat.clone(),
            );
            self.join(worker, at, LinkKind::Memory, speed::CORE);
            filled[self.cpu_of(at)] += 1;
            workers.push(worker);
        }
        for &worker in &workers {
            let link = self.leaving[worker][0];
            let crowd = filled[self.cpu_of(self.links[link].to)].max(1);
            self.set_speed(link, speed::CORE.min(speed::NUMA_MEMORY / crowd).max(1));
        }
        Ok(workers)
    }

    /// The CPU to which a cache belongs; a CPU is its own.
    fn cpu_of(&self, at: usize) -> usize {
        match self.nodes[at].kind {
            NodeKind::Cache => self.neighbour(at, LinkKind::Memory).unwrap_or(at),
            _ => at,
        }
    }

    /// Adds a port to the network where none is known: ranks on several nodes talk somehow. The
    /// port hangs on the first CPU. Errors: there is no CPU.
    pub fn assume_net(&mut self) -> Result<()> {
        if !self.of_kind(NodeKind::Net).is_empty() {
            return Ok(());
        }
        let Some(&cpu) = self.of_kind(NodeKind::Cpu).first() else {
            return Err(self.no_cpu());
        };
        let nic = self.add(NodeKind::Nic, 0, "unknown network", CpuSet::new());
        let net = self.add(NodeKind::Net, 0, "unknown network", CpuSet::new());
        for (to, kind) in [(cpu, LinkKind::Pci), (net, LinkKind::Port)] {
            self.join(nic, to, kind, speed::UNKNOWN_NET);
            self.doubt(0, nic, kind);
        }
        Ok(())
    }

    fn no_cpu(&self) -> Error {
        Error::argument(
            format!("{}: the machine has no CPU", self.source),
            "describe at least one CPU in the topology file",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_cpus() -> Graph {
        let mut graph = Graph::new("test");
        for (number, cpus) in [(0, "0-7"), (1, "8-15")] {
            graph.add(NodeKind::Cpu, number, "", CpuSet::parse_list(cpus).unwrap());
        }
        graph.join(0, 1, LinkKind::Sys, 20_000);
        graph
    }

    #[test]
    fn links_stand_beside_their_other_direction_and_add_up() {
        let mut graph = two_cpus();
        graph.join(1, 0, LinkKind::Sys, 5000);
        assert_eq!(graph.links.len(), 2);
        assert_eq!(graph.links[0].megabytes_per_s, 25_000);
        assert_eq!(graph.links[1].megabytes_per_s, 25_000);
        graph.join(0, 1, LinkKind::Pci, 1);
        assert_eq!((graph.links.len(), graph.leaving(1)), (4, &[1, 3][..]));
        for (index, link) in graph.links.iter().enumerate() {
            let back = graph.links[graph.reverse(index)];
            assert_eq!((link.from, link.to), (back.to, back.from));
        }
    }

    #[test]
    fn workers_sit_near_their_processors_and_share_its_memory() {
        let mut graph = two_cpus();
        let seats = ["0", "1", "8-9", "7-8", ""].map(|list| CpuSet::parse_list(list).unwrap());
        let workers = graph.add_workers(&seats).unwrap();
        let at: Vec<usize> = workers
            .iter()
            .map(|&worker| graph.links[graph.leaving(worker)[0]].to)
            .collect();
        assert_eq!(at, [0, 0, 1, 0, 1], "the last has no processors");
        let mut full = two_cpus();
        let seats = vec![CpuSet::single(3); 2 * (speed::NUMA_MEMORY / speed::CORE) as usize];
        let workers = full.add_workers(&seats).unwrap();
        let link = full.leaving(workers[0])[0];
        assert_eq!(full.links[link].megabytes_per_s, speed::CORE / 2);
        assert!(Graph::new("bare").add_workers(&[CpuSet::new()]).is_err());
    }

    #[test]
    fn a_network_is_assumed_only_where_none_is_known() {
        let mut graph = two_cpus();
        graph.assume_net().unwrap();
        graph.assume_net().unwrap();
        assert_eq!(graph.of_kind(NodeKind::Net).len(), 1);
        assert!(Graph::new("bare").assume_net().is_err());
    }
}
