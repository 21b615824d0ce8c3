//! Where ranks run: what any two of them share, and which links carry their bytes.

use super::seating::{SeatList, Seating};

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
        Cluster {
            sockets: listed.sockets(),
            caches: listed.caches().div_ceil(listed.sockets()),
            cores: if cores < per_node { cores } else { 0 },
            seating: Seating::Listed(listed),
            ..Cluster::uniform(nodes, per_node)
        }
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
    fn local(&self, rank: u32) -> u32 {
        rank % self.per_node
    }

    /// The socket of a rank, counted over all nodes.
    pub fn socket_of(&self, rank: u32) -> u32 {
        let sockets = self.sockets.max(1);
        let of_node = match &self.seating {
            Seating::Block => return self.group_of(rank, sockets),
            Seating::Cyclic => self.local(rank) % sockets,
            Seating::Listed(listed) => listed.spot(self.local(rank)).socket,
        };
        self.node_of(rank) * sockets + of_node
    }

    /// The last-level cache of a rank, counted over all nodes.
    fn cache_of(&self, rank: u32) -> u32 {
        let (sockets, caches) = (self.sockets.max(1), self.caches.max(1));
        let of_node = match &self.seating {
            Seating::Block => return self.group_of(rank, sockets * caches),
            Seating::Cyclic => {
                let (socket, seat) = (self.local(rank) % sockets, self.local(rank) / sockets);
                let seats = (self.per_node - socket).div_ceil(sockets);
                socket * caches + (u64::from(seat) * u64::from(caches) / u64::from(seats)) as u32
            }
            Seating::Listed(listed) => listed.spot(self.local(rank)).cache,
        };
        self.node_of(rank) * self.caches_of_node() + of_node
    }

    /// Caches of a node, as [`Cluster::cache_of`] numbers them.
    fn caches_of_node(&self) -> u32 {
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

    /// The interface of a rank, counted over all nodes: a node's ranks share them evenly.
    pub(super) fn nic_of(&self, rank: u32) -> u32 {
        self.group_of(rank, self.nics.max(1))
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
        match self.seating {
            _ if self.nodes > 1 => Level::Network,
            Seating::Block => self.level(0, self.per_node - 1),
            _ => self.farthest((1..self.per_node).map(|rank| (0, rank))),
        }
    }

    fn farthest(&self, pairs: impl Iterator<Item = (u32, u32)>) -> Level {
        let levels = pairs.map(|(a, b)| self.level(a, b));
        levels.max().unwrap_or(Level::Cache)
    }

    /// The level between ranks that are `distance` apart, where all pairs of that distance wait for
    /// the farthest one.
    pub fn across(&self, distance: u32) -> Level {
        match self.seating {
            Seating::Listed(_) if distance < self.per_node => {
                let last = self.per_node - distance;
                self.farthest((0..last).map(|rank| (rank, rank + distance)))
            }
            _ => self.level(0, distance),
        }
    }

    /// Of the hand-overs from each rank of a node to the next one, around the node where there is
    /// no other: how many cross which level.
    pub fn neighbours(&self) -> [f64; 4] {
        let mut counts = [0.0; 4];
        let last = self.per_node - 1;
        let around = match self.nodes {
            1 => self.level(last, 0),
            _ => Level::Network,
        };
        counts[around as usize] += 1.0;
        if self.seating == Seating::Block {
            let groups = |count: u32| f64::from(count.clamp(1, self.per_node));
            let (sockets, caches) = (groups(self.sockets), groups(self.caches_of_node()));
            counts[Level::Node as usize] += sockets - 1.0;
            counts[Level::Socket as usize] += caches - sockets;
            counts[Level::Cache as usize] += f64::from(self.per_node) - caches;
        } else {
            for rank in 0..last {
                counts[self.level(rank, rank + 1) as usize] += 1.0;
            }
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
    use crate::price::CacheSeat;

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

    #[test]
    fn ranks_are_dealt_to_the_sockets_in_turn() {
        let m = Cluster {
            seating: Seating::Cyclic,
            ..machine()
        };
        let sockets: Vec<u32> = (0..10).map(|rank| m.socket_of(rank)).collect();
        assert_eq!(sockets, [0, 1, 0, 1, 0, 1, 0, 1, 2, 3]);
        let levels: Vec<Level> = (1..9).map(|rank| m.level(0, rank)).collect();
        let (cache, socket, node) = (Level::Cache, Level::Socket, Level::Node);
        let network = Level::Network;
        assert_eq!(
            levels,
            [node, cache, node, socket, node, socket, node, network]
        );
        assert_eq!(m.across(1), node);
        assert_eq!(m.company(), machine().company());
        assert_eq!(m.neighbours(), [0.0, 0.0, 7.0, 1.0]);
        assert_eq!(machine().neighbours(), [4.0, 2.0, 1.0, 1.0]);
    }

    /// Dealings that have a rule are the same as lists.
    #[test]
    fn a_rule_is_as_good_as_a_list() {
        for seating in [Seating::Block, Seating::Cyclic] {
            for (per_node, sockets, caches) in [(8, 2, 2), (12, 2, 3), (16, 4, 1), (7, 7, 1)] {
                let ruled = Cluster {
                    seating: seating.clone(),
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
                let listed = Cluster::listed(2, SeatList::new(&spots).expect("ranks"));
                for (a, b) in (0..2 * per_node).flat_map(|a| (0..2 * per_node).map(move |b| (a, b)))
                {
                    assert_eq!(ruled.level(a, b), listed.level(a, b), "{ruled:?} {a} {b}");
                }
                assert_eq!(ruled.widest(), listed.widest());
                assert_eq!(ruled.neighbours(), listed.neighbours(), "{ruled:?}");
                assert_eq!(ruled.company(), listed.company(), "{ruled:?}");
            }
        }
    }
}
