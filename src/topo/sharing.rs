//! Parts of a machine that a rank shares with others by its binding: the socket and the last-level
//! cache that have all of its processors.
//!
//! A rank that may run in several caches has none: which one it runs in changes while it runs.

use super::CpuSet;
use super::hardware::{Machine, Object, ObjectKind};
use serde::{Deserialize, Serialize};

/// The parts of a machine that have all processors of a rank. A part is known by its lowest PU, the
/// same on all ranks of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SharedParts {
    /// The socket.
    pub socket: Option<u32>,
    /// The last-level cache.
    pub cache: Option<u32>,
}

/// Finds the parts for a rank that may run on `cpus`.
pub fn sharing(machine: &Machine, cpus: &CpuSet) -> SharedParts {
    let holds = |object: &&Object| !cpus.is_empty() && cpus.is_subset(&object.cpus);
    let level_of = |object: &Object| match object.kind {
        ObjectKind::Cache { level, .. } => level,
        _ => 0,
    };
    let last_level = machine.root.walk().map(level_of).max().unwrap_or(0);
    let cache = machine.caches(last_level).find(holds);
    let socket = machine.packages().find(holds);
    let named = |object: Option<&Object>| object.and_then(|object| object.cpus.first());
    SharedParts {
        socket: named(socket),
        cache: named(cache),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn shared(file: &str, cpus: &str) -> (Option<u32>, Option<u32>) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let machine = Machine::from_xml_file(&root.join(file)).unwrap();
        let SharedParts { socket, cache } = sharing(&machine, &CpuSet::parse_list(cpus).unwrap());
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
}
