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

/// Part of the data that a rank has to send or to receive: the blocks of all ranks but one.
fn each_block(nranks: f64) -> f64 {
    (nranks - 1.0) / nranks
}

/// A row without peculiarities.
const PLAIN: Collective = Collective {
    name: "",
    kolo: None,
    reduces: None,
    in_place: false,
    sizeless: false,
    power_of_two: false,
    counts: layout::nothing,
    content: |_, _| Vec::new(),
    moved: |_| 1.0,
    busy: |_| 1.0,
    run: calls::plain,
    mpi: rival::barrier,
};

/// A row of the collective that kolo calls so.
const fn row(name: &'static str) -> Collective {
    let kolo = kolo::comm::Collective::of_word(name);
    assert!(kolo.is_some(), "the table of collectives has this name");
    Collective {
        name,
        kolo,
        ..PLAIN
    }
}

/// All collectives, in the order of the help.
pub static COLLECTIVES: &[Collective] = &[
    Collective {
        reduces: Some(|_| true),
        in_place: true,
        counts: layout::equal,
        content: |seat, counts| reduced(seat, counts, 0),
        busy: |n| 2.0 * each_block(n),
        mpi: rival::all_reduce,
        ..row("all_reduce")
    },
    Collective {
        in_place: true,
        counts: layout::gathering,
        content: |_, counts| blocks(counts, |rank| Content::Input(rank as u32, 0)),
        busy: each_block,
        mpi: rival::all_gather,
        ..row("all_gather")
    },
    Collective {
        reduces: Some(folds),
        in_place: true,
        counts: layout::scattering,
        content: |seat, counts| reduced(seat, counts, counts.recv_at),
        busy: each_block,
        mpi: rival::reduce_scatter,
        ..row("reduce_scatter")
    },
    Collective {
        in_place: true,
        counts: layout::equal,
        content: |seat, counts| whole(counts, Content::Input(seat.root, 0)),
        mpi: rival::broadcast,
        ..row("broadcast")
    },
    Collective {
        reduces: Some(|_| true),
        in_place: true,
        counts: layout::equal,
        content: |seat, counts| at_root(seat, counts, reduced(seat, counts, 0)),
        mpi: rival::reduce,
        ..row("reduce")
    },
    Collective {
        counts: layout::exchanging,
        content: |seat, counts| {
            let start = seat.rank as usize * counts.call;
            blocks(counts, |rank| Content::Input(rank as u32, start))
        },
        busy: each_block,
        mpi: rival::all_to_all,
        ..row("alltoall")
    },
    Collective {
        in_place: true,
        counts: layout::gathering,
        content: |seat, counts| {
            let all = blocks(counts, |rank| Content::Input(rank as u32, 0));
            at_root(seat, counts, all)
        },
        busy: each_block,
        mpi: rival::gather,
        ..row("gather")
    },
    Collective {
        in_place: true,
        counts: layout::scattering,
        content: |seat, counts| whole(counts, Content::Input(seat.root, counts.recv_at)),
        busy: each_block,
        mpi: rival::scatter,
        ..row("scatter")
    },
    Collective {
        reduces: Some(scans),
        in_place: true,
        counts: layout::equal,
        content: |seat, counts| scanned(counts, seat.rank + 1),
        mpi: rival::scan,
        ..row("scan")
    },
    Collective {
        reduces: Some(scans),
        in_place: true,
        counts: layout::equal,
        content: |seat, counts| scanned(counts, seat.rank),
        mpi: rival::exscan,
        ..row("exscan")
    },
    Collective {
        in_place: true,
        counts: layout::gathering_v,
        content: |_, counts| placed(counts, |rank| Content::Input(rank as u32, 0)),
        busy: each_block,
        run: calls::gathered,
        mpi: rival::all_gather_v,
        ..row("all_gather_v")
    },
    Collective {
        in_place: true,
        counts: layout::gathering_v,
        content: |seat, counts| {
            let all = placed(counts, |rank| Content::Input(rank as u32, 0));
            at_root(seat, counts, all)
        },
        busy: each_block,
        run: calls::gathered,
        mpi: rival::gather_v,
        ..row("gather_v")
    },
    Collective {
        in_place: true,
        counts: layout::scattering_v,
        content: |seat, counts| whole(counts, Content::Input(seat.root, counts.recv_at)),
        busy: each_block,
        run: calls::scattered,
        mpi: rival::scatter_v,
        ..row("scatter_v")
    },
    Collective {
        reduces: Some(folds),
        in_place: true,
        counts: layout::reduce_scattering_v,
        content: |seat, counts| reduced(seat, counts, counts.recv_at),
        busy: each_block,
        run: calls::packed,
        mpi: rival::reduce_scatter_v,
        ..row("reduce_scatter_v")
    },
    Collective {
        counts: layout::exchanging_v,
        content: exchanged,
        busy: each_block,
        run: calls::exchanged,
        mpi: rival::all_to_all_v,
        ..row("alltoall_v")
    },
    Collective {
        counts: layout::gathering_beside,
        content: |seat, counts| blocks(counts, from_beside(seat, [0, 0])),
        run: calls::equal,
        mpi: rival::neighbor_all_gather,
        ..row("neighbor_allgather")
    },
    Collective {
        counts: layout::gathering_beside_v,
        content: |seat, counts| placed(counts, from_beside(seat, [0, 0])),
        run: calls::gathered,
        mpi: rival::neighbor_all_gather_v,
        ..row("neighbor_allgather_v")
    },
    Collective {
        counts: layout::exchanging_beside,
        content: |seat, counts| blocks(counts, from_beside(seat, [0, counts.call])),
        run: calls::equal,
        mpi: rival::neighbor_all_to_all,
        ..row("neighbor_alltoall")
    },
    Collective {
        counts: layout::exchanging_beside_v,
        content: |seat, counts| {
            let upper = counts.send_blocks.places[1];
            placed(counts, from_beside(seat, [0, upper]))
        },
        run: calls::exchanged,
        mpi: rival::neighbor_all_to_all_v,
        ..row("neighbor_alltoall_v")
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
        // The block that a rank has already is not counted, and both bandwidths are one.
        moved: each_block,
        run: calls::hypercube,
        mpi: rival::hypercube,
        ..PLAIN
    },
    Collective {
        sizeless: true,
        ..row("barrier")
    },
];

#[cfg(test)]
mod tests {
    use super::COLLECTIVES;

    #[test]
    fn every_collective_of_the_table_is_measured_once() {
        for collective in kolo::comm::Collective::ALL {
            let rows = COLLECTIVES
                .iter()
                .filter(|row| row.kolo == Some(collective));
            // Messages are measured both ways at once: sendrecv.
            let wanted = usize::from(!collective.is_point_to_point());
            assert_eq!(rows.count(), wanted, "{collective:?}");
        }
        let several = COLLECTIVES.iter().filter(|row| row.kolo.is_none());
        let several: Vec<&str> = several.map(|row| row.name).collect();
        assert_eq!(several, ["sendrecv", "hypercube"]);
    }
}
