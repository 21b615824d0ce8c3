//! Links between GPUs in hwloc's XML: matrices of distances that are bandwidths.
//!
//! A matrix names its objects by `gp_index`. They are views of PCI functions, and it is the
//! function's bus address that the rest of kolo knows.

use super::hardware::NvLink;
use super::notes::Reader;
use super::xml_tree::XmlNode;
use crate::base::Result;
use std::collections::{BTreeMap, HashMap};

/// The names of the matrices, as hwloc's parts for NVML and ROCm SMI give them.
const NAMES: [&str; 2] = ["NVLinkBandwidth", "XGMIBandwidth"];
/// More objects than this in one matrix are no machine's.
const MOST: usize = 1024;

/// All pairs of PCI functions with such links between them.
pub(super) fn read(reader: &Reader, topology: XmlNode) -> Result<Vec<NvLink>> {
    let is_it = |node: &XmlNode| {
        let name = node.attribute("name").unwrap_or("");
        node.name().starts_with("distances2") && NAMES.contains(&name)
    };
    let mut links: BTreeMap<[String; 2], u64> = BTreeMap::new();
    let matrices: Vec<XmlNode> = topology.children().filter(is_it).collect();
    if matrices.is_empty() {
        return Ok(Vec::new());
    }
    let buses = buses(topology);
    for matrix in matrices {
        add(reader, matrix, &buses, &mut links)?;
    }
    let link = |(ends, megabytes_per_s)| NvLink {
        ends,
        megabytes_per_s,
    };
    Ok(links.into_iter().map(link).collect())
}

fn add(
    reader: &Reader,
    matrix: XmlNode,
    buses: &HashMap<&str, &str>,
    links: &mut BTreeMap<[String; 2], u64>,
) -> Result<()> {
    let ends: Vec<&str> = words(matrix, "indexes").take(MOST + 1).collect();
    let values: Vec<&str> = words(matrix, "u64values").take(MOST * MOST + 1).collect();
    if ends.len() > MOST || values.len() != ends.len() * ends.len() {
        let why = format!("{} values for {} objects", values.len(), ends.len());
        return reader.note(matrix, &why);
    }
    let bus = |word: &str| buses.get(word.rsplit(':').next().unwrap_or(word)).copied();
    let ends: Vec<Option<&str>> = ends.iter().map(|word| bus(word)).collect();
    let lost = ends.iter().filter(|bus| bus.is_none()).count();
    if lost > 0 {
        let why = format!("{lost} of its objects are on no PCI function: left out");
        reader.note(matrix, &why)?;
    }
    let mut strange = None;
    for (at, value) in values.iter().enumerate() {
        let (row, column) = (at / ends.len(), at % ends.len());
        let rate = value.parse::<u64>().ok();
        if rate.is_none() {
            strange.get_or_insert(value);
        }
        let (Some(one), Some(other), Some(rate)) = (ends[row], ends[column], rate) else {
            continue;
        };
        // The other half of the matrix is the other direction; the diagonal means nothing.
        if column > row && rate > 0 && one != other {
            let mut pair = [one.to_owned(), other.to_owned()];
            pair.sort();
            let sum = links.entry(pair).or_default();
            *sum = sum.saturating_add(rate);
        }
    }
    match strange {
        Some(value) => reader.note(matrix, &format!("{value:?} is not a bandwidth")),
        None => Ok(()),
    }
}

/// For every object on a PCI function the function's bus address, by `gp_index`.
fn buses<'d>(topology: XmlNode<'d, '_>) -> HashMap<&'d str, &'d str> {
    let mut found = HashMap::new();
    let mut stack = vec![(topology, None)];
    while let Some((node, around)) = stack.pop() {
        let is_function = node.attribute("type") == Some("PCIDev");
        let bus = if is_function {
            node.attribute("pci_busid")
        } else {
            around
        };
        if let (Some(index), Some(bus)) = (node.attribute("gp_index"), bus) {
            found.insert(index, bus);
        }
        stack.extend(node.children().map(|child| (child, bus)));
    }
    found
}

/// The words inside all elements of one name below `node`.
fn words<'d>(node: XmlNode<'d, '_>, name: &'static str) -> impl Iterator<Item = &'d str> {
    let parts = node.children().filter(move |child| child.is(name));
    parts.flat_map(|part| part.text().split_whitespace())
}
