//! The functions that MPI's names lead to: each in two forms, with counts of `int` and of
//! `MPI_Count`. What kolo does not take is called on with the arguments as they came.

use crate::allocated;
use crate::arguments::{Folded, Side};
use crate::counts::{Form, Int, Large, Whole};
use crate::decide::Collective;
use crate::kinds;
use crate::moves;
use crate::reductions;
use crate::results::Place;
use crate::turn::{Elements, in_place};
use crate::vectors::{self, Blocks, RankList};
use crate::{contained, native, report, verify};
use mpi::ffi::{MPI_Comm, MPI_Datatype, MPI_Op};
use std::ffi::{c_int, c_void};

/// A panic is a fault of kolo's, and the other ranks may be in its call: MPI's `MPI_ERR_OTHER`.
const BROKEN: Option<c_int> = Some(15);

/// Counts a call that kolo does not take, for whatever reason.
#[inline]
fn counted(taken: Option<c_int>) -> Option<c_int> {
    if taken.is_none() {
        report::left();
    }
    taken
}

/// The place of a function in the front's tables.
pub fn place<F: Form>(collective: Collective) -> usize {
    // The barrier has one form.
    if F::LARGE {
        Collective::COUNT + collective as usize - 1
    } else {
        collective as usize
    }
}

/// Calls MPI's function with the arguments of a call.
macro_rules! call_on {
    ($form:ty, $collective:ident, ($($argument:ident: $kind:ty),*)) => {{
        let found = native(place::<$form>(Collective::$collective));
        // SAFETY: MPI's function of this name and form has these arguments.
        unsafe {
            let function = std::mem::transmute::<
                *const c_void,
                unsafe extern "C" fn($($kind),*) -> c_int,
            >(found);
            function($($argument),*)
        }
    }};
}

/// One function: its arguments, what kolo does with them, and what they leave on this rank.
macro_rules! function {
    ($name:ident<$f:ident>, $collective:ident, ($($argument:ident: $kind:ty),*), $body:expr,
     $results:expr) => {
        /// # Safety
        /// As the function of MPI.
        pub unsafe extern "C" fn $name<$f: Form>($($argument: $kind),*) -> c_int {
            let mpi = || call_on!($f, $collective, ($($argument: $kind),*));
            // SAFETY: the program's arguments are as MPI has them.
            let kolo = || contained(BROKEN, || unsafe { counted($body) });
            match verify::is_on() {
                false => kolo().unwrap_or_else(mpi),
                true => {
                    // SAFETY: as above.
                    let results = contained(None, || unsafe { $results });
                    verify::both(Collective::$collective, results, kolo, mpi, None)
                }
            }
        }
    };
}

/// One reduction, which MPI can run once more with other buffers.
macro_rules! reduction {
    ($name:ident<$f:ident>, $collective:ident,
     ($send:ident, $recv:ident, $($rest:ident: $kind:ty),*),
     $body:expr, $results:expr) => {
        /// # Safety
        /// As the function of MPI.
        pub unsafe extern "C" fn $name<$f: Form>(
            $send: *const c_void, $recv: *mut c_void, $($rest: $kind),*
        ) -> c_int {
            let again = |$send, $recv| {
                call_on!($f, $collective,
                    ($send: *const c_void, $recv: *mut c_void, $($rest: $kind),*))
            };
            let mpi = || again($send, $recv);
            // SAFETY: the program's arguments are as MPI has them.
            let kolo = || contained(BROKEN, || unsafe { counted($body) });
            match verify::is_on() {
                false => kolo().unwrap_or_else(mpi),
                true => {
                    // SAFETY: as above.
                    let results = contained(None, || unsafe { $results });
                    verify::both(Collective::$collective, results, kolo, mpi, Some(&again))
                }
            }
        }
    };
}

fn side<C: Whole>(at: *const c_void, count: C, datatype: MPI_Datatype) -> Side {
    let count = count.whole();
    Side {
        at,
        count,
        datatype,
    }
}

/// # Safety
/// `counts` has `ranks` numbers.
unsafe fn counts<C: Whole>(counts: *const C, ranks: usize) -> Option<RankList<usize>> {
    if counts.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let counts = unsafe { std::slice::from_raw_parts(counts, ranks) };
    let mut found = RankList::new();
    for count in counts {
        found.push(usize::try_from(count.whole()).ok()?);
    }
    Some(found)
}

/// # Safety
/// Both arrays have `ranks` numbers.
unsafe fn blocks<F: Form>(
    at: *const c_void,
    numbers: *const F::Count,
    displacements: *const F::Displacement,
    datatype: MPI_Datatype,
    ranks: usize,
) -> Option<Blocks> {
    let kind = kinds::kind(datatype)?;
    // SAFETY: the caller's promise.
    let counts = unsafe { counts(numbers, ranks)? };
    if displacements.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let displacements = unsafe { std::slice::from_raw_parts(displacements, ranks) };
    let base = Elements::new(at, 0, datatype, kind)?;
    if kind.plain && at.is_null() && counts.iter().any(|&count| count > 0) {
        return None;
    }
    Some(Blocks {
        base,
        counts,
        displacements: displacements
            .iter()
            .map(|one| one.whole() as isize)
            .collect(),
    })
}

