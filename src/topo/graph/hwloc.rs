//! From the hardware that hwloc describes to a graph.
//!
//! Every NUMA node with processors is a CPU. Bridges that join only one GPU or NIC to the machine
//! are wires; a bridge with several behind it is a switch whose uplink they share.

use super::speed;
use super::{Graph, LinkKind, MAX_CPU_NODES, MAX_NODES, NodeKind};
use crate::base::pci_bus::canonical;
use crate::base::{Error, Result};
use crate::topo::CpuSet;
use crate::topo::hardware::{Device, DeviceClass, Machine, NumaNode, NvLink};
use std::collections::BTreeMap;

/// Rate of the network device with this name, in megabits per second, where it is known: hwloc does
/// not tell.
pub type PortRate<'a> = &'a dyn Fn(&str) -> Option<u32>;

/// The graph of a machine, without workers. A NIC whose rate is unknown counts as fast as its
/// PCI link. Errors: more than [`MAX_NODES`] NUMA nodes, caches and devices.
pub fn graph_of(machine: &Machine, port_rate: PortRate) -> Result<Graph> {
    let mut graph = Graph::new(&machine.source);
    let parts = machine.numa.len() + machine.cores.len() + machine.devices.len();
    if parts > MAX_NODES * 4 {
        let what = format!("{}: it has {parts} parts", machine.source);
        return Err(Error::argument(what, "describe one machine, not a cluster"));
    }
    cpus(machine, &mut graph);
    if graph.nodes.len() > MAX_CPU_NODES {
        let what = format!(
            "{}: it has more than {MAX_CPU_NODES} NUMA nodes",
            machine.source
        );
        return Err(Error::argument(what, "describe one machine, not a cluster"));
    }
    join_cpus(machine, &mut graph);
    caches(machine, &mut graph);
    let cards = cards(machine);
    let places = switches(&cards, machine, &mut graph);
    for (card, &place) in cards.iter().zip(&places) {
        card.add_to(&mut graph, place, port_rate);
    }
    join_nvlinks(&mut graph, &machine.nvlinks);
    Ok(graph)
}

/// Joins GPUs by NVLinks. What is at an end and is no GPU is a switch.
pub(in crate::topo) fn join_nvlinks(graph: &mut Graph, links: &[NvLink]) {
    for link in links {
        let [a, b] = [&link.ends[0], &link.ends[1]].map(|bus| {
            let bus = canonical(bus);
            let is_gpu = |&index: &usize| canonical(&graph.nodes[index].name) == bus;
            graph.of_kind(NodeKind::Gpu).into_iter().find(is_gpu)
        });
        let rate = u32::try_from(link.megabytes_per_s / 5 * 4).unwrap_or(u32::MAX);
        match (a, b) {
            (Some(a), Some(b)) if a != b => graph.join(a, b, LinkKind::NvLink, rate),
            (Some(gpu), None) | (None, Some(gpu)) => {
                let switch = graph
                    .find(NodeKind::NvSwitch, 0)
                    .unwrap_or_else(|| graph.add(NodeKind::NvSwitch, 0, "", CpuSet::new()));
                graph.join(gpu, switch, LinkKind::NvLink, rate);
            }
            // Switches among each other are one switch here.
            _ => {}
        }
    }
}

fn cpus(machine: &Machine, graph: &mut Graph) {
    let with_cpus = |node: &&NumaNode| !node.cpus.is_empty();
    let ordinary = |node: &&NumaNode| node.subtype.is_none();
    let mut nodes: Vec<&NumaNode> = machine.numa.iter().filter(with_cpus).collect();
    if nodes.iter().any(ordinary) {
        nodes.retain(ordinary);
    }
    for node in nodes {
        graph.add(NodeKind::Cpu, node.os_index, "", node.cpus.clone());
    }
    if graph.nodes.is_empty() {
        graph.add(NodeKind::Cpu, 0, "", machine.cpus().clone());
    }
}

