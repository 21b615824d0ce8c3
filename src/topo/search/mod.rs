//! The search for rings and trees: as much bandwidth as the links give, spread evenly.
//!
//! **Problem.** A collective is as fast as the busiest link it uses. Which orders of the ranks, on
//! how many channels, load no link beyond its capacity and leave none idle that could help?
//!
//! **Idea.** Choose a rate for a channel. Search for one ring, take its rate away from every link
//! that it passes, and search for the next ring in what is left. If a ring cannot be closed, take
//! back its last member and try another one. The rates to try are widths of ways and whole
//! fractions of them; near ways are tried before far ones. The search ends early when it has found
//! as much as there can be (the sum of what leaves a member, the sum of the ports).
//!
//! The search counts its steps and never looks at a clock, so every process finds the same, and its
//! bounds ([`STEPS_A_TRY`], [`STEPS`]) bound its time.
//!
//! **Terms.** Member: a rank of the node, by its position. Limit: the farthest kind of way that may
//! be used. Cross: a ring leaves by another port than it came in by.
//!
//! Reference: the shape of the search (pattern, rate, kinds of ways, same channels on all nodes)
//! follows the published design of GPU collective libraries; S. Jeaugey, "NCCL 2.0", GTC 2017.

mod model;
mod request;
mod ring;
mod room;
mod tree;
mod tries;

use super::graph::Graph;
use super::node_graph::{MAX_LOCAL, NodeGraph};
use super::paths::{PathKind, Paths};
use crate::base::{Error, Rank, Result};
use model::Model;
pub use request::{Cross, Request, STEPS, STEPS_A_TRY};

/// Result of a search.
#[derive(Clone, Debug)]
pub struct Found {
    /// The rings and trees.
    pub graph: NodeGraph,
    /// The farthest kind of way between members that rings, and trees, may use.
    pub inner: [PathKind; 2],
    /// The farthest kind of way to ports.
    pub outer: [PathKind; 2],
    /// Ways that were tried: what the search cost.
    pub steps: u64,
}

/// Searches rings and trees over `members` (nodes of the graph: GPUs or workers), which are the
/// ranks `ranks`, in the same order. Deterministic; time is bounded by [`STEPS`]. Errors: no member
/// or more than [`MAX_LOCAL`], members that nothing joins, no network where there are several
/// nodes.
pub fn search(
    graph: &Graph,
    paths: &Paths,
    members: &[usize],
    ranks: &[Rank],
    request: &Request,
) -> Result<Found> {
    check(graph, paths, members, ranks, request)?;
    let model = Model::new(graph, paths, members, request);
    let rings = tries::rings(&model, request);
    let most = rings.parts.len();
    let trees = tries::trees(&model, most);
    let nets = model.nets.iter().map(|&net| net_name(graph, net)).collect();
    let node = NodeGraph {
        ranks: ranks.to_vec(),
        nets,
        rings: rings.parts,
        ring_megabytes_per_s: rings.rate,
        trees: trees.parts,
        tree_megabytes_per_s: trees.rate,
        reach: Default::default(),
    };
    node.check()
        .map_err(|error| Error::internal(error.into_what()))?;
    Ok(Found {
        graph: node,
        inner: [rings.inner, trees.inner],
        outer: [rings.outer, trees.outer],
        steps: rings.steps + trees.steps,
    })
}

/// The names of the ports in use, in the order in which they are numbered.
pub(super) fn net_names(graph: &Graph) -> Vec<String> {
    let nets = super::nic::nets(graph);
    nets.into_iter().map(|net| net_name(graph, net)).collect()
}

/// A port's name, or its label where it has none.
fn net_name(graph: &Graph, net: usize) -> String {
    match graph.nodes[net].name.as_str() {
        "" => graph.nodes[net].label(),
        name => name.to_owned(),
    }
}

fn check(
    graph: &Graph,
    paths: &Paths,
    members: &[usize],
    ranks: &[Rank],
    request: &Request,
) -> Result<()> {
    let refused = |what: String| {
        let what = format!("{}: {what}", graph.source);
        Err(Error::argument(
            what,
            "check the topology file with `kolo topo`",
        ))
    };
    if members.is_empty() || members.len() > MAX_LOCAL || members.len() != ranks.len() {
        let count = members.len();
        return refused(format!(
            "{count} ranks on this machine, not 1 to {MAX_LOCAL}"
        ));
    }
    for &member in members {
        if paths.get(members[0], member).is_none() {
            let [a, b] = [members[0], member].map(|node| graph.nodes[node].label());
            return refused(format!("nothing joins {a} and {b}"));
        }
    }
    if request.several_nodes {
        let nets = super::nic::nets(graph);
        if nets.is_empty() {
            return refused("there is no network port, and there are several nodes".to_owned());
        }
        let reached = |&net: &usize| paths.get(members[0], net).is_some();
        if let Some(&net) = nets.iter().find(|net| !reached(net)) {
            let port = graph.nodes[net].label();
            return refused(format!(
                "nothing joins {} and {port}",
                graph.nodes[members[0]].label()
            ));
        }
    }
    Ok(())
}
