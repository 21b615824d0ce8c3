//! The collectives: what ranks call together, in one table.
//!
//! **Problem.** Which buffers a call has, how many blocks they hold, whether it folds, has a root,
//! may be made in place: settings, the checks of arguments, the checker of plans and the executors
//! all ask this. Each list of collectives of their own would be one more to forget.
//!
//! **Idea.** A line of the table says it all; everything else is made of the lines. Numbers stand
//! in the signatures that travel with tokens, and so never change.
//!
//! **Terms.** *Block*: `count` elements of the call, the part of one rank; in collectives whose
//! blocks have sizes of their own, one of these.

/// Who has a buffer, and how many blocks it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Nobody has one.
    Nothing,
    /// Every rank has one block.
    One,
    /// Every rank has a block for each rank.
    All,
    /// The root has one block.
    OneAtRoot,
    /// The root has a block for each rank.
    AllAtRoot,
    /// Every rank but the first has one block.
    OneBehindFirst,
    /// Every rank has a block for each neighbour on a graph.
    Beside,
}

/// How send and receive buffer may be the same memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InPlace {
    /// Not at all.
    Never,
    /// They begin at the same place.
    Same,
    /// The send buffer is the rank's own block of the receive buffer.
    SendInRecv,
    /// The receive buffer is the rank's own block of the send buffer.
    RecvInSend,
}

/// A line of the table.
#[derive(Clone, Copy, Debug)]
struct Traits {
    sends: Share,
    receives: Share,
    in_place: InPlace,
    folds: bool,
    is_scan: bool,
    is_vector: bool,
    is_message: bool,
}

/// Ranks hand in `sends` and get `receives`; what the functions of [`Traits`] add is not so.
const fn of(sends: Share, receives: Share) -> Traits {
    Traits {
        sends,
        receives,
        in_place: InPlace::Never,
        folds: false,
        is_scan: false,
        is_vector: false,
        is_message: false,
    }
}

impl Traits {
    /// Both buffers may be the same memory in this way.
    const fn in_place(self, in_place: InPlace) -> Traits {
        Traits { in_place, ..self }
    }

    /// Inputs are folded with a reduction operation.
    const fn folds(self) -> Traits {
        Traits {
            folds: true,
            ..self
        }
    }

    /// Rank r gets the fold of the ranks before it.
    const fn scan(self) -> Traits {
        Traits {
            is_scan: true,
            ..self.folds().in_place(InPlace::Same)
        }
    }

    /// Blocks have sizes of their own, or go along the edges of a graph.
    const fn vector(self) -> Traits {
        Traits {
            is_vector: true,
            ..self
        }
    }

    /// One of the two point-to-point calls.
    const fn message(self) -> Traits {
        Traits {
            is_message: true,
            ..self
        }
    }
}

macro_rules! collectives {
    ($( #[doc = $doc:literal] $name:ident = $number:literal, $word:literal: $traits:expr; )+) => {
        /// The operations that ranks call together, and the two of point-to-point.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Collective {
            $( #[doc = $doc] $name = $number, )+
        }

        impl Collective {
            /// All of them; entry `i` has number `i + 1`.
            pub const ALL: [Collective; [$( $number ),+].len()] = [ $( Collective::$name ),+ ];

            /// The name in messages: that of the call without its prefix.
            #[inline]
            pub fn name(self) -> &'static str {
                match self { $( Collective::$name => stringify!($name), )+ }
            }

            /// The name in settings: small letters.
            pub const fn word(self) -> &'static str {
                match self { $( Collective::$name => $word, )+ }
            }

            /// Asks `of` about its line, which `of` sees as a constant: an answer costs no more
            /// than a match that was written for it.
            #[inline(always)]
            fn with<T>(self, of: impl Fn(Traits) -> T) -> T {
                use {InPlace::*, Share::*};
                match self { $( Collective::$name => of(const { $traits }), )+ }
            }
        }
    };
}

