//! The calls that the Fortran module has in many forms: names, sentences and kinds of arguments.
//!
//! What a collective needs beside its arrays (an operation, a root, a graph) is known to the table
//! of collectives.

use Arrays::*;
use kolo_core::base::{Collective, Share};

/// One call of kolo.
pub struct Call {
    pub collective: Collective,
    /// Name without prefix.
    pub name: &'static str,
    /// Sentence for the comment that says what it does.
    pub what: &'static str,
    pub arrays: Arrays,
}

/// Arrays that a call takes.
#[derive(Clone, Copy, PartialEq)]
pub enum Arrays {
    Zero,
    /// One, `buf`, that is read or written.
    One,
    /// `send` and `recv`.
    Two,
    /// Either of both.
    OneOrTwo,
    /// One message: `buf` and the peer, read or written.
    Message {
        reads: bool,
    },
    /// A message to one peer and one from another.
    Exchange,
    /// Blocks of one size in `send` and of different sizes in `recv`.
    BlocksReceived,
    /// The other way round.
    BlocksSent,
    /// Blocks of different sizes in both.
    Blocks,
    /// Blocks of different sizes in `send`, one behind the other.
    BlocksInARow,
}

/// Arguments: `in:` and `io:` are arrays of any type, `counts:` integer arrays, `n:` numbers of
/// elements, `t:` data types.
pub struct Forms {
    /// Forms that take sizes from the arrays: suffix of the C name (`#` for a kind of integer), and
    /// arguments.
    pub short: Vec<(&'static str, String)>,
    /// MPI's arguments, unless they are the same; each kind of integer is a form.
    pub explicit: Option<String>,
}

impl Call {
    /// `comm` or `graph`.
    pub fn on(&self) -> &'static str {
        match self.collective.receives() == Share::Beside {
            true => "graph",
            false => "comm",
        }
    }

    /// Whether blocks have sizes of their own, or belong to the neighbours on a graph.
    pub fn has_blocks(&self) -> bool {
        self.collective.is_vector()
    }

    pub fn forms(&self) -> Forms {
        let folds = self.collective.reduces();
        let (short, explicit): (&[_], &str) = match self.arrays {
            Zero => (&[("", "")], ""),
            One => (&[("", "io:buf")], "io:buf n:count t:datatype"),
            Two if folds => (TWO, TWO_ALIKE),
            Two => (TWO, TWO_KINDS),
            OneOrTwo => (&[("_buf", "io:buf"), TWO[0]], TWO_ALIKE),
            Message { reads: true } => (&[("", "in:buf peer")], "in:buf n:count t:datatype peer"),
            Message { reads: false } => (&[("", "io:buf peer")], "io:buf n:count t:datatype peer"),
            Exchange => (
                &[("", "in:send dest io:recv source")],
                "in:send n:sendcount t:sendtype dest io:recv n:recvcount t:recvtype source",
            ),
            BlocksReceived => (
                &[
                    ("#", "in:send io:recv counts:recvcounts"),
                    ("_d#", "in:send io:recv counts:recvcounts counts:displs"),
                ],
                "in:send n:sendcount t:sendtype io:recv counts:recvcounts counts:displs t:recvtype",
            ),
            BlocksSent => (
                &[
                    ("#", "in:send counts:sendcounts io:recv"),
                    ("_d#", "in:send counts:sendcounts io:recv counts:displs"),
                ],
                "in:send counts:sendcounts counts:displs t:sendtype io:recv n:recvcount t:recvtype",
            ),
            Blocks => (
                &[
                    ("#", "in:send counts:sendcounts io:recv counts:recvcounts"),
                    (
                        "_d#",
                        "in:send counts:sendcounts io:recv counts:recvcounts counts:sdispls \
                         counts:rdispls",
                    ),
                ],
                "in:send counts:sendcounts counts:sdispls t:sendtype io:recv counts:recvcounts \
                 counts:rdispls t:recvtype",
            ),
            BlocksInARow => (
                &[("#", "in:send io:recv counts:recvcounts")],
                "in:send io:recv counts:recvcounts t:datatype",
            ),
        };
        let whole = |arrays: &str| {
            let op = if folds { " op" } else { "" };
            let root = match self.collective.has_root() {
                true => " root",
                false => "",
            };
            format!("{arrays}{op}{root}")
        };
        Forms {
            short: short
                .iter()
                .map(|(end, args)| (*end, whole(args)))
                .collect(),
            explicit: (!explicit.is_empty()).then(|| whole(explicit)),
        }
    }
}

