//! Reads a machine from the XML form that GPU communication libraries dump and load:
//! `<system> <cpu> <pci> <gpu> <nvlink/> ... <nic> <net/>`.
//!
//! A `<pci>` with others inside is a switch. One that is a GPU or a NIC by its class needs no facts
//! inside: clouds ship files that give only the tree and its speeds. The attributes are listed in
//! `docs/topology.md`; unknown attributes are passed over, unknown elements are refused, as what
//! they say would be missing from the graph. Every error names the file, the line and the element.

use super::system_links::{self, Pending};
use super::{Graph, LinkKind, MAX_NODES, NodeKind, speed};
use crate::base::Result;
use crate::topo::CpuSet;
use crate::topo::xml::{self, Reader};
use roxmltree::Node;
use std::collections::{BTreeMap, BTreeSet};

pub(super) const REMEDY: &str = "correct the file, or dump it again on that machine; \
                                 docs/topology.md lists the elements";

/// Rate of a port that does not say its own, in megabits per second.
const PORT_RATE: u32 = 10_000;

/// Reads `<system>` from `source` (a file name).
pub(super) fn parse(text: &str, source: &str) -> Result<Graph> {
    let document = xml::open(text, source, REMEDY)?;
    let reader = Reader {
        document: &document,
        source,
        remedy: REMEDY,
    };
    let root = document.root_element();
    if !root.has_tag_name("system") {
        return Err(reader.bad(root, "a file of this form begins with <system>"));
    }
    let mut build = Build {
        reader: &reader,
        graph: Graph::new(source),
        buses: BTreeMap::new(),
        inside: Vec::new(),
        links: Pending::default(),
        devs: BTreeSet::new(),
        unnumbered: Vec::new(),
        switches: 0,
    };
    for cpu in build.parts(root, &["cpu"])? {
        build.cpu(cpu)?;
    }
    if build.graph.nodes.is_empty() {
        return Err(reader.bad(root, "there is no <cpu> in it"));
    }
    build.number_the_rest();
    let Build {
        mut graph,
        buses,
        links,
        ..
    } = build;
    join_cpus(&mut graph, root);
    system_links::join(&reader, &mut graph, &buses, links)?;
    Ok(graph)
}

/// What the walk knows.
struct Build<'a, 'd, 'i> {
    reader: &'a Reader<'d, 'i>,
    graph: Graph,
    /// The node of every bus address.
    buses: BTreeMap<String, usize>,
    /// Bus addresses of the elements around the current one.
    inside: Vec<String>,
    links: Pending<'d, 'i>,
    /// Device numbers that were given, by kind.
    devs: BTreeSet<(NodeKind, u32)>,
    /// Nodes of devices that have no number yet.
    unnumbered: Vec<usize>,
    switches: u32,
}

