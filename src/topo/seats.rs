//! Ranks take their seats on a machine, and rings and trees are chosen: what init does on a node.
//!
//! A rank of a GPU communicator sits on a GPU, a rank on host memory on the processors it may use.
//! The lowest rank of every node does this for the gathered places of all its ranks; then one
//! [`NodeGraph`] per node is gathered, and [`merge`](super::channels::merge)
//! gives the channels.

use super::graph::{Description, Graph, LinkKind, NodeKind};
use super::nic;
use super::node_graph::{Exit, NodeGraph, Reach};
use super::paths::{PathKind, Paths};
use super::search::{self, Found, Request};
use super::{CpuSet, RankPlace};
use crate::base::{Error, Rank, Result};

/// Where a rank works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seat {
    /// On the GPU with this device number.
    Gpu(u32),
    /// On processors; the empty set where they are unknown.
    Cpus(CpuSet),
}

/// A node with its ranks seated.
#[derive(Clone, Debug)]
pub struct Seated {
    /// The graph, with a worker for every rank on processors.
    pub graph: Graph,
    /// The ways in it.
    pub paths: Paths,
    /// The node of the graph on which each rank sits.
    pub members: Vec<usize>,
}

impl Seated {
    /// Seats ranks. Where there are several nodes and the machine shows no network port, one is
    /// assumed. Errors: a GPU that is not there or has two ranks, GPUs and processors mixed, no
    /// CPU.
    pub fn new(base: &Graph, seats: &[Seat], several_nodes: bool) -> Result<Seated> {
        let mut graph = base.clone();
        let mut cpus = Vec::new();
        let mut members = Vec::new();
        for seat in seats {
            match seat {
                Seat::Cpus(set) => cpus.push(set.clone()),
                Seat::Gpu(number) => {
                    let gpu = graph.find(NodeKind::Gpu, *number);
                    let bad = |why: &str| {
                        let what = format!("{}: GPU {number} {why}", graph.source);
                        Error::argument(what, "give every rank a GPU of its own on this machine")
                    };
                    let gpu = gpu.ok_or_else(|| bad("is not there"))?;
                    if members.contains(&gpu) {
                        return Err(bad("has two ranks"));
                    }
                    members.push(gpu);
                }
            }
        }
        if !cpus.is_empty() {
            if !members.is_empty() {
                let what = "some ranks of a node sit on GPUs, others on processors";
                return Err(Error::usage(
                    what,
                    "use one kind of device in a communicator",
                ));
            }
            members = graph.add_workers(&cpus)?;
        }
        if several_nodes {
            graph.assume_net()?;
        }
        Ok(Seated {
            paths: Paths::new(&graph),
            graph,
            members,
        })
    }

    /// The rings and trees of this node, as every communicator and `kolo topo` have them: those of
    /// a file, else what a search finds. On one node that is even ([`Seated::is_even`]) no order is
    /// better than another, and ranks keep theirs. Errors: those of [`Seated::loaded`] and of the
    /// search.
    pub fn choose(
        &self,
        ranks: &[Rank],
        request: &Request,
        file: Option<NodeGraph>,
    ) -> Result<Found> {
        if let Some(graph) = file {
            let mut found = self.loaded(graph)?;
            found.graph.reach = self.reach(request);
            return Ok(found);
        }
        let mut found = self.search(ranks, request)?;
        found.graph.reach = self.reach(request);
        if !request.several_nodes && self.is_even() {
            let natural: Vec<u32> = (0..ranks.len() as u32).collect();
            for ring in &mut found.graph.rings {
                ring.order.clone_from(&natural);
            }
            for tree in &mut found.graph.trees {
                tree.chain.clone_from(&natural);
                tree.second = natural.get(1).copied().unwrap_or(0);
            }
        }
        Ok(found)
    }

    /// How the members reach the ports beside rings and trees, where there are other nodes.
    fn reach(&self, request: &Request) -> Reach {
        if !request.several_nodes {
            return Reach::default();
        }
        let card = |&net: &usize| {
            let card = self.graph.neighbour(net, LinkKind::Port);
            card.map_or(String::new(), |card| self.graph.nodes[card].name.clone())
        };
        let (graph, paths) = (&self.graph, &self.paths);
        Reach {
            buses: nic::nets(graph).iter().map(card).collect(),
            nearest: nic::choose_nets(graph, paths, &self.members, request.pxn),
        }
    }