/// # Safety
/// As MPI_Barrier.
pub unsafe extern "C" fn barrier(comm: MPI_Comm) -> c_int {
    // SAFETY: as above.
    match contained(BROKEN, || unsafe { counted(moves::barrier(comm)) }) {
        Some(code) => code,
        None => call_on!(Int, Barrier, (comm: MPI_Comm)),
    }
}

function!(bcast<F>, Bcast,
    (buffer: *mut c_void, count: F::Count, datatype: MPI_Datatype, root: c_int, comm: MPI_Comm),
    moves::bcast(&side(buffer, count, datatype), root, comm),
    Place::of(comm)?.buffer(&side(buffer, count, datatype)));

reduction!(reduce<F>, Reduce,
    (send, recv, count: F::Count, datatype: MPI_Datatype, op: MPI_Op, root: c_int, comm: MPI_Comm),
    reductions::reduce(&Folded { send, recv, datatype, op, comm }, count.whole(), root),
    Place::of(comm)?.folded_on(root, &Folded { send, recv, datatype, op, comm }, count.whole()));

reduction!(allreduce<F>, Allreduce,
    (send, recv, count: F::Count, datatype: MPI_Datatype, op: MPI_Op, comm: MPI_Comm),
    reductions::all_reduce(&Folded { send, recv, datatype, op, comm }, count.whole()),
    Place::of(comm)?.everywhere(&Folded { send, recv, datatype, op, comm }, count.whole()));

reduction!(scan<F>, Scan,
    (send, recv, count: F::Count, datatype: MPI_Datatype, op: MPI_Op, comm: MPI_Comm),
    reductions::scan(
        Collective::Scan, &Folded { send, recv, datatype, op, comm }, count.whole()),
    Place::of(comm)?.everywhere(&Folded { send, recv, datatype, op, comm }, count.whole()));

reduction!(exscan<F>, Exscan,
    (send, recv, count: F::Count, datatype: MPI_Datatype, op: MPI_Op, comm: MPI_Comm),
    reductions::scan(
        Collective::Exscan, &Folded { send, recv, datatype, op, comm }, count.whole()),
    Place::of(comm)?.before_this(&Folded { send, recv, datatype, op, comm }, count.whole()));

reduction!(reduce_scatter_block<F>, ReduceScatterBlock,
    (send, recv, count: F::Count, datatype: MPI_Datatype, op: MPI_Op, comm: MPI_Comm),
    reductions::equal_blocks(&Folded { send, recv, datatype, op, comm }, count.whole()),
    Place::of(comm)?.equal_block(&Folded { send, recv, datatype, op, comm }, count.whole()));

reduction!(reduce_scatter<F>, ReduceScatter,
(send, recv, each: *const F::Count, datatype: MPI_Datatype, op: MPI_Op, comm: MPI_Comm),
match vectors::nranks(comm, Collective::ReduceScatter).and_then(|ranks| counts(each, ranks)) {
    Some(counts) => reductions::blocks_of(&Folded { send, recv, datatype, op, comm }, counts),
    None => None,
},
{
    let place = Place::of(comm)?;
    let counts = counts(each, place.nranks())?;
    place.block_of(&Folded { send, recv, datatype, op, comm }, &counts)
});

function!(gather<F>, Gather,
    (send: *const c_void, send_count: F::Count, send_type: MPI_Datatype, recv: *mut c_void,
     recv_count: F::Count, recv_type: MPI_Datatype, root: c_int, comm: MPI_Comm),
    moves::gather(
        &side(send, send_count, send_type), &side(recv, recv_count, recv_type), root, comm),
    Place::of(comm)?.blocks_on(root, &side(recv, recv_count, recv_type)));

function!(scatter<F>, Scatter,
    (send: *const c_void, send_count: F::Count, send_type: MPI_Datatype, recv: *mut c_void,
     recv_count: F::Count, recv_type: MPI_Datatype, root: c_int, comm: MPI_Comm),
    moves::scatter(
        &side(send, send_count, send_type), &side(recv, recv_count, recv_type), root, comm),
    Place::of(comm)?.unless_in_place(&side(recv, recv_count, recv_type)));

function!(allgather<F>, Allgather,
    (send: *const c_void, send_count: F::Count, send_type: MPI_Datatype, recv: *mut c_void,
     recv_count: F::Count, recv_type: MPI_Datatype, comm: MPI_Comm),
    moves::allgather(
        &side(send, send_count, send_type), &side(recv, recv_count, recv_type), comm),
    Place::of(comm)?.blocks(&side(recv, recv_count, recv_type)));

