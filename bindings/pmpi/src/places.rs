//! How the ranks of a communicator lie on nodes. This file knows no MPI: tests/dropin.rs tests it.

use crate::decide::Span;
use std::collections::HashMap;
use std::path::Path;

/// Numbers nodes in the order of their first ranks.
pub fn numbered(nodes: &[u64]) -> Vec<u32> {
    let mut known = HashMap::new();
    let number = |node: &u64| {
        let next = known.len() as u32;
        *known.entry(*node).or_insert(next)
    };
    nodes.iter().map(number).collect()
}

/// The ranks of each node, where `nodes` has the number of each rank's.
pub fn ranks_of(nodes: &[u32]) -> Vec<u32> {
    let mut ranks = vec![0; nodes.iter().max().map_or(0, |&most| most as usize + 1)];
    nodes.iter().for_each(|&node| ranks[node as usize] += 1);
    ranks
}

/// How such ranks lie, in short.
pub fn span(nodes: &[u32]) -> Span {
    Span {
        most: ranks_of(nodes).into_iter().max().unwrap_or(0),
        in_order: nodes.is_sorted(),
    }
}

/// Whether a node has a network, below its folder `root`, that an MPI may use and kolo does not.
/// Kolo uses InfiniBand and RoCE, where `verbs` says that its library for them can be loaded; that
/// is asked only where there is such a device. Nobody has run kolo's library for libfabric on such
/// a network yet, so such a network is left to MPI unless the setting `pmpi_nodes` says otherwise.
pub fn has_foreign_network(root: &Path, verbs: impl FnOnce() -> bool) -> bool {
    let entries = |folder: &str| {
        let entries = std::fs::read_dir(root.join(folder));
        entries.into_iter().flatten().flatten()
    };
    // Slingshot, Omni-Path.
    let foreign = ["sys/class/cxi", "sys/class/hfi1"];
    if foreign
        .iter()
        .any(|folder| entries(folder).next().is_some())
    {
        return true;
    }
    // EFA has verbs, and no connections that kolo's library for them could use.
    let is_efa = |device: &std::fs::DirEntry| {
        let driver = std::fs::read_link(device.path().join("device/driver"));
        driver.is_ok_and(|driver| driver.ends_with("efa"))
    };
    let devices: Vec<_> = entries("sys/class/infiniband").collect();
    devices.iter().any(is_efa) || (!devices.is_empty() && !verbs())
}
