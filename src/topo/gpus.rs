//! GPUs as a driver numbers them, in the picture of the machine.
//!
//! **Problem.** hwloc and topology files number GPUs as they come; a program names one by the
//! number that CUDA's driver gives it, and may see a part of them. Each side knows something else:
//! hwloc the bridges above a GPU, the driver its number, NVML its links.
//!
//! **Idea.** The address on the PCI bus is the key. What the driver has gets the driver's numbers,
//! what the picture lacks is added to it, and the picture's own facts stay. Where two sides
//! contradict each other, a sentence says so.

use super::graph::{Description, Graph, LinkKind, NodeKind, join_nvlinks, speed};
use super::{CpuSet, NvLink};
use crate::base::pci_bus::canonical;
use std::collections::BTreeSet;

/// The makers' number of NVIDIA on the PCI bus.
const NVIDIA: u16 = 0x10de;

/// A GPU of the driver's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuPlace {
    /// The driver's number.
    pub number: u32,
    /// Where it is plugged in.
    pub pci: String,
    /// The NUMA node near it, where that is known.
    pub numa: Option<u32>,
}

/// Brings the driver's GPUs and their links into the picture, and says what contradicts it, a
/// line each. `are_all`: nobody hides a part of the GPUs from this process.
pub fn add_gpus(
    picture: &mut Description,
    gpus: &[GpuPlace],
    are_all: bool,
    links: Option<&[NvLink]>,
) -> Vec<String> {
    let mut said = Vec::new();
    let known = picture.graph.of_kind(NodeKind::Gpu);
    let listed: Vec<Option<usize>> = gpus.iter().map(|gpu| gpu_at(picture, &gpu.pci)).collect();
    let others: Vec<usize> = known
        .into_iter()
        .filter(|&node| !listed.contains(&Some(node)))
        .collect();
    if are_all {
        said.extend(unseen(picture, &others));
    }
    // What this process does not see stands behind what it sees.
    for (&node, number) in others.iter().zip(gpus.len() as u32..) {
        picture.graph.nodes[node].number = number;
    }
    let mut added = Vec::new();
    for (gpu, node) in gpus.iter().zip(&listed) {
        match node {
            Some(node) => {
                picture.graph.nodes[*node].number = gpu.number;
                said.extend(elsewhere(picture, gpu, *node));
            }
            None => {
                add_gpu(picture, gpu);
                added.push(format!("{} ({})", gpu.number, gpu.pci));
            }
        }
    }
    if !added.is_empty() {
        said.push(format!(
            "{} lists no GPU where the driver has device {}: which bridges are above is \
             unknown",
            picture.graph.source,
            added.join(", ")
        ));
    }
    said.extend(links.and_then(|links| add_links(picture, links)));
    said
}

fn gpu_at(picture: &Description, pci: &str) -> Option<usize> {
    let wanted = canonical(pci);
    let gpus = picture.graph.of_kind(NodeKind::Gpu).into_iter();
    let mut gpus = gpus.filter(|&node| canonical(&picture.graph.nodes[node].name) == wanted);
    gpus.next()
}

/// GPUs that the driver does not have, though it may be theirs.
fn unseen(picture: &Description, nodes: &[usize]) -> Option<String> {
    let name = |&node: &usize| picture.graph.nodes[node].name.as_str();
    let is_of_others = |pci: &str| {
        let devices = picture.machine.iter().flat_map(|machine| &machine.devices);
        let mut makers = devices
            .filter(|device| device.bus_id.as_deref() == Some(pci))
            .filter_map(|device| device.pci);
        makers.any(|pci| pci.vendor != NVIDIA)
    };
    let names: Vec<&str> = nodes.iter().map(name).collect();
    let names: Vec<&str> = names.into_iter().filter(|pci| !is_of_others(pci)).collect();
    (!names.is_empty()).then(|| {
        format!(
            "{} lists GPUs that the driver does not have: {}",
            picture.graph.source,
            names.join(", ")
        )
    })
}

