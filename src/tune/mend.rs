//! Guidelines that times must keep, and how a table that breaks them is mended.
//!
//! A table of measured or predicted times may contradict itself: twice the data in less time, an
//! all-reduce slower than a reduce and a broadcast in a row (J. L. Träff, W. D. Gropp, R. Thakur,
//! "Self-consistent MPI performance guidelines", IEEE Trans. Parallel Distrib. Syst. 21 (2010),
//! doi:10.1109/TPDS.2009.120). Each contradiction says that something else would have been
//! faster, so it is mended by choosing that: what is chosen for twice the data, or the two
//! collectives in a row (*composition*). Estimates are not trusted so far: where one side of a
//! contradiction was not measured, the expected time is lowered, and the choice stays.

use super::grid::{CLASSES, Cell, Grid, class_of};
use crate::plan::Collective;

/// The time of two collectives in a row.
#[derive(Clone, Copy)]
struct Sum {
    time_ns: f64,
    measured: bool,
}

const NEVER: Sum = Sum {
    time_ns: f64::INFINITY,
    measured: false,
};

/// Mends all cells. `nranks` is needed because an all-gather's broadcast is of all blocks.
pub(super) fn mend(grid: &mut Grid, nranks: u32) {
    for row in grid.rows_mut() {
        envelope(row);
    }
    let sum = |a: &[Cell; CLASSES], b: &[Cell; CLASSES], shift: &dyn Fn(usize) -> Option<usize>| {
        let mut sums = [NEVER; CLASSES];
        for (class, sum) in sums.iter_mut().enumerate() {
            if let Some(other) = shift(class) {
                let (a, b) = (&a[class], &b[other]);
                *sum = Sum {
                    time_ns: a.time_ns + b.time_ns,
                    measured: a.measured && b.measured,
                };
            }
        }
        sums
    };
    let broadcast = grid.row(Collective::Broadcast);
    let reduced = sum(&grid.row(Collective::Reduce), &broadcast, &|class| {
        Some(class)
    });
    compose(grid, Collective::AllReduce, &reduced);
    let all_blocks = |class: usize| {
        let bytes = (1usize << class).checked_mul(nranks as usize)?;
        Some(class_of(bytes))
    };
    let gathered = sum(&grid.row(Collective::Gather), &broadcast, &all_blocks);
    compose(grid, Collective::AllGather, &gathered);
    let eight_bytes = grid.row(Collective::AllReduce)[class_of(8)];
    let alone = Sum {
        time_ns: eight_bytes.time_ns,
        measured: eight_bytes.measured,
    };
    compose(grid, Collective::Barrier, &[alone; CLASSES]);
}

/// n bytes take no longer than 2n bytes.
fn envelope(row: &mut [Cell; CLASSES]) {
    for class in (0..CLASSES - 1).rev() {
        let (here, above) = (row[class], row[class + 1]);
        if here.time_ns <= above.time_ns {
            continue;
        }
        row[class] = match here.measured && above.measured || here.time_ns.is_infinite() {
            true => Cell {
                mended: true,
                ..above
            },
            false => Cell {
                time_ns: above.time_ns,
                ..here
            },
        };
    }
}

/// Takes the composition where it is faster. Both are monotone, so the result is.
fn compose(grid: &mut Grid, collective: Collective, sums: &[Sum; CLASSES]) {
    let mut row = grid.row(collective);
    for (cell, sum) in row.iter_mut().zip(sums) {
        if sum.time_ns < cell.time_ns {
            let sure = cell.measured && sum.measured || cell.time_ns.is_infinite();
            *cell = Cell {
                time_ns: sum.time_ns,
                composed: cell.composed || sure,
                mended: cell.mended || sure,
                ..*cell
            };
        }
    }
    grid.set_row(collective, row);
}
