//! The rings and trees of a new communicator: every node searches its machine, all ranks join what
//! the nodes found, and plans follow from that.
//!
//! **Problem.** Plans are right only if all ranks make them from the same orders, but a rank sees
//! its own machine only, and its search may fail for a reason of its own.
//!
//! **Idea.** The lowest rank of every node, its *speaker*, chooses for the whole node and says so,
//! or what is wrong, in an exchange that init needs anyway. What follows is a pure function of what
//! was said, so it is the same on every rank. A graph file must have the same contents everywhere;
//! that is compared with the settings, before anybody searches ([`super::meet`]).
//!
//! Searching takes milliseconds on large machines, and programs make many communicators over the
//! same processors: a process remembers what it found.

use super::meet::GraphText;
use crate::base::descriptors::lifted;
use crate::base::{Error, Rank, Result};
use crate::bootstrap::report::Reported;
use crate::config::{CrossNic, Settings};
use crate::plan::{Chain, Nodes, Orders};
use crate::topo::channels::{ChannelLimits, Channels, merge};
use crate::topo::graph::{Graph, TopoFile};
use crate::topo::node_graph::NodeGraph;
use crate::topo::search::{Cross, Request};
use crate::topo::seats::{self, Seated};
use crate::topo::{self, CpuSet, Machine, RankPlace, graph_file};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Answer of a rank when it is asked for the orders on its node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::comm) enum Speech {
    /// Nothing: it is no speaker.
    Silent,
    /// Its node prefers no order.
    Natural,
    Graph(NodeGraph),
    Problem(Reported),
}

/// Searches that a process remembers.
const REMEMBERED: usize = 32;

/// Makes the request of a search from the settings.
pub fn request(settings: &Settings, several_nodes: bool) -> Request {
    Request {
        several_nodes,
        cross: match settings.cross_nic() {
            CrossNic::Auto => Cross::Auto,
            CrossNic::Never => Cross::Never,
            CrossNic::Always => Cross::Always,
        },
        pxn: !settings.pxn_disable(),
        ..Request::default()
    }
}

/// How many channels the settings allow. More are never made than connections for them.
pub fn limits(settings: &Settings) -> ChannelLimits {
    let most = settings.max_nchannels().max(1);
    ChannelLimits {
        least: settings.min_nchannels().min(most),
        most,
    }
}

/// The nodes, passed in the orders of these channels: what plans are made for.
///
/// # Errors
/// The channels are those of other nodes.
pub fn in_orders(nodes: Nodes, channels: &Channels) -> Result<Nodes> {
    let numbers = |ranks: &[Rank]| ranks.iter().map(|rank| rank.0).collect::<Vec<u32>>();
    let chain = |node: &topo::channels::TreeNode| Chain {
        ranks: numbers(&node.chain),
        second_behind: node.second != node.head(),
    };
    let rings = channels.rings.iter().map(|ring| numbers(&ring.order));
    let trees = channels.trees.iter();
    let orders = Orders {
        rings: rings.collect(),
        trees: trees
            .map(|tree| tree.nodes.iter().map(chain).collect())
            .collect(),
    };
    nodes.in_orders(orders).map_err(Error::internal)
}

/// Nodes that are imagined with orders; more keep the order of ranks.
const MOST_IMAGINED: u32 = 4096;

/// The nodes of a communicator on host memory whose nodes are all like the machine that the
/// settings name, with `per_node` ranks bound to cores evenly: what `kolo explain` shows.
///
/// # Errors
/// Those of the topology file and of the graph file. Without both, ranks keep their order where
/// there is no search.
pub fn imagined(settings: &Settings, count: u32, per_node: u32) -> Result<Nodes> {
    let nodes = Nodes::uniform(count, per_node);
    if nodes.nranks() == 1 || count > MOST_IMAGINED {
        return Ok(nodes);
    }
    match imagined_channels(settings, count, per_node) {
        Ok(channels) => in_orders(nodes, &channels),
        Err(error) if settings.topo_file().or(settings.graph_file()).is_some() => Err(error),
        Err(_) => Ok(nodes),
    }
}

