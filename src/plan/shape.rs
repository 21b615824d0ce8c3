//! What a plan is made for: collective, algorithm, ranks, root, channels.

/// The operations that ranks call together, and the two of point-to-point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Collective {
    /// Every rank gets the fold of all inputs.
    AllReduce = 1,
    /// Every rank gets the root's input.
    Broadcast = 2,
    /// The root gets the fold of all inputs.
    Reduce = 3,
    /// Every rank gets all inputs, in rank order.
    AllGather = 4,
    /// Rank r gets block r of the fold.
    ReduceScatter = 5,
    /// Rank r gets block r of every rank.
    AllToAll = 6,
    /// The root gets all inputs, in rank order.
    Gather = 7,
    /// Rank r gets block r of the root.
    Scatter = 8,
    /// Nobody leaves before everybody has entered.
    Barrier = 9,
    /// To one peer.
    Send = 10,
    /// From one peer.
    Recv = 11,
    /// Rank r gets the fold of the inputs of ranks 0 to r.
    Scan = 12,
    /// Rank r gets the fold of the inputs of ranks 0 to r - 1; rank 0 gets nothing.
    Exscan = 13,
    /// All-gather of blocks of different sizes.
    AllGatherV = 14,
    /// Gather of blocks of different sizes.
    GatherV = 15,
    /// Scatter of blocks of different sizes.
    ScatterV = 16,
    /// Reduce-scatter of blocks of different sizes.
    ReduceScatterV = 17,
    /// All-to-all of blocks of different sizes.
    AllToAllV = 18,
    /// Every rank gets the inputs of its neighbours on a graph.
    NeighborAllGather = 19,
    /// The same with inputs of different sizes.
    NeighborAllGatherV = 20,
    /// Every rank gets a block of each of its neighbours on a graph.
    NeighborAllToAll = 21,
    /// The same with blocks of different sizes.
    NeighborAllToAllV = 22,
}

impl Collective {
    /// All of them; entry `i` has number `i + 1`.
    pub const ALL: [Collective; 22] = [
        Collective::AllReduce,
        Collective::Broadcast,
        Collective::Reduce,
        Collective::AllGather,
        Collective::ReduceScatter,
        Collective::AllToAll,
        Collective::Gather,
        Collective::Scatter,
        Collective::Barrier,
        Collective::Send,
        Collective::Recv,
        Collective::Scan,
        Collective::Exscan,
        Collective::AllGatherV,
        Collective::GatherV,
        Collective::ScatterV,
        Collective::ReduceScatterV,
        Collective::AllToAllV,
        Collective::NeighborAllGather,
        Collective::NeighborAllGatherV,
        Collective::NeighborAllToAll,
        Collective::NeighborAllToAllV,
    ];

    /// One more than the largest number: the length of a table by number.
    pub const NUMBERS: usize = Collective::ALL.len() + 1;

    /// The name in messages: that of the call without its prefix.
    #[inline]
    pub fn name(self) -> &'static str {
        match self {
            Collective::AllReduce => "AllReduce",
            Collective::Broadcast => "Broadcast",
            Collective::Reduce => "Reduce",
            Collective::AllGather => "AllGather",
            Collective::ReduceScatter => "ReduceScatter",
            Collective::AllToAll => "AllToAll",
            Collective::Gather => "Gather",
            Collective::Scatter => "Scatter",
            Collective::Barrier => "Barrier",
            Collective::Send => "Send",
            Collective::Recv => "Recv",
            Collective::Scan => "Scan",
            Collective::Exscan => "Exscan",
            Collective::AllGatherV => "AllGatherV",
            Collective::GatherV => "GatherV",
            Collective::ScatterV => "ScatterV",
            Collective::ReduceScatterV => "ReduceScatterV",
            Collective::AllToAllV => "AllToAllV",
            Collective::NeighborAllGather => "NeighborAllGather",
            Collective::NeighborAllGatherV => "NeighborAllGatherV",
            Collective::NeighborAllToAll => "NeighborAllToAll",
            Collective::NeighborAllToAllV => "NeighborAllToAllV",
        }
    }

    /// Whether inputs are folded with a reduction operation.
    pub fn reduces(self) -> bool {
        matches!(
            self,
            Collective::AllReduce
                | Collective::Reduce
                | Collective::ReduceScatter
                | Collective::ReduceScatterV
                | Collective::Scan
                | Collective::Exscan
        )
    }

    /// Whether rank r gets the fold of the ranks before it.
    pub fn is_scan(self) -> bool {
        matches!(self, Collective::Scan | Collective::Exscan)
    }

    /// Whether blocks may differ in size, or go along the edges of a graph: a bundle of messages,
    /// each of its own size.
    pub fn is_vector(self) -> bool {
        self as u8 >= Collective::AllGatherV as u8
    }

    /// Whether one rank is special.
    pub fn has_root(self) -> bool {
        matches!(
            self,
            Collective::Broadcast
                | Collective::Reduce
                | Collective::Gather
                | Collective::Scatter
                | Collective::GatherV
                | Collective::ScatterV
        )
    }

    /// Blocks of one count that the input has, where a plan is laid out in blocks.
    pub fn input_blocks(self, nranks: u32) -> u32 {
        match self {
            Collective::ReduceScatter | Collective::AllToAll | Collective::Scatter => nranks,
            _ => 1,
        }
    }

    /// Blocks of one count that the output has, where a plan is laid out in blocks.
    pub fn output_blocks(self, nranks: u32) -> u32 {
        match self {
            Collective::AllGather | Collective::AllToAll | Collective::Gather => nranks,
            _ => 1,
        }
    }

    /// Whether it is one of the two point-to-point calls.
    pub fn is_point_to_point(self) -> bool {
        matches!(self, Collective::Send | Collective::Recv)
    }
}

