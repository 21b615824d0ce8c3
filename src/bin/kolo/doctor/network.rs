//! Checks of the network: interfaces, what connections between nodes show, names, clocks.

use super::facts::{Face, Gathered, NodeSeen, Trial, partners};
use super::finding::{Finding, WithFix, differing, list, of_difference, on_nodes};
use kolo::base::interfaces::ways::{self, Barred};
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
    on_nodes(job, "interface", |node| {
        let mut faults = Vec::new();
        if let Some(why) = &node.facts.no_face {
            faults.push((why.what.clone(), why.fix.clone()));
        }
        for face in node.facts.faces.iter().filter(is_dark) {
            faults.push(no_signal(face));
        }
        let has = |subnet: &str| used(node).any(|face| face.subnet().as_deref() == Some(subnet));
        let lacking = subnets.iter().filter(|(subnet, _)| !has(subnet));
        faults.extend(lacking.filter_map(|(subnet, count)| missing(job, node, subnet, *count)));
        faults.extend(node.facts.deaf.iter().map(|why| {
            let fix = "check the limits of open files and threads, and ip_local_port_range";
            (why.clone(), fix.into())
        }));
        faults
    })
}

/// Whether an interface would be used if it had a signal, or is although it has none.
fn is_dark(face: &&Face) -> bool {
    face.dark.is_some() || face.address.is_some() && face.carrier == Some(false)
}

fn no_signal(face: &Face) -> WithFix {
    let name = &face.name;
    (
        format!("{name} has no signal"),
        format!("check cable and switch port, or do without it: KOLO_SOCKET_IFNAME=^{name}"),
    )
}

/// Finds a node's fault where it has no interface in a subnet in which `count` others have one;
/// `None` where these are too few for it to be a fault: it takes half of the nodes where this one
/// has an interface of that name, and more than half where it has none.
fn missing(job: &Gathered, node: &NodeSeen, subnet: &str, count: usize) -> Option<WithFix> {
    let is_there = |face: &&Face| face.subnet().as_deref() == Some(subnet);
    let others = job
        .nodes
        .iter()
        .filter_map(|other| used(other).find(is_there));
    let name = others.map(|face| face.name.as_str()).next().unwrap_or("?");
    let own = node.facts.faces.iter().find(|face| face.name == name);
    if 2 * count < job.nodes.len() + usize::from(own.is_none()) {
        return None;
    }
    if own.is_some_and(|face| is_dark(&face)) {
        return None;
    }
    Some(match own {
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
    })
}

/// Finds interfaces of one subnet that differ in a value.
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

/// A node, by its place, and one of its interfaces.
type FaceOf<'a> = (usize, &'a str);

/// A trial between two interfaces.
#[derive(Clone, Copy)]
struct Attempt<'a> {
    from: FaceOf<'a>,
    to: FaceOf<'a>,
    trial: &'a Trial,
}

/// All trials but those that an interface without signal explains, of which enough was said: one
/// for two interfaces, which passed if any of their addresses reach each other.
fn attempts(job: &Gathered) -> Vec<Attempt<'_>> {
    let dark = |(node, name): FaceOf| {
        let mut faces = job.nodes[node].facts.faces.iter().filter(is_dark);
        faces.any(|face| face.name == name)
    };
    let of_node = |(place, node)| {
        let of_trial = move |trial| attempt(place, trial);
        let node: &NodeSeen = node;
        node.trials.links.iter().map(of_trial)
    };
    let all = job.nodes.iter().enumerate().flat_map(of_node);
    let mut of_faces: BTreeMap<(FaceOf, FaceOf), Attempt> = BTreeMap::new();
    for one in all.filter(|one| one.to.0 < job.nodes.len()) {
        let known = of_faces.entry((one.from, one.to)).or_insert(one);
        if one.has_passed() && !known.has_passed() {
            *known = one;
        }
    }
    let all = of_faces.into_values();
    all.filter(|one| one.has_passed() || !dark(one.from) && !dark(one.to))
        .collect()
}

fn attempt(place: usize, trial: &Trial) -> Attempt<'_> {
    Attempt {
        from: (place, &trial.from),
        to: (trial.node, &trial.to),
        trial,
    }
}

impl Attempt<'_> {
    fn has_passed(&self) -> bool {
        self.trial.answer == Reached::Passed
    }
}

/// Ends of which every attempt failed, with several nodes.
fn cut_off<'a>(
    all: &[Attempt<'a>],
    ends: fn(&Attempt<'a>) -> (FaceOf<'a>, FaceOf<'a>),
) -> BTreeSet<FaceOf<'a>> {
    let mut others: BTreeMap<FaceOf, BTreeSet<usize>> = BTreeMap::new();
    let mut good = BTreeSet::new();
    for one in all {
        let (end, other) = ends(one);
        others.entry(end).or_default().insert(other.0);
        if one.has_passed() {
            good.insert(end);
        }
    }
    let several = others.into_iter().filter(|(_, nodes)| nodes.len() > 1);
    let bad = several.filter(|(end, _)| !good.contains(end));
    bad.map(|(end, _)| end).collect()
}

