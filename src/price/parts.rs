//! Parts of a machine as plans see them: the caches and sockets that its ranks share.

use super::cluster::{Cluster, Level};
use crate::plan::Nodes;
use crate::plan::parts::even_size;

/// Whether plans tell caches or sockets of a node apart.
pub fn are_seen(machine: &Cluster) -> bool {
    machine.seen && machine.caches_of_node() > 1
}

/// Returns the cache and the socket of every rank; none where plans see none.
pub fn names(machine: &Cluster) -> Vec<Vec<u32>> {
    if !are_seen(machine) {
        return Vec::new();
    }
    let ranks = 0..machine.nranks();
    vec![
        ranks.clone().map(|rank| machine.cache_of(rank)).collect(),
        ranks.map(|rank| machine.socket_of(rank)).collect(),
    ]
}

/// Levels as plans climb them, the nearest first: members of a group, and what they share. Levels
/// with groups of one are left out.
pub fn ladder(machine: &Cluster) -> Vec<(f64, Level)> {
    let per_node = f64::from(machine.per_node);
    let mut levels = if are_seen(machine) {
        let [cache, socket, node] = machine.company();
        vec![
            (cache, Level::Cache),
            (socket / cache, Level::Socket),
            (node / socket, Level::Node),
        ]
    } else {
        let one_node = Cluster {
            nodes: 1,
            ..machine.clone()
        };
        vec![(per_node, one_node.widest())]
    };
    levels.push((f64::from(machine.nodes), Level::Network));
    levels.retain(|&(members, _)| members > 1.0);
    levels
}

/// Whether plans see parts, and each has as many ranks as the others of its level.
pub fn are_even(machine: &Cluster) -> bool {
    let one_node = Cluster {
        nodes: 1,
        ..machine.clone()
    };
    let nodes = Nodes::one(machine.per_node).with_parts(&names(&one_node));
    let levels = nodes.parts().levels();
    !levels.is_empty() && levels.iter().all(|part| even_size(part).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_climbed_where_groups_have_members() {
        let machine = |nodes, per_node| Cluster {
            sockets: 2,
            caches: 2,
            ..Cluster::uniform(nodes, per_node)
        };
        let (cache, socket, node) = (Level::Cache, Level::Socket, Level::Node);
        let all = [
            (2.0, cache),
            (2.0, socket),
            (2.0, node),
            (3.0, Level::Network),
        ];
        assert_eq!(ladder(&machine(3, 8)), all);
        assert_eq!(ladder(&machine(1, 4)), [(2.0, socket), (2.0, node)]);
        assert_eq!(ladder(&Cluster::uniform(1, 4)), [(4.0, cache)]);
        let unseen = Cluster {
            seen: false,
            ..machine(1, 8)
        };
        assert_eq!(ladder(&unseen), [(8.0, node)]);
        assert!(names(&unseen).is_empty() && !are_even(&unseen));
        assert!(are_even(&machine(1, 8)) && !are_even(&machine(1, 7)));
        assert_eq!(names(&machine(1, 4)), [[0, 1, 2, 3], [0, 0, 1, 1]]);
    }
}
