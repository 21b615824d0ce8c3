//! Elements that are longer than the `int` in which MPI_Pack counts bytes.
//!
//! This process sends each of them to itself, and receives it as bytes, or the other way round: a
//! message counts elements, of whatever length. It goes over a communicator of its own, so that no
//! receive of the program takes it.

use crate::outcome;
use mpi::ffi;
use std::ffi::{c_int, c_void};

/// The most bytes of an element that is packed by MPI_Pack.
const MOST: usize = c_int::MAX as usize;
const GIB: usize = 1 << 30;

/// Whether elements of so many bytes are copied here.
pub fn is_large(bytes: usize) -> bool {
    bytes > MOST
}

/// The way of a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Pack,
    Unpack,
}

/// Copies elements of one type to where they lie behind each other, or from there. `places` says
/// where each begins, `size` how many bytes of data it has.
///
/// # Safety
/// The elements can be read or written, and so can their bytes at `packed`.
pub unsafe fn copy(
    places: impl Iterator<Item = *mut c_void>,
    datatype: ffi::MPI_Datatype,
    size: usize,
    packed: *mut u8,
    way: Way,
) -> Result<(), c_int> {
    let mut own = OwnComm::new()?;
    let bytes = Bytes::new(size)?;
    for (number, place) in places.enumerate() {
        let element = (place, datatype);
        // SAFETY: the caller's promise.
        let piece = (unsafe { packed.add(number * size) }.cast(), bytes.0);
        let (from, to) = match way {
            Way::Pack => (element, piece),
            Way::Unpack => (piece, element),
        };
        own.send(from, to)?;
    }
    Ok(())
}

/// A communicator of this process alone.
struct OwnComm(ffi::MPI_Comm);

impl OwnComm {
    fn new() -> Result<OwnComm, c_int> {
        // SAFETY: MPI is initialised.
        unsafe {
            let mut made = ffi::RSMPI_COMM_NULL;
            outcome(ffi::PMPI_Comm_dup(ffi::RSMPI_COMM_SELF, &mut made))?;
            Ok(OwnComm(made))
        }
    }

    fn send(
        &mut self,
        from: (*mut c_void, ffi::MPI_Datatype),
        to: (*mut c_void, ffi::MPI_Datatype),
    ) -> Result<(), c_int> {
        // SAFETY: one element of live types at either place.
        outcome(unsafe {
            ffi::PMPI_Sendrecv(
                from.0,
                1,
                from.1,
                0,
                0,
                to.0,
                1,
                to.1,
                0,
                0,
                self.0,
                ffi::RSMPI_STATUS_IGNORE,
            )
        })
    }
}

impl Drop for OwnComm {
    fn drop(&mut self) {
        // SAFETY: no message of it is under way.
        unsafe { ffi::PMPI_Comm_free(&mut self.0) };
    }
}

/// A type of so many bytes in a row.
struct Bytes(ffi::MPI_Datatype);

impl Bytes {
    fn new(size: usize) -> Result<Bytes, c_int> {
        let (whole, rest) = (size / GIB, size % GIB);
        // SAFETY: MPI is initialised; the types of which the last is made are given back.
        unsafe {
            let none = ffi::RSMPI_DATATYPE_NULL;
            let (mut gib, mut many, mut all) = (none, none, none);
            let byte = ffi::RSMPI_UINT8_T;
            outcome(ffi::PMPI_Type_contiguous(GIB as c_int, byte, &mut gib))?;
            outcome(ffi::PMPI_Type_contiguous(whole as c_int, gib, &mut many))?;
            outcome(ffi::PMPI_Type_create_struct(
                2,
                [1, rest as c_int].as_ptr(),
                [0, (whole * GIB) as ffi::MPI_Aint].as_ptr(),
                [many, byte].as_ptr(),
                &mut all,
            ))?;
            ffi::PMPI_Type_free(&mut many);
            ffi::PMPI_Type_free(&mut gib);
            let made = Bytes(all);
            outcome(ffi::PMPI_Type_commit(&mut all))?;
            Ok(made)
        }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        // SAFETY: a live type.
        unsafe { ffi::PMPI_Type_free(&mut self.0) };
    }
}
