//! The ways of a job, in groups of pairs of ranks, from all that the ranks have told and tried.

use super::group::{Between, NotTaken, WayGroup, way_of};
use super::said::{NetworkSaid, RankWays};
use super::tried::{self, JoinedBy, RankTried};
use crate::out::{amount, counted, list};
use kolo::base::{Error, Rank, Result};
use kolo::topo::{self, NodeMap, RankPlace};
use kolo::transport::cma::wish;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// All that ranks know of their ways.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobWays {
    /// By rank; none where nobody asked.
    pub ranks: Vec<RankWays>,
    /// By rank.
    pub tried: Vec<RankTried>,
}

impl JobWays {
    /// This process alone.
    pub fn alone(mine: RankWays) -> JobWays {
        JobWays {
            ranks: vec![mine],
            tried: vec![RankTried::default()],
        }
    }

    /// The nodes, as communicators number them; none where a rank knows nothing.
    pub fn nodes(&self) -> Option<NodeMap> {
        let places = self.ranks.iter().map(|rank| rank.place.clone());
        let places: Vec<RankPlace> = places.collect::<Option<_>>()?;
        Some(topo::nodes(&places))
    }

    /// The rank that knows nothing, and why.
    pub fn problem(&self) -> Option<String> {
        let mut ranks = self.ranks.iter().enumerate();
        let (rank, lost) = ranks.find(|(_, said)| said.place.is_none())?;
        Some(format!("rank {rank} cannot tell: {}", lost.problem))
    }

    /// The name of the node of a rank.
    pub fn host(&self, rank: Rank) -> &str {
        let place = self.ranks[rank.index()].place.as_ref();
        place.map_or("?", |place| place.host.as_str())
    }

    /// All groups: in a process, on nodes, between nodes. None where some rank knows nothing.
    pub fn groups(&self) -> Vec<WayGroup> {
        let Some(nodes) = self.nodes().filter(|nodes| !nodes.ranks.is_empty()) else {
            return Vec::new();
        };
        let mut all = vec![self.in_a_process(self.process_pairs(&nodes.ranks.concat()))];
        all.extend(self.on_nodes(&nodes));
        all.extend(self.between_nodes(&nodes));
        all
    }

    /// The way between two ranks.
    ///
    /// # Errors
    /// There are no such ranks, or they do not know.
    pub fn pair(&self, ranks: [u32; 2]) -> Result<WayGroup> {
        let count = self.ranks.len();
        if let Some(wrong) = ranks.iter().find(|&&rank| rank as usize >= count) {
            return Err(Error::argument(
                format!(
                    "there is no rank {wrong}: {} told of their ways",
                    counted(count, "rank")
                ),
                "start as many as the job has, as `mpirun -n 18 kolo info --ranks 3,17`",
            ));
        }
        let [a, b] = ranks.map(Rank);
        let Some(nodes) = self.nodes() else {
            let why = self.problem().unwrap_or_default();
            return Err(Error::usage(why, "see the message of that rank"));
        };
        if a == b || self.process_pairs(&[a, b]) > 0 {
            return Ok(self.in_a_process(1));
        }
        let [one, other] = [a, b].map(|rank| nodes.node_of[rank.index()] as usize);
        let mut found = if one == other {
            self.on_node(&nodes, one)
        } else {
            let tables = [a, b].map(|rank| &self.ranks[rank.index()].table);
            let by = tried::between(tables[0], tables[1]);
            let mut found = self.between_two([a, b], &by);
            found.not.extend(self.better_networks(&nodes, &[a, b]));
            found
        };
        found.nodes = if one == other {
            vec![self.host(a).to_owned()]
        } else {
            vec![self.host(a).to_owned(), self.host(b).to_owned()]
        };
        found.pairs = 1;
        Ok(found)
    }

    /// Pairs of these ranks that are threads of one process.
    fn process_pairs(&self, ranks: &[Rank]) -> u64 {
        let mut processes: HashMap<_, u64> = HashMap::new();
        for place in ranks
            .iter()
            .filter_map(|rank| self.ranks[rank.index()].place.as_ref())
        {
            let process = (place.process, place.pid, place.host_hash, &place.boot_id);
            *processes.entry(process).or_default() += 1;
        }
        processes.into_values().map(pairs).sum()
    }

    fn in_a_process(&self, pairs: u64) -> WayGroup {
        let is_direct = self.ranks[0].is_direct;
        let (way, not) = if is_direct {
            (
                "memory of the process; buffers are read where they lie",
                Vec::new(),
            )
        } else {
            (
                "memory of the process, through slots",
                vec![self.not_direct()],
            )
        };
        WayGroup {
            between: Between::Process,
            nodes: Vec::new(),
            pairs,
            way: way.into(),
            fails: false,
            not,
        }
    }

    fn not_direct(&self) -> NotTaken {
        let (why, fix) = self.ranks[0].private_not.clone().unwrap_or_default();
        NotTaken {
            way: "in place".into(),
            nodes: Vec::new(),
            why,
            fix,
        }
    }