/// Whether driver and picture have it at different NUMA nodes.
fn elsewhere(picture: &Description, gpu: &GpuPlace, node: usize) -> Option<String> {
    let cpu = picture.graph.cpu_above(node)?;
    let here = picture.graph.nodes[cpu].number;
    let told = gpu.numa.filter(|&told| told != here)?;
    // A number that the picture does not have is that of memory without processors.
    picture.graph.find(NodeKind::Cpu, told)?;
    Some(format!(
        "device {} ({}) is at NUMA node {here} for {} and at {told} for the driver",
        gpu.number, gpu.pci, picture.graph.source
    ))
}

fn add_gpu(picture: &mut Description, gpu: &GpuPlace) {
    let graph = &mut picture.graph;
    let told = gpu.numa.and_then(|numa| graph.find(NodeKind::Cpu, numa));
    let near = told.map_or(CpuSet::new(), |cpu| graph.nodes[cpu].cpus.clone());
    let first = graph.of_kind(NodeKind::Cpu).first().copied();
    let node = graph.add(NodeKind::Gpu, gpu.number, &canonical(&gpu.pci), near);
    if let Some(cpu) = told.or(first) {
        graph.join(node, cpu, LinkKind::Pci, speed::UNKNOWN_PCI);
        graph.doubt(0, node, LinkKind::Pci);
    }
}

/// Adds the links, or compares them where the picture has some.
fn add_links(picture: &mut Description, links: &[NvLink]) -> Option<String> {
    let links: Vec<NvLink> = links
        .iter()
        .map(|link| NvLink {
            ends: link.ends.clone().map(|end| canonical(&end)),
            ..link.clone()
        })
        .filter(|link| link.ends.iter().any(|end| gpu_at(picture, end).is_some()))
        .collect();
    let before = joined(&picture.graph);
    if before.is_empty() {
        join_nvlinks(&mut picture.graph, &links);
        return None;
    }
    let mut bare = Graph::new("");
    for node in picture.graph.of_kind(NodeKind::Gpu) {
        let gpu = &picture.graph.nodes[node];
        bare.add(NodeKind::Gpu, gpu.number, &gpu.name, CpuSet::new());
    }
    join_nvlinks(&mut bare, &links);
    let after = joined(&bare);
    let shown = |pairs: Vec<&(String, String)>| {
        let pairs: Vec<String> = pairs.iter().map(|(a, b)| format!("{a}-{b}")).collect();
        pairs.join(", ")
    };
    let missing = shown(before.difference(&after).collect());
    let more = shown(after.difference(&before).collect());
    let source = &picture.graph.source;
    match (missing.is_empty(), more.is_empty()) {
        (true, true) => None,
        (false, true) => Some(format!("{source} has NVLinks that NVML has not: {missing}")),
        (true, false) => Some(format!("NVML has NVLinks that {source} has not: {more}")),
        (false, false) => Some(format!(
            "{source} has NVLinks {missing}, and NVML has {more} in their place"
        )),
    }
}

/// Pairs of devices that NVLinks join, each once.
fn joined(graph: &Graph) -> BTreeSet<(String, String)> {
    let links = graph.links.iter();
    let links = links.filter(|link| link.kind == LinkKind::NvLink);
    let label = |end: usize| graph.nodes[end].label();
    let pairs = links.map(|link| (label(link.from), label(link.to)));
    pairs.filter(|(one, other)| one < other).collect()
}

#[cfg(test)]
mod tests {
    use super::super::graph::TopoFile;
    use super::super::paths::Paths;
    use super::super::{Notes, nic};
    use super::*;

    /// Two sockets, a GPU and a port at each, and a link between the GPUs if `linked`.
    fn described(linked: bool) -> Description {
        let link = |target: &str| match linked {
            true => format!("<nvlink target='{target}' count='2' tclass='0x030200'/>"),
            false => String::new(),
        };
        let socket = |number: u32, gpu: &str, other: &str| {
            format!(
                "<cpu numaid='{number}' affinity='{number}' arch='x86_64' vendor='GenuineIntel'>
                 <pci busid='{gpu}' class='0x030200'><gpu dev='{number}' sm='80'>{}</gpu></pci>
                 <pci busid='0000:{number}5:00.0' class='0x020000'>
                 <nic><net name='mlx5_{number}' dev='{number}' speed='100000'/></nic></pci></cpu>",
                link(other)
            )
        };
        let (one, other) = ("0000:0a:00.0", "0000:1b:00.0");
        let text = format!(
            "<system>{}{}</system>",
            socket(0, one, other),
            socket(1, other, one)
        );
        let notes = Notes::strict();
        let file = TopoFile::parse(&text, "box.xml", &notes).unwrap();
        file.describe().unwrap()
    }

