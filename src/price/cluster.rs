//! Where ranks run: what any two of them share, and which links carry their bytes.

use super::seating::{CacheSeat, SeatList, Seating};
use crate::plan::{Chain, Orders};

/// The nearest thing that two ranks share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// A last-level cache.
    Cache,
    /// A socket.
    Socket,
    /// A node.
    Node,
    /// Only the network.
    Network,
}

impl Level {
    /// All levels, nearest first.
    pub const ALL: [Level; 4] = [Level::Cache, Level::Socket, Level::Node, Level::Network];

    /// The name in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Level::Cache => "cache",
            Level::Socket => "socket",
            Level::Node => "node",
            Level::Network => "network",
        }
    }
}

/// Where the ranks are. Ranks fill node after node, each of which is dealt alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Nodes with ranks.
    pub nodes: u32,
    /// Ranks of a node.
    pub per_node: u32,
    /// How they are dealt to sockets and caches.
    pub seating: Seating,
    /// Sockets of a node.
    pub sockets: u32,
    /// Last-level caches of a socket.
    pub caches: u32,
    /// Cores of a node that drive ranks; 0 for one per rank.
    pub cores: u32,
    /// Network interfaces of a node.
    pub nics: u32,
    /// Nodes of a leaf switch; 0 for a network without bottleneck.
    pub leaf_nodes: u32,
    /// How much slower a leaf's way up is than its nodes together.
    pub taper: u32,
    /// Whether plans see the caches and sockets that ranks share.
    pub seen: bool,
}

impl Cluster {
    /// `nodes` nodes of `per_node` ranks, each node with one socket, cache and interface, and a
    /// core for every rank.
    pub fn uniform(nodes: u32, per_node: u32) -> Cluster {
        Cluster {
            nodes: nodes.max(1),
            per_node: per_node.max(1),
            seating: Seating::Block,
            sockets: 1,
            caches: 1,
            cores: 0,
            nics: 1,
            leaf_nodes: 0,
            taper: 1,
            seen: true,
        }
    }

    /// One node of `nranks` ranks on `cores` cores.
    pub fn one_node(nranks: u32, cores: u32) -> Cluster {
        Cluster {
            cores,
            ..Cluster::uniform(1, nranks)
        }
    }

    /// `nodes` nodes whose ranks sit as listed.
    pub fn listed(nodes: u32, listed: SeatList) -> Cluster {
        let per_node = listed.len();
        let cores = listed.cores();
        let ruled = Cluster {
            sockets: listed.sockets(),
            caches: listed.caches().div_ceil(listed.sockets()),
            cores: if cores < per_node { cores } else { 0 },
            ..Cluster::uniform(nodes, per_node)
        };
        if ruled.deals_alike(&listed) {
            return ruled;
        }
        Cluster {
            seating: Seating::Listed(listed),
            ..ruled
        }
    }

    /// Whether every socket and cache has as many ranks, and the rule for that seats them so.
    fn deals_alike(&self, listed: &SeatList) -> bool {
        let caches = self.sockets * self.caches;
        let ruled = |rank: u32| CacheSeat {
            socket: self.socket_of(rank),
            cache: self.cache_of(rank),
            core: self.core_of(rank),
        };
        self.per_node.is_multiple_of(caches)
            && (0..self.per_node).all(|rank| ruled(rank) == listed.spot(rank))
    }

    /// Ranks of all nodes.
    pub fn nranks(&self) -> u32 {
        self.nodes * self.per_node
    }

    /// The node of a rank.
    pub fn node_of(&self, rank: u32) -> u32 {
        rank / self.per_node
    }

    /// The number of a rank on its node.
    pub(super) fn local(&self, rank: u32) -> u32 {
        rank % self.per_node
    }

    /// The socket of a rank, counted over all nodes.
    pub fn socket_of(&self, rank: u32) -> u32 {
        let sockets = self.sockets.max(1);
        let of_node = match &self.seating {
            Seating::Block => return self.group_of(rank, sockets),
            Seating::Listed(listed) => listed.spot(self.local(rank)).socket,
        };
        self.node_of(rank) * sockets + of_node
    }

