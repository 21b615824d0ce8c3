//! Checks of where ranks are: how many on each node, and on which processors.

use super::facts::{Gathered, NodeSeen};
use super::finding::{Finding, WithFix, differing, of_difference, on_nodes};
use crate::out::counted;
use kolo::topo::CpuSet;

/// Another number of ranks on some nodes.
pub fn uneven(job: &Gathered) -> Vec<Finding> {
    let count = |node: &NodeSeen| Some(counted(node.ranks.len(), "rank"));
    let fix = "let the launcher place as many on each (srun --ntasks-per-node, mpirun -N or -ppn), \
               or leave nodes out";
    differing(job, count)
        .map(|groups| of_difference("ranks a node", &groups, "nodes differ", fix.into()))
        .into_iter()
        .collect()
}

/// Ranks that run on the same processors.
pub fn binding(job: &Gathered) -> Vec<Finding> {
    on_nodes(job, "binding", |node| {
        of_node(job, node).into_iter().collect()
    })
}

const BIND: &str = "bind each rank to cores of its own (srun --cpu-bind=cores, mpirun --bind-to \
                    core)";

/// The sets of ranks that share processors are no fault where they are equal, less than the node
/// and have a processor for each: launchers bind to sockets so.
fn of_node(job: &Gathered, node: &NodeSeen) -> Option<WithFix> {
    let all = CpuSet::parse_list(&node.facts.cpus).ok()?;
    let sets: Vec<(usize, CpuSet)> = node
        .ranks
        .iter()
        .filter_map(|&rank| {
            let set = CpuSet::parse_list(&job.ranks.get(rank)?.cpus).ok()?;
            (!set.is_empty()).then_some((rank, set))
        })
        .collect();
    if sets.len() < 2 {
        return None;
    }
    if all.len() > 1 && sets.iter().all(|(_, set)| all.is_subset(set)) {
        return Some((
            format!("its {} ranks may all run on every processor", sets.len()),
            BIND.into(),
        ));
    }
    for (at, (rank, set)) in sets.iter().enumerate() {
        let sharing = sets.iter().filter(|(_, other)| other == set).count();
        if sharing > set.len() {
            return Some((
                format!("{sharing} of its ranks share processors {set}"),
                format!("{BIND}, or start fewer ranks on this node"),
            ));
        }
        for (other, theirs) in &sets[at + 1..] {
            if set != theirs && set.intersects(theirs) {
                return Some((
                    format!("rank {rank} ({set}) and rank {other} ({theirs}) overlap"),
                    BIND.into(),
                ));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::samples::{healthy, lines};
    use super::*;

    #[test]
    fn nodes_with_more_or_fewer_ranks_are_told() {
        let mut job = healthy(3, 2);
        assert_eq!(uneven(&job), []);
        job.nodes[1].ranks.pop();
        let found = lines(&uneven(&job));
        assert!(found.contains("node2: nodes differ: 2 ranks on node1, node3; 1 rank on node2"));
    }

    #[test]
    fn ranks_on_the_same_processors_are_told() {
        let bound = |sets: &[&str]| {
            let mut job = healthy(1, sets.len());
            job.nodes[0].facts.cpus = "0-7".into();
            for (rank, set) in job.ranks.iter_mut().zip(sets) {
                rank.cpus = (*set).into();
            }
            lines(&binding(&job))
        };
        assert_eq!(bound(&["0-3", "4-7"]), "");
        assert_eq!(bound(&["0-3", "0-3", "4-7", "4-7"]), "", "bound to sockets");
        assert_eq!(bound(&["0-7"]), "", "one rank may run anywhere");
        assert!(bound(&["0-3", "2-5"]).contains("rank 0 (0-3) and rank 1 (2-5) overlap"));
        assert!(bound(&["1", "0", "1"]).contains("2 of its ranks share processors 1"));
        let none = bound(&["0-7", "0-7"]);
        assert!(
            none.contains("its 2 ranks may all run on every processor"),
            "{none}"
        );
        assert!(none.contains("--cpu-bind=cores"), "{none}");
    }
}