fn imagined_channels(settings: &Settings, count: u32, per_node: u32) -> Result<Channels> {
    let description = match settings.topo_file() {
        Some(path) => TopoFile::read(path)?.describe()?,
        None => topo::graph::Description::here()?,
    };
    let seats = seats::on_processors(&description, per_node as usize);
    let seated = Seated::new(&description.graph, &seats, count > 1)?;
    let ranks = |node: u32| -> Vec<Rank> {
        let all = node * per_node..(node + 1) * per_node;
        all.map(Rank).collect()
    };
    let file = match settings.graph_file() {
        Some(path) => Some(graph_file::from_file(path, &ranks(0))?),
        None => None,
    };
    let found = seated.choose(&ranks(0), &request(settings, count > 1), file)?;
    let node = |node: u32| NodeGraph {
        ranks: ranks(node),
        ..found.graph.clone()
    };
    let all: Vec<NodeGraph> = (0..count).map(node).collect();
    merge(&all, limits(settings))
}

/// Returns the answer of this rank for its node, which is `Silent` unless it is the lowest rank
/// there, and this rank's own problem, if it has one. `places` are those of all ranks, `nodes` the
/// nodes that plans are made for.
pub(in crate::comm) fn say(
    me: Rank,
    settings: &Settings,
    file: Option<&GraphText>,
    places: &[RankPlace],
    nodes: &Nodes,
) -> (Speech, Option<Error>) {
    let mates = nodes.ranks_of(nodes.node_of(me.0));
    if mates[0] != me.0 {
        return (Speech::Silent, None);
    }
    if places.len() == 1 {
        return (Speech::Natural, None);
    }
    let local: Vec<&RankPlace> = mates.iter().map(|&rank| &places[rank as usize]).collect();
    let several = nodes.count() > 1;
    let several_machines = topo::local_ranks(me, places).len() < places.len();
    let wish = Wish {
        settings,
        file,
        request: request(settings, several),
        devices: several_machines,
    };
    match wish.node_graph(&local, me == Rank(0)) {
        Ok(None) => (Speech::Natural, None),
        Ok(Some(graph)) => (Speech::Graph(graph), None),
        Err(error) => (Speech::Problem(Reported::of(&error)), Some(error)),
    }
}

/// The nodes in the orders that their speakers said, and what these found; or with all ranks in
/// their order where one knows of no better. The same on every rank.
///
/// # Errors
/// The problem of the first node that has one; a speaker that is silent; graphs that do not fit
/// together.
pub(in crate::comm) fn heard(
    said: &[&Speech],
    settings: &Settings,
    places: &[RankPlace],
    nodes: Nodes,
) -> Result<(Nodes, Option<Channels>)> {
    let mut graphs = Vec::with_capacity(nodes.count() as usize);
    let mut is_natural = false;
    for node in 0..nodes.count() {
        let speaker = nodes.ranks_of(node)[0];
        match said[speaker as usize] {
            Speech::Natural => is_natural = true,
            Speech::Graph(graph) => graphs.push(graph.clone()),
            Speech::Problem(why) => {
                let place = format!(" on {}", places[speaker as usize].host);
                return Err(why.by(Rank(speaker), &place));
            }
            Speech::Silent => {
                let what = "a rank that was to describe its node did not";
                return Err(Error::internal(what).with_peer(Rank(speaker)));
            }
        }
    }
    if is_natural {
        return Ok((nodes, None));
    }
    let channels = merge(&graphs, limits(settings))?;
    Ok((in_orders(nodes, &channels)?, Some(channels)))
}

/// How a node chooses.
struct Wish<'a> {
    settings: &'a Settings,
    file: Option<&'a GraphText>,
    request: Request,
    /// Whether the network ports of the machine count: there are other machines.
    devices: bool,
}

