//! `KOLO_PMPI=verify`: MPI runs each call that kolo takes once more. The program gets MPI's result;
//! where kolo's differs, a line names the call, the rank, the first element and both values.
//!
//! Results are the same in all bits, but for sums and products of floats, in whose order kolo and
//! MPI differ: [`apart`] says how far these may lie from each other.

use crate::apart::{self, Numbers};
use crate::decide::{Class, Collective};
use crate::kinds::{self, Op};
use crate::results::{Fold, Results};
use crate::turn::Elements;
use crate::{contained, say};
use mpi::ffi;
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static ON: AtomicBool = AtomicBool::new(false);
static COMPARED: AtomicU64 = AtomicU64::new(0);
static DIFFERED: AtomicU64 = AtomicU64::new(0);
/// Lines of a process. All differences are counted.
const MOST_LINES: u64 = 10;

/// Begins, where the agreement says so.
pub fn begin() {
    ON.store(true, Ordering::Release);
}

/// Whether calls are run twice.
#[inline]
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// The line at the end, of ranks on which something differed and of rank 0.
pub fn tell(rank: c_int) {
    if !is_on() {
        return;
    }
    let compared = COMPARED.load(Ordering::Relaxed);
    match DIFFERED.load(Ordering::Relaxed) {
        0 if rank == 0 && compared == 0 => say(
            "kolo: verify: rank 0 compared no collective with MPI's, as kolo ran none. Remedy: \
             KOLO_PMPI_ATTACH=0 takes the first ones too; KOLO_REPORT=1 says why MPI ran them",
        ),
        0 if rank == 0 => say(&format!(
            "kolo: verify: rank 0 compared {compared} collectives with MPI's, and none differed"
        )),
        0 => {}
        differed => say(&format!(
            "kolo: verify: rank {rank} compared {compared} collectives with MPI's, and {differed} \
             differed. Remedy: report them to kolo's developers, and set KOLO_PMPI=off meanwhile"
        )),
    }
}

/// Reductions of MPI with other buffers, all else as the program has it.
pub type Again<'a> = &'a dyn Fn(*const c_void, *mut c_void) -> c_int;

/// Runs a call on kolo, and where kolo took it on MPI too. MPI's code. `results`: what it leaves
/// here; `mpi` runs it there; `again` runs a reduction.
pub fn both(
    collective: Collective,
    results: Option<Results>,
    kolo: impl FnOnce() -> Option<c_int>,
    mpi: impl FnOnce() -> c_int,
    again: Option<Again>,
) -> c_int {
    // What cannot be described is wrong: kolo leaves it to MPI, which says so.
    let Some(results) = results else {
        return kolo().unwrap_or_else(mpi);
    };
    let saved = packed(&results.restored, results.comm);
    match kolo() {
        None => return mpi(),
        Some(0) => {}
        Some(code) => return code,
    }
    let got = packed(&results.compared, results.comm);
    put_back(&results.restored, saved.as_deref(), results.comm);
    let magnitudes = match (again, &results.fold) {
        (Some(again), Some(fold)) => magnitudes(fold, results.comm, again),
        _ => None,
    };
    let code = mpi();
    if code != 0 {
        return code;
    }
    let wanted = packed(&results.compared, results.comm);
    contained((), || {
        if let (Some(got), Some(wanted)) = (got, wanted) {
            compare(collective, &results, [&got, &wanted], magnitudes.as_deref());
        }
    });
    0
}

/// The data of elements, one behind the other.
fn packed(all: &[Elements], comm: ffi::MPI_Comm) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for one in all {
        let from = bytes.len();
        bytes.resize(from.checked_add(one.bytes()?)?, 0);
        // SAFETY: elements of the program's call; the memory has room for them.
        unsafe { one.pack(bytes.as_mut_ptr().add(from), comm).ok()? };
    }
    Some(bytes)
}

fn put_back(all: &[Elements], saved: Option<&[u8]>, comm: ffi::MPI_Comm) {
    let Some(saved) = saved else { return };
    let mut from = 0;
    for one in all {
        // SAFETY: what was packed from there.
        let _ = unsafe { one.unpack(saved.as_ptr().add(from), comm) };
        from += one.bytes().unwrap_or(0);
    }
}

/// The numbers of a reduction whose bits hang on the order.
fn floats(fold: &Fold) -> Option<Numbers> {
    let bytes = fold.from.kind.size;
    match fold.class? {
        _ if !kinds::sums(fold.op) => None,
        Class::Floating => Some(Numbers::new(bytes, false)),
        Class::Complex => Some(Numbers::new(bytes, true)),
        _ => None,
    }
}