collectives! {
    /// Every rank gets the fold of all inputs.
    AllReduce = 1, "allreduce": of(One, One).in_place(Same).folds();
    /// Every rank gets the root's input.
    Broadcast = 2, "broadcast": of(OneAtRoot, One).in_place(Same);
    /// The root gets the fold of all inputs.
    Reduce = 3, "reduce": of(One, OneAtRoot).in_place(Same).folds();
    /// Every rank gets all inputs, in rank order.
    AllGather = 4, "allgather": of(One, All).in_place(SendInRecv);
    /// Rank r gets block r of the fold.
    ReduceScatter = 5, "reducescatter": of(All, One).in_place(RecvInSend).folds();
    /// Rank r gets block r of every rank.
    AllToAll = 6, "alltoall": of(All, All);
    /// The root gets all inputs, in rank order.
    Gather = 7, "gather": of(One, AllAtRoot).in_place(SendInRecv);
    /// Rank r gets block r of the root.
    Scatter = 8, "scatter": of(AllAtRoot, One).in_place(RecvInSend);
    /// Nobody leaves before everybody has entered.
    Barrier = 9, "barrier": of(Nothing, Nothing);
    /// To one peer.
    Send = 10, "send": of(One, Nothing).message();
    /// From one peer.
    Recv = 11, "recv": of(Nothing, One).message();
    /// Rank r gets the fold of the inputs of ranks 0 to r.
    Scan = 12, "scan": of(One, One).scan();
    /// Rank r gets the fold of the inputs of ranks 0 to r - 1; rank 0 gets nothing.
    Exscan = 13, "exscan": of(One, OneBehindFirst).scan();
    /// All-gather of blocks of different sizes.
    AllGatherV = 14, "allgatherv": of(One, All).vector();
    /// Gather of blocks of different sizes.
    GatherV = 15, "gatherv": of(One, AllAtRoot).vector();
    /// Scatter of blocks of different sizes.
    ScatterV = 16, "scatterv": of(AllAtRoot, One).vector();
    /// Reduce-scatter of blocks of different sizes.
    ReduceScatterV = 17, "reducescatterv": of(All, One).vector().folds();
    /// All-to-all of blocks of different sizes.
    AllToAllV = 18, "alltoallv": of(All, All).vector();
    /// Every rank gets the inputs of its neighbours on a graph.
    NeighborAllGather = 19, "neighborallgather": of(One, Beside).vector();
    /// Every rank gets inputs of different sizes from its neighbours on a graph.
    NeighborAllGatherV = 20, "neighborallgatherv": of(One, Beside).vector();
    /// Every rank gets a block of each of its neighbours on a graph.
    NeighborAllToAll = 21, "neighboralltoall": of(Beside, Beside).vector();
    /// Every rank gets blocks of different sizes from its neighbours on a graph.
    NeighborAllToAllV = 22, "neighboralltoallv": of(Beside, Beside).vector();
}

impl Share {
    /// Whether only the root has the buffer.
    #[inline(always)]
    const fn is_at_root(self) -> bool {
        matches!(self, Share::OneAtRoot | Share::AllAtRoot)
    }

    /// Blocks that a rank's buffer holds; 0 where it has none. Those along a graph are not known
    /// here, and 0.
    #[inline(always)]
    pub fn blocks(self, (rank, root, nranks): (u32, u32, u32)) -> u32 {
        let at_root = |blocks: u32| if rank == root { blocks } else { 0 };
        match self {
            Share::Nothing | Share::Beside => 0,
            Share::One => 1,
            Share::All => nranks,
            Share::OneAtRoot => at_root(1),
            Share::AllAtRoot => at_root(nranks),
            Share::OneBehindFirst => u32::from(rank > 0),
        }
    }
}

impl Collective {
    /// One more than the largest number: the length of a table by number.
    pub const NUMBERS: usize = Collective::ALL.len() + 1;

    /// The collective of a name in small letters, in which each `_` is left out.
    pub const fn of_word(name: &str) -> Option<Collective> {
        let mut at = 0;
        while at < Collective::ALL.len() {
            if same_letters(Collective::ALL[at].word().as_bytes(), name.as_bytes()) {
                return Some(Collective::ALL[at]);
            }
            at += 1;
        }
        None
    }

    /// Who hands in what.
    #[inline(always)]
    pub fn sends(self) -> Share {
        self.with(|line| line.sends)
    }

    /// Who gets what.
    #[inline(always)]
    pub fn receives(self) -> Share {
        self.with(|line| line.receives)
    }

    /// How send and receive buffer may be the same memory.
    #[inline(always)]
    pub fn in_place(self) -> InPlace {
        self.with(|line| line.in_place)
    }

    /// Whether inputs are folded with a reduction operation.
    #[inline(always)]
    pub fn reduces(self) -> bool {
        self.with(|line| line.folds)
    }

    /// Whether this is the scan that counts the own input, too.
    #[inline(always)]
    pub fn is_inclusive(self) -> bool {
        self == Collective::Scan
    }

    /// Whether rank r gets the fold of the ranks before it.
    #[inline(always)]
    pub fn is_scan(self) -> bool {
        self.with(|line| line.is_scan)
    }

    /// Whether blocks may differ in size, or go along the edges of a graph: a bundle of messages,
    /// each of its own size.
    #[inline(always)]
    pub fn is_vector(self) -> bool {
        self.with(|line| line.is_vector)
    }

    /// Whether it is one of the two point-to-point calls.
    #[inline(always)]
    pub fn is_point_to_point(self) -> bool {
        self.with(|line| line.is_message)
    }

    /// Whether one rank is special.
    #[inline(always)]
    pub fn has_root(self) -> bool {
        self.with(|line| line.sends.is_at_root() || line.receives.is_at_root())
    }

    /// Blocks of one count that the send and receive buffer of a rank hold: (rank, root, ranks).
    /// 0 where there is none, or blocks have sizes of their own.
    #[inline(always)]
    pub fn blocks(self, at: (u32, u32, u32)) -> (u32, u32) {
        self.with(|line| match line.is_vector {
            true => (0, 0),
            false => (line.sends.blocks(at), line.receives.blocks(at)),
        })
    }