fn join_cpus(machine: &Machine, graph: &mut Graph) {
    let package = |cpus: &CpuSet| machine.packages().position(|p| cpus.is_subset(&p.cpus));
    let model = machine.packages().find_map(|p| p.name.clone());
    let apart = speed::between_packages(
        machine.arch.as_deref().unwrap_or(""),
        &model.unwrap_or_default(),
    );
    let places: Vec<Option<usize>> = graph.nodes.iter().map(|n| package(&n.cpus)).collect();
    for (a, one) in places.iter().enumerate() {
        for (b, other) in places.iter().enumerate().skip(a + 1) {
            let together = one.is_some() && one == other;
            let rate = if together { speed::SAME_PACKAGE } else { apart };
            graph.lay(a, b, LinkKind::Sys, rate);
        }
    }
}

/// Last-level caches, where a NUMA node has several.
fn caches(machine: &Machine, graph: &mut Graph) {
    let mut number = 0;
    for cpu in 0..graph.nodes.len() {
        let inside = |cache: &&crate::topo::Object| {
            cache.cpus.is_subset(&graph.nodes[cpu].cpus) && !cache.cpus.is_empty()
        };
        let sets: Vec<CpuSet> = machine
            .caches(3)
            .filter(inside)
            .map(|c| c.cpus.clone())
            .collect();
        if sets.len() < 2 {
            continue;
        }
        for set in sets {
            let cache = graph.add(NodeKind::Cache, number, "", set);
            graph.join(cache, cpu, LinkKind::Memory, speed::CACHE);
            number += 1;
        }
    }
}

/// A PCI function that matters here.
struct PciCard<'a> {
    function: &'a Device,
    /// The network device that it is, if it is none it is a GPU.
    net: Option<&'a str>,
    number: u32,
}

impl PciCard<'_> {
    fn rate(&self) -> u32 {
        match self.function.link_megabytes_per_s {
            Some(rate) => speed::pci_from_rate(rate),
            None => speed::UNKNOWN_PCI,
        }
    }

    fn bus(&self) -> &str {
        self.function.bus_id.as_deref().unwrap_or("")
    }

    fn add_to(&self, graph: &mut Graph, place: usize, port_rate: PortRate) {
        let near = self.function.cpus.clone();
        let Some(net) = self.net else {
            let gpu = graph.add(NodeKind::Gpu, self.number, self.bus(), near);
            self.join_to(graph, gpu, place);
            return;
        };
        let nic = graph.add(NodeKind::Nic, self.number, self.bus(), near.clone());
        self.join_to(graph, nic, place);
        let port = graph.add(NodeKind::Net, self.number, net, near);
        let known = port_rate(net).map(speed::port);
        graph.join(nic, port, LinkKind::Port, known.unwrap_or(self.rate()));
        if known.is_none() {
            graph.doubt(0, port, LinkKind::Port);
        }
    }

    fn join_to(&self, graph: &mut Graph, device: usize, place: usize) {
        graph.join(device, place, LinkKind::Pci, self.rate());
        if self.function.link_megabytes_per_s.is_none() {
            graph.doubt(0, device, LinkKind::Pci);
        }
    }
}

fn cards(machine: &Machine) -> Vec<PciCard<'_>> {
    let mut cards = Vec::new();
    let (mut gpus, mut nets) = (0, 0);
    for (index, function) in machine.devices.iter().enumerate() {
        if function.is_os_device || function.bus_id.is_none() {
            continue;
        }
        let after = machine.devices[index + 1..].iter();
        let views: Vec<&Device> = after
            .take_while(|view| view.is_os_device && view.bus_id == function.bus_id)
            .collect();
        let named = |class| views.iter().find(|view| view.class == class);
        let net = named(DeviceClass::OpenFabrics).or_else(|| named(DeviceClass::Network));
        if let Some(net) = net {
            cards.push(PciCard {
                function,
                net: Some(&net.name),
                number: nets,
            });
            nets += 1;
        } else if computes(function, &views) {
            cards.push(PciCard {
                function,
                net: None,
                number: gpus,
            });
            gpus += 1;
        }
    }
    cards
}