/// Whether two results of a maximum or minimum of floats, or of its place, are as good.
fn extremes(results: &Results, got: &[u8], wanted: &[u8]) -> bool {
    let Some(fold) = &results.fold else {
        return false;
    };
    let kind = fold.from.kind;
    // By kolo's numbers: of operations, and of the pairs whose value is a float.
    let value = match (fold.op, kind.class, kind.kolo) {
        (Op::Named(2 | 3), Some(Class::Floating), _) => kind.size,
        (Op::Named(24 | 25), Some(Class::Pair), Some(32 | 36)) => 4,
        (Op::Named(24 | 25), Some(Class::Pair), Some(33 | 37)) => 8,
        _ => return false,
    };
    apart::are_same_extremes(value, got, wanted)
}

/// The sum or product of magnitudes that belongs to each element here. All ranks of a call come
/// here or none, as what is asked is equal on all.
fn magnitudes(fold: &Fold, comm: ffi::MPI_Comm, again: Again) -> Option<Vec<u8>> {
    let numbers = floats(fold)?;
    let mut from = packed(&[fold.from], comm)?;
    match fold.op {
        Op::Named(1) => numbers.lengths(&mut from),
        _ => numbers.magnitudes(&mut from),
    }
    let mut into = vec![
        0u64;
        (fold.room * fold.from.kind.extent.unsigned_abs())
            .div_ceil(8)
            .max(1)
    ];
    // Aligned as the program's own are.
    let mut aligned = vec![0u64; from.len().div_ceil(8).max(1)];
    // SAFETY: as many bytes as were packed; plain elements.
    unsafe {
        std::ptr::copy_nonoverlapping(from.as_ptr(), aligned.as_mut_ptr().cast(), from.len());
    }
    let code = again(aligned.as_ptr().cast(), into.as_mut_ptr().cast());
    // SAFETY: bytes of numbers.
    let bytes = unsafe { std::slice::from_raw_parts(into.as_ptr().cast(), into.len() * 8) };
    (code == 0).then(|| bytes.to_vec())
}

fn compare(
    collective: Collective,
    results: &Results,
    [got, wanted]: [&[u8]; 2],
    magnitudes: Option<&[u8]>,
) {
    COMPARED.fetch_add(1, Ordering::Relaxed);
    let Some(first) = results.compared.first().filter(|_| got != wanted) else {
        return;
    };
    let (size, numbers) = (first.kind.size, results.fold.as_ref().and_then(floats));
    let is_product = results.fold.is_some_and(|fold| fold.op == Op::Named(1));
    let nranks = ranks_of(results.comm).1;
    let differs = |&at: &usize| {
        let range = at * size..(at + 1) * size;
        let (got, wanted) = (&got[range.clone()], &wanted[range.clone()]);
        got != wanted
            && match (numbers, magnitudes) {
                (Some(numbers), Some(all)) => {
                    numbers.are_apart([got, wanted, &all[range]], nranks, is_product)
                }
                _ => {
                    !extremes(results, got, wanted) && apart::differ(first.kind.class, got, wanted)
                }
            }
    };
    let Some(at) = (0..got.len() / size.max(1)).find(differs) else {
        return;
    };
    if DIFFERED.fetch_add(1, Ordering::Relaxed) >= MOST_LINES {
        return;
    }
    let class = results.compared[0].kind.class;
    let value = |bytes: &[u8]| apart::shown(class, &bytes[at * size..(at + 1) * size]);
    let own = match results.fold.map(|fold| fold.op) {
        Some(Op::Program) => ", by an operation of the program",
        _ => "",
    };
    say(&format!(
        "kolo: verify: MPI_{} on {}, rank {}: element {at} of {} is {} by kolo and {} by MPI{own}",
        collective.name(),
        name_of(results.comm),
        ranks_of(results.comm).0,
        got.len() / size,
        value(got),
        value(wanted),
    ));
}

/// This rank and how many there are.
fn ranks_of(comm: ffi::MPI_Comm) -> (c_int, usize) {
    let (mut rank, mut nranks) = (0, 0);
    // SAFETY: a live communicator.
    unsafe {
        ffi::PMPI_Comm_rank(comm, &mut rank);
        ffi::PMPI_Comm_size(comm, &mut nranks);
    }
    (rank, nranks as usize)
}

fn name_of(comm: ffi::MPI_Comm) -> String {
    let (mut name, mut length) = ([0; ffi::MPI_MAX_OBJECT_NAME as usize + 1], 0);
    // SAFETY: a live communicator, and room for the longest name.
    let code = unsafe { ffi::PMPI_Comm_get_name(comm, name.as_mut_ptr(), &mut length) };
    // SAFETY: MPI ends the name with a zero byte; there is one more at the end.
    let text = unsafe { CStr::from_ptr(name.as_ptr()) };
    match (code, text.to_string_lossy()) {
        (0, text) if !text.is_empty() => text.into_owned(),
        _ => "a communicator without a name".to_owned(),
    }
}
