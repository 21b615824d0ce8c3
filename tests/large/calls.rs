//! Calls that are drawn: of every collective, with any type, operation, root and place.

use super::cases::{Case, Known};
use super::drawn;
use kolo::comm::{Communicator, RawCalls, RedOp};
use kolo::dtype::known::Data;
use kolo::dtype::{DataType, ReduceOp};
use kolo::plan::Collective;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// Most bytes of the data of all ranks in a call.
const MOST_BYTES: usize = 24 << 20;
/// Of a call that takes several rounds of every algorithm: one of so many, where all grids are run.
const HUGE_BYTES: usize = 384 << 20;
const HUGE: usize = 100;
/// Elements of small, usual and large calls.
const COUNTS: [Range<usize>; 3] = [1..9, 9..300, 300..300_000];

/// A call that all ranks make.
pub struct Row {
    case: Case,
    known: Known,
    /// Ranks that have come to it, where it is a barrier.
    arrived: AtomicU32,
}

/// Collectives with a block for each rank, and the barrier.
fn collectives() -> impl Iterator<Item = Collective> {
    let usual = |it: &Collective| !it.is_vector() && !it.is_point_to_point();
    Collective::ALL.into_iter().filter(usual)
}

/// Types, operations and places of a collective.
fn kinds(collective: Collective) -> Vec<(Collective, DataType, Option<ReduceOp>, bool)> {
    let places: &[bool] = match collective {
        Collective::Barrier => return vec![(collective, DataType::Int8, None, false)],
        Collective::AllToAll => &[false],
        _ => &[false, true],
    };
    let ops = |dtype: DataType| -> Vec<Option<ReduceOp>> {
        if !collective.reduces() {
            return vec![None];
        }
        let has = |op: &ReduceOp| !collective.is_scan() || *op != ReduceOp::Avg;
        dtype.operations().filter(has).map(Some).collect()
    };
    let all = DataType::ALL.into_iter();
    let all = all.flat_map(|dtype| ops(dtype).into_iter().map(move |op| (dtype, op)));
    let place = |(dtype, op)| {
        places
            .iter()
            .map(move |&place| (collective, dtype, op, place))
    };
    all.flat_map(place).collect()
}

/// Rows for so many ranks: some of each collective, or all.
pub fn rows(n: u32, some: Option<usize>, random: &mut fastrand::Rng) -> Vec<Row> {
    let mut rows = Vec::new();
    for collective in collectives() {
        let mut kinds = kinds(collective);
        random.shuffle(&mut kinds);
        kinds.truncate(some.unwrap_or(kinds.len()));
        for kind in kinds {
            let is_huge = drawn::is_full() && rows.len() % HUGE == 0;
            rows.push(row(n, kind, is_huge, random));
        }
    }
    random.shuffle(&mut rows);
    rows
}

fn row(
    n: u32,
    (collective, dtype, op, in_place): (Collective, DataType, Option<ReduceOp>, bool),
    is_huge: bool,
    random: &mut fastrand::Rng,
) -> Row {
    let data = Data {
        dtype,
        op,
        nranks: n,
        repetition: random.u64(..1 << 32),
    };
    let mut case = Case {
        collective,
        data,
        count: 0,
        root: [0, n - 1, random.u32(..n)][random.usize(..3)],
        in_place,
    };
    let blocks = case.blocks(n as usize);
    let all = n as usize * (blocks.0 + blocks.1).max(1) * dtype.size_bytes();
    // What a prefix is, each rank computes for itself.
    let folds = if collective.is_scan() {
        100 * n as usize
    } else {
        1
    };
    let most = if is_huge { HUGE_BYTES } else { MOST_BYTES } / all / folds;
    let range = COUNTS[[0, 0, 0, 1, 1, 2][random.usize(..6)]].clone();
    let count = if is_huge { most } else { random.usize(range) };
    case.count = count.min(most.max(1)).min(COUNTS[2].end);
    Row {
        case,
        known: Known::of(n),
        arrived: AtomicU32::new(0),
    }
}

impl Row {
    /// Makes the call, and looks at the result.
    pub fn run(&self, comm: &Communicator, what: &str) {
        let (rank, n) = (comm.rank(), comm.nranks());
        if self.case.collective == Collective::Barrier {
            self.arrived.fetch_add(1, Ordering::SeqCst);
            comm.barrier().expect("a barrier");
            let arrived = self.arrived.load(Ordering::SeqCst);
            assert_eq!(arrived, n, "{what}: rank {rank} went on too early");
            return;
        }
        let handle = self.handle(comm);
        let wrong = self.case.run(comm, handle, &self.known);
        let wrong = wrong.unwrap_or_else(|error| panic!("{what}: {:?}: {error}", self.case));
        assert_eq!(
            wrong, 0,
            "{what}: wrong elements of rank {rank}: {:?}",
            self.case
        );
        if self.case.data.op == Some(ReduceOp::PreMulSum) {
            comm.destroy_op(handle).expect("known");
        }
    }

    fn handle(&self, comm: &Communicator) -> RedOp {
        let data = &self.case.data;
        match data.op.map(ReduceOp::number) {
            None => RedOp::SUM,
            Some(Some(number)) => RedOp(number),
            Some(None) => comm
                .pre_mul_sum(&data.scalar_bytes(comm.rank()), data.dtype)
                .expect("an operation"),
        }
    }
}
