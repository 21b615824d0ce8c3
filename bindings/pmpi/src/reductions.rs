//! The collectives that fold.

use crate::alike::{Alike, ByKolo};
use crate::arguments::Folded;
use crate::attach::take;
use crate::comms::{self, State};
use crate::decide::{self, Collective, Size};
use crate::errors::ended;
use crate::kinds::{self, Kind, Op};
use crate::repeated;
use crate::spanning::{self, OnLevels};
use crate::sys::{
    NO_STREAM, koloAllReduce, koloExscan, koloReduce, koloReduceScatter, koloReduceScatterV,
    koloScan,
};
use crate::turn::{Elements, Out, Scratch, in_place};
use crate::vectors::RankList;
use std::ffi::{c_int, c_void};

/// Kolo's type and operation of a call.
#[derive(Clone, Copy)]
struct Fold {
    datatype: c_int,
    op: c_int,
    /// MPI's function folds.
    by_mpi: bool,
}

impl Fold {
    fn by_kolo(&self) -> ByKolo {
        ByKolo {
            datatype: self.datatype,
            op: self.op,
        }
    }
}

/// Bytes of a whole element, its padding included. Those that go backwards are derived.
fn with_padding(kind: &Kind) -> usize {
    usize::try_from(kind.extent).unwrap_or(0)
}

/// The size that all ranks know of it: `count` elements of each contribution.
fn size(kind: &Kind, op: Op, call: &Folded, count: u64) -> Size {
    Size::Elements(decide::Elements {
        class: kind.class,
        bytes: with_padding(kind),
        count,
        sums: kinds::sums(op),
        ordered: kinds::is_ordered(op, call.op),
    })
}

fn fold(state: &mut State, kind: &Kind, op: Op, call: &Folded) -> Result<Fold, c_int> {
    if let (Some(class), Some(datatype), Op::Named(number)) = (kind.class, kind.kolo, op)
        && kinds::folds(class, number)
    {
        return Ok(Fold {
            datatype,
            op: number,
            by_mpi: false,
        });
    }
    const INTERNAL: c_int = 3;
    let datatype = kinds::carrier(with_padding(kind)).ok_or(INTERNAL)?;
    // A rank that is alone on its node folds nothing.
    if state.kolo.is_null() {
        let (op, by_mpi) = (0, false);
        return Ok(Fold {
            datatype,
            op,
            by_mpi,
        });
    }
    let op = state.folding.next(state.kolo, call.datatype, call.op)?;
    Ok(Fold {
        datatype,
        op,
        by_mpi: true,
    })
}

/// Keeps for the next all-reduces what was found for this one, if kolo folds its elements as they
/// lie, on one node.
fn keep(state: &mut State, call: &Folded, (kind, fold): (&Kind, &Fold), size: Size) {
    if let Size::Elements(elements) = size
        && !fold.by_mpi
        && kind.plain
        && state.levels.is_none()
        && kinds::is_constant(call.datatype)
    {
        let found = Alike::new(call.datatype, call.op, fold.by_kolo(), elements);
        state.alike = [Some(found), state.alike[0]];
    }
}

/// The end of a call: MPI's code.
fn end(state: &mut State, fold: Fold, code: c_int) -> c_int {
    match (code, fold.by_mpi) {
        (0, true) => state.folding.outcome(),
        (0, false) => 0,
        (code, _) => ended(state, code),
    }
}

/// A call of a communicator in levels, with what this rank sends.
fn in_levels(
    call: &Folded,
    kind: &Kind,
    fold: &Fold,
    (send, count): (*const c_void, usize),
) -> OnLevels {
    OnLevels {
        send,
        recv: call.recv,
        count,
        bytes: with_padding(kind),
        by_kolo: fold.by_kolo(),
        by_mpi: (call.datatype, call.op),
    }
}

/// The end of a call in levels, which has raised its error.
fn after_levels(state: &mut State, fold: Fold, code: c_int) -> c_int {
    match code {
        0 => end(state, fold, 0),
        code => code,
    }
}

/// Copies what is sent where it shares memory with what is received, and is not the same.
///
/// # Safety
/// The buffers hold what the call says.
unsafe fn outgoing(
    state: &mut State,
    call: &Folded,
    kind: &Kind,
    (sent, received): (usize, usize),
    whole: bool,
) -> Result<Out, c_int> {
    // Whole elements, their padding too: it may carry what MPI carries there.
    let kind = Kind {
        size: with_padding(kind),
        plain: true,
        ..*kind
    };
    let make = |at: *const c_void, count| Elements {
        at: at.cast_mut(),
        count,
        datatype: call.datatype,
        kind,
    };
    let inside = in_place(call.send);
    let from = make(if inside { call.recv } else { call.send }, sent);
    let to = make(call.recv, received);
    let same = std::ptr::eq(from.at, to.at) && !whole;
    // SAFETY: the caller's promise.
    unsafe { Out::of(state, &from, !same && received > 0 && from.overlaps(&to)) }
}

