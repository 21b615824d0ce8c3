//! Turns on one rank what is odd there alone: data of derived types are packed and unpacked,
//! buffers that overlap are copied. The other ranks see bytes in either case.

use crate::comms::State;
use crate::kinds::Kind;
use crate::large::{self, Way};
use crate::sys::kolo_pmpi_in_place;
use mpi::ffi;
use std::ffi::{c_int, c_void};
use std::ops::Range;

/// Memory of more bytes than this is given back after the call.
const KEPT: usize = 256 << 10;
/// The most elements of one call of MPI.
const PIECE: usize = 1 << 24;

/// Whether a buffer is MPI_IN_PLACE.
#[inline]
pub fn in_place(buffer: *const c_void) -> bool {
    // SAFETY: a constant of the shim.
    std::ptr::eq(buffer, unsafe { kolo_pmpi_in_place })
}

/// Elements of one type in memory of the program.
#[derive(Clone, Copy)]
pub struct Elements {
    pub at: *mut c_void,
    pub count: usize,
    pub datatype: ffi::MPI_Datatype,
    pub kind: Kind,
}

impl Elements {
    pub fn new(
        at: *const c_void,
        count: i64,
        datatype: ffi::MPI_Datatype,
        kind: Kind,
    ) -> Option<Elements> {
        Some(Elements {
            at: at.cast_mut(),
            count: usize::try_from(count).ok()?,
            datatype,
            kind,
        })
    }

    /// Data in them. None: more than there is memory for.
    pub fn bytes(&self) -> Option<usize> {
        self.count.checked_mul(self.kind.size)
    }

    /// The `count` elements that begin `first` elements further on.
    pub fn part(&self, first: isize, count: usize) -> Elements {
        let bytes = first.wrapping_mul(self.kind.extent);
        Elements {
            at: self.at.wrapping_byte_offset(bytes),
            count,
            ..*self
        }
    }

    /// Whether they can be handed over as they lie.
    #[inline]
    pub fn lies_plain(&self) -> bool {
        self.kind.plain
    }

    /// Plain memory that is missing: MPI says so.
    #[inline]
    pub fn is_missing(&self) -> bool {
        self.kind.plain && self.at.is_null() && self.count > 0
    }

    /// Whether plain elements share memory with others; what is not plain is copied anyway.
    pub fn overlaps(&self, other: &Elements) -> bool {
        let (one, two) = (self.reach(), other.reach());
        one.start < two.end && two.start < one.end
    }

    /// The memory of plain elements; of others, that is copied anyway, none.
    pub fn reach(&self) -> Range<usize> {
        let begin = self.at as usize;
        let bytes = if self.kind.plain {
            self.count * self.kind.size
        } else {
            0
        };
        begin..begin.saturating_add(bytes)
    }

    /// Copies the data behind each other.
    ///
    /// # Safety
    /// The elements can be read, `to` has room for [`Elements::bytes`].
    pub unsafe fn pack(&self, to: *mut u8, comm: ffi::MPI_Comm) -> Result<(), c_int> {
        if self.kind.plain {
            let bytes = self.count * self.kind.size;
            // SAFETY: the caller's promise; the memory is another one.
            unsafe { std::ptr::copy_nonoverlapping(self.at.cast(), to, bytes) };
            return Ok(());
        }
        if large::is_large(self.kind.size) {
            // SAFETY: the caller's promise.
            return unsafe { self.copy_large(to, Way::Pack) };
        }
        self.in_pieces(|part, offset, bytes| {
            let mut position = 0;
            // SAFETY: the caller's promise.
            unsafe {
                ffi::PMPI_Pack(
                    part.at,
                    part.count,
                    part.datatype,
                    to.add(offset).cast(),
                    bytes,
                    &mut position,
                    comm,
                )
            }
        })
    }

    /// Copies data that lie behind each other to the elements.
    ///
    /// # Safety
    /// The elements can be written, `from` has [`Elements::bytes`].
    pub unsafe fn unpack(&self, from: *const u8, comm: ffi::MPI_Comm) -> Result<(), c_int> {
        if self.kind.plain {
            let bytes = self.count * self.kind.size;
            // SAFETY: the caller's promise; the memory is another one.
            unsafe { std::ptr::copy_nonoverlapping(from, self.at.cast(), bytes) };
            return Ok(());
        }
        if large::is_large(self.kind.size) {
            // SAFETY: the caller's promise; what is sent from there is only read.
            return unsafe { self.copy_large(from.cast_mut(), Way::Unpack) };
        }
        self.in_pieces(|part, offset, bytes| {
            let mut position = 0;
            // SAFETY: the caller's promise.
            unsafe {
                ffi::PMPI_Unpack(
                    from.add(offset).cast(),
                    bytes,
                    &mut position,
                    part.at,
                    part.count,
                    part.datatype,
                    comm,
                )
            }
        })
    }