    /// Blocks of one count that the input has, where a plan is laid out in blocks.
    pub fn input_blocks(self, nranks: u32) -> u32 {
        self.laid_out(self.sends(), nranks)
    }

    /// Blocks of one count that the output has, where a plan is laid out in blocks.
    pub fn output_blocks(self, nranks: u32) -> u32 {
        self.laid_out(self.receives(), nranks)
    }

    fn laid_out(self, held: Share, nranks: u32) -> u32 {
        match held {
            Share::All | Share::AllAtRoot if !self.is_vector() => nranks,
            _ => 1,
        }
    }
}

/// Whether `word` is `name` without each `_`.
const fn same_letters(word: &[u8], name: &[u8]) -> bool {
    let (mut at, mut of_word) = (0, 0);
    while at < name.len() {
        if name[at] != b'_' {
            if of_word == word.len() || word[of_word] != name[at] {
                return false;
            }
            of_word += 1;
        }
        at += 1;
    }
    of_word == word.len()
}

const _: () = {
    let mut at = 0;
    while at < Collective::ALL.len() {
        assert!(
            Collective::ALL[at] as usize == at + 1,
            "numbers have no gaps"
        );
        at += 1;
    }
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers and names travel with tokens and stand in tables of others: changed here, they are
    /// changed on purpose.
    #[test]
    fn numbers_names_and_kinds_are_what_they_were() {
        let names: Vec<String> = Collective::ALL
            .iter()
            .map(|it| {
                let kinds = [
                    (it.reduces(), 'f'),
                    (it.has_root(), 'r'),
                    (it.is_scan(), 's'),
                    (it.is_vector(), 'v'),
                    (it.is_point_to_point(), 'm'),
                ];
                let kinds: String = kinds.iter().filter(|k| k.0).map(|k| k.1).collect();
                let blocks = (it.input_blocks(7), it.output_blocks(7));
                format!("{} {}{kinds} {blocks:?}", *it as u8, it.name())
            })
            .collect();
        let wanted = "1 AllReducef (1, 1); 2 Broadcastr (1, 1); 3 Reducefr (1, 1); \
            4 AllGather (1, 7); 5 ReduceScatterf (7, 1); 6 AllToAll (7, 7); 7 Gatherr (1, 7); \
            8 Scatterr (7, 1); 9 Barrier (1, 1); 10 Sendm (1, 1); 11 Recvm (1, 1); \
            12 Scanfs (1, 1); 13 Exscanfs (1, 1); 14 AllGatherVv (1, 1); 15 GatherVrv (1, 1); \
            16 ScatterVrv (1, 1); 17 ReduceScatterVfv (1, 1); 18 AllToAllVv (1, 1); \
            19 NeighborAllGatherv (1, 1); 20 NeighborAllGatherVv (1, 1); \
            21 NeighborAllToAllv (1, 1); 22 NeighborAllToAllVv (1, 1)";
        assert_eq!(names.join("; "), wanted);
        for collective in Collective::ALL {
            assert_eq!(collective.word(), collective.name().to_ascii_lowercase());
        }
    }

    #[test]
    fn a_name_may_have_underscores() {
        for collective in Collective::ALL {
            assert_eq!(Collective::of_word(collective.word()), Some(collective));
        }
        let of = Collective::of_word;
        assert_eq!(of("_all_to__all_"), Some(Collective::AllToAll));
        for other in ["all_to", "all_to_all_", "gathe", "gatherw", "", "_"] {
            let found = of(other).map(Collective::name);
            assert_eq!(
                found,
                (other == "all_to_all_").then_some("AllToAll"),
                "{other}"
            );
        }
    }

    #[test]
    fn who_has_how_many_blocks() {
        // Rank, root, ranks.
        let of = |collective: Collective, at: (u32, u32, u32)| {
            (
                collective.sends().blocks(at),
                collective.receives().blocks(at),
            )
        };
        assert_eq!(of(Collective::AllReduce, (1, 0, 5)), (1, 1));
        assert_eq!(of(Collective::Broadcast, (2, 2, 5)), (1, 1));
        assert_eq!(of(Collective::Broadcast, (1, 2, 5)), (0, 1));
        assert_eq!(of(Collective::Reduce, (1, 2, 5)), (1, 0));
        assert_eq!(of(Collective::AllToAll, (1, 0, 5)), (5, 5));
        assert_eq!(of(Collective::Gather, (2, 2, 5)), (1, 5));
        assert_eq!(of(Collective::Gather, (3, 2, 5)), (1, 0));
        assert_eq!(of(Collective::Scatter, (3, 2, 5)), (0, 1));
        assert_eq!(of(Collective::Barrier, (3, 2, 5)), (0, 0));
        assert_eq!(of(Collective::Exscan, (0, 0, 5)), (1, 0));
        assert_eq!(of(Collective::Exscan, (1, 0, 5)), (1, 1));
        assert_eq!(of(Collective::ScatterV, (2, 2, 5)), (5, 1));
    }
}