/// Number of elements of a call on one communicator, with all that is looked at first.
struct Begun {
    state: &'static mut State,
    kind: Kind,
    op: Op,
}

/// # Safety
/// That of [`comms::of`].
#[inline]
unsafe fn begin(call: &Folded, collective: Collective) -> Option<Begun> {
    // SAFETY: the caller's promise.
    Begun::on(unsafe { comms::of(call.comm, collective)? }, call)
}

impl Begun {
    #[inline]
    fn on(state: &'static mut State, call: &Folded) -> Option<Begun> {
        Some(Begun {
            state,
            kind: kinds::kind(call.datatype)?,
            op: kinds::op(call.op)?,
        })
    }
}

/// Whether a buffer is missing: MPI says so.
fn missing(buffer: *const c_void, count: usize) -> bool {
    buffer.is_null() && count > 0
}

/// # Safety
/// As MPI_Allreduce has it.
#[inline]
pub unsafe fn all_reduce(call: &Folded, count: i64) -> Option<c_int> {
    // SAFETY: the caller's promise.
    let state = unsafe { comms::of(call.comm, Collective::Allreduce)? };
    // SAFETY: the caller's promise.
    match unsafe { repeated::all_reduce(state, call, count) } {
        Some(end) => end,
        // SAFETY: the caller's promise.
        None => unsafe { begun(Collective::Allreduce, Begun::on(state, call)?, call, count) },
    }
}

/// # Safety
/// As MPI_Scan and MPI_Exscan have it.
pub unsafe fn scan(collective: Collective, call: &Folded, count: i64) -> Option<c_int> {
    // SAFETY: the caller's promise.
    unsafe { begun(collective, begin(call, collective)?, call, count) }
}

/// # Safety
/// As MPI_Allreduce, MPI_Scan and MPI_Exscan have it.
unsafe fn begun(
    collective: Collective,
    Begun { state, kind, op }: Begun,
    call: &Folded,
    count: i64,
) -> Option<c_int> {
    let elements = usize::try_from(count).ok()?;
    // The first rank receives nothing from an exclusive scan: its buffer may be any.
    let receives = collective != Collective::Exscan || state.rank != 0;
    let is_used = receives || in_place(call.send);
    if missing(call.send, elements)
        || (is_used && missing(call.recv, elements))
        || (is_used && in_place(call.recv))
    {
        return None;
    }
    let received = if receives { elements } else { 0 };
    let size = size(&kind, op, call, count as u64);
    take(state, collective, size)?;
    let fold = match fold(state, &kind, op, call) {
        Ok(fold) => fold,
        Err(code) => return Some(ended(state, code)),
    };
    if collective == Collective::Allreduce {
        keep(state, call, (&kind, &fold), size);
    }
    // SAFETY: the caller's promise.
    let out = match unsafe { outgoing(state, call, &kind, (elements, received), false) } {
        Ok(out) => out,
        Err(code) => return Some(code),
    };
    if let Some(levels) = &state.levels {
        let data = in_levels(call, &kind, &fold, (out.at, elements));
        // SAFETY: the caller's promise; it has these levels, and so takes no other of these calls.
        let code = unsafe { spanning::allreduce(state, levels, &data) };
        out.end(state);
        return Some(after_levels(state, fold, code));
    }
    let (Fold { datatype, op, .. }, kolo) = (fold, state.kolo);
    // SAFETY: the buffers have so many elements; the communicator is attached.
    let code = unsafe {
        match collective {
            Collective::Scan => {
                koloScan(out.at, call.recv, elements, datatype, op, kolo, NO_STREAM)
            }
            Collective::Exscan => {
                koloExscan(out.at, call.recv, elements, datatype, op, kolo, NO_STREAM)
            }
            _ => koloAllReduce(out.at, call.recv, elements, datatype, op, kolo, NO_STREAM),
        }
    };
    out.end(state);
    Some(end(state, fold, code))
}