impl<'a, 'd, 'i> Build<'a, 'd, 'i>
where
    'a: 'd,
{
    /// The elements directly inside; others than the named ones are refused.
    fn parts(&self, node: Node<'d, 'i>, known: &[&str]) -> Result<Vec<Node<'d, 'i>>> {
        let elements: Vec<Node> = node.children().filter(Node::is_element).collect();
        for part in &elements {
            let name = part.tag_name().name();
            if !known.contains(&name) {
                let outer = node.tag_name().name();
                let why = format!("kolo does not know this element inside <{outer}>");
                return Err(self.reader.bad(*part, &why));
            }
        }
        Ok(elements)
    }

    fn add(&mut self, at: Node, kind: NodeKind, number: u32, name: &str) -> Result<usize> {
        if self.graph.nodes.len() >= MAX_NODES {
            return Err(self.reader.bad(at, &format!("more than {MAX_NODES} parts")));
        }
        Ok(self.graph.add(kind, number, name, CpuSet::new()))
    }

    fn cpu(&mut self, node: Node<'d, 'i>) -> Result<()> {
        // -1 is what the system says where it has one NUMA node only.
        let number = match self.reader.text(node, "numaid")? {
            "-1" => 0,
            _ => self.reader.number(node, "numaid")?,
        };
        if self.graph.find(NodeKind::Cpu, number).is_some() {
            return Err(self
                .reader
                .bad(node, &format!("CPU {number} is in it twice")));
        }
        let cpu = self.add(node, NodeKind::Cpu, number, "")?;
        if let Some(mask) = node.attribute("affinity").filter(|mask| !mask.is_empty()) {
            self.graph.nodes[cpu].cpus = affinity(mask)
                .map_err(|error| self.reader.bad(node, &format!("affinity: {}", error.what)))?;
        }
        for part in self.parts(node, &["pci", "nic"])? {
            match part.tag_name().name() {
                "pci" => self.pci(part, cpu)?,
                _ => self.nic(part, "", cpu, None)?,
            }
        }
        Ok(())
    }

    fn pci(&mut self, node: Node<'d, 'i>, above: usize) -> Result<()> {
        let bus = self.reader.text(node, "busid")?.to_owned();
        let rate = self.pci_rate(node)?;
        if self.inside.contains(&bus) {
            return Err(self
                .reader
                .bad(node, "it stands inside itself: a tree has no cycle"));
        }
        if self.buses.contains_key(&bus) {
            return Err(self.reader.bad(node, "this bus address is in it twice"));
        }
        let parts = self.parts(node, &["pci", "gpu", "nic", "pcilink"])?;
        let class = node.attribute("class").unwrap_or("");
        let first = parts.first().map(|part| part.tag_name().name());
        match (first, class.get(..4)) {
            (Some("gpu"), _) => self.gpu(parts[0], &bus, above, rate)?,
            (Some("nic"), _) => self.nic(parts[0], &bus, above, Some(rate))?,
            (None, Some("0x03" | "0x12")) => {
                self.bare(node, NodeKind::Gpu, &bus, above, rate)?;
            }
            (None, Some("0x02")) => {
                let nic = self.bare(node, NodeKind::Nic, &bus, above, rate)?;
                let port = self.add(node, NodeKind::Net, 0, &bus)?;
                self.graph.join(nic, port, LinkKind::Port, rate);
            }
            // A bridge with nothing behind it joins nothing.
            (None, _) => {}
            (Some(_), _) => return self.switch(node, &parts, &bus, above, rate),
        }
        match parts.get(1) {
            Some(extra) => Err(self.reader.bad(*extra, "one PCI function is one device")),
            None => Ok(()),
        }
    }

    fn switch(
        &mut self,
        node: Node<'d, 'i>,
        parts: &[Node<'d, 'i>],
        bus: &str,
        above: usize,
        rate: u32,
    ) -> Result<()> {
        let switch = self.add(node, NodeKind::Pci, self.switches, bus)?;
        self.switches += 1;
        self.graph.join(switch, above, LinkKind::Pci, rate);
        self.buses.insert(bus.to_owned(), switch);
        self.inside.push(bus.to_owned());
        for part in parts {
            match part.tag_name().name() {
                "pci" => self.pci(*part, switch)?,
                "pcilink" => self.links.pci.push((switch, rate, *part)),
                _ => return Err(self.reader.bad(*part, "a PCI switch is no device itself")),
            }
        }
        self.inside.pop();
        Ok(())
    }

    /// A device without facts: its class says what it is, its number follows later.
    fn bare(
        &mut self,
        node: Node,
        kind: NodeKind,
        bus: &str,
        above: usize,
        rate: u32,
    ) -> Result<usize> {
        let device = self.add(node, kind, 0, bus)?;
        self.graph.join(device, above, LinkKind::Pci, rate);
        self.buses.insert(bus.to_owned(), device);
        self.unnumbered.push(device);
        Ok(device)
    }

    fn gpu(&mut self, node: Node<'d, 'i>, bus: &str, above: usize, rate: u32) -> Result<()> {
        let dev = self.device_number(node, NodeKind::Gpu)?;
        let gpu = self.add(node, NodeKind::Gpu, dev, bus)?;
        self.graph.join(gpu, above, LinkKind::Pci, rate);
        self.buses.insert(bus.to_owned(), gpu);
        let capability = self.reader.optional_number(node, "sm")?.unwrap_or(80);
        let lane = speed::nvlink(capability);
        for part in self.parts(node, &["nvlink", "c2c"])? {
            match part.tag_name().name() {
                "nvlink" => self.links.nvlink.push((gpu, lane, part)),
                _ => {
                    let count: u32 = self.reader.optional_number(part, "count")?.unwrap_or(1);
                    let rate: u32 = self.reader.number(part, "bw")?;
                    let all = rate.saturating_mul(count);
                    if all == 0 {
                        return Err(self.reader.bad(part, "it has no bandwidth"));
                    }
                    let cpu = self.cpu_above(above);
                    self.graph.join(gpu, cpu, LinkKind::C2c, all);
                }
            }
        }
        Ok(())
    }

    fn cpu_above(&self, mut at: usize) -> usize {
        while self.graph.nodes[at].kind != NodeKind::Cpu {
            // The first link of a switch is its uplink.
            at = self.graph.links[self.graph.leaving(at)[0]].to;
        }
        at
    }

    /// A card with its ports; one that is not on PCI (`rate` is none) is as fast as they are.
    fn nic(&mut self, node: Node<'d, 'i>, bus: &str, at: usize, rate: Option<u32>) -> Result<()> {
        let ports = self.parts(node, &["net"])?;
        if ports.is_empty() {
            return Err(self.reader.bad(node, "there is no <net> in it"));
        }
        let mut rates = Vec::new();
        for port in &ports {
            let dev = self.device_number(*port, NodeKind::Net)?;
            let megabits = self.reader.optional_number(*port, "speed")?;
            rates.push((dev, speed::port(megabits.unwrap_or(PORT_RATE))));
        }
        let all = rates
            .iter()
            .fold(0_u32, |sum, (_, rate)| sum.saturating_add(*rate));
        let nic = self.add(node, NodeKind::Nic, rates[0].0, bus)?;
        self.graph.join(nic, at, LinkKind::Pci, rate.unwrap_or(all));
        if !bus.is_empty() {
            self.buses.insert(bus.to_owned(), nic);
        }
        for (port, (dev, rate)) in ports.iter().zip(rates) {
            let name = port.attribute("name").unwrap_or("");
            let net = self.add(*port, NodeKind::Net, dev, name)?;
            self.graph.join(nic, net, LinkKind::Port, rate);
        }
        Ok(())
    }

    /// Attribute `dev`, which may be there once for each kind.
    fn device_number(&mut self, node: Node, kind: NodeKind) -> Result<u32> {
        let dev = self.reader.number(node, "dev")?;
        if self.devs.insert((kind, dev)) {
            return Ok(dev);
        }
        let why = format!("{} {dev} is in it twice", kind.word());
        Err(self.reader.bad(node, &why))
    }

    /// Devices without facts get the numbers that nobody has, in the order of the file.
    fn number_the_rest(&mut self) {
        for &device in &self.unnumbered {
            let kind = match self.graph.nodes[device].kind {
                NodeKind::Nic => NodeKind::Net,
                kind => kind,
            };
            let mut free = (0..).filter(|&number| !self.devs.contains(&(kind, number)));
            let number = free.next().unwrap_or(0);
            self.devs.insert((kind, number));
            self.graph.nodes[device].number = number;
            if let Some(port) = self.graph.neighbour(device, LinkKind::Port) {
                self.graph.nodes[port].number = number;
            }
        }
    }

    /// `link_speed="16.0 GT/s PCIe" link_width="16"`; both may be unknown, as in virtual machines.
    fn pci_rate(&self, node: Node) -> Result<u32> {
        let width: u32 = match node.attribute("link_width") {
            None | Some("" | "0" | "255") => return self.pci_rate_of(node, 16),
            Some(_) => self.reader.number(node, "link_width")?,
        };
        if width > 64 {
            return Err(self.reader.bad(node, "link_width is not 1 to 64 lanes"));
        }
        self.pci_rate_of(node, width)
    }

    fn pci_rate_of(&self, node: Node, lanes: u32) -> Result<u32> {
        let text = node.attribute("link_speed").unwrap_or("").trim();
        if text.is_empty() || text.to_ascii_lowercase().starts_with("unknown") {
            return Ok(speed::pci(8_000, lanes));
        }
        let number: Option<f64> = text.split_whitespace().next().and_then(|w| w.parse().ok());
        match number.filter(|rate| (0.1..1000.).contains(rate)) {
            Some(rate) => Ok(speed::pci((rate * 1000.).round() as u32, lanes)),
            None => {
                let why = format!("link_speed={text:?} is not like `16.0 GT/s`");
                Err(self.reader.bad(node, &why))
            }
        }
    }
}

/// Words of a mask in hexadecimal, separated by commas, as the system writes them.
fn affinity(mask: &str) -> Result<CpuSet> {
    let words: Vec<String> = mask
        .split(',')
        .map(|word| format!("0x{}", word.trim()))
        .collect();
    CpuSet::parse_mask(&words.join(","))
}

fn join_cpus(graph: &mut Graph, root: Node) {
    let first = root.children().find(|node| node.has_tag_name("cpu"));
    let text = |name| first.and_then(|cpu| cpu.attribute(name)).unwrap_or("");
    let rate = speed::between_packages(text("arch"), text("vendor"));
    let cpus = graph.of_kind(NodeKind::Cpu);
    for (index, &a) in cpus.iter().enumerate() {
        for &b in &cpus[index + 1..] {
            graph.join(a, b, LinkKind::Sys, rate);
        }
    }
}
