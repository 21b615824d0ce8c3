//! Which switches the nodes hang on, and the order of nodes that follows: pure functions.
//!
//! **Problem.** Switches form a tree, and the links at its top (the *spine*) are shared by many
//! jobs. Rings, trees and hierarchies go over the nodes by number. If nodes are numbered as the
//! launcher lists them, every second step of a ring may cross the spine.
//!
//! **Idea.** A batch system tells each node its *address*: the names of the switches above it from
//! the top down, and its own. Nodes below the same switch get numbers in a row, at every height. So
//! a ring leaves each switch once, a binary tree, whose subtrees are runs of numbers, crosses
//! between two switches by two links, and recursive halving has exchanged all but a small part of
//! the data before it leaves a switch. Otherwise the order stays: where nodes are listed switch
//! by switch already, nothing changes.
//!
//! Reference: address and pattern are those of Slurm's `SLURM_TOPOLOGY_ADDR` (srun(1)); the order
//! of ranks by switches is that of the topology-aware mapping of T. Hoefler and M. Snir, "Generic
//! topology mapping strategies for large-scale parallel architectures", ICS 2011,
//! doi:10.1145/1995896.1995909, in its simplest case.

use std::collections::HashMap;

/// Divides the names of an address.
const DIVIDES: char = '/';
/// Longer addresses are not told.
pub const LONGEST: usize = 1024;

/// The address of a node, `spine/leaf3/node7`, of what Slurm says: `spine.leaf3.node7` by the
/// pattern `switch.switch.node`. None where it names no switch.
pub fn of_slurm(address: &str, pattern: &str) -> Option<String> {
    let kinds: Vec<&str> = pattern.split('.').collect();
    // The name of a node may have periods.
    let names: Vec<&str> = address.splitn(kinds.len(), '.').collect();
    let is_whole = kinds.len() > 1 && kinds.last() == Some(&"node") && names.len() == kinds.len();
    told(is_whole.then_some(names)?)
}

/// The address of a node whose switches a person names, `spine.leaf3`, and who hears its name here.
pub fn of_setting(switches: &str, host: &str) -> Option<String> {
    told(switches.split('.').chain([host]).collect())
}

fn told(names: Vec<&str>) -> Option<String> {
    let is_named = |name: &&str| !name.is_empty() && !name.contains(DIVIDES);
    let address = names.join("/");
    (names.iter().all(is_named) && address.len() <= LONGEST).then_some(address)
}

/// The order of the nodes with these addresses: entry i is the node that gets number i. None where
/// they do not say: a node has none, two machines (told apart by `machines`) have the same one, as
/// where one node's variables went to all, or the order is right as it is.
pub fn order(addresses: &[&str], machines: &[u32]) -> Option<Vec<u32>> {
    let mut machine_of = HashMap::new();
    for (address, machine) in addresses.iter().zip(machines) {
        if address.is_empty()
            || machine_of
                .insert(*address, machine)
                .is_some_and(|it| it != machine)
        {
            return None;
        }
    }
    // Every switch is known by its whole path, and counts as early as the first node below it.
    let mut first_below: HashMap<&str, usize> = HashMap::new();
    let mut keys = Vec::with_capacity(addresses.len());
    for (node, address) in addresses.iter().enumerate() {
        let switches = address
            .match_indices(DIVIDES)
            .map(|(end, _)| &address[..end]);
        let key: Vec<usize> = switches
            .map(|path| *first_below.entry(path).or_insert(node))
            .collect();
        keys.push(key);
    }
    let mut order: Vec<u32> = (0..addresses.len() as u32).collect();
    order.sort_by(|&a, &b| keys[a as usize].cmp(&keys[b as usize]));
    (!order.is_sorted()).then_some(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(addresses: &[&str]) -> Option<Vec<u32>> {
        let machines: Vec<u32> = (0..addresses.len() as u32).collect();
        order(addresses, &machines)
    }

    #[test]
    fn addresses_are_read_by_their_pattern() {
        let path = |text: &str| Some(text.to_owned());
        let two = "switch.switch.node";
        assert_eq!(of_slurm("sp.sw1.node1", two), path("sp/sw1/node1"));
        assert_eq!(
            of_slurm("sp.sw1.node1.site", two),
            path("sp/sw1/node1.site")
        );
        assert_eq!(
            of_slurm("b[1-2].b1.n", "block.block.node"),
            path("b[1-2]/b1/n")
        );
        // Without switches Slurm tells the name of the node alone.
        assert_eq!(of_slurm("node1", "node"), None);
        assert_eq!(of_slurm("sw1.node1", two), None);
        assert_eq!(of_slurm("sp..node1", two), None);
        assert_eq!(of_slurm("sp/x.sw1.node1", two), None);
        assert_eq!(of_slurm("a.b", "switch.switch"), None);
        assert_eq!(
            of_slurm(&format!("a.{}", "b".repeat(LONGEST)), "switch.node"),
            None
        );
        assert_eq!(of_setting("sp.sw1", "node1"), path("sp/sw1/node1"));
        assert_eq!(of_setting("sp..x", "node1"), None);
    }

    #[test]
    fn nodes_of_a_switch_are_numbered_in_a_row() {
        let found = ordered(&["s/a/1", "s/b/2", "s/a/3", "s/b/4", "s/c/5", "s/a/6"]);
        assert_eq!(found, Some(vec![0, 2, 5, 1, 3, 4]));
        assert_eq!(
            ordered(&["s/a/1", "s/a/2", "s/b/3"]),
            None,
            "it is so already"
        );
        assert_eq!(
            ordered(&["s/b/1", "s/a/2"]),
            None,
            "names say nothing of the order"
        );
    }

    #[test]
    fn higher_switches_count_first() {
        // Leaves of one name below two spines are two leaves.
        let found = ordered(&["x/a/1", "y/a/2", "x/b/3", "y/a/4", "x/a/5"]);
        assert_eq!(found, Some(vec![0, 4, 2, 1, 3]));
        // Nodes that hang higher than others.
        assert_eq!(ordered(&["x/1", "y/a/2", "x/3"]), Some(vec![0, 2, 1]));
    }

    #[test]
    fn nothing_follows_from_what_cannot_be() {
        assert_eq!(ordered(&["s/a/1", "", "s/a/3"]), None);
        assert_eq!(
            ordered(&["s/a/1", "s/b/2", "s/a/1"]),
            None,
            "one node's, on two"
        );
        let parts = ["s/a/1", "s/b/2", "s/a/1"];
        assert_eq!(
            order(&parts, &[0, 1, 0]),
            Some(vec![0, 2, 1]),
            "parts of one machine"
        );
        assert_eq!(ordered(&[]), None);
    }
}
