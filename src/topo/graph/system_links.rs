//! Links that name their other end: NVLinks and xGMI between GPUs, and the links between PCI
//! switches. They can only be joined when all devices are known.

use super::{Graph, LinkKind, NodeKind};
use crate::base::Result;
use crate::topo::CpuSet;
use crate::topo::notes::Reader;
use crate::topo::xml_tree::XmlNode;
use std::collections::{BTreeMap, BTreeSet};

/// Most NVLinks between two devices.
const MOST_LANES: u32 = 64;

/// Links that the file names: the node at which it does, the speed of one lane, the element.
#[derive(Default)]
pub(super) struct Pending<'d, 'x> {
    /// `<nvlink>` and `<xgmi>` inside `<gpu>`.
    pub(super) nvlink: Vec<(usize, u32, XmlNode<'d, 'x>)>,
    /// `<pcilink>` inside `<pci>`.
    pub(super) pci: Vec<(usize, u32, XmlNode<'d, 'x>)>,
}

/// Joins them. A link whose other end is missing or says otherwise is dropped.
pub(super) fn join(
    reader: &Reader,
    graph: &mut Graph,
    buses: &BTreeMap<String, usize>,
    links: Pending,
) -> Result<()> {
    // Both ends of a link name it: what each says, so that it is joined once.
    let mut said: BTreeMap<(usize, usize), u32> = BTreeMap::new();
    for (gpu, lane, element) in links.nvlink {
        let Some(count) = lanes(reader, element)? else {
            continue;
        };
        let rate = lane.saturating_mul(count);
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
        let Some(peer) = gpu_at(reader, graph, buses, element)? else {
            continue;
        };
        let why = match (said.get(&(gpu, peer)), said.get(&(peer, gpu))) {
            _ if peer == gpu => "it leads back to its own GPU".to_owned(),
            (Some(_), _) => "this target is in its <gpu> twice".to_owned(),
            (None, Some(&other)) if other != count => {
                format!("count is {count} here and {other} at the other end, which counts")
            }
            (None, other) => {
                if other.is_none() {
                    graph.join(gpu, peer, LinkKind::NvLink, rate);
                }
                said.insert((gpu, peer), count);
                continue;
            }
        };
        reader.note(element, &why)?;
    }
    let mut seen = BTreeSet::new();
    for (switch, rate, element) in links.pci {
        let Some(target) = reader.text(element, "target")? else {
            continue;
        };
        let is_switch = |peer: &usize| graph.nodes[*peer].kind == NodeKind::Pci && *peer != switch;
        let Some(peer) = buses.get(target).copied().filter(is_switch) else {
            reader.note(element, "there is no such PCI switch")?;
            continue;
        };
        if !seen.contains(&(peer, switch)) && seen.insert((switch, peer)) {
            graph.join(switch, peer, LinkKind::Pci, rate);
        }
    }
    Ok(())
}

/// How many lanes a link has: one where it does not say.
fn lanes(reader: &Reader, element: XmlNode) -> Result<Option<u32>> {
    let Some(count) = reader.number(element, "count")? else {
        return Ok(element.attribute("count").is_none().then_some(1));
    };
    if (1..=MOST_LANES).contains(&count) {
        return Ok(Some(count));
    }
    reader.note(element, &format!("count is not 1 to {MOST_LANES}"))?;
    Ok(None)
}

fn gpu_at(
    reader: &Reader,
    graph: &Graph,
    buses: &BTreeMap<String, usize>,
    element: XmlNode,
) -> Result<Option<usize>> {
    let Some(target) = reader.text(element, "target")? else {
        return Ok(None);
    };
    let why = match buses.get(target) {
        Some(&node) if graph.nodes[node].kind == NodeKind::Gpu => return Ok(Some(node)),
        Some(&node) => {
            let label = graph.nodes[node].label();
            format!("{target} is {label} and no GPU")
        }
        None => format!("there is no device {target} in this file"),
    };
    reader.note(element, &why)?;
    Ok(None)
}

/// The CPU above a device or a switch, or the CPU itself.
pub(super) fn near_cpu(graph: &Graph, node: usize) -> usize {
    let mut at = node;
    while graph.nodes[at].kind != NodeKind::Cpu {
        // The first link of a device and of a switch leads up.
        at = graph.links[graph.leaving(at)[0]].to;
    }
    at
}