impl Wish<'_> {
    /// The rings and trees of the node with these ranks; `None` where no order is better than
    /// another. `is_first`: this is the node of rank 0, which writes them down.
    fn node_graph(&self, local: &[&RankPlace], is_first: bool) -> Result<Option<NodeGraph>> {
        let dump = self.settings.graph_dump_file().filter(|_| is_first);
        if self.file.is_some() || dump.is_some() {
            return self.anew(local, dump);
        }
        let known = Known {
            topo_file: self.settings.topo_file().map(Path::to_path_buf),
            seats: local.iter().map(|place| place.cpus.clone()).collect(),
            request: self.request,
            devices: self.devices,
        };
        let ranks = |graph: Option<NodeGraph>| {
            graph.map(|graph| NodeGraph {
                ranks: local.iter().map(|place| place.rank).collect(),
                ..graph
            })
        };
        if let Some(found) = recall(&known) {
            return Ok(ranks(found));
        }
        let found = match self.anew(local, None) {
            // Without a topology file the machine is what hwloc made of it. A search that gets
            // nowhere there must not keep the ranks from working.
            Err(error) if known.topo_file.is_none() => {
                tracing::warn!("ranks keep their order, for there is no search: {error}");
                None
            }
            other => other?,
        };
        remember(known, &found);
        Ok(found)
    }

    fn anew(&self, local: &[&RankPlace], dump: Option<&Path>) -> Result<Option<NodeGraph>> {
        let ranks: Vec<Rank> = local.iter().map(|place| place.rank).collect();
        let file = match self.file {
            Some(file) => Some(graph_file::from_text(&file.text, &file.name, &ranks)?),
            None => None,
        };
        // One node that is told of ports has them.
        let names_ports = file.as_ref().is_some_and(|graph| !graph.nets.is_empty());
        let devices = self.devices || names_ports && !self.request.several_nodes;
        let graph = graph_of(self.settings, devices)?;
        let asked = file.is_some() || dump.is_some() || self.request.several_nodes;
        if !asked && seats::at_one_place(&graph, local)? {
            return Ok(None);
        }
        let seated = seats::seat_hosts(&graph, local, self.request.several_nodes)?;
        if !asked && seated.is_even() {
            return Ok(None);
        }
        let found = seated.choose(&ranks, &self.request, file)?;
        if let Some(path) = dump {
            write(path, &found.graph, &seated)?;
        }
        Ok(Some(found.graph))
    }
}

fn write(path: &Path, graph: &NodeGraph, seated: &Seated) -> Result<()> {
    let text = graph_file::to_text(graph, &|member| seated.name(member));
    let file = File::create(path).and_then(lifted);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| {
        let doing = format!("{} cannot be written", path.display());
        Error::system(doing, &error, "check the path in KOLO_GRAPH_DUMP_FILE")
    })
}

/// The graph of the machine that the settings name, without workers. One without devices is enough
/// for ranks on processors that talk inside the machine only.
fn graph_of(settings: &Settings, devices: bool) -> Result<Arc<Graph>> {
    type Kept = Vec<((Option<PathBuf>, bool), Arc<Graph>)>;
    static GRAPHS: Mutex<Kept> = Mutex::new(Vec::new());
    let key = (settings.topo_file().map(Path::to_path_buf), devices);
    let mut graphs = GRAPHS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, graph)) = graphs.iter().find(|(known, _)| *known == key) {
        return Ok(Arc::clone(graph));
    }
    let graph = match &key.0 {
        Some(path) => TopoFile::read(path)?.describe()?.graph,
        None if devices => topo::graph::Description::here()?.graph,
        None => topo::graph::graph_of(Machine::detect()?, &|_| None)?,
    };
    let graph = Arc::new(graph);
    graphs.push((key, Arc::clone(&graph)));
    Ok(graph)
}

/// Inputs of a search. Equal inputs have equal results.
#[derive(PartialEq, Eq)]
struct Known {
    topo_file: Option<PathBuf>,
    seats: Vec<CpuSet>,
    request: Request,
    devices: bool,
}

static FOUND: Mutex<Vec<(Known, Option<NodeGraph>)>> = Mutex::new(Vec::new());

fn recall(known: &Known) -> Option<Option<NodeGraph>> {
    let found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    let entry = found.iter().find(|(other, _)| other == known);
    entry.map(|(_, graph)| graph.clone())
}

fn remember(known: Known, graph: &Option<NodeGraph>) {
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if found.len() >= REMEMBERED {
        found.remove(0);
    }
    found.push((known, graph.clone()));
}

#[cfg(test)]
#[path = "orders_tests.rs"]
mod tests;
