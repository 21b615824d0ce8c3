//! Where ranks run: what any two of them share, and which links carry their bytes.

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

/// Where the ranks are. Ranks fill node after node, and inside a node socket after socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Nodes with ranks.
    pub nodes: u32,
    /// Ranks of a node.
    pub per_node: u32,
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

/// Links of one token at most: interface out, leaf up, leaf down, interface in.
pub const MOST_LINKS: usize = 4;

impl Cluster {
    /// `nodes` nodes of `per_node` ranks, each node with one socket, cache and interface, and a
    /// core for every rank.
    pub fn uniform(nodes: u32, per_node: u32) -> Cluster {
        Cluster {
            nodes: nodes.max(1),
            per_node: per_node.max(1),
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

    /// Ranks of all nodes.
    pub fn nranks(&self) -> u32 {
        self.nodes * self.per_node
    }

    /// The node of a rank.
    pub fn node_of(&self, rank: u32) -> u32 {
        rank / self.per_node
    }

    /// The socket of a rank, counted over all nodes.
    pub fn socket_of(&self, rank: u32) -> u32 {
        self.group_of(rank, self.sockets.max(1))
    }

    /// The last-level cache of a rank, counted over all nodes.
    fn cache_of(&self, rank: u32) -> u32 {
        self.group_of(rank, self.sockets.max(1) * self.caches.max(1))
    }

    /// The core of a rank, counted over all nodes.
    pub fn core_of(&self, rank: u32) -> u32 {
        match self.cores {
            0 => rank,
            cores => self.node_of(rank) * cores + rank % self.per_node % cores,
        }
    }

    /// Whether ranks outnumber the cores of a node.
    pub fn crowded(&self) -> bool {
        self.cores != 0 && self.cores < self.per_node
    }

    /// The interface of a rank, counted over all nodes: a node's ranks share them evenly.
    fn nic_of(&self, rank: u32) -> u32 {
        self.group_of(rank, self.nics.max(1))
    }

    /// The ranks of a node fall into `groups` groups of neighbours.
    fn group_of(&self, rank: u32, groups: u32) -> u32 {
        let (node, local) = (self.node_of(rank), rank % self.per_node);
        let group = u64::from(local) * u64::from(groups) / u64::from(self.per_node);
        node * groups + group as u32
    }

    fn leaf_of(&self, rank: u32) -> u32 {
        self.node_of(rank)
            .checked_div(self.leaf_nodes)
            .unwrap_or_default()
    }

    fn leaves(&self) -> u32 {
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

    /// The farthest level that any two ranks have between them.
    pub fn widest(&self) -> Level {
        self.level(0, self.nranks() - 1)
    }
}

/// Where a link stands; a link carries the bytes of one token at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LinkPlace {
    /// Out of a rank to a rank of its node, where links carry the bytes.
    PortOut,
    /// Into a rank from a rank of its node.
    PortIn,
    /// The memory of a socket.
    Memory,
    /// Out of a socket to another one of its node.
    Cross,
    /// Out of a network interface.
    NicOut,
    /// Into a network interface.
    NicIn,
    /// From a leaf switch up.
    LeafUp,
    /// Down to a leaf switch.
    LeafDown,
}

impl LinkPlace {
    /// All kinds, in the order of link numbers.
    pub const ALL: [LinkPlace; 8] = [
        LinkPlace::PortOut,
        LinkPlace::PortIn,
        LinkPlace::Memory,
        LinkPlace::Cross,
        LinkPlace::NicOut,
        LinkPlace::NicIn,
        LinkPlace::LeafUp,
        LinkPlace::LeafDown,
    ];

    /// Name for tables.
    pub fn name(self) -> &'static str {
        match self {
            LinkPlace::PortOut => "port out",
            LinkPlace::PortIn => "port in",
            LinkPlace::Memory => "memory",
            LinkPlace::Cross => "cross",
            LinkPlace::NicOut => "nic out",
            LinkPlace::NicIn => "nic in",
            LinkPlace::LeafUp => "leaf up",
            LinkPlace::LeafDown => "leaf down",
        }
    }
}

/// All links of a machine, by number.
#[derive(Clone, Copy, Debug)]
pub struct Links {
    machine: Cluster,
    /// First number of each kind, and the end.
    starts: [u32; 9],
}

impl Links {
    /// The links of `machine`.
    pub fn new(machine: &Cluster) -> Links {
        let (ranks, sockets) = (machine.nranks(), machine.nodes * machine.sockets.max(1));
        let nics = machine.nodes * machine.nics.max(1);
        let leaves = machine.leaves();
        let counts = [ranks, ranks, sockets, sockets, nics, nics, leaves, leaves];
        let mut starts = [0; 9];
        for (kind, count) in counts.into_iter().enumerate() {
            starts[kind + 1] = starts[kind] + count;
        }
        Links {
            machine: *machine,
            starts,
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.starts[8] as usize
    }

    fn link(&self, kind: LinkPlace, index: u32) -> u32 {
        self.starts[kind as usize] + index
    }

    /// Returns the kind of link `link`, and its number within the kind.
    pub fn describe(&self, link: u32) -> (LinkPlace, u32) {
        let kind = LinkPlace::ALL
            .into_iter()
            .rfind(|kind| self.starts[*kind as usize] <= link)
            .unwrap_or(LinkPlace::PortOut);
        (kind, link - self.starts[kind as usize])
    }

    /// The links that carry a token from `writer` to `reader` where wires carry it, in order.
    pub fn path(&self, writer: u32, reader: u32) -> ([u32; MOST_LINKS], usize) {
        let m = &self.machine;
        let mut path = [0; MOST_LINKS];
        if m.node_of(writer) == m.node_of(reader) {
            path[0] = self.link(LinkPlace::PortOut, writer);
            path[1] = self.link(LinkPlace::PortIn, reader);
            return (path, 2);
        }
        path[0] = self.link(LinkPlace::NicOut, m.nic_of(writer));
        let mut length = 1;
        let (from, to) = (m.leaf_of(writer), m.leaf_of(reader));
        if from != to {
            path[1] = self.link(LinkPlace::LeafUp, from);
            path[2] = self.link(LinkPlace::LeafDown, to);
            length = 3;
        }
        path[length] = self.link(LinkPlace::NicIn, m.nic_of(reader));
        (path, length + 1)
    }

    /// The memory that `rank` reads from.
    pub fn memory(&self, rank: u32) -> u32 {
        self.link(LinkPlace::Memory, self.machine.socket_of(rank))
    }

    /// The way from the socket of `writer` to another one.
    pub fn cross(&self, writer: u32) -> u32 {
        self.link(LinkPlace::Cross, self.machine.socket_of(writer))
    }

    /// How many times faster a link is than one network interface: 1 for all but a leaf's ways,
    /// which are as fast as its nodes together, divided by the taper.
    pub fn width(&self, link: u32) -> f64 {
        let m = &self.machine;
        match self.describe(link).0 {
            LinkPlace::LeafUp | LinkPlace::LeafDown => {
                let nics = f64::from(m.leaf_nodes.min(m.nodes) * m.nics.max(1));
                (nics / f64::from(m.taper.max(1))).max(1.0)
            }
            _ => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn tokens_pass_interfaces_and_leaves() {
        let m = machine();
        let links = Links::new(&m);
        let kinds = |a, b| {
            let (path, length) = links.path(a, b);
            let named = |link: &u32| links.describe(*link);
            path[..length].iter().map(named).collect::<Vec<_>>()
        };
        assert_eq!(
            kinds(0, 7),
            [(LinkPlace::PortOut, 0), (LinkPlace::PortIn, 7)]
        );
        assert_eq!(kinds(7, 8), [(LinkPlace::NicOut, 1), (LinkPlace::NicIn, 2)]);
        let far = [
            (LinkPlace::NicOut, 0),
            (LinkPlace::LeafUp, 0),
            (LinkPlace::LeafDown, 1),
            (LinkPlace::NicIn, 7),
        ];
        assert_eq!(kinds(0, 31), far);
        assert_eq!(links.count(), 2 * 32 + 2 * 8 + 2 * 8 + 2 * 2);
        assert_eq!(links.width(links.path(0, 31).0[1]), 2.0);
    }
}