    /// # Safety
    /// That of [`large::copy`].
    unsafe fn copy_large(&self, packed: *mut u8, way: Way) -> Result<(), c_int> {
        let places = (0..self.count).map(|number| self.part(number as isize, 1).at);
        // SAFETY: the caller's promise.
        unsafe { large::copy(places, self.datatype, self.kind.size, packed, way) }
    }

    /// Calls `copy` for elements of which one call of MPI can take so many, with the place of their
    /// data among those that lie behind each other, and their bytes.
    fn in_pieces(&self, mut copy: impl FnMut(Piece, usize, c_int) -> c_int) -> Result<(), c_int> {
        let mut done = 0;
        while done < self.count {
            let part = self.part(done as isize, (self.count - done).min(self.pieces()));
            let bytes = (part.count * self.kind.size) as c_int;
            let offset = done * self.kind.size;
            let piece = Piece {
                at: part.at,
                count: part.count as c_int,
                datatype: part.datatype,
            };
            if part.at.is_null() {
                piece.told_from_elsewhere(|piece| copy(piece, offset, bytes))?
            } else {
                crate::outcome(copy(piece, offset, bytes))?
            }
            done += part.count;
        }
        Ok(())
    }

    /// Elements of one call of MPI, whose sizes are `int`.
    fn pieces(&self) -> usize {
        ((1 << 30) / self.kind.size.max(1)).clamp(1, PIECE)
    }
}

/// Elements of one call of MPI.
struct Piece {
    at: *mut c_void,
    count: c_int,
    datatype: ffi::MPI_Datatype,
}

/// Any address but 0.
const ELSEWHERE: usize = 4096;

impl Piece {
    /// Calls `copy` for the elements of MPI_BOTTOM, which is 0 and to some MPIs no address to pack
    /// from: they are told from another place on.
    fn told_from_elsewhere(&self, copy: impl FnOnce(Piece) -> c_int) -> Result<(), c_int> {
        let (back, mut whole) = (-(ELSEWHERE as ffi::MPI_Aint), self.datatype);
        // SAFETY: a live type, of which another one is made and given back.
        unsafe {
            let made =
                ffi::PMPI_Type_create_hindexed(1, &self.count, &back, self.datatype, &mut whole);
            crate::outcome(made)?;
            let mut code = ffi::PMPI_Type_commit(&mut whole);
            if code == 0 {
                code = copy(Piece {
                    at: std::ptr::without_provenance_mut(ELSEWHERE),
                    count: 1,
                    datatype: whole,
                });
            }
            ffi::PMPI_Type_free(&mut whole);
            crate::outcome(code)
        }
    }
}

/// Memory for one call.
pub struct Scratch(Vec<u64>);

impl Scratch {
    /// `which` of the two that a communicator keeps.
    pub fn take(state: &mut State, which: usize, bytes: usize) -> Scratch {
        let mut memory = std::mem::take(&mut state.spare[which]);
        let words = bytes.div_ceil(8).max(1);
        if memory.len() < words {
            memory = vec![0; words];
        }
        Scratch(memory)
    }

    pub fn at(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }

    pub fn give_back(self, state: &mut State, which: usize) {
        if self.0.len() * 8 <= KEPT {
            state.spare[which] = self.0;
        }
    }
}

/// Data that go out: where it lies, or a packed copy.
pub struct Out {
    pub at: *const c_void,
    scratch: Option<Scratch>,
}

impl Out {
    /// `copied`: also where it lies plain.
    ///
    /// # Safety
    /// The elements can be read.
    pub unsafe fn of(state: &mut State, elements: &Elements, copied: bool) -> Result<Out, c_int> {
        if elements.lies_plain() && !copied {
            let (at, scratch) = (elements.at.cast_const(), None);
            return Ok(Out { at, scratch });
        }
        let mut scratch = Scratch::take(state, 0, elements.count * elements.kind.size);
        // SAFETY: the caller's promise.
        unsafe { elements.pack(scratch.at(), state.handle)? };
        Ok(Out {
            at: scratch.at().cast(),
            scratch: Some(scratch),
        })
    }

    pub fn end(self, state: &mut State) {
        if let Some(scratch) = self.scratch {
            scratch.give_back(state, 0);
        }
    }
}

/// Where what comes in is put: where it is to lie, or memory from which it is unpacked.
pub struct In {
    pub at: *mut c_void,
    scratch: Option<Scratch>,
}

impl In {
    pub fn of(state: &mut State, elements: &Elements) -> In {
        if elements.lies_plain() {
            let (at, scratch) = (elements.at, None);
            return In { at, scratch };
        }
        let mut scratch = Scratch::take(state, 1, elements.count * elements.kind.size);
        In {
            at: scratch.at().cast(),
            scratch: Some(scratch),
        }
    }

    /// # Safety
    /// The elements can be written.
    pub unsafe fn end(self, state: &mut State, elements: &Elements) -> Result<(), c_int> {
        let Some(mut scratch) = self.scratch else {
            return Ok(());
        };
        // SAFETY: the caller's promise; the memory has their bytes.
        let done = unsafe { elements.unpack(scratch.at(), state.handle) };
        scratch.give_back(state, 1);
        done
    }
}
