//! Parts of a machine that a rank shares with others by its binding: the socket, the NUMA node and
//! the last-level cache that have all of its processors.
//!
//! A rank that may run in several caches has none: which one it runs in changes while it runs.
//!
//! NUMA nodes within a socket decide where memory lies, and are no level of plans. Where a chip is
//! cut into several, either each has a last-level cache of its own (Xeon), which is that level, or
//! it has two or three (EPYC), and crossing to another one is cheap: memory of the own answers in
//! 113 ns, that of all four by turns in 122 (EPYC 7742; A. Frumusanu, J. De Gelas, AnandTech 2019).

use super::CpuSet;
use super::hardware::{Machine, Object, ObjectKind};
use serde::{Deserialize, Serialize};

/// The parts of a machine that have all processors of a rank. A cache or socket is known by its
/// lowest PU, the same on all ranks of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SharedParts {
    /// The socket.
    pub socket: Option<u32>,
    /// The last-level cache.
    pub cache: Option<u32>,
    /// The NUMA node, by the number that the system has for it; none where the machine has one.
    /// Where several have all processors, as one of fast memory beside the usual one, it is the
    /// lowest: the system takes from that.
    pub numa: Option<u32>,
}

/// Finds the parts for a rank that may run on `cpus`.
pub fn sharing(machine: &Machine, cpus: &CpuSet) -> SharedParts {
    let has_all = |cpus_of: &CpuSet| !cpus.is_empty() && cpus.is_subset(cpus_of);
    let holds = |object: &&Object| has_all(&object.cpus);
    let level_of = |object: &Object| match object.kind {
        ObjectKind::Cache { level, .. } => level,
        _ => 0,
    };
    let last_level = machine.root.walk().map(level_of).max().unwrap_or(0);
    let cache = machine.caches(last_level).find(holds);
    let socket = machine.packages().find(holds);
    let named = |object: Option<&Object>| object.and_then(|object| object.cpus.first());
    let mut near = machine.numa.iter().filter(|node| has_all(&node.cpus));
    SharedParts {
        socket: named(socket),
        cache: named(cache),
        numa: near
            .next()
            .filter(|_| machine.numa.len() > 1)
            .map(|node| node.os_index),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn shared(file: &str, cpus: &str) -> (Option<u32>, Option<u32>) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let machine = Machine::from_xml_file(&root.join(file)).unwrap();
        let SharedParts { socket, cache, .. } =
            sharing(&machine, &CpuSet::parse_list(cpus).unwrap());
        (socket, cache)
    }

    #[test]
    fn a_rank_shares_what_has_all_of_its_processors() {
        let clusters = "tests/data/topo/amd_l3_clusters.xml";
        assert_eq!(shared(clusters, "5"), (Some(0), Some(4)));
        assert_eq!(shared(clusters, "8-11,24-27"), (Some(0), Some(8)));
        assert_eq!(shared(clusters, "7-8"), (Some(0), None));
        let sockets = "tests/data/topo/two_sockets_smt.xml";
        assert_eq!(shared(sockets, "0").0, Some(0));
        assert_eq!(shared(sockets, "0-63"), (None, None));
        assert_eq!(shared(clusters, ""), (None, None));
    }

    #[test]
    fn memory_is_near_where_one_numa_node_has_all_processors() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let near_in = |file: &str, cpus: &str| {
            let machine = Machine::from_xml_file(&root.join("tests/data/topo").join(file)).unwrap();
            sharing(&machine, &CpuSet::parse_list(cpus).unwrap()).numa
        };
        assert_eq!(near_in("desktop.xml", "0"), None, "it has one");
        let near = |cpus: &str| near_in("two_sockets_smt.xml", cpus);
        // Each socket has two.
        let known = ["0,32", "8", "23,55", "24-31,56-63"].map(near);
        assert_eq!(known, [Some(0), Some(1), Some(2), Some(3)]);
        assert_eq!(["7-8", "0-63", ""].map(near), [None; 3]);
    }
}