    /// The last-level cache of a rank, counted over all nodes.
    pub fn cache_of(&self, rank: u32) -> u32 {
        let (sockets, caches) = (self.sockets.max(1), self.caches.max(1));
        let of_node = match &self.seating {
            Seating::Block => return self.group_of(rank, sockets * caches),
            Seating::Listed(listed) => listed.spot(self.local(rank)).cache,
        };
        self.node_of(rank) * self.caches_of_node() + of_node
    }

    /// Caches of a node, as [`Cluster::cache_of`] numbers them.
    pub(super) fn caches_of_node(&self) -> u32 {
        match &self.seating {
            Seating::Listed(listed) => listed.caches(),
            _ => self.sockets.max(1) * self.caches.max(1),
        }
    }

    /// The core of a rank, counted over all nodes.
    pub fn core_of(&self, rank: u32) -> u32 {
        match (self.cores, &self.seating) {
            (0, _) => rank,
            (cores, Seating::Listed(listed)) => {
                self.node_of(rank) * cores + listed.spot(self.local(rank)).core % cores
            }
            (cores, _) => self.node_of(rank) * cores + self.local(rank) % cores,
        }
    }

    /// Whether ranks outnumber the cores of a node.
    pub fn crowded(&self) -> bool {
        self.cores != 0 && self.cores < self.per_node
    }

    /// The ranks of a node fall into `groups` groups of neighbours.
    fn group_of(&self, rank: u32, groups: u32) -> u32 {
        let (node, local) = (self.node_of(rank), self.local(rank));
        let group = u64::from(local) * u64::from(groups) / u64::from(self.per_node);
        node * groups + group as u32
    }

    pub(super) fn leaf_of(&self, rank: u32) -> u32 {
        self.node_of(rank)
            .checked_div(self.leaf_nodes)
            .unwrap_or_default()
    }

    pub(super) fn leaves(&self) -> u32 {
        match self.leaf_nodes {
            0 => 0,
            nodes => self.nodes.div_ceil(nodes),
        }
    }

    /// The nearest thing that two ranks share.
    pub fn level(&self, a: u32, b: u32) -> Level {
        if self.node_of(a) != self.node_of(b) {
            Level::Network
        } else if self.socket_of(a) != self.socket_of(b) {
            Level::Node
        } else if self.cache_of(a) != self.cache_of(b) {
            Level::Socket
        } else {
            Level::Cache
        }
    }

    /// Parts of a node that are told apart, in words: `2 sockets and 16 last-level caches of a node
    /// have ranks`; `None` where a node counts as one cache.
    pub fn parts_text(&self) -> Option<String> {
        let caches = self.caches_of_node();
        let counted = |count: u32, what: &str| match count {
            1 => format!("1 {what}"),
            many => format!("{many} {what}s"),
        };
        let sockets = counted(self.sockets.max(1), "socket");
        let text = format!("{sockets} and {}", counted(caches, "last-level cache"));
        (caches > 1).then(|| format!("{text} of a node have ranks"))
    }

    /// The farthest level that any two ranks have between them.
    pub fn widest(&self) -> Level {
        let several = |groups: u32| groups.min(self.per_node) > 1;
        if self.nodes > 1 {
            Level::Network
        } else if several(self.sockets) {
            Level::Node
        } else if several(self.caches_of_node()) {
            Level::Socket
        } else {
            Level::Cache
        }
    }

    fn farthest(&self, pairs: impl Iterator<Item = (u32, u32)>) -> Level {
        let levels = pairs.map(|(a, b)| self.level(a, b));
        levels.max().unwrap_or(Level::Cache)
    }

    /// The level between ranks that are `distance` apart, where all pairs of that distance wait for
    /// the farthest one. Ranks a power of two apart are partners in exchanges: the numbers of two
    /// partners differ in that bit.
    pub fn across(&self, distance: u32) -> Level {
        let Seating::Listed(_) = self.seating else {
            return self.level(0, distance);
        };
        if distance >= self.per_node {
            return self.level(0, distance);
        }
        let partner = |rank: u32| match distance.is_power_of_two() {
            true => rank ^ distance,
            false => rank + distance,
        };
        let pairs = (0..self.per_node).map(|rank| (rank, partner(rank)));
        self.farthest(pairs.filter(|&(_, other)| other < self.per_node))
    }

