//! A group of pairs of ranks with one way, and how it is told.

use super::said::NetworkSaid;
use crate::out::{counted, list};
use serde::Serialize;

/// Where two ranks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Between {
    /// They are threads of one process.
    Process,
    /// They are processes of one node.
    Node,
    /// They are on two nodes.
    Nodes,
}

/// A better way, and why it is not taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotTaken {
    /// The way.
    pub way: String,
    /// Nodes on which it is so; none: on all that the group has.
    pub nodes: Vec<String>,
    /// Reason.
    pub why: String,
    /// Remedy; may be empty.
    pub fix: String,
}

/// Pairs of ranks between which data take one way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WayGroup {
    /// Where they are.
    pub between: Between,
    /// Their nodes; none: all that there are.
    pub nodes: Vec<String>,
    /// How many pairs; none: the job has no such ranks, and this is the way that they would take.
    pub pairs: u64,
    /// Way of the data.
    pub way: String,
    /// A communicator of these ranks cannot be made.
    pub fails: bool,
    /// Better ways.
    pub not: Vec<NotTaken>,
}

impl WayGroup {
    /// The way, and below it what is not taken, a line each.
    pub fn lines(&self) -> Vec<String> {
        let place = match (self.between, self.nodes.is_empty()) {
            (Between::Process, _) => "in a process".to_owned(),
            (Between::Node, true) => "on a node".to_owned(),
            (Between::Node, false) => format!("on {}", list(&self.nodes)),
            (Between::Nodes, true) => "between nodes".to_owned(),
            (Between::Nodes, false) => format!("between {}", list(&self.nodes)),
        };
        let pairs = match self.pairs {
            0 => "no such ranks here".to_owned(),
            pairs => counted(pairs, "pair"),
        };
        let not = self.not.iter().map(|not| format!("  {}", not.line()));
        [format!("{place} ({pairs}): {}", self.way)]
            .into_iter()
            .chain(not)
            .collect()
    }
}

impl NotTaken {
    /// `not verbs on node2: why; to use it: how`.
    pub fn line(&self) -> String {
        let (way, why) = (&self.way, &self.why);
        let on = match self.nodes.as_slice() {
            [] => String::new(),
            nodes => format!(" on {}", list(nodes)),
        };
        let fix = match self.fix.as_str() {
            "" => String::new(),
            fix => format!("; to use it: {fix}"),
        };
        format!("not {way}{on}: {why}{fix}")
    }
}

/// A network in words, over these interfaces or else over all of its devices.
pub fn way_of(net: Option<&NetworkSaid>, over: &[String], is_routed: bool) -> String {
    let Some(net) = net else {
        return "none, as no network can be used".into();
    };
    let over = match over {
        [] => net.devices.as_slice(),
        over => over,
    };
    let over = match over {
        [] => String::new(),
        over => format!(" over {}", list(over)),
    };
    let about = net
        .about
        .as_ref()
        .map_or(String::new(), |about| format!(" ({about})"));
    let routed = if is_routed { ", through a router" } else { "" };
    let how = match (net.kind.as_str(), net.lends) {
        ("socket", _) => "; large data from and into where they lie, copied by the system",
        (_, true) => "; koloMemAlloc and registered buffers from and into where they lie",
        // Nobody has asked it.
        ("plugin", false) if net.devices.is_empty() => "",
        _ => "; data pass slots",
    };
    format!("{}{over}{about}{routed}{how}", net.kind)
}
