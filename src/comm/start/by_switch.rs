//! The nodes of a new communicator, numbered by the switches above them ([`switches`]).
//!
//! The lowest rank of each node says its address beside its proposal of orders; what follows is a
//! pure function of what all said, so it is the same on every rank.

use crate::base::{Error, Rank, Result};
use crate::bootstrap::launch;
use crate::config::Settings;
use crate::plan::Nodes;
use crate::topo::{self, RankPlace, switches};

/// The word of the setting that keeps the order of the ranks.
const IGNORE: &str = "ignore";

/// The switches above the node of `me` and its name, if this rank speaks for its node and knows
/// them; else nothing.
pub(in crate::comm) fn say(
    me: Rank,
    settings: &Settings,
    places: &[RankPlace],
    nodes: &Nodes,
) -> String {
    if nodes.count() == 1 || nodes.ranks_of(nodes.node_of(me.0))[0] != me.0 {
        return String::new();
    }
    let known = match settings.topo_address() {
        Some(IGNORE) => None,
        Some(names) => switches::of_setting(names, &places[me.index()].host),
        None => launch::switches().and_then(|(it, pattern)| switches::of_slurm(&it, &pattern)),
    };
    known.unwrap_or_default()
}

/// The nodes in the order of what all ranks said.
///
/// # Errors
/// None that is not a fault of kolo.
pub(in crate::comm) fn heard(said: &[&str], places: &[RankPlace], nodes: Nodes) -> Result<Nodes> {
    let machine_of = topo::nodes(places).node_of;
    let speaker = |node| nodes.ranks_of(node)[0] as usize;
    let speakers: Vec<usize> = (0..nodes.count()).map(speaker).collect();
    let addresses: Vec<&str> = speakers.iter().map(|&rank| said[rank]).collect();
    let machines: Vec<u32> = speakers.iter().map(|&rank| machine_of[rank]).collect();
    match switches::order(&addresses, &machines) {
        None => Ok(nodes),
        Some(order) => nodes.numbered(&order).map_err(Error::internal),
    }
}