/// # Safety
/// As MPI_Reduce has it.
pub unsafe fn reduce(call: &Folded, count: i64, root: c_int) -> Option<c_int> {
    // SAFETY: the caller's promise.
    let Begun { state, kind, op } = unsafe { begin(call, Collective::Reduce)? };
    let elements = usize::try_from(count).ok()?;
    if root < 0 || root >= state.known.nranks as c_int {
        return None;
    }
    let is_root = state.rank == root;
    if missing(call.send, elements)
        || (is_root && missing(call.recv, elements))
        || (!is_root && in_place(call.send))
    {
        return None;
    }
    take(
        state,
        Collective::Reduce,
        size(&kind, op, call, count as u64),
    )?;
    let fold = match fold(state, &kind, op, call) {
        Ok(fold) => fold,
        Err(code) => return Some(ended(state, code)),
    };
    let received = if is_root { elements } else { 0 };
    // SAFETY: the caller's promise.
    let out = match unsafe { outgoing(state, call, &kind, (elements, received), false) } {
        Ok(out) => out,
        Err(code) => return Some(code),
    };
    let recv = if is_root {
        call.recv
    } else {
        std::ptr::null_mut()
    };
    if let Some(room) = state.levels.as_ref().map(|it| it.room(state.rank, root)) {
        let bytes = (elements * with_padding(&kind)).saturating_mul(room);
        let mut spare = Scratch::take(state, 1, bytes);
        let data = in_levels(call, &kind, &fold, (out.at, elements));
        let places = (root, spare.at().cast());
        // SAFETY: the caller's promise; the memory has the room that the levels want.
        let code = unsafe { spanning::reduce(state, &data, places) };
        spare.give_back(state, 1);
        out.end(state);
        return Some(after_levels(state, fold, code));
    }
    let (Fold { datatype, op, .. }, kolo) = (fold, state.kolo);
    // SAFETY: as above.
    let code = unsafe { koloReduce(out.at, recv, elements, datatype, op, root, kolo, NO_STREAM) };
    out.end(state);
    Some(end(state, fold, code))
}

/// # Safety
/// As MPI_Reduce_scatter_block has it.
pub unsafe fn equal_blocks(call: &Folded, count: i64) -> Option<c_int> {
    // SAFETY: the caller's promise.
    let Begun { state, kind, op } = unsafe { begin(call, Collective::ReduceScatterBlock)? };
    let elements = usize::try_from(count).ok()?;
    let all = elements.checked_mul(state.known.nranks as usize)?;
    if missing(call.send, all) || missing(call.recv, elements) {
        return None;
    }
    let collective = Collective::ReduceScatterBlock;
    take(state, collective, size(&kind, op, call, all as u64))?;
    // SAFETY: the caller's promise.
    Some(unsafe { blocks(state, call, (&kind, op), Blocks::Equal(elements), all) })
}

/// # Safety
/// As MPI_Reduce_scatter has it; `counts` has one number for each rank.
pub unsafe fn blocks_of(call: &Folded, counts: RankList<usize>) -> Option<c_int> {
    // SAFETY: the caller's promise.
    let Begun { state, kind, op } = unsafe { begin(call, Collective::ReduceScatter)? };
    let all = counts
        .iter()
        .try_fold(0usize, |sum, &count| sum.checked_add(count))?;
    let own = *counts.get(state.rank as usize)?;
    if missing(call.send, all) || missing(call.recv, own) {
        return None;
    }
    take(
        state,
        Collective::ReduceScatter,
        size(&kind, op, call, all as u64),
    )?;
    let blocks_are = if counts.iter().all(|&count| count == counts[0]) {
        Blocks::Equal(counts[0])
    } else {
        Blocks::Of(counts)
    };
    // SAFETY: the caller's promise.
    Some(unsafe { blocks(state, call, (&kind, op), blocks_are, all) })
}

enum Blocks {
    Equal(usize),
    Of(RankList<usize>),
}

/// # Safety
/// The buffers hold what the call says, `all` elements and this rank's block.
unsafe fn blocks(
    state: &mut State,
    call: &Folded,
    (kind, op): (&Kind, Op),
    each: Blocks,
    all: usize,
) -> c_int {
    let fold = match fold(state, kind, op, call) {
        Ok(fold) => fold,
        Err(code) => return ended(state, code),
    };
    // In place all elements lie at the beginning of what is received, whichever the rank.
    let own = match &each {
        Blocks::Equal(count) => *count,
        Blocks::Of(counts) => counts[state.rank as usize],
    };
    // SAFETY: the caller's promise.
    let out = match unsafe { outgoing(state, call, kind, (all, own), true) } {
        Ok(out) => out,
        Err(code) => return code,
    };
    let (Fold { datatype, op, .. }, kolo) = (fold, state.kolo);
    // SAFETY: as above.
    let code = unsafe {
        match &each {
            Blocks::Equal(count) => {
                koloReduceScatter(out.at, call.recv, *count, datatype, op, kolo, NO_STREAM)
            }
            Blocks::Of(counts) => {
                let counts = counts.as_ptr();
                koloReduceScatterV(out.at, call.recv, counts, datatype, op, kolo, NO_STREAM)
            }
        }
    };
    out.end(state);
    end(state, fold, code)
}