/// Connections that did not come about: one finding for an interface that nobody reaches, or that
/// reaches nobody, and one for each pair of others.
pub fn reach(job: &Gathered) -> Vec<Finding> {
    let all = attempts(job);
    let unreached = cut_off(&all, |one| (one.to, one.from));
    let mute = cut_off(&all, |one| (one.from, one.to));
    let of_end = |&end: &FaceOf| {
        let name = &job.nodes[end.0].name;
        if unreached.contains(&end) {
            of_unreached(name, end, &all, mute.contains(&end))
        } else {
            of_mute(name, end, &all)
        }
    };
    let mut found: Vec<Finding> = unreached.union(&mute).map(of_end).collect();
    let told = |one: &&Attempt| unreached.contains(&one.to) || mute.contains(&one.from);
    let pairs = all.iter().filter(|one| !one.has_passed() && !told(one));
    found.extend(pairs.map(|one| of_pair(job, one)));
    found.extend(apart(job));
    found
}

/// Nodes that no network joins: the one that lacks it with most others is named first, once.
fn apart(job: &Gathered) -> Vec<Finding> {
    let none = Barred::new();
    let table = |node: usize| &job.nodes[node].facts.table;
    let mut pairs: BTreeSet<(usize, usize)> = BTreeSet::new();
    for me in 0..job.nodes.len() {
        let others = partners(me, job.nodes.len()).into_iter();
        let lost = others.filter(|&other| {
            // Who has no interface at all was told of.
            let all = table(me).cards.is_empty() || table(other).cards.is_empty();
            !all && ways::ways(table(me), table(other), &none).is_empty()
        });
        pairs.extend(lost.map(|other| (me.min(other), me.max(other))));
    }
    let mut found = Vec::new();
    while let Some(&first) = pairs.first() {
        let has = |node: usize| move |pair: &&(usize, usize)| pair.0 == node || pair.1 == node;
        let count = |node: usize| pairs.iter().filter(has(node)).count();
        let all = 0..job.nodes.len();
        let worst = all.rev().max_by_key(|&node| count(node)).unwrap_or(first.0);
        let other = match pairs.iter().find(has(worst)) {
            Some(&(one, other)) if one == worst => other,
            Some(&(one, _)) => one,
            None => first.1,
        };
        let more = match count(worst) {
            0 | 1 => String::new(),
            count => format!(" (nor with {} others)", count - 1),
        };
        let (a, b) = (&job.nodes[worst], &job.nodes[other]);
        found.push(Finding {
            check: "reach",
            nodes: vec![a.name.clone(), b.name.clone()],
            what: format!(
                "no network joins them{more}: {} has {}; {} has {}",
                a.name,
                ways::told(table(worst), table(other)),
                b.name,
                ways::told(table(other), table(worst))
            ),
            fix: "give both an address in one subnet (`ip address` on each), and do not exclude \
                  that interface by KOLO_SOCKET_IFNAME"
                .into(),
        });
        pairs.retain(|pair| !has(worst)(&pair));
    }
    found
}

/// Nobody gets through to one interface.
fn of_unreached(node: &str, end: FaceOf, all: &[Attempt], is_mute: bool) -> Finding {
    let failed: Vec<&Attempt> = all.iter().filter(|one| one.to == end).collect();
    let trial = failed[0].trial;
    let (words, fix) = reason(&trial.answer, end.1);
    let also = if is_mute {
        ", and it reached nobody"
    } else {
        ""
    };
    Finding {
        check: "reach",
        nodes: vec![node.into()],
        what: format!(
            "none of {} trials reached {} ({}){also}: {words}",
            failed.len(),
            end.1,
            trial.address.ip()
        ),
        fix,
    }
}

/// One interface gets through to nobody, and others get through to it.
fn of_mute(node: &str, end: FaceOf, all: &[Attempt]) -> Finding {
    let failed: Vec<&Attempt> = all.iter().filter(|one| one.from == end).collect();
    let (words, fix) = reason(&failed[0].trial.answer, end.1);
    Finding {
        check: "reach",
        nodes: vec![node.into()],
        what: format!(
            "none of {} trials from {} reached another node: {words}",
            failed.len(),
            end.1
        ),
        fix,
    }
}

fn of_pair(job: &Gathered, one: &Attempt) -> Finding {
    let (node, other) = (&job.nodes[one.from.0].name, &job.nodes[one.to.0].name);
    let (words, fix) = reason(&one.trial.answer, one.to.1);
    Finding {
        check: "reach",
        nodes: vec![node.clone(), other.clone()],
        what: format!(
            "{} of {node} does not reach {} of {other} ({}): {words}",
            one.from.1,
            one.to.1,
            one.trial.address.ip()
        ),
        fix,
    }
}

/// Explains an answer, with a remedy for an interface.
fn reason(answer: &Reached, face: &str) -> WithFix {
    let (what, fix) = match answer {
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
