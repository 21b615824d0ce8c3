//! Where ranks run and what a hand-over between them costs: the numbers that the simulator and the
//! tuner share.
//!
//! The model is LogGP (A. Alexandrov et al., "LogGP: incorporating long messages into the LogP
//! model", J. Parallel Distrib. Comput. 44 (1997), doi:10.1006/jpdc.1997.1346), with one set of
//! parameters per *level*: what two ranks share decides what they pay. Inside a node the reader's
//! core carries the bytes ([`Carrier::Reader`]); between nodes links carry them
//! ([`Carrier::Wire`]), and links are shared.
//!
//! Terms: *level*: the nearest thing two ranks share; *link*: something that carries the bytes of
//! one token at a time; *leaf*: the switch that a group of nodes hangs on.

use super::Protocol;

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

/// Who moves the bytes of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// The core of the reader: memory shared between ranks.
    Reader,
    /// Links between the ranks; the cores are free meanwhile.
    Wire,
}

/// What a hand-over costs at one level. Times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelCost {
    /// L: from publishing (or the end of the last byte on the last link) to being seen; also for
    /// a credit on its way back.
    pub latency_ns: f64,
    /// o: time of a core for each token that it writes or reads.
    pub overhead_ns: f64,
    /// g: time that a token takes on a link beside its bytes.
    pub gap_ns: f64,
    /// G: time a byte takes, on each link or at the reader's core.
    pub byte_ns: f64,
    /// Who spends G.
    pub carrier: Carrier,
}

/// What everything costs. Times in nanoseconds, rates in nanoseconds a byte; 0 means free.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// By number of the [`Level`].
    pub levels: [LevelCost; 4],
    /// A core reads a byte of its own memory.
    pub read_ns: f64,
    /// A core writes a byte.
    pub write_ns: f64,
    /// A core folds a byte of a second or further source.
    pub fold_ns: f64,
    /// A core interprets one slice of a step.
    pub step_ns: f64,
    /// A call before its first step.
    pub call_ns: f64,
    /// A core turns to another rank, where ranks outnumber cores.
    pub switch_ns: f64,
    /// A byte on the memory of a socket that its cores share.
    pub memory_ns: f64,
    /// A byte on the link between sockets.
    pub cross_ns: f64,
    /// What LL changes, and what LL128 does.
    pub lines: [LinesCost; 2],
}

/// What flagged lines cost beside slots: payload carries its own arrival, but passes through lines
/// on both sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinesCost {
    /// Latency inside a node, as a part of that of slots: one line is fetched, not two in a row.
    pub latency: f64,
    /// More time of a core for each token that it writes or reads.
    pub overhead_ns: f64,
    /// Bytes that are carried for each byte of payload.
    pub bytes: f64,
    /// A byte of payload into lines and out of them again, on both cores together.
    pub copy_ns: f64,
}

impl LinesCost {
    /// Lines that cost what slots do.
    const LIKE_SLOTS: LinesCost = LinesCost {
        latency: 1.0,
        overhead_ns: 0.0,
        bytes: 1.0,
        copy_ns: 0.0,
    };
}

impl Costs {
    /// The costs at a level.
    pub fn level(&self, level: Level) -> &LevelCost {
        &self.levels[level as usize]
    }

    /// The costs where pairs hand tokens over by this protocol. Both copies of a token are put on
    /// its reader, as the carrier of the bytes; wires carry the flags too.
    pub fn over(&self, protocol: Protocol) -> Costs {
        let lines = match protocol {
            Protocol::Simple => return *self,
            Protocol::Ll => self.lines[0],
            Protocol::Ll128 => self.lines[1],
        };
        let mut costs = *self;
        for level in &mut costs.levels {
            level.byte_ns *= lines.bytes;
            level.overhead_ns += lines.overhead_ns;
            if level.carrier == Carrier::Reader {
                level.latency_ns *= lines.latency;
                level.byte_ns += lines.copy_ns;
            }
        }
        costs.memory_ns *= lines.bytes;
        costs.cross_ns *= lines.bytes;
        costs
    }

    /// The model of the published closed forms: at every level a token takes `start_ns` and
    /// `byte_ns` a byte, during which its sender sends and its receiver receives nothing else
    /// (single ports, full duplex); nothing else costs anything.
    pub fn plain(start_ns: f64, byte_ns: f64) -> Costs {
        let level = LevelCost {
            latency_ns: 0.0,
            overhead_ns: 0.0,
            gap_ns: start_ns,
            byte_ns,
            carrier: Carrier::Wire,
        };
        Costs {
            levels: [level; 4],
            read_ns: 0.0,
            write_ns: 0.0,
            fold_ns: 0.0,
            step_ns: 0.0,
            call_ns: 0.0,
            switch_ns: 0.0,
            memory_ns: 0.0,
            cross_ns: 0.0,
            lines: [LinesCost::LIKE_SLOTS; 2],
        }
    }
}

/// LL and LL128 as they were measured (`docs/tuning.md`).
const LINES_LL: LinesCost = LinesCost {
    latency: 1.0,
    overhead_ns: 15.0,
    bytes: 2.0,
    copy_ns: 0.6,
};
const LINES_LL128: LinesCost = LinesCost {
    latency: 1.0,
    overhead_ns: 15.0,
    bytes: 128.0 / 120.0,
    copy_ns: 0.3,
};