    /// Whether ranks on processors are all equally near to each other, as on a machine with one
    /// NUMA node and one cache.
    pub fn is_even(&self) -> bool {
        let worker = |&at: &usize| self.graph.nodes[at].kind == NodeKind::Worker;
        let way = |a: usize, b: usize| {
            let path = self.paths.get(a, b);
            path.map(|path| (path.kind, path.megabytes_per_s))
        };
        let others = |&a: &usize| {
            let others = self.members.iter().filter(move |&&b| b != a);
            others.map(move |&b| way(a, b))
        };
        let mut ways = self.members.iter().flat_map(others);
        let first = ways.next();
        self.members.iter().all(worker) && ways.all(|way| Some(way) == first)
    }

    /// Searches rings and trees over the seated ranks: see [`search::search`].
    pub fn search(&self, ranks: &[Rank], request: &Request) -> Result<Found> {
        search::search(&self.graph, &self.paths, &self.members, ranks, request)
    }

    /// A graph from a file in place of a search: its ports are found on this machine by their
    /// names, and the farthest ways that it uses are looked up. Errors: another number of members,
    /// a port that is not here.
    pub fn loaded(&self, mut graph: NodeGraph) -> Result<Found> {
        if graph.ranks.len() != self.members.len() {
            let (file, here) = (graph.ranks.len(), self.members.len());
            let what = format!("the graph is for {file} ranks, here are {here}");
            return Err(Error::argument(what, "load the graph of such a node"));
        }
        let here = search::net_names(&self.graph);
        let mut places = Vec::new();
        for name in &graph.nets {
            let Some(place) = here.iter().position(|net| net == name) else {
                let what = format!("{}: there is no network port {name}", self.graph.source);
                let all = here.join(", ");
                let remedy = format!("name ports of this machine in the graph file: {all}");
                return Err(Error::argument(what, remedy));
            };
            places.push(place as u32);
        }
        let renumber = |exit: Option<Exit>| {
            exit.map(|exit| Exit {
                net: places[exit.net as usize],
                ..exit
            })
        };
        for ring in &mut graph.rings {
            ring.entry = ring.entry.map(|net| places[net as usize]);
            ring.exit = renumber(ring.exit);
        }
        for tree in &mut graph.trees {
            tree.head_exit = renumber(tree.head_exit);
            tree.second_exit = renumber(tree.second_exit);
        }
        graph.nets = here;
        let (rings, trees) = (self.ring_kinds(&graph), self.tree_kinds(&graph));
        Ok(Found {
            graph,
            inner: [rings.0, trees.0],
            outer: [rings.1, trees.1],
            steps: 0,
        })
    }

    /// The farthest kinds of ways between members and to ports that rings use.
    fn ring_kinds(&self, graph: &NodeGraph) -> (PathKind, PathKind) {
        let (mut inner, mut outer) = (PathKind::Loc, PathKind::Loc);
        for ring in &graph.rings {
            let next = ring.order.iter().cycle().skip(1);
            let closed = ring.exit.is_none();
            let pairs = ring
                .order
                .iter()
                .zip(next)
                .take(ring.order.len() - usize::from(!closed));
            inner = pairs
                .map(|(&a, &b)| self.kind(a, b))
                .fold(inner, PathKind::max);
            let ends = (ring.order[0], ring.order[ring.order.len() - 1]);
            let ways = [
                ring.entry.map(|net| self.port_kind(ends.0, ends.0, net)),
                ring.exit
                    .map(|exit| self.port_kind(ends.1, exit.proxy, exit.net)),
            ];
            outer = ways.into_iter().flatten().fold(outer, PathKind::max);
        }
        (inner, outer)
    }

    fn tree_kinds(&self, graph: &NodeGraph) -> (PathKind, PathKind) {
        let (mut inner, mut outer) = (PathKind::Loc, PathKind::Loc);
        for tree in &graph.trees {
            let pairs = tree.chain.windows(2);
            inner = pairs
                .map(|pair| self.kind(pair[0], pair[1]))
                .fold(inner, PathKind::max);
            let ends = [
                (tree.chain[0], tree.head_exit),
                (tree.second, tree.second_exit),
            ];
            for (member, exit) in ends {
                let kind = exit.map(|exit| self.port_kind(member, exit.proxy, exit.net));
                outer = kind.into_iter().fold(outer, PathKind::max);
            }
        }
        (inner, outer)
    }

