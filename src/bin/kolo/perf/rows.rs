//! The table of collectives that can be measured: everything that differs between them.
//!
//! **Bus bandwidth.** The factor makes the bandwidth comparable with the speed of the hardware: it
//! is the part of the size that the busiest link of a rank must carry at least. Collectives of
//! blocks of different sizes have the factor of those of one size, which is right on average.

use super::content::{at_root, blocks, exchanged, from_beside, placed, reduced, scanned, whole};
use super::engine::{Collective, Content};
use super::operation::Operation;
use super::{calls, layout, rival};
use kolo::dtype::ReduceOp;

/// The operations of most collectives that reduce.
fn folds(op: Operation) -> bool {
    op != Operation::ExactSum
}

/// The operations of a scan: an average of some ranks has no meaning that all agree on.
fn scans(op: Operation) -> bool {
    folds(op) && op != Operation::Built(ReduceOp::Avg)
}

/// What all ranks but one have to send or to receive.
fn each_block(nranks: f64) -> f64 {
    (nranks - 1.0) / nranks
}

/// A row without peculiarities.
const PLAIN: Collective = Collective {
    name: "barrier",
    reduces: None,
    rooted: false,
    in_place: false,
    sizeless: false,
    power_of_two: false,
    along_graph: false,
    counts: layout::nothing,
    content: |_, _| Vec::new(),
    busy: |_| 1.0,
    run: calls::barrier,
    mpi: rival::barrier,
};