/// What kolo assumes where nobody has measured: server cores over shared memory, and a network of
/// 100 Gbit/s.
impl Default for Costs {
    fn default() -> Costs {
        let near = |latency_ns, byte_ns| LevelCost {
            latency_ns,
            overhead_ns: 30.0,
            gap_ns: 0.0,
            byte_ns,
            carrier: Carrier::Reader,
        };
        let network = LevelCost {
            latency_ns: 1500.0,
            overhead_ns: 300.0,
            gap_ns: 100.0,
            byte_ns: 0.08,
            carrier: Carrier::Wire,
        };
        Costs {
            levels: [
                near(170.0, 0.035),
                near(220.0, 0.05),
                near(350.0, 0.07),
                network,
            ],
            read_ns: 0.03,
            write_ns: 0.04,
            fold_ns: 0.02,
            step_ns: 25.0,
            call_ns: 40.0,
            switch_ns: 600.0,
            memory_ns: 0.006,
            cross_ns: 0.025,
            lines: [LINES_LL, LINES_LL128],
        }
    }
}

/// Where the ranks are. Ranks fill node after node, and inside a node socket after socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
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

impl Machine {
    /// `nodes` nodes of `per_node` ranks, each node with one socket, cache and interface, and a
    /// core for every rank.
    pub fn uniform(nodes: u32, per_node: u32) -> Machine {
        Machine {
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
    pub fn one_node(nranks: u32, cores: u32) -> Machine {
        Machine {
            cores,
            ..Machine::uniform(1, nranks)
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

/// Something that carries the bytes of one token at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LinkKind {
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

impl LinkKind {
    /// All kinds, in the order of link numbers.
    pub const ALL: [LinkKind; 8] = [
        LinkKind::PortOut,
        LinkKind::PortIn,
        LinkKind::Memory,
        LinkKind::Cross,
        LinkKind::NicOut,
        LinkKind::NicIn,
        LinkKind::LeafUp,
        LinkKind::LeafDown,
    ];

    /// What it is, for tables.
    pub fn name(self) -> &'static str {
        match self {
            LinkKind::PortOut => "port out",
            LinkKind::PortIn => "port in",
            LinkKind::Memory => "memory",
            LinkKind::Cross => "cross",
            LinkKind::NicOut => "nic out",
            LinkKind::NicIn => "nic in",
            LinkKind::LeafUp => "leaf up",
            LinkKind::LeafDown => "leaf down",
        }
    }
}

/// All links of a machine, by number.
#[derive(Clone, Copy, Debug)]
pub struct Links {
    machine: Machine,
    /// First number of each kind, and the end.
    starts: [u32; 9],
}

impl Links {
    /// The links of `machine`.
    pub fn new(machine: &Machine) -> Links {
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

    fn link(&self, kind: LinkKind, index: u32) -> u32 {
        self.starts[kind as usize] + index
    }

    /// What link `link` is: its kind, and its number within the kind.
    pub fn describe(&self, link: u32) -> (LinkKind, u32) {
        let kind = LinkKind::ALL
            .into_iter()
            .rfind(|kind| self.starts[*kind as usize] <= link)
            .unwrap_or(LinkKind::PortOut);
        (kind, link - self.starts[kind as usize])
    }

    /// The links that carry a token from `writer` to `reader` where wires carry it, in order.
    pub fn path(&self, writer: u32, reader: u32) -> ([u32; MOST_LINKS], usize) {
        let m = &self.machine;
        let mut path = [0; MOST_LINKS];
        if m.node_of(writer) == m.node_of(reader) {
            path[0] = self.link(LinkKind::PortOut, writer);
            path[1] = self.link(LinkKind::PortIn, reader);
            return (path, 2);
        }
        path[0] = self.link(LinkKind::NicOut, m.nic_of(writer));
        let mut length = 1;
        let (from, to) = (m.leaf_of(writer), m.leaf_of(reader));
        if from != to {
            path[1] = self.link(LinkKind::LeafUp, from);
            path[2] = self.link(LinkKind::LeafDown, to);
            length = 3;
        }
        path[length] = self.link(LinkKind::NicIn, m.nic_of(reader));
        (path, length + 1)
    }

    /// The memory that `rank` reads from.
    pub fn memory(&self, rank: u32) -> u32 {
        self.link(LinkKind::Memory, self.machine.socket_of(rank))
    }

    /// The way from the socket of `writer` to another one.
    pub fn cross(&self, writer: u32) -> u32 {
        self.link(LinkKind::Cross, self.machine.socket_of(writer))
    }

    /// How many times faster a link is than one network interface: 1 for all but a leaf's ways,
    /// which are as fast as its nodes together, divided by the taper.
    pub fn width(&self, link: u32) -> f64 {
        let m = &self.machine;
        match self.describe(link).0 {
            LinkKind::LeafUp | LinkKind::LeafDown => {
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

    fn machine() -> Machine {
        Machine {
            sockets: 2,
            caches: 2,
            cores: 4,
            nics: 2,
            leaf_nodes: 2,
            taper: 2,
            ..Machine::uniform(4, 8)
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
        let m = Machine {
            sockets: 2,
            ..Machine::uniform(1, 5)
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
        assert_eq!(kinds(0, 7), [(LinkKind::PortOut, 0), (LinkKind::PortIn, 7)]);
        assert_eq!(kinds(7, 8), [(LinkKind::NicOut, 1), (LinkKind::NicIn, 2)]);
        let far = [
            (LinkKind::NicOut, 0),
            (LinkKind::LeafUp, 0),
            (LinkKind::LeafDown, 1),
            (LinkKind::NicIn, 7),
        ];
        assert_eq!(kinds(0, 31), far);
        assert_eq!(links.count(), 2 * 32 + 2 * 8 + 2 * 8 + 2 * 2);
        assert_eq!(links.width(links.path(0, 31).0[1]), 2.0);
    }
}
