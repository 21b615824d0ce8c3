//! The collectives whose blocks differ in size.

use crate::arguments::Side;
use crate::attach::take;
use crate::comms::{self, State};
use crate::decide::{Collective, Size};
use crate::errors::ended;
use crate::moves::{arrived, is_rank};
use crate::sys::{BYTE, NO_STREAM, koloAllGatherV, koloAllToAllV, koloGatherV, koloScatterV};
use crate::turn::{Elements, In, Out, Scratch, in_place};
use mpi::ffi;
use smallvec::SmallVec;
use std::ffi::{c_int, c_void};

/// A list with an entry for each rank: on few ranks it takes no memory of the heap.
pub type RankList<T> = SmallVec<[T; 8]>;

/// The blocks of one side of a call: one for each rank.
pub struct Blocks {
    /// Where displacements count from, with the type of the elements.
    pub base: Elements,
    pub counts: RankList<usize>,
    /// In elements.
    pub displacements: RankList<isize>,
}

/// Blocks as kolo takes them: bytes from one place on, none of them negative.
struct Plain {
    at: *mut c_void,
    bytes: RankList<usize>,
    offsets: RankList<usize>,
    /// Where they lie packed, one behind the other.
    scratch: Option<(Scratch, usize)>,
}

impl Blocks {
    fn block(&self, rank: usize) -> Elements {
        self.base.part(self.displacements[rank], self.counts[rank])
    }

    /// Bytes of all blocks together. None: more than there is memory for.
    fn total(&self) -> Option<usize> {
        let count = self
            .counts
            .iter()
            .try_fold(0usize, |sum, &count| sum.checked_add(count))?;
        count.checked_mul(self.base.kind.size)
    }

    /// Whether the data are where kolo can take them: no gaps in the elements, nothing before the
    /// beginning, and each block behind the one before it.
    fn lie_plain(&self) -> bool {
        let mut end = 0;
        self.base.lies_plain()
            && (self.counts.iter().zip(&self.displacements)).all(|(&count, &first)| {
                let follows = count == 0 || first >= end;
                if count > 0 {
                    end = first.saturating_add(count as isize);
                }
                follows
            })
    }

    /// Where they lie, or memory for all of them, `which` of the two that a communicator keeps.
    fn plain(&self, state: &mut State, which: usize, copied: bool) -> Plain {
        let size = self.base.kind.size;
        let bytes: RankList<usize> = self.counts.iter().map(|&count| count * size).collect();
        if self.lie_plain() && !copied {
            let offsets = (self.counts.iter().zip(&self.displacements))
                .map(|(&count, &first)| if count == 0 { 0 } else { first as usize * size })
                .collect();
            return Plain {
                at: self.base.at,
                bytes,
                offsets,
                scratch: None,
            };
        }
        let mut offsets = RankList::with_capacity(bytes.len());
        let mut total = 0;
        for &block in &bytes {
            offsets.push(total);
            total += block;
        }
        let mut scratch = Scratch::take(state, which, total);
        Plain {
            at: scratch.at().cast(),
            bytes,
            offsets,
            scratch: Some((scratch, which)),
        }
    }

    /// The blocks as they go out.
    ///
    /// # Safety
    /// They can be read.
    unsafe fn out(&self, state: &mut State, copied: bool) -> Result<Plain, c_int> {
        let plain = self.plain(state, 0, copied);
        if plain.scratch.is_some() {
            for rank in 0..self.counts.len() {
                let to = plain.at.cast::<u8>().wrapping_add(plain.offsets[rank]);
                // SAFETY: the caller's promise; the memory has room for all.
                unsafe { self.block(rank).pack(to, state.handle)? };
            }
        }
        Ok(plain)
    }

    /// Puts the blocks that have come to where they are to lie, but for that of `but`.
    ///
    /// # Safety
    /// They can be written.
    unsafe fn arrived(
        &self,
        state: &mut State,
        plain: Plain,
        but: Option<usize>,
        code: c_int,
    ) -> c_int {
        let mut code = code;
        if plain.scratch.is_some() && code == 0 {
            for rank in (0..self.counts.len()).filter(|&rank| Some(rank) != but) {
                let from = plain.at.cast::<u8>().wrapping_add(plain.offsets[rank]);
                // SAFETY: the caller's promise; the blocks lie there.
                let done = unsafe { self.block(rank).unpack(from, state.handle) };
                code = code.max(done.err().unwrap_or(0));
            }
        }
        plain.end(state);
        code
    }

