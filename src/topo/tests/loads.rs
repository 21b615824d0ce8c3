//! A described machine with its ranks seated and searched, and what rings and trees put on its
//! links: added up hop by hop from the orders alone, apart from the search.

use super::super::graph::{Description, LinkKind, NodeKind, TopoFile};
use super::super::nic;
use super::super::node_graph::NodeGraph;
use super::super::search::{Found, Request};
use super::super::seats::{Seated, spread};
use super::*;

pub(super) fn described(name: &str) -> Description {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/topologies")
        .join(name);
    TopoFile::read(&path).unwrap().describe().unwrap()
}

/// A machine with its ranks seated and searched.
pub(super) struct Case {
    pub(super) seated: Seated,
    pub(super) found: Found,
}

pub(super) fn searched(name: &str, ranks: usize, request: Request) -> Case {
    let description = described(name);
    let seats = spread(&description, ranks).unwrap();
    let seated = Seated::new(&description.graph, &seats, request.several_nodes).unwrap();
    let ranks: Vec<Rank> = (0..ranks as u32).map(Rank).collect();
    let found = seated.search(&ranks, &request).unwrap();
    let case = Case { seated, found };
    case.holds();
    case
}

impl Case {
    pub(super) fn holds(&self) {
        self.found.graph.check().unwrap();
        let [rings, trees] = [self.ring_loads(), self.tree_loads()];
        for (at, link) in self.seated.graph.links.iter().enumerate() {
            assert!(
                rings[at] <= link.megabytes_per_s,
                "rings overload {link:?}: {}",
                rings[at]
            );
            assert!(
                trees[at] <= link.megabytes_per_s,
                "trees overload {link:?}: {}",
                trees[at]
            );
        }
    }

    /// How many rings, and the rate of each.
    pub(super) fn rings(&self) -> (usize, u32) {
        (self.graph().rings.len(), self.graph().ring_megabytes_per_s)
    }

    pub(super) fn trees(&self) -> (usize, u32) {
        (self.graph().trees.len(), self.graph().tree_megabytes_per_s)
    }

    /// The different loads of all links of a kind that are used, ascending.
    pub(super) fn loads_of(&self, kind: LinkKind, loads: &[u32]) -> Vec<u32> {
        let links = self.seated.graph.links.iter().zip(loads);
        let used = links.filter(|(link, load)| link.kind == kind && **load > 0);
        let mut found = sorted(used.map(|(_, &load)| load).collect());
        let all = self
            .seated
            .graph
            .links
            .iter()
            .filter(|link| link.kind == kind)
            .count();
        let used = found.len();
        // Some used and some not is not even.
        if used > 0 && used < all && kind != LinkKind::Sys && kind != LinkKind::Pci {
            found.insert(0, 0);
        }
        found.dedup();
        found
    }

    /// The node of this kind near which a member sits (itself if there is none).
    pub(super) fn place(&self, member: u32, kind: NodeKind) -> usize {
        let graph = &self.seated.graph;
        let mut at = self.seated.members[member as usize];
        while graph.nodes[at].kind != kind && graph.nodes[at].kind != NodeKind::Cpu {
            at = graph.links[graph.leaving(at)[0]].to;
        }
        at
    }

    pub(super) fn graph(&self) -> &NodeGraph {
        &self.found.graph
    }

    /// Adds up the load of the rings on every link, hop by hop from their orders alone.
    pub(super) fn ring_loads(&self) -> Vec<u32> {
        let mut load = Loads::new(&self.seated, self.graph().ring_megabytes_per_s);
        for ring in &self.graph().rings {
            for pair in ring.order.windows(2) {
                load.between(pair[0], pair[1]);
            }
            let (first, last) = (ring.order[0], ring.order[ring.order.len() - 1]);
            match (ring.entry, ring.exit) {
                (Some(entry), Some(exit)) => {
                    load.arrive(entry, first);
                    if exit.proxy != last {
                        load.between(last, exit.proxy);
                    }
                    load.leave(exit.proxy, exit.net);
                }
                _ if first != last => load.between(last, first),
                _ => {}
            }
        }
        load.loads
    }

    /// Adds up the load of the trees: both directions inside, halves of the port for the first two.
    pub(super) fn tree_loads(&self) -> Vec<u32> {
        let mut load = Loads::new(&self.seated, self.graph().tree_megabytes_per_s);
        for tree in &self.graph().trees {
            load.rate = self.graph().tree_megabytes_per_s.div_ceil(2);
            for pair in tree.chain.windows(2) {
                load.between(pair[0], pair[1]);
                load.between(pair[1], pair[0]);
            }
            let both = [
                (tree.head_exit, tree.chain[0]),
                (tree.second_exit, tree.second),
            ];
            for (exit, member) in both {
                let Some(exit) = exit else { continue };
                load.arrive(exit.net, member);
                if exit.proxy != member {
                    load.between(member, exit.proxy);
                }
                load.leave(exit.proxy, exit.net);
            }
        }
        load.loads
    }
}

struct Loads<'a> {
    seated: &'a Seated,
    nets: Vec<usize>,
    rate: u32,
    loads: Vec<u32>,
}

impl<'a> Loads<'a> {
    fn new(seated: &'a Seated, rate: u32) -> Loads<'a> {
        Loads {
            seated,
            nets: nic::nets(&seated.graph),
            rate,
            loads: vec![0; seated.graph.links.len()],
        }
    }

    pub(super) fn add(&mut self, from: usize, to: usize) {
        let path = self.seated.paths.get(from, to).unwrap();
        for &link in &path.links {
            self.loads[link as usize] += self.rate;
        }
    }

    pub(super) fn between(&mut self, a: u32, b: u32) {
        let members = &self.seated.members;
        self.add(members[a as usize], members[b as usize]);
    }

    pub(super) fn arrive(&mut self, net: u32, member: u32) {
        self.add(
            self.nets[net as usize],
            self.seated.members[member as usize],
        );
    }

    pub(super) fn leave(&mut self, member: u32, net: u32) {
        self.add(
            self.seated.members[member as usize],
            self.nets[net as usize],
        );
    }
}

pub(super) fn sorted(mut numbers: Vec<u32>) -> Vec<u32> {
    numbers.sort_unstable();
    numbers
}
