//! Links that name their other end: NVLinks, and the links between PCI switches. They can only be
//! joined when all devices are known.

use super::{Graph, LinkKind, NodeKind};
use crate::base::Result;
use crate::topo::CpuSet;
use crate::topo::xml::Reader;
use roxmltree::Node;
use std::collections::BTreeMap;

/// Most NVLinks between two devices.
const MOST_LANES: u32 = 64;

/// What the file said: the node it was said at, the speed of one lane, the element.
#[derive(Default)]
pub(super) struct Pending<'d, 'i> {
    /// `<nvlink>` inside `<gpu>`.
    pub(super) nvlink: Vec<(usize, u32, Node<'d, 'i>)>,
    /// `<pcilink>` inside `<pci>`.
    pub(super) pci: Vec<(usize, u32, Node<'d, 'i>)>,
}

/// Joins them. Errors name the element whose other end is missing or does not agree.
pub(super) fn join(
    reader: &Reader,
    graph: &mut Graph,
    buses: &BTreeMap<String, usize>,
    links: Pending,
) -> Result<()> {
    // Both ends of a link name it: what each says, so that it is joined once.
    let mut said: BTreeMap<(usize, usize), u32> = BTreeMap::new();
    for (gpu, lane, element) in links.nvlink {
        let count = lanes(reader, element)?;
        let rate = lane.saturating_mul(count);
        let target = reader.text(element, "target")?;
        let class = element.attribute("tclass").unwrap_or("0x0302");
        if class.starts_with("0x068000") || class == "0x0680" {
            let switch = graph
                .find(NodeKind::NvSwitch, 0)
                .unwrap_or_else(|| graph.add(NodeKind::NvSwitch, 0, "", CpuSet::new()));
            graph.join(gpu, switch, LinkKind::NvLink, rate);
            continue;
        }
        if class.starts_with("0x068001") {
            // The processor's own end of an NVLink, as POWER9 has it.
            let cpu = near_cpu(graph, gpu);
            graph.join(gpu, cpu, LinkKind::C2c, rate);
            continue;
        }
        let peer = gpu_at(reader, graph, buses, element, target)?;
        if peer == gpu {
            return Err(reader.bad(element, "it leads back to its own GPU"));
        }
        if let Some(&other) = said.get(&(peer, gpu))
            && other != count
        {
            let why = format!("count is {count} here and {other} at the other end");
            return Err(reader.bad(element, &why));
        }
        if said.insert((gpu, peer), count).is_some() {
            return Err(reader.bad(element, "this target is in its <gpu> twice"));
        }
        if !said.contains_key(&(peer, gpu)) {
            graph.join(gpu, peer, LinkKind::NvLink, rate);
        }
    }
    let mut seen = Vec::new();
    for (switch, rate, element) in links.pci {
        let target = reader.text(element, "target")?;
        let Some(&peer) = buses.get(target).filter(|&&peer| peer != switch) else {
            return Err(reader.bad(element, "there is no such PCI switch"));
        };
        if !seen.contains(&(peer, switch)) {
            graph.join(switch, peer, LinkKind::Pci, rate);
            seen.push((switch, peer));
        }
    }
    Ok(())
}

fn lanes(reader: &Reader, element: Node) -> Result<u32> {
    let count: u32 = reader.number(element, "count")?;
    if (1..=MOST_LANES).contains(&count) {
        return Ok(count);
    }
    Err(reader.bad(element, &format!("count is not 1 to {MOST_LANES}")))
}

fn gpu_at(
    reader: &Reader,
    graph: &Graph,
    buses: &BTreeMap<String, usize>,
    element: Node,
    target: &str,
) -> Result<usize> {
    match buses.get(target) {
        Some(&node) if graph.nodes[node].kind == NodeKind::Gpu => Ok(node),
        Some(&node) => {
            let label = graph.nodes[node].label();
            Err(reader.bad(element, &format!("{target} is {label} and no GPU")))
        }
        None => Err(reader.bad(
            element,
            &format!("there is no device {target} in this file"),
        )),
    }
}

fn near_cpu(graph: &Graph, gpu: usize) -> usize {
    let mut at = gpu;
    while graph.nodes[at].kind != NodeKind::Cpu {
        // The first link of a device and of a switch leads up.
        at = graph.links[graph.leaving(at)[0]].to;
    }
    at
}