/// All collectives, in the order of the help.
pub static COLLECTIVES: &[Collective] = &[
    Collective {
        name: "all_reduce",
        reduces: Some(|_| true),
        in_place: true,
        counts: layout::equal,
        content: |seat, counts| reduced(seat, counts, 0),
        busy: |n| 2.0 * each_block(n),
        run: calls::all_reduce,
        mpi: rival::all_reduce,
        ..PLAIN
    },
    Collective {
        name: "all_gather",
        in_place: true,
        counts: layout::gathering,
        content: |_, counts| blocks(counts, |rank| Content::Input(rank as u32, 0)),
        busy: each_block,
        run: calls::all_gather,
        mpi: rival::all_gather,
        ..PLAIN
    },
    Collective {
        name: "reduce_scatter",
        reduces: Some(folds),
        in_place: true,
        counts: layout::scattering,
        content: |seat, counts| reduced(seat, counts, counts.recv_at),
        busy: each_block,
        run: calls::reduce_scatter,
        mpi: rival::reduce_scatter,
        ..PLAIN
    },
    Collective {
        name: "broadcast",
        rooted: true,
        in_place: true,
        counts: layout::equal,
        content: |seat, counts| whole(counts, Content::Input(seat.root, 0)),
        run: calls::broadcast,
        mpi: rival::broadcast,
        ..PLAIN
    },
    Collective {
        name: "reduce",
        reduces: Some(|_| true),
        rooted: true,
        in_place: true,
        counts: layout::equal,
        content: |seat, counts| at_root(seat, counts, reduced(seat, counts, 0)),
        run: calls::reduce,
        mpi: rival::reduce,
        ..PLAIN
    },
    Collective {
        name: "alltoall",
        counts: layout::exchanging,
        content: |seat, counts| {
            let start = seat.rank as usize * counts.call;
            blocks(counts, |rank| Content::Input(rank as u32, start))
        },
        busy: each_block,
        run: calls::all_to_all,
        mpi: rival::all_to_all,
        ..PLAIN
    },
    Collective {
        name: "gather",
        rooted: true,
        in_place: true,
        counts: layout::gathering,
        content: |seat, counts| {
            let all = blocks(counts, |rank| Content::Input(rank as u32, 0));
            at_root(seat, counts, all)
        },
        busy: each_block,
        run: calls::gather,
        mpi: rival::gather,
        ..PLAIN
    },
    Collective {
        name: "scatter",
        rooted: true,
        in_place: true,
        counts: layout::scattering,
        content: |seat, counts| whole(counts, Content::Input(seat.root, counts.recv_at)),
        busy: each_block,
        run: calls::scatter,
        mpi: rival::scatter,
        ..PLAIN
    },
    Collective {
        name: "scan",
        reduces: Some(scans),
        in_place: true,
        counts: layout::equal,
        content: |seat, counts| scanned(counts, seat.rank + 1),
        run: calls::scan,
        mpi: rival::scan,
        ..PLAIN
    },
    Collective {
        name: "exscan",
        reduces: Some(scans),
        in_place: true,
        counts: layout::equal,
        content: |seat, counts| scanned(counts, seat.rank),
        run: calls::exscan,
        mpi: rival::exscan,
        ..PLAIN
    },
    Collective {
        name: "all_gather_v",
        in_place: true,
        counts: layout::gathering_v,
        content: |_, counts| placed(counts, |rank| Content::Input(rank as u32, 0)),
        busy: each_block,
        run: calls::all_gather_v,
        mpi: rival::all_gather_v,
        ..PLAIN
    },
    Collective {
        name: "gather_v",
        rooted: true,
        in_place: true,
        counts: layout::gathering_v,
        content: |seat, counts| {
            let all = placed(counts, |rank| Content::Input(rank as u32, 0));
            at_root(seat, counts, all)
        },
        busy: each_block,
        run: calls::gather_v,
        mpi: rival::gather_v,
        ..PLAIN
    },
    Collective {
        name: "scatter_v",
        rooted: true,
        in_place: true,
        counts: layout::scattering_v,
        content: |seat, counts| whole(counts, Content::Input(seat.root, counts.recv_at)),
        busy: each_block,
        run: calls::scatter_v,
        mpi: rival::scatter_v,
        ..PLAIN
    },
    Collective {
        name: "reduce_scatter_v",
        reduces: Some(folds),
        in_place: true,
        counts: layout::reduce_scattering_v,
        content: |seat, counts| reduced(seat, counts, counts.recv_at),
        busy: each_block,
        run: calls::reduce_scatter_v,
        mpi: rival::reduce_scatter_v,
        ..PLAIN
    },
    Collective {
        name: "alltoall_v",
        counts: layout::exchanging_v,
        content: exchanged,
        busy: each_block,
        run: calls::all_to_all_v,
        mpi: rival::all_to_all_v,
        ..PLAIN
    },
    Collective {
        name: "neighbor_allgather",
        along_graph: true,
        counts: layout::gathering_beside,
        content: |seat, counts| blocks(counts, from_beside(seat, [0, 0])),
        run: calls::neighbor_all_gather,
        mpi: rival::neighbor_all_gather,
        ..PLAIN
    },
    Collective {
        name: "neighbor_allgather_v",
        along_graph: true,
        counts: layout::gathering_beside_v,
        content: |seat, counts| placed(counts, from_beside(seat, [0, 0])),
        run: calls::neighbor_all_gather_v,
        mpi: rival::neighbor_all_gather_v,
        ..PLAIN
    },
    Collective {
        name: "neighbor_alltoall",
        along_graph: true,
        counts: layout::exchanging_beside,
        content: |seat, counts| blocks(counts, from_beside(seat, [0, counts.call])),
        run: calls::neighbor_all_to_all,
        mpi: rival::neighbor_all_to_all,
        ..PLAIN
    },
    Collective {
        name: "neighbor_alltoall_v",
        along_graph: true,
        counts: layout::exchanging_beside_v,
        content: |seat, counts| {
            let upper = counts.send_blocks.places[1];
            placed(counts, from_beside(seat, [0, upper]))
        },
        run: calls::neighbor_all_to_all_v,
        mpi: rival::neighbor_all_to_all_v,
        ..PLAIN
    },
    Collective {
        name: "sendrecv",
        counts: layout::equal,
        content: |seat, counts| {
            let [before, _] = layout::beside(seat);
            whole(counts, Content::Input(before, 0))
        },
        run: calls::send_recv,
        mpi: rival::send_recv,
        ..PLAIN
    },
    Collective {
        name: "hypercube",
        in_place: true,
        power_of_two: true,
        counts: layout::gathering,
        content: |_, counts| blocks(counts, |rank| Content::Input(rank as u32, 0)),
        busy: each_block,
        run: calls::hypercube,
        mpi: rival::hypercube,
        ..PLAIN
    },
    Collective {
        sizeless: true,
        ..PLAIN
    },
];
