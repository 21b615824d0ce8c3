//! Checks of the ways of data: networks that differ between nodes, memory that may not be read.

use super::facts::{Gathered, NodeSeen};
use super::finding::{Finding, differing, of_difference, on_nodes, told};
use super::limits;
use crate::ways::{JobWays, NetworkSaid, RankWays, WayGroup};
use kolo::base::Rank;

/// Nodes whose ranks cannot use the best network that any rank can use.
fn lacking(job: &Gathered) -> Vec<String> {
    let taken = |said: &RankWays| said.networks.iter().position(|net| net.why_not.is_empty());
    let best = job.ways.ranks.iter().filter_map(taken).min();
    let lacks = |node: &&NodeSeen| ranks_of(job, node).any(|(_, said)| taken(said) != best);
    let nodes = job.nodes.iter().filter(lacks);
    nodes.map(|node| node.name.clone()).collect()
}

/// Nodes whose ranks would use another network than others, or none.
pub fn networks(job: &Gathered) -> Vec<Finding> {
    if job.nodes.len() < 2 || job.ways.problem().is_some() {
        return Vec::new();
    }
    let name = |said: &RankWays| said.network().map_or("none".into(), |net| net.name.clone());
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for (node, said) in job.nodes.iter().flat_map(|node| ranks_of(job, node)) {
        let name = name(said);
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, nodes)) if nodes.last() == Some(&node.name) => (),
            Some((_, nodes)) => nodes.push(node.name.clone()),
            None => groups.push((name, vec![node.name.clone()])),
        }
    }
    groups.sort_by_key(|(_, nodes)| std::cmp::Reverse(nodes.len()));
    let socket = "KOLO_NET with one that all nodes have, such as socket";
    match groups.as_slice() {
        [(name, nodes)] if name == "none" => vec![Finding {
            check: "network",
            nodes: nodes.clone(),
            what: format!(
                "none can be used between nodes: {}",
                all_reasons(&job.ways.ranks[0])
            ),
            fix: socket.into(),
        }],
        [] | [_] => Vec::new(),
        _ => {
            let (why, fix) = reason(&job.ways).unwrap_or_default();
            let fix = if fix.is_empty() { fix } else { fix + ", or " };
            vec![Finding {
                check: "network",
                nodes: lacking(job),
                what: format!(
                    "ranks would use different ones, and no communicator of them could be made: \
                     {}{why}",
                    told(&groups)
                ),
                fix: fix + socket,
            }]
        }
    }
}

/// Ranks of a node, with what they have said of their ways.
fn ranks_of<'a>(
    job: &'a Gathered,
    node: &'a NodeSeen,
) -> impl Iterator<Item = (&'a NodeSeen, &'a RankWays)> {
    let said = move |&rank: &usize| Some((node, job.ways.ranks.get(rank)?));
    node.ranks.iter().filter_map(said)
}

fn all_reasons(said: &RankWays) -> String {
    let line = |net: &NetworkSaid| format!("not {}: {}", net.kind, net.why_not);
    let lines: Vec<String> = said.networks.iter().map(line).collect();
    lines.join("; ")
}

/// Why the first rank that lacks it does not use the best network that some use, and the way to it.
fn reason(ways: &JobWays) -> Option<(String, String)> {
    let taken = |said: &RankWays| said.networks.iter().position(|net| net.why_not.is_empty());
    let best = ways.ranks.iter().filter_map(taken).min()?;
    let mut ranks = (0..).map(Rank).zip(&ways.ranks);
    let (rank, said) = ranks.find(|(_, said)| taken(said) != Some(best))?;
    let net = said.networks.get(best)?;
    let words = format!(
        " (not {} on {}: {})",
        net.kind,
        ways.host(rank),
        net.why_not
    );
    Some((words, net.fix.clone()))
}

/// Devices of a network that are not the same on all nodes, where the ports that there are do not
/// explain it: what goes over one has no peer elsewhere.
pub fn devices(job: &Gathered) -> Vec<Finding> {
    let hcas = |node: &NodeSeen| Some(node.facts.hcas.join(", "));
    if !networks(job).is_empty() || differing(job, hcas).is_some() {
        return Vec::new();
    }
    let used = |node: &NodeSeen| {
        let (_, said) = ranks_of(job, node).next()?;
        // Interfaces have checks of their own.
        let net = said.network().filter(|net| net.kind != "socket")?;
        Some(net.devices.join(", "))
    };
    let fix = "let KOLO_IB_HCA name the same ports on all nodes, in the same order";
    let groups = differing(job, used);
    let finding = |groups: Vec<_>| of_difference("network", &groups, "devices differ", fix.into());
    groups.map(finding).into_iter().collect()
}

/// InfiniBand ports that lie in other subnets than on most nodes, where the ports that there are do
/// not explain it.
pub fn fabrics(job: &Gathered) -> Vec<Finding> {
    let hcas = |node: &NodeSeen| Some(node.facts.hcas.join(", "));
    if differing(job, hcas).is_some() {
        return Vec::new();
    }
    let subnets = |node: &NodeSeen| {
        let all = node.facts.fabrics.join(", ");
        (!all.is_empty()).then_some(all)
    };
    let fix = "cable ports of one name to one fabric, or leave them out by KOLO_IB_HCA: ports of \
               different subnets do not reach each other";
    let groups = differing(job, subnets);
    let finding = |groups: Vec<_>| {
        of_difference(
            "RDMA devices",
            &groups,
            "InfiniBand subnets differ",
            fix.into(),
        )
    };
    groups.map(finding).into_iter().collect()
}