/// Whether a function is a GPU for computing: a library says so, or its class and maker do. The
/// display chip of a server's management controller is none.
fn computes(function: &Device, views: &[&Device]) -> bool {
    const MAKERS: [u16; 2] = [0x10de, 0x1002];
    let by_library = |view: &&&Device| {
        view.class == DeviceClass::CoProcessor
            || matches!(view.subtype.as_deref(), Some("NVML" | "RSMI" | "LevelZero"))
    };
    views.iter().any(|view| by_library(&view))
        || function.pci.is_some_and(|pci| {
            matches!(pci.class, 0x0300 | 0x0302 | 0x0380 | 0x1200) && MAKERS.contains(&pci.vendor)
        })
}

/// Makes the switches and says for each card at which node its link ends.
fn switches(cards: &[PciCard], machine: &Machine, graph: &mut Graph) -> Vec<usize> {
    // A bridge is known by the ranges of buses from the host bridge down to it.
    let mut behind: BTreeMap<&[String], Vec<usize>> = BTreeMap::new();
    for (index, card) in cards.iter().enumerate() {
        let bridges = &card.function.bridges;
        for depth in 2..=bridges.len() {
            behind.entry(&bridges[..depth]).or_default().push(index);
        }
    }
    // Of a chain of bridges with the same cards behind them the last one stands for all.
    let innermost = |path: &[String], set: &Vec<usize>| {
        set.len() > 1
            && !behind
                .iter()
                .any(|(other, cards)| other.len() > path.len() && cards == set)
    };
    let mut made: BTreeMap<&[String], usize> = BTreeMap::new();
    let shared = behind.iter().filter(|(path, set)| innermost(path, set));
    for (number, (path, set)) in (0..).zip(shared) {
        let parent = (2..path.len())
            .rev()
            .find_map(|depth| made.get(&path[..depth]));
        let first = &cards[set[0]];
        let above = parent
            .copied()
            .unwrap_or_else(|| home(first, machine, graph));
        let name = path[path.len() - 1].clone();
        let switch = graph.add(NodeKind::Pci, number, &name, first.function.cpus.clone());
        // hwloc does not give the uplink's width: as fast as the fastest card behind it.
        let rate = set.iter().map(|&card| cards[card].rate()).max();
        graph.join(
            switch,
            above,
            LinkKind::Pci,
            rate.unwrap_or(speed::UNKNOWN_PCI),
        );
        let is_known = |&card: &usize| cards[card].function.link_megabytes_per_s.is_some();
        if !set.iter().any(is_known) {
            let last = graph.links.len() - 2;
            graph.doubt(last, switch, LinkKind::Pci);
        }
        made.insert(path, switch);
    }
    let place = |card: &PciCard| {
        let bridges = &card.function.bridges;
        let inner = (2..=bridges.len())
            .rev()
            .find_map(|d| made.get(&bridges[..d]));
        inner.copied().unwrap_or_else(|| home(card, machine, graph))
    };
    cards.iter().map(place).collect()
}

/// The CPU at whose root a card hangs.
fn home(card: &PciCard, machine: &Machine, graph: &Graph) -> usize {
    let near = &card.function.cpus;
    let cpus = graph.of_kind(NodeKind::Cpu);
    let numa = card.function.numa;
    let by_number = cpus
        .iter()
        .find(|&&cpu| Some(graph.nodes[cpu].number) == numa);
    let touching = || {
        cpus.iter()
            .find(|&&cpu| graph.nodes[cpu].cpus.intersects(near))
    };
    let everywhere = near.is_empty() || near == machine.cpus();
    let found = match by_number {
        Some(cpu) => Some(cpu),
        None if everywhere => None,
        None => touching(),
    };
    found.copied().unwrap_or(cpus[0])
}