const TWO: &[(&str, &str)] = &[("", "in:send io:recv")];
const TWO_ALIKE: &str = "in:send io:recv n:count t:datatype";
const TWO_KINDS: &str = "in:send n:sendcount t:sendtype io:recv n:recvcount t:recvtype";

const fn call(
    collective: Collective,
    name: &'static str,
    arrays: Arrays,
    what: &'static str,
) -> Call {
    Call {
        collective,
        name,
        what,
        arrays,
    }
}

/// The calls, in the order of the module. Every collective is here.
#[rustfmt::skip]
pub const CALLS: &[Call] = {
    use Collective as C;
    &[
        call(C::AllReduce, "allreduce", OneOrTwo,
            "Reduces elements of all ranks; every rank gets the same bits. One array, or two of \
             the same type and size. Pairs for KOLO_MINLOC and KOLO_MAXLOC are arrays (2, n). \
             (Bodies with and without ierror, because an optional one would make buf and (send, \
             recv) ambiguous.)"),
        call(C::Broadcast, "bcast", One,
            "Copies buf of the root to all ranks; any type."),
        call(C::Reduce, "reduce", Two,
            "Reduces elements of all ranks into recv of the root; recv of the others is not used."),
        call(C::AllGather, "allgather", Two,
            "Collects send of every rank in recv of all, in rank order: recv has (ranks) x (size \
             of send) elements."),
        call(C::Gather, "gather", Two,
            "kolo_allgather to the root only; recv of the others is not used."),
        call(C::Scatter, "scatter", Two,
            "Block r of send of the root goes to recv of rank r; send of the others is not used."),
        call(C::ReduceScatter, "reduce_scatter", Two,
            "Reduces send of all ranks; rank r gets block r. send has (ranks) x (size of recv) \
             elements."),
        call(C::AllToAll, "alltoall", Two,
            "Block p of send goes to rank p, block p of recv comes from rank p."),
        call(C::Barrier, "barrier", Zero,
            "Returns when all ranks have called."),
        call(C::Send, "send", Message { reads: true },
            "Sends buf to rank `peer`, to nobody if that is KOLO_NO_RANK; calls between two ranks \
             match in order. Exchanges need a group, or kolo_sendrecv."),
        call(C::Recv, "recv", Message { reads: false },
            "Receives as many elements as rank `peer` sends; buf stays if that is KOLO_NO_RANK."),
        call(C::Send, "sendrecv", Exchange,
            "kolo_send to rank `dest` and kolo_recv from rank `source` at once, so that neither \
             waits for the other. Both arrays have one type; their sizes may differ. KOLO_NO_RANK \
             is a neighbour that is not there."),
        call(C::Scan, "scan", Two,
            "Rank r gets the reduction of ranks 0 to r, in their order; no KOLO_AVG."),
        call(C::Exscan, "exscan", Two,
            "Rank r gets the reduction of ranks 0 to r - 1; recv of rank 0 is not used."),
        call(C::AllGatherV, "allgatherv", BlocksReceived,
            "Collects recvcounts(r + 1) elements of rank r, at displs(r + 1) elements from the \
             start or one behind the other, in recv of all ranks."),
        call(C::GatherV, "gatherv", BlocksReceived,
            "kolo_allgatherv to the root; recv, recvcounts and displs of the others are not used."),
        call(C::ScatterV, "scatterv", BlocksSent,
            "sendcounts(r + 1) elements of send of the root go to recv of rank r; send, \
             sendcounts and displs of the others are not used."),
        call(C::ReduceScatterV, "reduce_scatterv", BlocksInARow,
            "Reduces send of all ranks, in their order; rank r gets block r, which has \
             recvcounts(r + 1) elements (pairs, with KOLO_MINLOC and KOLO_MAXLOC)."),
        call(C::AllToAllV, "alltoallv", Blocks,
            "sendcounts(p + 1) elements go to rank p, recvcounts(p + 1) come from it."),
        call(C::NeighborAllGather, "neighbor_allgather", Two,
            "Collects send of all sources of the graph, of one size, in recv."),
        call(C::NeighborAllGatherV, "neighbor_allgatherv", BlocksReceived,
            "The same of different sizes: recvcounts(i) elements of source i."),
        call(C::NeighborAllToAll, "neighbor_alltoall", Two,
            "Block i of send goes to destination i, block i of recv comes from source i; blocks \
             of missing neighbours are left alone."),
        call(C::NeighborAllToAllV, "neighbor_alltoallv", Blocks,
            "The same of different sizes."),
    ]
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_collective_is_forgotten() {
        for collective in Collective::ALL {
            let is = |call: &Call| call.collective == collective;
            assert!(CALLS.iter().any(is), "{collective:?}");
        }
    }
}
