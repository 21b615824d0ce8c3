//! Findings of a check; several nodes that have the same one stand in one line.

use super::facts::{Gathered, NodeSeen};
pub use crate::out::list;
use serde::Serialize;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The name of the check.
    pub check: &'static str,
    /// The nodes that have it.
    pub nodes: Vec<String>,
    /// Fault, as a sentence.
    pub what: String,
    /// Remedy for it.
    pub fix: String,
}

impl Finding {
    /// One line with its fix.
    pub fn line(&self) -> String {
        let line = format!("{}; fix: {}", self.short(), self.fix);
        line.replace(['\n', '\r'], " ")
    }

    /// One line without the fix.
    pub fn short(&self) -> String {
        let line = if self.nodes.is_empty() {
            format!("{}: {}", self.check, self.what)
        } else {
            format!("{}: {}: {}", self.check, list(&self.nodes), self.what)
        };
        line.replace(['\n', '\r'], " ")
    }
}

/// A fault and its fix.
pub type WithFix = (String, String);

/// A finding for each fault, with all nodes that have the same.
pub fn on_nodes(
    job: &Gathered,
    check: &'static str,
    faults: impl Fn(&NodeSeen) -> Vec<WithFix>,
) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    for node in &job.nodes {
        for (what, fix) in faults(node) {
            match found
                .iter_mut()
                .find(|one| one.what == what && one.fix == fix)
            {
                Some(known) if known.nodes.contains(&node.name) => (),
                Some(known) => known.nodes.push(node.name.clone()),
                None => found.push(Finding {
                    check,
                    nodes: vec![node.name.clone()],
                    what,
                    fix,
                }),
            }
        }
    }
    found
}

/// Values that should be one: each with the nodes that have it, the most common first; `None` where
/// they are one. Nodes without a value do not count.
pub fn differing(
    job: &Gathered,
    value: impl Fn(&NodeSeen) -> Option<String>,
) -> Option<Vec<(String, Vec<String>)>> {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for node in &job.nodes {
        let Some(value) = value(node) else { continue };
        match groups.iter_mut().find(|(known, _)| *known == value) {
            Some((_, nodes)) => nodes.push(node.name.clone()),
            None => groups.push((value, vec![node.name.clone()])),
        }
    }
    groups.sort_by_key(|(_, nodes)| std::cmp::Reverse(nodes.len()));
    (groups.len() > 1).then_some(groups)
}

/// `1500 on node1, node3; 9000 on node2`.
pub fn told(groups: &[(String, Vec<String>)]) -> String {
    let parts = groups
        .iter()
        .map(|(value, nodes)| format!("{value} on {}", list(nodes)));
    parts.collect::<Vec<_>>().join("; ")
}

/// A finding on values that should be one: its nodes are those that have another one than most.
pub fn of_difference(
    check: &'static str,
    groups: &[(String, Vec<String>)],
    what: &str,
    fix: String,
) -> Finding {
    let others = groups.iter().skip(1).flat_map(|(_, nodes)| nodes.clone());
    Finding {
        check,
        nodes: others.collect(),
        what: format!("{what}: {}", told(groups)),
        fix,
    }
}
