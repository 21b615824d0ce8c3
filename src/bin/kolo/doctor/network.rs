//! Checks of the network: interfaces, what connections between nodes show, names, clocks.

use super::facts::{Face, Gathered, NodeSeen, Trial};
use super::finding::{Finding, WithFix, differing, list, of_difference, on_nodes};
use kolo::bootstrap::reach::Reached;
use std::collections::{BTreeMap, BTreeSet};

/// Clocks further apart than this confuse file times, credentials and logs.
const MOST_SKEW: f64 = 1.0;

/// Interfaces that kolo would use.
fn used(node: &NodeSeen) -> impl Iterator<Item = &Face> {
    node.facts
        .faces
        .iter()
        .filter(|face| face.address.is_some())
}

/// Subnets that interfaces of the job lie in, each with how many nodes have one.
fn subnets(job: &Gathered) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for node in &job.nodes {
        let of_node: BTreeSet<String> = used(node).filter_map(Face::subnet).collect();
        for subnet in of_node {
            *found.entry(subnet).or_default() += 1;
        }
    }
    found
}

/// Interfaces that are down, have no signal, or are there on other nodes only.
pub fn interfaces(job: &Gathered) -> Vec<Finding> {
    let subnets = subnets(job);
    let many = |count: usize| job.nodes.len() > 1 && 2 * count >= job.nodes.len();
    on_nodes(job, "interface", |node| {
        let mut faults = Vec::new();
        if let Some(why) = &node.facts.no_face {
            let fix = "`ip address` lists what there is; KOLO_SOCKET_IFNAME chooses";
            faults.push((why.clone(), fix.into()));
        }
        for face in used(node).filter(|face| face.carrier == Some(false)) {
            faults.push(no_signal(face));
        }
        let has = |subnet: &str| used(node).any(|face| face.subnet().as_deref() == Some(subnet));
        let lacking = subnets
            .iter()
            .filter(|(subnet, count)| many(**count) && !has(subnet));
        faults.extend(lacking.map(|(subnet, _)| missing(job, node, subnet)));
        faults.extend(node.facts.deaf.iter().map(|why| {
            let fix = "check the limits of open files and threads, and ip_local_port_range";
            (why.clone(), fix.into())
        }));
        faults
    })
}

fn no_signal(face: &Face) -> WithFix {
    let name = &face.name;
    (
        format!("{name} has no signal"),
        format!("check cable and switch port, or do without it: KOLO_SOCKET_IFNAME=^{name}"),
    )
}

/// What a node has in place of an interface in a subnet in which others have one.
fn missing(job: &Gathered, node: &NodeSeen, subnet: &str) -> WithFix {
    let is_there = |face: &&Face| face.subnet().as_deref() == Some(subnet);
    let others = job
        .nodes
        .iter()
        .filter_map(|other| used(other).find(is_there));
    let name = others.map(|face| face.name.as_str()).next().unwrap_or("?");
    let own = node.facts.faces.iter().find(|face| face.name == name);
    match own {
        Some(face) if !face.up => (
            format!("{name} is down, and up on other nodes ({subnet})"),
            format!("ip link set {name} up, or do without it: KOLO_SOCKET_IFNAME=^{name}"),
        ),
        Some(_) => (
            format!("{name} has no address that kolo would use in {subnet}, as on other nodes"),
            format!("give it one, or do without it: KOLO_SOCKET_IFNAME=^{name}"),
        ),
        None => (
            format!("there is no interface in {subnet}, where other nodes have {name}"),
            format!("give it one, or do without it: KOLO_SOCKET_IFNAME=^{name}"),
        ),
    }
}

/// What interfaces of one subnet have, where they differ.
fn of_faces(
    job: &Gathered,
    check: &'static str,
    value: impl Fn(&Face) -> Option<String>,
    fix: &str,
) -> Vec<Finding> {
    let subnets = subnets(job);
    let found = subnets.keys().filter_map(|subnet| {
        let is_there = |face: &&Face| face.subnet().as_ref() == Some(subnet);
        let names: BTreeSet<&str> = job
            .nodes
            .iter()
            .filter_map(|node| used(node).find(is_there))
            .map(|face| face.name.as_str())
            .collect();
        let groups = differing(job, |node| value(used(node).find(is_there)?))?;
        let names = list(&names.into_iter().collect::<Vec<_>>());
        let what = format!("{names} ({subnet}) differs");
        Some(of_difference(
            check,
            &groups,
            &what,
            fix.replace("NAME", &names),
        ))
    });
    found.collect()
}

/// Packets of another size on some nodes.
pub fn mtu(job: &Gathered) -> Vec<Finding> {
    let value = |face: &Face| face.mtu.map(|mtu| mtu.to_string());
    let fix = "ip link set NAME mtu with the same number on all nodes, which the switches must \
               carry too";
    of_faces(job, "MTU", value, fix)
}

/// Another speed on some nodes.
pub fn speed(job: &Gathered) -> Vec<Finding> {
    let value = |face: &Face| face.speed.map(|speed| format!("{speed} Mbit/s"));
    let fix = "check cable, switch port and `ethtool NAME`: the slowest holds up all";
    of_faces(job, "speed", value, fix)
}

/// A trial that failed, from which node.
type Failed<'a> = (&'a NodeSeen, &'a Trial);