    /// Groups of ranks on their nodes; the way that they would take where no node has several.
    fn on_nodes(&self, nodes: &NodeMap) -> Vec<WayGroup> {
        let mut found: Vec<WayGroup> = Vec::new();
        for node in 0..nodes.ranks.len() {
            let one = self.on_node(nodes, node);
            let is_alike = |known: &&mut WayGroup| {
                let fixes = |group: &WayGroup| -> Vec<String> {
                    group.not.iter().map(|not| not.fix.clone()).collect()
                };
                known.way == one.way && fixes(known) == fixes(&one)
            };
            match found.iter_mut().find(is_alike) {
                _ if one.pairs == 0 => (),
                Some(known) => {
                    known.pairs += one.pairs;
                    known.nodes.extend(one.nodes);
                }
                None => found.push(one),
            }
        }
        match found.as_mut_slice() {
            [] => found.push(self.on_node(nodes, 0)),
            [_, _, ..] => return found,
            [_] => (),
        }
        found[0].nodes.clear();
        found
    }

    fn on_node(&self, nodes: &NodeMap, node: usize) -> WayGroup {
        let ranks = &nodes.ranks[node];
        let first = &self.ranks[ranks[0].index()];
        let refused = ranks.iter().filter_map(|rank| {
            let tried = self.tried.get(rank.index())?;
            tried.refused.clone()
        });
        let not_private = first
            .private_not
            .clone()
            .or_else(|| refused.into_iter().next());
        let not = |way: &str, (why, fix)| NotTaken {
            way: way.into(),
            nodes: Vec::new(),
            why,
            fix,
        };
        let in_place = "memory of the node; koloMemAlloc and registered buffers are read where \
                        they lie, others";
        let (way, not) = match not_private {
            _ if !first.is_direct => (
                "memory of the node, through slots".to_owned(),
                vec![self.not_direct()],
            ),
            Some(why) => (format!("{in_place} pass slots"), vec![not("CMA", why)]),
            None => {
                let from = match first.private_from {
                    None | Some(0) => String::new(),
                    Some(bytes) => format!(" from {} on", amount(bytes)),
                };
                let alone = if wish::serves(ranks.len(), self.ranks.len()) {
                    ""
                } else {
                    ", in communicators of one node"
                };
                (format!("{in_place} by CMA{from}{alone}"), Vec::new())
            }
        };
        WayGroup {
            between: Between::Node,
            nodes: vec![self.host(ranks[0]).to_owned()],
            pairs: pairs(ranks.len() as u64) - self.process_pairs(ranks),
            way,
            fails: false,
            not,
        }
    }

    fn between_nodes(&self, nodes: &NodeMap) -> Vec<WayGroup> {
        let count = nodes.ranks.len();
        let everyone = nodes.ranks.concat();
        if count == 1 {
            let found = way_of(self.ranks[0].network(), &[], false);
            let not = self.better_networks(nodes, &everyone);
            let fails = false;
            return vec![between(Vec::new(), 0, found, fails, not)];
        }
        let inside: u64 = nodes
            .ranks
            .iter()
            .map(|ranks| pairs(ranks.len() as u64))
            .sum();
        let all = pairs(self.ranks.len() as u64) - inside;
        if let Some(way) = self.unlike(nodes) {
            let not = self.better_networks(nodes, &everyone);
            return vec![between(Vec::new(), all, way, true, not)];
        }
        let mut found: Vec<(WayGroup, BTreeSet<usize>)> = Vec::new();
        for ((one, other), by) in self.joined(nodes) {
            let ends = [one, other].map(|node| nodes.ranks[node][0]);
            let mut new = self.between_two(ends, &by);
            new.pairs = (nodes.ranks[one].len() * nodes.ranks[other].len()) as u64;
            let is_alike = |(known, _): &&mut (WayGroup, _)| {
                known.fails == new.fails
                    && (new.fails || (&known.way, &known.not) == (&new.way, &new.not))
            };
            match found.iter_mut().find(is_alike) {
                Some((known, of)) => {
                    known.pairs += new.pairs;
                    of.extend([one, other]);
                }
                None => found.push((new, BTreeSet::from([one, other]))),
            }
        }
        if let [(only, _)] = found.as_mut_slice() {
            // Of many nodes each looks at some others.
            only.pairs = all;
        }
        let is_one = found.len() == 1;
        let named = |(mut group, of): (WayGroup, BTreeSet<usize>)| {
            let ranks: Vec<Rank> = of
                .iter()
                .flat_map(|&node| nodes.ranks[node].clone())
                .collect();
            group.not.extend(self.better_networks(nodes, &ranks));
            if !is_one {
                let host = |&node: &usize| self.host(nodes.ranks[node][0]).to_owned();
                group.nodes = of.iter().map(host).collect();
            }
            group
        };
        found.into_iter().map(named).collect()
    }

    /// Pairs of nodes by their numbers, the lower one first, and what joins them.
    fn joined(&self, nodes: &NodeMap) -> BTreeMap<(usize, usize), JoinedBy> {
        let mut found = BTreeMap::new();
        for (node, ranks) in nodes.ranks.iter().enumerate() {
            let Some(tried) = self.tried.get(ranks[0].index()) else {
                continue;
            };
            for (by, others) in &tried.joined {
                for &other in others.iter().filter(|&&other| other < nodes.ranks.len()) {
                    let pair = (node.min(other), node.max(other));
                    // Both have looked: what the lower one says counts.
                    if node < other || !found.contains_key(&pair) {
                        found.insert(pair, by.clone());
                    }
                }
            }
        }
        found
    }

