//! Balanced trees of one rate: a chain inside the node, whose first two members share the traffic
//! of the port.
//!
//! The rate of a tree is defined so that a tree and a ring of one rate reduce equally fast: a rank
//! in the middle of a chain sends the rate, half of it up (to be reduced) and half down (results).
//! So every link of a chain carries half the rate each way. Over the network a node has a parent
//! and up to two children, but it is a leaf in the other tree of a pair; on average the port
//! carries the rate once each way, half of it for the head (parent and first child), half for the
//! second member (second child) where the traffic is spread.

use super::super::node_graph::{Exit, TreePart};
use super::model::Model;
use super::ring::Limits;
use super::room::Room;

/// A search for up to `target` trees of one rate within limits.
pub(super) struct TreeSearch<'m> {
    model: &'m Model<'m>,
    pub(super) room: Room,
    limits: Limits,
    /// Whether the member after the head talks to the second child.
    spread: bool,
    found: Vec<TreePart>,
    /// The most trees that fitted at once.
    pub(super) best: Vec<TreePart>,
    ports: Vec<u32>,
    heads: Vec<u32>,
}

impl<'m> TreeSearch<'m> {
    pub(super) fn new(
        model: &'m Model<'m>,
        room: Room,
        limits: Limits,
        spread: bool,
    ) -> TreeSearch<'m> {
        TreeSearch {
            model,
            room,
            limits,
            spread: spread && model.members > 1,
            found: Vec::new(),
            best: Vec::new(),
            ports: vec![0; model.nets.len()],
            heads: vec![0; model.members],
        }
    }

    /// Lays one more tree, and then the others. Returns whether the search is over.
    pub(super) fn next_tree(&mut self) -> bool {
        if self.found.len() > self.best.len() {
            self.best = self.found.clone();
        }
        if self.found.len() >= self.limits.target || self.room.spent() {
            return true;
        }
        for (net, head) in self.heads() {
            if self.below_head(net, head) || self.room.spent() {
                return true;
            }
        }
        false
    }

    /// Ports and heads: ports used least first, then near heads, then heads used least.
    fn heads(&self) -> Vec<(Option<usize>, usize)> {
        let members = 0..self.model.members;
        if self.model.nets.is_empty() {
            let mut all: Vec<_> = members.map(|head| (self.heads[head], head)).collect();
            all.sort_unstable();
            return all.into_iter().map(|(_, head)| (None, head)).collect();
        }
        let mut all = Vec::new();
        for net in 0..self.model.nets.len() {
            for head in members.clone() {
                let Some([near, far]) = self.kinds(net, head) else {
                    continue;
                };
                all.push((self.ports[net], near.max(far), self.heads[head], net, head));
            }
        }
        all.sort_unstable();
        all.into_iter()
            .map(|(_, _, _, net, head)| (Some(net), head))
            .collect()
    }

    /// The kinds of a member's ways from and to a port, where both are within the limit.
    fn kinds(&self, net: usize, member: usize) -> Option<[super::PathKind; 2]> {
        let way_in = self.model.way_in(net, member)?;
        let way_out = self.model.way_out(net, member)?;
        let kinds = [way_in.kind, way_out.kind];
        kinds
            .iter()
            .all(|&kind| kind <= self.limits.outer)
            .then_some(kinds)
    }

    /// Bandwidth of a link of the chain each way.
    fn half(&self) -> u32 {
        self.limits.rate.div_ceil(2)
    }

    /// Bandwidth of the port that each member which talks to it takes.
    fn port_rate(&self) -> u32 {
        match self.spread {
            true => self.half(),
            false => self.limits.rate,
        }
    }

    /// Takes or gives back a member's ways to a port.
    fn port(&mut self, net: Option<usize>, member: usize, take: bool) -> bool {
        let Some(net) = net else { return true };
        let rate = self.port_rate();
        let ways = [
            self.model.way_in(net, member),
            self.model.way_out(net, member),
        ];
        let [Some(way_in), Some(way_out)] = ways else {
            return false;
        };
        if take && (way_in.kind > self.limits.outer || way_out.kind > self.limits.outer) {
            return false;
        }
        let ways = [way_in.links.as_slice(), &way_out.links];
        if take {
            return self.room.take_all(&ways, rate);
        }
        self.room.give_all(&ways, rate);
        true
    }

    fn below_head(&mut self, net: Option<usize>, head: usize) -> bool {
        if !self.port(net, head, true) {
            return false;
        }
        if self.from(&mut vec![head as u32], net) {
            return true;
        }
        self.port(net, head, false);
        false
    }

    /// Takes or gives back both directions between two members.
    fn edge(&mut self, a: usize, b: usize, take: bool) -> bool {
        let [there, back] = [self.model.way(a, b), self.model.way(b, a)];
        let rate = self.half();
        let ways = [there.links.as_slice(), &back.links];
        if take {
            let near = there.kind <= self.limits.inner && back.kind <= self.limits.inner;
            return near && self.room.take_all(&ways, rate);
        }
        self.room.give_all(&ways, rate);
        true
    }

    /// Goes on from the last member of the chain. Returns whether the search is over.
    fn from(&mut self, chain: &mut Vec<u32>, net: Option<usize>) -> bool {
        if chain.len() == self.model.members {
            return self.with_tree(chain, net);
        }
        let at = chain[chain.len() - 1] as usize;
        for &next in self.model.near(at) {
            if chain.contains(&next) {
                continue;
            }
            if self.room.spent() {
                return true;
            }
            if !self.edge(at, next as usize, true) {
                continue;
            }
            let is_second = self.spread && chain.len() == 1;
            if !is_second || self.port(net, next as usize, true) {
                chain.push(next);
                if self.from(chain, net) {
                    return true;
                }
                chain.pop();
                if is_second {
                    self.port(net, next as usize, false);
                }
            }
            self.edge(at, next as usize, false);
        }
        false
    }

    fn with_tree(&mut self, chain: &[u32], net: Option<usize>) -> bool {
        let exit = |member: u32| {
            let net = net?;
            let proxy = self.model.way_out(net, member as usize)?.proxy;
            Some(Exit {
                net: net as u32,
                proxy,
            })
        };
        let second = chain[usize::from(self.spread)];
        let tree = TreePart {
            chain: chain.to_vec(),
            second,
            head_exit: exit(chain[0]),
            second_exit: exit(second),
        };
        self.found.push(tree);
        let head = chain[0] as usize;
        self.heads[head] += 1;
        if let Some(net) = net {
            self.ports[net] += 1;
        }
        if self.next_tree() || !self.model.is_small() {
            return true;
        }
        self.found.pop();
        self.heads[head] -= 1;
        if let Some(net) = net {
            self.ports[net] -= 1;
        }
        false
    }
}