macro_rules! algorithms {
    ($( #[doc = $doc:literal] $variant:ident = $name:literal, )+) => {
        /// The algorithms that emit plans.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Algorithm {
            $( #[doc = $doc] $variant, )+
        }

        impl Algorithm {
            /// All of them.
            pub const ALL: &'static [Algorithm] = &[ $( Algorithm::$variant, )+ ];

            /// The name in settings and dumps.
            pub fn name(self) -> &'static str {
                match self { $( Algorithm::$variant => $name, )+ }
            }
        }
    };
}

algorithms! {
    /// Chunks travel along a ring.
    Ring = "ring",
    /// Every rank publishes, every rank folds in rank order.
    OneShot = "oneshot",
    /// One connection a lane: point-to-point groups and what is built of them.
    Bundle = "bundle",
    /// One rank alone: a scaled copy.
    Local = "local",
    /// Contributions are folded in the order of ranks, whatever the size.
    Ordered = "ordered",
    /// Two binary trees between the nodes, each for half of the data; a chain inside the node.
    Tree = "tree",
    /// The owner of a slice folds it, all take the result.
    TwoShot = "twoshot",
    /// Partners at doubling distances exchange all they have.
    RecursiveDoubling = "rd",
    /// Partners exchange halves of halves, then double what they have.
    HalvingDoubling = "hd",
    /// A binomial tree.
    Binomial = "binomial",
    /// A pipelined chain, node by node.
    Chain = "chain",
    /// Parallel aggregated trees, in bounded buffers.
    Pat = "pat",
    /// Blocks at doubling distances, several in one message.
    Bruck = "bruck",
    /// Every pair of ranks in turn.
    Pairwise = "pairwise",
    /// Signals at doubling distances.
    Dissemination = "dissemination",
    /// A hub for every slice, and a fan for its result.
    Nvls = "nvls",
    /// Hubs inside the node, two binary trees between nodes.
    NvlsTree = "nvlstree",
    /// A reducer in the network, here played by a rank.
    CollNet = "collnet",
    /// The same where the network itself folds: takes the place of `collnet` there.
    Switch = "switch",
    /// One algorithm inside the node, another between the nodes.
    Hierarchical = "hier",
    /// One rank of each node speaks for it.
    Leader = "leader",
}

impl Algorithm {
    /// The algorithm with this name in settings.
    pub fn named(name: &str) -> Option<Algorithm> {
        let is_it = |algorithm: &&Algorithm| algorithm.name() == name;
        Algorithm::ALL.iter().find(is_it).copied()
    }
}

/// How a window cuts bytes into chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// The data of a round is split evenly into all chunks.
    Split,
    /// Chunk c is a part of block c; blocks are one count apart.
    Blocks,
}

/// The key of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// What is computed.
    pub collective: Collective,
    /// How.
    pub algorithm: Algorithm,
    /// Whose plan it is.
    pub rank: u32,
    /// Ranks of the communicator.
    pub nranks: u32,
    /// Root, or peer of a point-to-point bundle; 0 otherwise.
    pub root: u32,
    /// Channels, at least 1.
    pub channels: u16,
}
