//! Reads a machine from the XML form that GPU communication libraries dump and load:
//! `<system> <cpu> <pci> <gpu> <nvlink/> ... <nic> <net/>`.
//!
//! A `<pci>` with others inside is a switch. One that is a GPU or a NIC by its class needs no facts
//! inside: clouds ship files that give only the tree and its speeds. The attributes are listed in
//! `docs/topology.md`; unknown attributes are passed over. Unknown elements are skipped, and
//! what cannot be true is dropped, each with a warning.

use super::system_links::{self, Pending};
use super::{Graph, LinkKind, MAX_CPU_NODES, MAX_NODES, NodeKind, speed};
use crate::base::Result;
use crate::topo::notes::{Notes, Reader};
use crate::topo::xml_tree::XmlNode;
use crate::topo::{CpuSet, xml};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const REMEDY: &str = "correct the file, or dump it again on that machine; \
                                 docs/topology.md lists the elements";

/// Rate of a port that does not say its own, in megabits per second.
const PORT_RATE: u32 = 10_000;

/// Reads `<system>` from `source` (a file name).
pub(super) fn parse(text: &str, source: &str, notes: &Notes) -> Result<Graph> {
    let document = xml::open(text, source, REMEDY)?;
    let reader = Reader {
        source,
        remedy: REMEDY,
        notes,
    };
    let root = document.root();
    if !root.is("system") {
        return Err(reader.bad(root, "a file of this form begins with <system>"));
    }
    let mut build = Build {
        reader: &reader,
        graph: Graph::new(source),
        buses: BTreeMap::new(),
        links: Pending::default(),
        devs: BTreeSet::new(),
        ports: BTreeSet::new(),
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

/// State of the walk.
struct Build<'a, 'd, 'x> {
    reader: &'a Reader<'a>,
    graph: Graph,
    /// The node of every bus address.
    buses: BTreeMap<String, usize>,
    links: Pending<'d, 'x>,
    /// Device numbers that were given, by kind.
    devs: BTreeSet<(NodeKind, u32)>,
    /// Names and numbers of the ports so far.
    ports: BTreeSet<(String, u32)>,
    /// Nodes of devices that have no number yet.
    unnumbered: Vec<usize>,
    switches: u32,
}

impl<'d, 'x> Build<'_, 'd, 'x> {
    /// The elements directly inside that have one of these names; others are skipped.
    fn parts(&self, node: XmlNode<'d, 'x>, known: &[&str]) -> Result<Vec<XmlNode<'d, 'x>>> {
        let mut parts = Vec::new();
        for part in node.children() {
            if known.contains(&part.name()) {
                parts.push(part);
                continue;
            }
            let outer = node.name();
            let why = format!("kolo does not know this element inside <{outer}>: skipped");
            self.reader.note(part, &why)?;
        }
        Ok(parts)
    }

    fn add(&mut self, at: XmlNode, kind: NodeKind, number: u32, name: &str) -> Result<usize> {
        if self.graph.nodes.len() >= MAX_NODES {
            return Err(self.reader.bad(at, &format!("more than {MAX_NODES} parts")));
        }
        Ok(self.graph.add(kind, number, name, CpuSet::new()))
    }

    fn cpu(&mut self, node: XmlNode<'d, 'x>) -> Result<()> {
        // -1 is what the system says where it has one NUMA node only.
        let number = match node.attribute("numaid") {
            Some("-1") => Some(0),
            _ => self.reader.number(node, "numaid")?,
        };
        let cpus = self.graph.of_kind(NodeKind::Cpu);
        let taken = |&number: &u32| self.graph.find(NodeKind::Cpu, number).is_some();
        // Without a number: one that nobody has had so far.
        let number = match number {
            Some(number) => number,
            None => (cpus.len() as u32..).find(|n| !taken(n)).unwrap_or(0),
        };
        let cpu = match self.graph.find(NodeKind::Cpu, number) {
            Some(known) => {
                let why = format!("CPU {number} is in it twice: taken for the same one");
                self.reader.note(node, &why)?;
                known
            }
            None if cpus.len() >= MAX_CPU_NODES => {
                let why = format!("more than {MAX_CPU_NODES} NUMA nodes");
                return Err(self.reader.bad(node, &why));
            }
            None => self.add(node, NodeKind::Cpu, number, "")?,
        };
        if let Some(mask) = node.attribute("affinity").filter(|mask| !mask.is_empty()) {
            match affinity(mask) {
                Ok(cpus) => self.graph.nodes[cpu].cpus = self.graph.nodes[cpu].cpus.union(&cpus),
                Err(error) => self
                    .reader
                    .note(node, &format!("affinity: {}", error.what))?,
            }
        }
        for part in self.parts(node, &["pci", "nic"])? {
            match part.name() {
                "pci" => self.pci(part, cpu)?,
                _ => self.nic(part, "", cpu, None)?,
            }
        }
        Ok(())
    }

    fn pci(&mut self, node: XmlNode<'d, 'x>, above: usize) -> Result<()> {
        let first = self.graph.links.len();
        self.function(node, above)?;
        if !is_speed_known(node) {
            self.graph.doubt(first, above, LinkKind::Pci);
        }
        Ok(())
    }

    /// A device or a switch.
    fn function(&mut self, node: XmlNode<'d, 'x>, above: usize) -> Result<()> {
        // A device without an address is one all the same, only that no link can lead to it.
        let bus = self.reader.text(node, "busid")?.unwrap_or("");
        let rate = self.pci_rate(node)?;
        let parts = self.parts(node, &["pci", "gpu", "nic", "pcilink"])?;
        let joins = |part: &XmlNode| matches!(part.name(), "pci" | "pcilink");
        let is_switch = parts.iter().any(joins);
        if let Some(&known) = self.buses.get(bus) {
            if !is_switch || self.graph.nodes[known].kind != NodeKind::Pci {
                return self.reader.note(node, "this bus address is in it twice");
            }
            let why = "this bus address is in it twice: taken for the same switch";
            self.reader.note(node, why)?;
            return self.behind(&parts, known, rate);
        }
        let class = node.attribute("class").unwrap_or("");
        let first = parts.first().map(|part| part.name());
        match (first, class.get(..4)) {
            _ if is_switch => {
                let switch = self.add(node, NodeKind::Pci, self.switches, bus)?;
                self.switches += 1;
                self.graph.join(switch, above, LinkKind::Pci, rate);
                self.at(bus, switch);
                return self.behind(&parts, switch, rate);
            }
            (Some("gpu"), _) => self.gpu(parts[0], bus, above, rate)?,
            (Some("nic"), _) => self.nic(parts[0], bus, above, Some(rate))?,
            (_, Some("0x03" | "0x12")) => {
                self.bare(node, NodeKind::Gpu, bus, above, rate)?;
            }
            (_, Some("0x02")) => self.bare_nic(node, bus, above, rate)?,
            // A bridge with nothing behind it joins nothing.
            _ => {}
        }
        match parts.get(1) {
            Some(extra) => self.reader.note(*extra, "one PCI function is one device"),
            None => Ok(()),
        }
    }

    /// Reads what is behind a switch.
    fn behind(&mut self, parts: &[XmlNode<'d, 'x>], switch: usize, rate: u32) -> Result<()> {
        for part in parts {
            match part.name() {
                "pci" => self.pci(*part, switch)?,
                "pcilink" => self.links.pci.push((switch, rate, *part)),
                _ => self
                    .reader
                    .note(*part, "a PCI switch is no device itself")?,
            }
        }
        Ok(())
    }

    /// Remembers what has this bus address.
    fn at(&mut self, bus: &str, node: usize) {
        if !bus.is_empty() {
            self.buses.insert(bus.to_owned(), node);
        }
    }

    /// A device without facts: its class says what it is, its number follows later.
    fn bare(
        &mut self,
        node: XmlNode,
        kind: NodeKind,
        bus: &str,
        above: usize,
        rate: u32,
    ) -> Result<usize> {
        let device = self.add(node, kind, 0, bus)?;
        self.graph.join(device, above, LinkKind::Pci, rate);
        self.at(bus, device);
        self.unnumbered.push(device);
        Ok(device)
    }

    fn bare_nic(&mut self, node: XmlNode, bus: &str, above: usize, rate: u32) -> Result<()> {
        let nic = self.bare(node, NodeKind::Nic, bus, above, rate)?;
        let port = self.add(node, NodeKind::Net, 0, bus)?;
        self.graph.join(nic, port, LinkKind::Port, rate);
        self.graph.doubt(0, port, LinkKind::Port);
        Ok(())
    }

    fn gpu(&mut self, node: XmlNode<'d, 'x>, bus: &str, above: usize, rate: u32) -> Result<()> {
        let gpu = match self.device_number(node, NodeKind::Gpu)? {
            Some(dev) => {
                let gpu = self.add(node, NodeKind::Gpu, dev, bus)?;
                self.graph.join(gpu, above, LinkKind::Pci, rate);
                self.at(bus, gpu);
                gpu
            }
            None => self.bare(node, NodeKind::Gpu, bus, above, rate)?,
        };
        let capability = self.reader.optional_number(node, "sm")?.unwrap_or(80);
        let lane = speed::nvlink(capability);
        let amd = speed::xgmi(node.attribute("gcn").unwrap_or(""));
        for part in self.parts(node, &["nvlink", "xgmi", "c2c"])? {
            match part.name() {
                "nvlink" => self.links.nvlink.push((gpu, lane, part)),
                "xgmi" => self.links.nvlink.push((gpu, amd, part)),
                _ => self.c2c(part, gpu, above)?,
            }
        }
        Ok(())
    }

    fn c2c(&mut self, node: XmlNode, gpu: usize, above: usize) -> Result<()> {
        let count: u32 = self.reader.optional_number(node, "count")?.unwrap_or(1);
        let Some(rate) = self.reader.number::<u32>(node, "bw")? else {
            return Ok(());
        };
        let all = rate.saturating_mul(count);
        if all == 0 {
            return self.reader.note(node, "it has no bandwidth");
        }
        let cpu = system_links::near_cpu(&self.graph, above);
        self.graph.join(gpu, cpu, LinkKind::C2c, all);
        Ok(())
    }

    /// A card with its ports; one that is not on PCI (`rate` is none) is as fast as they are.
    fn nic(
        &mut self,
        node: XmlNode<'d, 'x>,
        bus: &str,
        at: usize,
        rate: Option<u32>,
    ) -> Result<()> {
        let mut ports = Vec::new();
        for port in self.parts(node, &["net"])? {
            let name = port.attribute("name").unwrap_or("");
            let Some(dev) = self.reader.number::<u32>(port, "dev")? else {
                continue;
            };
            if !self.ports.insert((name.to_owned(), dev)) {
                self.reader
                    .note(port, &format!("NET {dev} is in it twice"))?;
                continue;
            }
            let megabits = self.reader.optional_number(port, "speed")?;
            let rate = speed::port(megabits.unwrap_or(PORT_RATE));
            ports.push((port, dev, name, (rate, megabits.is_some())));
        }
        if ports.is_empty() {
            // On PCI it is a NIC of which nothing is known.
            self.reader
                .note(node, "there is no <net> in it that counts")?;
            return rate.map_or(Ok(()), |rate| self.bare_nic(node, bus, at, rate));
        }
        let all = ports
            .iter()
            .fold(0_u32, |sum, (_, _, _, rate)| sum.saturating_add(rate.0));
        let nic = self.add(node, NodeKind::Nic, ports[0].1, bus)?;
        self.graph.join(nic, at, LinkKind::Pci, rate.unwrap_or(all));
        if rate.is_none() && ports.iter().any(|(_, _, _, rate)| !rate.1) {
            self.graph.doubt(0, nic, LinkKind::Pci);
        }
        self.at(bus, nic);
        for (port, dev, name, (rate, is_known)) in ports {
            let number = self.free_number(port, NodeKind::Net, dev)?;
            let net = self.add(port, NodeKind::Net, number, name)?;
            self.graph.join(nic, net, LinkKind::Port, rate);
            if !is_known {
                self.graph.doubt(0, net, LinkKind::Port);
            }
        }
        Ok(())
    }

    /// Attribute `dev`, which may be there once for each kind; none where it does not say.
    fn device_number(&mut self, node: XmlNode, kind: NodeKind) -> Result<Option<u32>> {
        let Some(dev) = self.reader.number(node, "dev")? else {
            return Ok(None);
        };
        if self.devs.insert((kind, dev)) {
            return Ok(Some(dev));
        }
        let why = format!(
            "{} {dev} is in it twice: it gets another number",
            kind.word()
        );
        self.reader.note(node, &why)?;
        Ok(None)
    }

    /// `dev`, or where another one has it the first number that nobody has so far.
    fn free_number(&mut self, node: XmlNode, kind: NodeKind, dev: u32) -> Result<u32> {
        if self.devs.insert((kind, dev)) {
            return Ok(dev);
        }
        let why = format!(
            "{} {dev} is in it twice: it gets another number",
            kind.word()
        );
        self.reader.note(node, &why)?;
        let mut free = (0..).filter(|&number| !self.devs.contains(&(kind, number)));
        let number = free.next().unwrap_or(0);
        self.devs.insert((kind, number));
        Ok(number)
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
    fn pci_rate(&self, node: XmlNode) -> Result<u32> {
        let width = match node.attribute("link_width") {
            None | Some("" | "0" | "255") => None,
            Some(_) => self.reader.optional_number::<u32>(node, "link_width")?,
        };
        let lanes = match width {
            Some(lanes @ 1..=64) => lanes,
            Some(_) => {
                let why = "link_width is not 1 to 64 lanes: taken for 16";
                self.reader.note(node, why)?;
                16
            }
            None => 16,
        };
        let text = node.attribute("link_speed").unwrap_or("").trim();
        if text.is_empty() || text.to_ascii_lowercase().starts_with("unknown") {
            return Ok(speed::pci(8_000, lanes));
        }
        let number: Option<f64> = text.split_whitespace().next().and_then(|w| w.parse().ok());
        match number.filter(|rate| (0.1..1000.).contains(rate)) {
            Some(rate) => Ok(speed::pci((rate * 1000.).round() as u32, lanes)),
            None => {
                let why = format!("link_speed={text:?} is not like `16.0 GT/s`: taken for 8");
                self.reader.note(node, &why)?;
                Ok(speed::pci(8_000, lanes))
            }
        }
    }
}

/// Whether a `<pci>` says its width and its speed: virtual machines often do not.
fn is_speed_known(node: XmlNode) -> bool {
    let width = node.attribute("link_width").unwrap_or("");
    let speed = node.attribute("link_speed").unwrap_or("").trim();
    let first = speed.split_whitespace().next().unwrap_or("");
    !matches!(width, "" | "0" | "255") && first.parse::<f64>().is_ok()
}

/// Words of a mask in hexadecimal, separated by commas, as the system writes them.
fn affinity(mask: &str) -> Result<CpuSet> {
    let words: Vec<String> = mask
        .split(',')
        .map(|word| format!("0x{}", word.trim()))
        .collect();
    CpuSet::parse_mask(&words.join(","))
}

fn join_cpus(graph: &mut Graph, root: XmlNode) {
    let first = root.children().find(|node| node.is("cpu"));
    let text = |name| first.and_then(|cpu| cpu.attribute(name)).unwrap_or("");
    let rate = speed::between_packages(text("arch"), text("vendor"));
    let cpus = graph.of_kind(NodeKind::Cpu);
    for (index, &a) in cpus.iter().enumerate() {
        for &b in &cpus[index + 1..] {
            graph.lay(a, b, LinkKind::Sys, rate);
        }
    }
}