    /// The ranks of the first node in an order that passes each socket and each cache once, those
    /// of a cache in their own order.
    pub fn along_node(&self) -> Vec<u32> {
        let mut ranks: Vec<u32> = (0..self.per_node).collect();
        ranks.sort_by_key(|&rank| (self.socket_of(rank), self.cache_of(rank)));
        ranks
    }

    /// The order in which rings and trees pass the ranks: node by node, and each as
    /// [`Cluster::along_node`] says. Communicators find one like it by a search.
    pub fn orders(&self) -> Orders {
        let along = self.along_node();
        if along.is_sorted() {
            return Orders::default();
        }
        let of_node = |node: u32| along.iter().map(move |rank| node * self.per_node + rank);
        let chain = |node: u32| Chain {
            ranks: of_node(node).collect(),
            second_behind: false,
        };
        Orders {
            rings: vec![(0..self.nodes).flat_map(of_node).collect()],
            trees: vec![(0..self.nodes).map(chain).collect()],
        }
    }

    /// Of the hand-overs from each rank of a node to the next one in the order of
    /// [`Cluster::along_node`]: how many cross which level.
    pub fn along(&self) -> [f64; 4] {
        let groups = |count: u32| f64::from(count.clamp(1, self.per_node));
        let (sockets, caches) = (groups(self.sockets), groups(self.caches_of_node()));
        let mut counts = [0.0; 4];
        counts[Level::Node as usize] = sockets - 1.0;
        counts[Level::Socket as usize] = caches - sockets;
        counts[Level::Cache as usize] = f64::from(self.per_node) - caches;
        counts
    }

    /// [`Cluster::along`] around the ring: and on to the next node, or where there is no other back
    /// to the first rank.
    pub fn around(&self) -> [f64; 4] {
        let mut counts = self.along();
        counts[self.widest() as usize] += 1.0;
        counts
    }

    /// Of the hand-overs from each rank of a node to the next one by number: how many cross which
    /// level.
    pub fn by_number(&self) -> [f64; 4] {
        if self.seating == Seating::Block {
            return self.along();
        }
        let mut counts = [0.0; 4];
        for rank in 1..self.per_node {
            counts[self.level(rank - 1, rank) as usize] += 1.0;
        }
        counts
    }

