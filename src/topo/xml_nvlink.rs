//! NVLinks in hwloc's XML: the matrix of distances named `NVLinkBandwidth`.
//!
//! The matrix names its objects by `gp_index`. They are views of PCI functions, and it is the
//! function's bus address that the rest of kolo knows.

use super::hardware::NvLink;
use super::xml::Reader;
use crate::base::Result;
use roxmltree::Node;
use std::collections::{BTreeMap, HashMap};

/// The name of the matrix, as hwloc's NVML part gives it.
const NAME: &str = "NVLinkBandwidth";
/// More objects than this in one matrix are refused.
const MOST: usize = 1024;

/// All pairs of PCI functions with NVLinks between them.
pub(super) fn read(reader: &Reader, topology: Node) -> Result<Vec<NvLink>> {
    let is_it = |node: &Node| {
        node.tag_name().name().starts_with("distances2") && node.attribute("name") == Some(NAME)
    };
    let Some(matrix) = topology.children().find(is_it) else {
        return Ok(Vec::new());
    };
    let buses = buses(topology);
    let mut ends = Vec::new();
    for word in words(matrix, "indexes") {
        let index = word.rsplit(':').next().unwrap_or(word);
        let Some(bus) = buses.get(index) else {
            let why = format!("the matrix {NAME} names object {word}, which is on no PCI function");
            return Err(reader.bad(matrix, &why));
        };
        ends.push((*bus).to_owned());
    }
    let values: Vec<&str> = words(matrix, "u64values").collect();
    if ends.len() > MOST || values.len() != ends.len() * ends.len() {
        let why = format!("{} values for {} objects", values.len(), ends.len());
        return Err(reader.bad(matrix, &why));
    }
    let mut links: BTreeMap<[String; 2], u64> = BTreeMap::new();
    for (at, value) in values.iter().enumerate() {
        let (row, column) = (at / ends.len(), at % ends.len());
        let Ok(rate) = value.parse::<u64>() else {
            return Err(reader.bad(matrix, &format!("{value:?} is not a bandwidth")));
        };
        // The other half of the matrix is the other direction; the diagonal means nothing.
        if column > row && rate > 0 && ends[row] != ends[column] {
            let mut pair = [ends[row].clone(), ends[column].clone()];
            pair.sort();
            *links.entry(pair).or_default() += rate;
        }
    }
    let link = |(ends, megabytes_per_s)| NvLink {
        ends,
        megabytes_per_s,
    };
    Ok(links.into_iter().map(link).collect())
}

/// For every object on a PCI function the function's bus address, by `gp_index`.
fn buses<'n>(topology: Node<'n, 'n>) -> HashMap<&'n str, &'n str> {
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
fn words<'n>(node: Node<'n, 'n>, name: &'static str) -> impl Iterator<Item = &'n str> {
    let parts = node
        .children()
        .filter(move |child| child.has_tag_name(name));
    parts.flat_map(|part| part.text().unwrap_or("").split_whitespace())
}