    /// Whether a plain block may share memory with one of the others'.
    fn overlaps(&self, others: impl Iterator<Item = Elements>) -> bool {
        fn reach(blocks: impl Iterator<Item = Elements>) -> (usize, usize) {
            blocks
                .map(|block| block.reach())
                .filter(|block| !block.is_empty())
                .fold((usize::MAX, 0), |(low, high), block| {
                    (low.min(block.start), high.max(block.end))
                })
        }
        let (mine, theirs) = (reach(self.all()), reach(others));
        mine.0 < theirs.1 && theirs.0 < mine.1
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = Elements> {
        (0..self.counts.len()).map(|rank| self.block(rank))
    }
}

impl Plain {
    fn end(self, state: &mut State) {
        if let Some((scratch, which)) = self.scratch {
            scratch.give_back(state, which);
        }
    }
}

/// # Safety
/// As MPI_Allgatherv has it.
pub unsafe fn allgatherv(send: &Side, recv: &Blocks, comm: ffi::MPI_Comm) -> Option<c_int> {
    // SAFETY: the caller's promise.
    let state = unsafe { comms::of(comm, Collective::Allgatherv)? };
    let rank = state.rank as usize;
    let inside = in_place(send.at);
    let total = recv.total()?;
    let own = recv.block(rank);
    let from = if inside { own } else { send.elements()? };
    let bytes = from.bytes()?;
    // Every rank has all counts, so all know the sum.
    take(state, Collective::Allgatherv, Size::Bytes(total as u64))?;
    // SAFETY: the program's buffers hold what it says.
    unsafe {
        let to = recv.plain(state, 1, false);
        let copied = to.scratch.is_none() && !inside && recv.overlaps(std::iter::once(from));
        let out = match Out::of(state, &from, copied) {
            Ok(out) => out,
            Err(code) => return Some(code),
        };
        let (counts, offsets) = (to.bytes.as_ptr(), to.offsets.as_ptr());
        let kolo = state.kolo;
        let code = koloAllGatherV(out.at, bytes, to.at, counts, offsets, BYTE, kolo, NO_STREAM);
        let code = ended(state, code);
        out.end(state);
        Some(recv.arrived(state, to, inside.then_some(rank), code))
    }
}

/// `recv`: on the root.
///
/// # Safety
/// As MPI_Gatherv has it.
pub unsafe fn gatherv(
    send: &Side,
    recv: Option<&Blocks>,
    root: c_int,
    comm: ffi::MPI_Comm,
) -> Option<c_int> {
    // SAFETY: the caller's promise.
    let state = unsafe { comms::of(comm, Collective::Gatherv)? };
    let rank = state.rank as usize;
    let inside = in_place(send.at);
    let from = match recv {
        Some(recv) if inside => recv.block(rank),
        _ if inside => return None,
        _ => send.elements()?,
    };
    let bytes = from.bytes()?;
    if let Some(recv) = recv {
        recv.total()?;
    }
    take(state, Collective::Gatherv, Size::Unknown)?;
    // SAFETY: the program's buffers hold what it says.
    unsafe {
        let to = recv.map(|recv| recv.plain(state, 1, false));
        let overlaps = match (recv, &to) {
            (Some(recv), Some(to)) => {
                to.scratch.is_none() && !inside && recv.overlaps(std::iter::once(from))
            }
            _ => false,
        };
        let out = match Out::of(state, &from, overlaps) {
            Ok(out) => out,
            Err(code) => return Some(code),
        };
        let (at, counts, offsets) = match &to {
            Some(to) => (to.at, to.bytes.as_ptr(), to.offsets.as_ptr()),
            None => (std::ptr::null_mut(), std::ptr::null(), std::ptr::null()),
        };
        let kolo = state.kolo;
        let code = koloGatherV(
            out.at, bytes, at, counts, offsets, BYTE, root, kolo, NO_STREAM,
        );
        let code = ended(state, code);
        out.end(state);
        Some(match (recv, to) {
            (Some(recv), Some(to)) => recv.arrived(state, to, inside.then_some(rank), code),
            _ => code,
        })
    }
}

/// `send`: on the root.
///
/// # Safety
/// As MPI_Scatterv has it.
pub unsafe fn scatterv(
    send: Option<&Blocks>,
    recv: &Side,
    root: c_int,
    comm: ffi::MPI_Comm,
) -> Option<c_int> {
    // SAFETY: the caller's promise.
    let state = unsafe { comms::of(comm, Collective::Scatterv)? };
    let inside = in_place(recv.at);
    let to = match send {
        Some(send) if inside => send.block(state.rank as usize),
        _ if inside => return None,
        _ => recv.elements()?,
    };
    let bytes = to.bytes()?;
    if let Some(send) = send {
        send.total()?;
    }
    take(state, Collective::Scatterv, Size::Unknown)?;
    // SAFETY: the program's buffers hold what it says.
    unsafe {
        let copied = send.is_some_and(|send| !inside && send.overlaps(std::iter::once(to)));
        let out = match send.map(|send| send.out(state, copied)).transpose() {
            Ok(out) => out,
            Err(code) => return Some(code),
        };
        let (at, counts, offsets) = match &out {
            Some(out) => (
                out.at.cast_const(),
                out.bytes.as_ptr(),
                out.offsets.as_ptr(),
            ),
            None => (std::ptr::null(), std::ptr::null(), std::ptr::null()),
        };
        // A root that packed has its own block in the copy; the program's stays as it is.
        let packed = out.as_ref().is_some_and(|out| out.scratch.is_some());
        let mut aside = (inside && packed).then(|| Scratch::take(state, 1, bytes));
        let place = match &aside {
            Some(_) => None,
            None => Some(In::of(state, &to)),
        };
        let into = match (&mut aside, &place) {
            (Some(aside), _) => aside.at().cast(),
            (None, Some(place)) => place.at,
            (None, None) => std::ptr::null_mut(),
        };
        let kolo = state.kolo;
        let code = koloScatterV(
            at, counts, offsets, into, bytes, BYTE, root, kolo, NO_STREAM,
        );
        let code = ended(state, code);
        if let Some(out) = out {
            out.end(state);
        }
        if let Some(aside) = aside {
            aside.give_back(state, 1);
        }
        Some(match place {
            Some(place) => arrived(state, place, &to, code),
            None => code,
        })
    }
}

/// `send`: none where it is MPI_IN_PLACE.
///
/// # Safety
/// As MPI_Alltoallv has it.
pub unsafe fn alltoallv(
    send: Option<&Blocks>,
    recv: &Blocks,
    comm: ffi::MPI_Comm,
) -> Option<c_int> {
    // SAFETY: the caller's promise.
    let state = unsafe { comms::of(comm, Collective::Alltoallv)? };
    recv.total()?;
    let from = send.unwrap_or(recv);
    from.total()?;
    take(state, Collective::Alltoallv, Size::Unknown)?;
    // SAFETY: the program's buffers hold what it says.
    unsafe {
        let copied = send.is_none_or(|send| send.overlaps(recv.all()));
        let out = match from.out(state, copied) {
            Ok(out) => out,
            Err(code) => return Some(code),
        };
        let to = recv.plain(state, 1, false);
        let code = koloAllToAllV(
            out.at,
            out.bytes.as_ptr(),
            out.offsets.as_ptr(),
            to.at,
            to.bytes.as_ptr(),
            to.offsets.as_ptr(),
            BYTE,
            state.kolo,
            NO_STREAM,
        );
        let code = ended(state, code);
        out.end(state);
        Some(recv.arrived(state, to, None, code))
    }
}

/// Whether this rank is the root, or None where there is no such rank.
///
/// # Safety
/// That of [`comms::of`].
pub unsafe fn roots(
    comm: ffi::MPI_Comm,
    collective: Collective,
    root: c_int,
) -> Option<(bool, usize)> {
    // SAFETY: the caller's promise.
    let state = unsafe { comms::of(comm, collective)? };
    is_rank(state, root).then_some((state.rank == root, state.known.nranks as usize))
}

/// How many numbers the arrays of a call have.
///
/// # Safety
/// That of [`comms::of`].
pub unsafe fn nranks(comm: ffi::MPI_Comm, collective: Collective) -> Option<usize> {
    // SAFETY: the caller's promise.
    let state = unsafe { comms::of(comm, collective)? };
    Some(state.known.nranks as usize)
}