    /// Ranks that one of a node shares its cache, its socket and its node with, itself among them:
    /// what a rank has on average, or as many as fit where ranks are dealt evenly.
    pub fn company(&self) -> [f64; 3] {
        let even = |groups: u32| f64::from(self.per_node.div_ceil(groups.max(1)));
        let Seating::Listed(_) = &self.seating else {
            return [self.caches_of_node(), self.sockets, 1].map(even);
        };
        let mut sizes = [
            vec![0u32; self.caches_of_node() as usize],
            vec![0u32; self.sockets.max(1) as usize],
        ];
        for rank in 0..self.per_node {
            sizes[0][self.cache_of(rank) as usize] += 1;
            sizes[1][self.socket_of(rank) as usize] += 1;
        }
        let per_node = f64::from(self.per_node);
        let [cache, socket] = sizes.map(|sizes| {
            let squares = sizes.into_iter().map(|size| f64::from(size).powi(2));
            squares.sum::<f64>() / per_node
        });
        [cache, socket, per_node]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Nodes;
    use crate::price::seating::in_turn;

    fn machine() -> Cluster {
        Cluster {
            sockets: 2,
            caches: 2,
            cores: 4,
            nics: 2,
            leaf_nodes: 2,
            taper: 2,
            ..Cluster::uniform(4, 8)
        }
    }

    #[test]
    fn levels_follow_what_two_ranks_share() {
        let m = machine();
        let level = |a, b| m.level(a, b);
        assert_eq!(level(0, 1), Level::Cache);
        assert_eq!(level(0, 2), Level::Socket);
        assert_eq!(level(0, 4), Level::Node);
        assert_eq!(level(0, 8), Level::Network);
        assert_eq!(level(31, 30), Level::Cache);
        assert_eq!(m.widest(), Level::Network);
        assert!(m.crowded());
        assert_eq!([m.core_of(0), m.core_of(4), m.core_of(8)], [0, 0, 4]);
    }

    #[test]
    fn uneven_groups_are_filled_in_order() {
        let m = Cluster {
            sockets: 2,
            ..Cluster::uniform(1, 5)
        };
        let sockets: Vec<u32> = (0..5).map(|rank| m.socket_of(rank)).collect();
        assert_eq!(sockets, [0, 0, 0, 1, 1]);
    }

    fn dealt_in_turn() -> Cluster {
        Cluster::listed(4, in_turn(8, 2, 2))
    }

    #[test]
    fn ranks_are_dealt_to_the_sockets_in_turn() {
        let m = dealt_in_turn();
        let sockets: Vec<u32> = (0..10).map(|rank| m.socket_of(rank)).collect();
        assert_eq!(sockets, [0, 1, 0, 1, 0, 1, 0, 1, 2, 3]);
        let levels: Vec<Level> = (1..9).map(|rank| m.level(0, rank)).collect();
        let (cache, socket, node) = (Level::Cache, Level::Socket, Level::Node);
        let network = Level::Network;
        assert_eq!(
            levels,
            [node, cache, node, socket, node, socket, node, network]
        );
        assert_eq!([1, 2, 4].map(|d| m.across(d)), [node, cache, socket]);
        assert_eq!(
            [1, 2, 4].map(|d| machine().across(d)),
            [cache, socket, node]
        );
        assert_eq!(m.company(), machine().company());
        assert_eq!(m.by_number(), [0.0, 0.0, 7.0, 0.0]);
        assert_eq!(m.around(), machine().around());
        assert_eq!(machine().around(), [4.0, 2.0, 1.0, 1.0]);
    }

    /// Orders pass every cache once, and plans take them.
    #[test]
    fn rings_and_trees_pass_each_cache_once() {
        let m = dealt_in_turn();
        assert_eq!(m.along_node(), [0, 2, 4, 6, 1, 3, 5, 7]);
        let nodes = Nodes::uniform(4, 8);
        let ordered = nodes
            .clone()
            .in_orders(m.orders())
            .expect("orders of these nodes");
        let ring = ordered.ring(0).expect("not the order of ranks");
        assert_eq!(ring[7..10], [7, 8, 10]);
        assert_eq!(ordered.chain(1, 1).ranks, [8, 10, 12, 14, 9, 11, 13, 15]);
        assert_eq!(nodes.clone().in_orders(machine().orders()), Ok(nodes));
    }

    /// A list that deals in order and evenly is the rule; any other stays a list.
    #[test]
    fn a_list_in_order_becomes_the_rule() {
        let spot = |socket, cache, core| CacheSeat {
            socket,
            cache,
            core,
        };
        let seating =
            |spots: &[CacheSeat]| Cluster::listed(1, SeatList::new(spots).expect("ranks")).seating;
        let even = [spot(3, 7, 0), spot(3, 7, 1), spot(1, 2, 2), spot(1, 2, 3)];
        assert_eq!(seating(&even), Seating::Block);
        assert_ne!(seating(&even[..3]), Seating::Block);
        let mut mixed = even;
        mixed.swap(1, 2);
        assert_ne!(seating(&mixed), Seating::Block);
        let pairs = [spot(0, 0, 0), spot(0, 0, 0), spot(0, 1, 1), spot(0, 1, 1)];
        assert_ne!(seating(&pairs), Seating::Block, "two ranks of each core");
    }

    /// The rule is the same as a list.
    #[test]
    fn a_rule_is_as_good_as_a_list() {
        for (per_node, sockets, caches) in [(8, 2, 2), (12, 2, 3), (16, 4, 1), (7, 7, 1)] {
            let ruled = Cluster {
                sockets,
                caches,
                ..Cluster::uniform(2, per_node)
            };
            let spots: Vec<CacheSeat> = (0..per_node)
                .map(|rank| CacheSeat {
                    socket: ruled.socket_of(rank),
                    cache: ruled.cache_of(rank),
                    core: rank,
                })
                .collect();
            let listed = Cluster {
                seating: Seating::Listed(SeatList::new(&spots).expect("ranks")),
                ..ruled.clone()
            };
            for (a, b) in (0..2 * per_node).flat_map(|a| (0..2 * per_node).map(move |b| (a, b))) {
                assert_eq!(ruled.level(a, b), listed.level(a, b), "{ruled:?} {a} {b}");
            }
            assert_eq!(ruled.widest(), listed.widest());
            assert_eq!(ruled.by_number(), listed.by_number(), "{ruled:?}");
            assert_eq!(ruled.company(), listed.company(), "{ruled:?}");
        }
    }
}