/// Connections that did not come about. Of an interface without signal enough was said.
pub fn reach(job: &Gathered) -> Vec<Finding> {
    let dark = |node: &NodeSeen, name: &str| {
        used(node).any(|face| face.name == name && face.carrier == Some(false))
    };
    let mut failed: Vec<Failed> = Vec::new();
    // By node and interface tried: from how many nodes.
    let mut tried: BTreeMap<(usize, &str), BTreeSet<&str>> = BTreeMap::new();
    for node in &job.nodes {
        for trial in &node.trials.links {
            let Some(other) = job.nodes.get(trial.node) else {
                continue;
            };
            tried
                .entry((trial.node, &trial.to))
                .or_default()
                .insert(&node.name);
            let explained = dark(node, &trial.from) || dark(other, &trial.to);
            if trial.answer != Reached::Passed && !explained {
                failed.push((node, trial));
            }
        }
    }
    let mut found = Vec::new();
    for ((number, face), from) in tried {
        let (here, rest): (Vec<Failed>, Vec<Failed>) = failed
            .into_iter()
            .partition(|(_, trial)| trial.node == number && trial.to == face);
        failed = rest;
        let nodes: BTreeSet<&str> = here.iter().map(|(node, _)| node.name.as_str()).collect();
        if from.len() > 1 && nodes.len() == from.len() {
            found.push(of_all(&job.nodes[number], &here));
        } else {
            found.extend(here.iter().map(|one| of_pair(job, one)));
        }
    }
    found
}

/// Nobody gets through to one interface.
fn of_all(node: &NodeSeen, failed: &[Failed]) -> Finding {
    let trial = failed[0].1;
    let (words, fix) = reason(trial);
    let (face, count) = (&trial.to, failed.len());
    Finding {
        check: "reach",
        nodes: vec![node.name.clone()],
        what: format!(
            "none of {count} trials reached {face} ({}): {words}",
            trial.address.ip()
        ),
        fix,
    }
}

fn of_pair(job: &Gathered, &(node, trial): &Failed) -> Finding {
    let other = job
        .nodes
        .get(trial.node)
        .map_or("?", |other| other.name.as_str());
    let (words, fix) = reason(trial);
    Finding {
        check: "reach",
        nodes: vec![node.name.clone(), other.into()],
        what: format!(
            "{} of {} does not reach {} of {other} ({}): {words}",
            trial.from,
            node.name,
            trial.to,
            trial.address.ip()
        ),
        fix,
    }
}

/// What an answer means, and what to do.
fn reason(trial: &Trial) -> WithFix {
    let face = &trial.to;
    let (what, fix) = match &trial.answer {
        Reached::Passed => ("it passes".into(), "nothing".into()),
        Reached::Silent => (
            "ports are blocked, as packets get no answer".into(),
            "let a firewall on these nodes or between them pass TCP within the cluster (iptables \
             -L, nft list ruleset)"
                .into(),
        ),
        Reached::Refused => (
            "ports are blocked, as connections are refused though somebody listens".into(),
            "let the firewall of that node pass TCP within the cluster (iptables -L, nft list \
             ruleset)"
                .into(),
        ),
        Reached::NoWay(why) => (
            format!("there is no way ({why})"),
            format!(
                "check addresses, routes and switches, or choose others: KOLO_SOCKET_IFNAME=^{face}"
            ),
        ),
        Reached::Stuck => (
            "a connection opens, but no data pass".into(),
            format!(
                "packets that large may not fit through a switch: `ip link set {face} mtu 1500`, \
                 or raise what the switches carry"
            ),
        ),
    };
    (what, fix)
}

/// Names of nodes without an address on others.
pub fn names(job: &Gathered) -> Vec<Finding> {
    on_nodes(job, "name", |node| {
        let faults = node.trials.names.iter();
        let fault = |(name, why): &(String, String)| {
            (
                format!("{name} has no address here ({why})"),
                format!("put {name} into DNS or /etc/hosts of these nodes"),
            )
        };
        faults.map(fault).collect()
    })
}

/// Clocks that are certainly apart: all nodes read theirs before they hear from the others, and
/// again after all have spoken; so no second reading is earlier than any first one, unless a clock
/// is wrong.
pub fn clocks(job: &Gathered) -> Vec<Finding> {
    let read = job.nodes.iter().filter(|node| node.trials.clock.1 > 0.0);
    let last = |a: &&NodeSeen, b: &&NodeSeen| a.trials.clock.0.total_cmp(&b.trials.clock.0);
    let first = |a: &&NodeSeen, b: &&NodeSeen| a.trials.clock.1.total_cmp(&b.trials.clock.1);
    let (Some(ahead), Some(behind)) = (read.clone().max_by(last), read.min_by(first)) else {
        return Vec::new();
    };
    let apart = ahead.trials.clock.0 - behind.trials.clock.1;
    if apart <= MOST_SKEW {
        return Vec::new();
    }
    vec![Finding {
        check: "clock",
        nodes: vec![ahead.name.clone(), behind.name.clone()],
        what: format!(
            "that of {} is at least {apart:.1} s ahead of that of {}",
            ahead.name, behind.name
        ),
        fix: "start chronyd or ntpd on all nodes (`chronyc tracking`): munge and file times need \
              equal clocks"
            .into(),
    }]
}

#[cfg(test)]
#[path = "network_tests.rs"]
mod tests;