    /// Why no communicator of all ranks can be made, whatever joins them: some use another network
    /// than others, or none.
    fn unlike(&self, nodes: &NodeMap) -> Option<String> {
        let mut names: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for ranks in &nodes.ranks {
            for rank in ranks {
                let taken = self.ranks[rank.index()].network();
                let of_name = names
                    .entry(taken.map_or("none", |net| net.name.as_str()))
                    .or_default();
                if of_name.last() != Some(&self.host(*rank)) {
                    of_name.push(self.host(*rank));
                }
            }
        }
        if names.len() == 1 && !names.contains_key("none") {
            return None;
        }
        if names.len() == 1 {
            return Some("none, as no network can be used".into());
        }
        let told = names
            .iter()
            .map(|(name, hosts)| format!("{name} on {}", list(hosts)));
        let told: Vec<String> = told.collect();
        Some(format!(
            "none, as ranks would take different networks: {}",
            told.join("; ")
        ))
    }

    /// The way between two ranks of different nodes, which `by` joins.
    fn between_two(&self, ends: [Rank; 2], by: &JoinedBy) -> WayGroup {
        let [one, other] = ends.map(|rank| &self.ranks[rank.index()]);
        let fail = |way| between(Vec::new(), 1, way, true, Vec::new());
        let (Some(net), Some(there)) = (one.network(), other.network()) else {
            return fail("none, as a node can use no network".into());
        };
        if net.name != there.name {
            let (a, b) = (&net.name, &there.name);
            return fail(format!(
                "none, as they would take different networks: {a} and {b}"
            ));
        }
        // Whatever carries the data, nodes watch each other over TCP.
        if !by.lack.is_empty() {
            return fail(format!("none, as no interfaces join them: {}", by.lack));
        }
        let over = match net.kind.as_str() {
            "socket" => by.faces.clone(),
            _ if net.devices == there.devices => net.devices.clone(),
            _ => vec![format!(
                "{} to {}",
                list(&net.devices),
                list(&there.devices)
            )],
        };
        let way = way_of(Some(net), &over, by.is_routed && net.kind == "socket");
        let not = apart_by_setting(one, other).into_iter().collect();
        between(Vec::new(), 1, way, false, not)
    }

    /// Networks that are better than those which these ranks take, and why they are not taken.
    fn better_networks(&self, nodes: &NodeMap, ranks: &[Rank]) -> Vec<NotTaken> {
        let mut found: Vec<(&NetworkSaid, BTreeSet<u32>)> = Vec::new();
        let mut all = BTreeSet::new();
        for rank in ranks.iter().map(|rank| rank.index()) {
            let node = nodes.node_of[rank];
            all.insert(node);
            for said in RankWays::better(&self.ranks[rank]) {
                match found.iter_mut().find(|(known, _)| *known == said) {
                    Some((_, of)) => drop(of.insert(node)),
                    None => found.push((said, BTreeSet::from([node]))),
                }
            }
        }
        let place = |kind: &str| {
            let mut kinds = self.ranks[0].networks.iter();
            kinds.position(|one| one.kind == kind)
        };
        found.sort_by_key(|(said, _)| place(&said.kind));
        let host = |&node: &u32| self.host(nodes.ranks[node as usize][0]).to_owned();
        let not = |(said, of): (&NetworkSaid, BTreeSet<u32>)| NotTaken {
            way: said.kind.clone(),
            nodes: if of.len() == all.len() {
                Vec::new()
            } else {
                of.iter().map(host).collect()
            },
            why: said.why_not.clone(),
            fix: said.fix.clone(),
        };
        found.into_iter().map(not).collect()
    }
}

fn between(
    nodes: Vec<String>,
    pairs: u64,
    way: String,
    fails: bool,
    not: Vec<NotTaken>,
) -> WayGroup {
    WayGroup {
        between: Between::Nodes,
        nodes,
        pairs,
        way,
        fails,
        not,
    }
}

/// Why two ranks of one machine do not share memory, where a setting is the reason.
fn apart_by_setting(one: &RankWays, other: &RankWays) -> Option<NotTaken> {
    let (a, b) = (one.place.as_ref()?, other.place.as_ref()?);
    // A boot is told by all whose node no setting names.
    let is_named = a.boot_id.is_empty() && b.boot_id.is_empty();
    (is_named && a.host == b.host).then(|| NotTaken {
        way: "memory of the node".into(),
        nodes: Vec::new(),
        why: "a setting lets processes of one machine count as different nodes".into(),
        fix: "unset KOLO_SHM_DISABLE and KOLO_HOSTID".into(),
    })
}

/// Pairs of so many ranks.
fn pairs(ranks: u64) -> u64 {
    ranks * ranks.saturating_sub(1) / 2
}

#[cfg(test)]
#[path = "job_tests.rs"]
mod tests;