function!(alltoall<F>, Alltoall,
    (send: *const c_void, send_count: F::Count, send_type: MPI_Datatype, recv: *mut c_void,
     recv_count: F::Count, recv_type: MPI_Datatype, comm: MPI_Comm),
    moves::alltoall(
        &side(send, send_count, send_type), &side(recv, recv_count, recv_type), comm),
    Place::of(comm)?.blocks(&side(recv, recv_count, recv_type)));

function!(gatherv<F>, Gatherv,
(send: *const c_void, send_count: F::Count, send_type: MPI_Datatype, recv: *mut c_void,
 recv_counts: *const F::Count, displacements: *const F::Displacement,
 recv_type: MPI_Datatype, root: c_int, comm: MPI_Comm),
(|| {
    let (is_root, ranks) = vectors::roots(comm, Collective::Gatherv, root)?;
    let recv = if is_root {
        Some(blocks::<F>(recv, recv_counts, displacements, recv_type, ranks)?)
    } else {
        None
    };
    vectors::gatherv(&side(send, send_count, send_type), recv.as_ref(), root, comm)
})(),
Place::of(comm)?.unequal_on(root, |ranks| {
    blocks::<F>(recv, recv_counts, displacements, recv_type, ranks)
}));

function!(scatterv<F>, Scatterv,
    (send: *const c_void, send_counts: *const F::Count, displacements: *const F::Displacement,
     send_type: MPI_Datatype, recv: *mut c_void, recv_count: F::Count, recv_type: MPI_Datatype,
     root: c_int, comm: MPI_Comm),
    (|| {
        let (is_root, ranks) = vectors::roots(comm, Collective::Scatterv, root)?;
        let send = if is_root {
            Some(blocks::<F>(send, send_counts, displacements, send_type, ranks)?)
        } else {
            None
        };
        vectors::scatterv(send.as_ref(), &side(recv, recv_count, recv_type), root, comm)
    })(),
    Place::of(comm)?.unless_in_place(&side(recv, recv_count, recv_type)));

function!(allgatherv<F>, Allgatherv,
(send: *const c_void, send_count: F::Count, send_type: MPI_Datatype, recv: *mut c_void,
 recv_counts: *const F::Count, displacements: *const F::Displacement,
 recv_type: MPI_Datatype, comm: MPI_Comm),
(|| {
    let ranks = vectors::nranks(comm, Collective::Allgatherv)?;
    let recv = blocks::<F>(recv, recv_counts, displacements, recv_type, ranks)?;
    vectors::allgatherv(&side(send, send_count, send_type), &recv, comm)
})(),
{
    let place = Place::of(comm)?;
    let ranks = place.nranks();
    place.unequal(&blocks::<F>(recv, recv_counts, displacements, recv_type, ranks)?)
});

function!(alltoallv<F>, Alltoallv,
(send: *const c_void, send_counts: *const F::Count, send_displacements: *const F::Displacement,
 send_type: MPI_Datatype, recv: *mut c_void, recv_counts: *const F::Count,
 recv_displacements: *const F::Displacement, recv_type: MPI_Datatype, comm: MPI_Comm),
(|| {
    let ranks = vectors::nranks(comm, Collective::Alltoallv)?;
    let recv = blocks::<F>(recv, recv_counts, recv_displacements, recv_type, ranks)?;
    let send = match in_place(send) {
        true => None,
        false => {
            Some(blocks::<F>(send, send_counts, send_displacements, send_type, ranks)?)
        }
    };
    vectors::alltoallv(send.as_ref(), &recv, comm)
})(),
{
    let place = Place::of(comm)?;
    let ranks = place.nranks();
    place.unequal(&blocks::<F>(recv, recv_counts, recv_displacements, recv_type, ranks)?)
});

/// All functions of one form, in the order of [`Collective`].
fn of<F: Form>() -> [*const c_void; Collective::COUNT] {
    [
        barrier as *const c_void,
        bcast::<F> as *const c_void,
        reduce::<F> as *const c_void,
        allreduce::<F> as *const c_void,
        gather::<F> as *const c_void,
        gatherv::<F> as *const c_void,
        scatter::<F> as *const c_void,
        scatterv::<F> as *const c_void,
        allgather::<F> as *const c_void,
        allgatherv::<F> as *const c_void,
        alltoall::<F> as *const c_void,
        alltoallv::<F> as *const c_void,
        reduce_scatter::<F> as *const c_void,
        reduce_scatter_block::<F> as *const c_void,
        scan::<F> as *const c_void,
        exscan::<F> as *const c_void,
    ]
}

/// The functions in the order of the front's tables.
pub fn all() -> Vec<*const c_void> {
    let large = of::<Large>();
    of::<Int>()
        .into_iter()
        .chain(large[1..].iter().copied())
        .chain(allocated::all())
        .collect()
}