    fn kind(&self, a: u32, b: u32) -> PathKind {
        let [a, b] = [a, b].map(|member| self.members[member as usize]);
        self.paths.get(a, b).map_or(PathKind::Net, |path| path.kind)
    }

    fn port_kind(&self, member: u32, proxy: u32, net: u32) -> PathKind {
        if member != proxy {
            return PathKind::Pxn;
        }
        let net = nic::nets(&self.graph)[net as usize];
        let path = self.paths.get(self.members[member as usize], net);
        path.map_or(PathKind::Net, |path| path.kind)
    }

    /// `GPU/3` or `RANK/3`: what a member of the node is called.
    pub fn name(&self, member: u32) -> String {
        let node = self.members.get(member as usize);
        node.map_or(String::new(), |&node| self.graph.nodes[node].label())
    }
}

/// The seats of ranks that work on host memory. `local` are the places of the ranks of one node, in
/// ascending order of the ranks. Errors: those of [`Seated::new`].
pub fn seat_hosts(base: &Graph, local: &[&RankPlace], several_nodes: bool) -> Result<Seated> {
    let seat = |place: &&RankPlace| Seat::Cpus(place.cpus.clone());
    let seats: Vec<Seat> = local.iter().map(seat).collect();
    Seated::new(base, &seats, several_nodes)
}

/// Whether these ranks all sit at one cache, or one NUMA node: then they are even
/// ([`Seated::is_even`]), and nobody needs to look for ways. Errors: the machine has no CPU.
pub fn at_one_place(base: &Graph, local: &[&RankPlace]) -> Result<bool> {
    let mut graph = base.clone();
    let seats: Vec<CpuSet> = local.iter().map(|place| place.cpus.clone()).collect();
    let workers = graph.add_workers(&seats)?;
    let place = |&worker: &usize| graph.neighbour(worker, LinkKind::Memory);
    let mut places = workers.iter().map(place);
    let first = places.next();
    Ok(places.all(|place| Some(place) == first))
}

/// Seats for `count` ranks on a machine that is only described: on its GPUs, if there are any and
/// enough, else spread evenly over its processors. Errors: no rank, or more ranks than GPUs on a
/// machine that has some and whose processors are unknown.
pub fn spread(description: &Description, count: usize) -> Result<Vec<Seat>> {
    let graph = &description.graph;
    let gpus = graph.of_kind(NodeKind::Gpu);
    if count == 0 {
        return Err(Error::argument(
            "there are 0 ranks on the node",
            "ask for 1 at least",
        ));
    }
    if count <= gpus.len() {
        let number = |&gpu: &usize| Seat::Gpu(graph.nodes[gpu].number);
        return Ok(gpus.iter().map(number).take(count).collect());
    }
    if !gpus.is_empty() {
        let what = format!("{}: {count} ranks for {} GPUs", graph.source, gpus.len());
        return Err(Error::argument(
            what,
            "ask for as many ranks as there are GPUs, or fewer",
        ));
    }
    Ok(on_processors(description, count))
}

/// Seats for `count` ranks on host memory, spread evenly over the cores of a machine, as launchers
/// bind them; where its cores are unknown, over its NUMA nodes.
pub fn on_processors(description: &Description, count: usize) -> Vec<Seat> {
    let cores = match &description.machine {
        Some(machine) if !machine.cores.is_empty() => &machine.cores,
        _ => return vec![Seat::Cpus(CpuSet::new()); count],
    };
    let core = |rank: usize| Seat::Cpus(cores[rank * cores.len() / count].cpus.clone());
    (0..count).map(core).collect()
}

/// How many ranks a node has where nobody says: one a GPU; without GPUs one a last-level cache or
/// NUMA node, whichever are more; where that is a single one, one a core up to 8.
pub fn usual_count(description: &Description) -> usize {
    let count = |kind| description.graph.of_kind(kind).len();
    let domains = count(NodeKind::Cache).max(count(NodeKind::Cpu));
    let cores = description
        .machine
        .as_ref()
        .map_or(1, |machine| machine.cores.len());
    match (count(NodeKind::Gpu), domains) {
        (0, 0..=1) => cores.clamp(1, 8),
        (0, domains) => domains,
        (gpus, _) => gpus,
    }
}