    fn gpu(number: u32, pci: &str, numa: Option<u32>) -> GpuPlace {
        GpuPlace {
            number,
            pci: pci.to_owned(),
            numa,
        }
    }

    fn link(one: &str, other: &str) -> NvLink {
        NvLink {
            ends: [one.to_owned(), other.to_owned()],
            megabytes_per_s: 50_000,
        }
    }

    fn port_of(description: &Description, number: u32) -> String {
        let graph = &description.graph;
        let gpu = graph.find(NodeKind::Gpu, number).unwrap();
        let paths = Paths::new(graph);
        let exits = nic::choose_net(graph, &paths, &[gpu], 0, false);
        let names = exits.iter().map(|exit| {
            let net = nic::nets(graph)[exit.net as usize];
            graph.nodes[net].name.clone()
        });
        names.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_drivers_numbers_count_and_ports_stay_near() {
        let mut description = described(false);
        assert_eq!(port_of(&description, 0), "mlx5_0");
        let gpus = [
            gpu(0, "00000000:1B:00.0", Some(1)),
            gpu(1, "0000:0a:00.0", None),
        ];
        let links = [link("0000:0A:00.0", "0000:1b:00.0")];
        assert_eq!(
            add_gpus(&mut description, &gpus, true, Some(&links)),
            [""; 0],
            "all agree"
        );
        assert_eq!(port_of(&description, 0), "mlx5_1");
        assert_eq!(port_of(&description, 1), "mlx5_0");
        let graph = &description.graph;
        let link = graph
            .links
            .iter()
            .find(|link| link.kind == LinkKind::NvLink);
        assert_eq!(
            link.expect("a link").megabytes_per_s,
            40_000,
            "four fifths of what makers say"
        );
    }

    #[test]
    fn a_gpu_that_is_not_described_is_added_where_the_driver_says() {
        let mut description = described(true);
        let gpus = [
            gpu(0, "0000:0a:00.0", Some(0)),
            gpu(1, "0000:1b:00.0", Some(7)),
            gpu(2, "0000:77:00.0", Some(1)),
        ];
        let said = add_gpus(&mut description, &gpus, true, None);
        assert_eq!(
            said,
            [
                "box.xml lists no GPU where the driver has device 2 (0000:77:00.0): which bridges \
                 are above is unknown"
            ]
        );
        assert_eq!(port_of(&description, 2), "mlx5_1");
    }

    #[test]
    fn what_contradicts_is_one_line_each() {
        let mut description = described(true);
        let gpus = [gpu(0, "0000:1b:00.0", Some(0))];
        let links = [link("0000:1b:00.0", "0000:c4:00.0")];
        let said = add_gpus(&mut description.clone(), &gpus, true, Some(&links));
        assert_eq!(
            said,
            [
                "box.xml lists GPUs that the driver does not have: 0000:0a:00.0",
                "device 0 (0000:1b:00.0) is at NUMA node 1 for box.xml and at 0 for the driver",
                "box.xml has NVLinks GPU/0-GPU/1, and NVML has GPU/0-NVS/0 in their place",
            ]
        );
        // Who sees a part knows that there are more.
        let gpus = [gpu(0, "0000:1b:00.0", Some(1))];
        let same = [link("0000:0a:00.0", "0000:1b:00.0")];
        assert_eq!(
            add_gpus(&mut description, &gpus, false, Some(&same)),
            [""; 0]
        );
        let numbers = description.graph.of_kind(NodeKind::Gpu);
        let names = numbers
            .iter()
            .map(|&node| description.graph.nodes[node].name.as_str());
        assert_eq!(
            names.collect::<Vec<_>>(),
            ["0000:1b:00.0", "0000:0a:00.0"],
            "hidden ones stand behind"
        );
    }
}