/// Memory of other ranks that may not be read although it is to be, where yama is not the reason.
pub fn refused(job: &Gathered) -> Vec<Finding> {
    let of_yama: Vec<String> = limits::yama(job)
        .into_iter()
        .flat_map(|one| one.nodes)
        .collect();
    on_nodes(job, "CMA", |node| {
        if of_yama.contains(&node.name) {
            return Vec::new();
        }
        let tried = node
            .ranks
            .iter()
            .filter_map(|&rank| job.ways.tried.get(rank));
        // All ranks of a node mostly say the same, in the words of each.
        tried
            .filter_map(|one| one.refused.clone())
            .take(1)
            .collect()
    })
}

/// The ways of data in the job, a line each, with those that are better and not taken.
pub fn lines(job: &Gathered) -> Vec<String> {
    if let Some(problem) = job.ways.problem() {
        return vec![format!("ways of data are not known: {problem}")];
    }
    job.ways.groups().iter().flat_map(WayGroup::lines).collect()
}

#[cfg(test)]
mod tests {
    use super::super::samples::{healthy, lines as printed};
    use super::*;
    use crate::ways::made_up::{self, give_verbs};

    fn job(nodes: usize, per_node: usize) -> Gathered {
        Gathered {
            ways: made_up::job(nodes, per_node),
            ..healthy(nodes, per_node)
        }
    }

    #[test]
    fn nodes_with_another_network_are_named_with_the_reason() {
        let mut three = job(3, 2);
        assert_eq!(networks(&three), []);
        give_verbs(&mut three.ways, 0..4);
        let found = printed(&networks(&three));
        let words = [
            "network: node3: ranks would use different ones",
            "verbs on node1, node2; socket on node3 (not verbs on node3: no RDMA here: ",
            "; fix: KOLO_NET with one that all nodes have",
        ];
        assert!(words.iter().all(|word| found.contains(word)), "{found}");
        // One node alone has the better one.
        let mut three = job(3, 1);
        give_verbs(&mut three.ways, 0..1);
        let found = printed(&networks(&three));
        assert!(found.starts_with("network: node2, node3: "), "{found}");
        assert!(
            found.contains("(not verbs on node2: no RDMA here"),
            "{found}"
        );
        give_verbs(&mut three.ways, 1..3);
        assert_eq!(networks(&three), []);
    }

    #[test]
    fn nodes_that_can_use_none_hear_all_reasons() {
        let mut two = job(2, 1);
        for rank in &mut two.ways.ranks {
            rank.networks[3].why_not = "it was not asked for".into();
        }
        let found = printed(&networks(&two));
        assert!(
            found.starts_with("network: node1, node2: none can be used"),
            "{found}"
        );
        assert!(
            found.contains("not plugin: there is no libnccl-net.so; not verbs: "),
            "{found}"
        );
        assert_eq!(networks(&job(1, 2)), [], "one node needs none");
    }

    #[test]
    fn devices_that_only_some_nodes_use_are_told() {
        let mut two = job(2, 2);
        give_verbs(&mut two.ways, 0..4);
        assert_eq!(devices(&two), []);
        for rank in &mut two.ways.ranks[2..] {
            rank.networks[1].devices.pop();
        }
        let found = printed(&devices(&two));
        let words = "network: node2: devices differ: mlx5_0, mlx5_1 on node1; mlx5_0 on node2";
        assert!(
            found.contains(words) && found.contains("KOLO_IB_HCA"),
            "{found}"
        );
        two.nodes[1].facts.hcas = vec!["mlx5_0 port 1: ACTIVE".into()];
        assert_eq!(
            devices(&two),
            [],
            "the ports that there are have their own check"
        );
    }

    #[test]
    fn subnets_of_infiniband_are_compared() {
        let mut three = job(3, 1);
        for (node, prefix) in three.nodes.iter_mut().zip(["fec0", "fec0", "fec1"]) {
            node.facts.fabrics = vec![format!("mlx5_0 port 1 {prefix}:0000:0000:0000")];
        }
        let found = printed(&fabrics(&three));
        assert!(
            found.starts_with("RDMA devices: node3: InfiniBand subnets differ"),
            "{found}"
        );
        three.nodes[2].facts.hcas = vec!["mlx5_0 port 1: DOWN".into()];
        assert_eq!(fabrics(&three), [], "the port has its own check");
        three.nodes[2].facts.hcas.clear();
        three.nodes[2].facts.fabrics.clear();
        assert_eq!(fabrics(&three), [], "one that has none is no peer");
    }

    #[test]
    fn a_refusal_is_told_once_a_node_unless_yama_explains_it() {
        let mut two = job(2, 2);
        let refusal = |rank: u32| Some((format!("rank {rank} is refused"), "--pid host".into()));
        (two.ways.tried[2].refused, two.ways.tried[3].refused) = (refusal(3), refusal(2));
        let found = printed(&refused(&two));
        assert_eq!(found, "CMA: node2: rank 3 is refused; fix: --pid host");
        two.nodes[1].facts.yama = Some(2);
        assert_eq!(refused(&two), []);
    }
}
