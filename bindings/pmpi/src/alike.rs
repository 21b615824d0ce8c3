//! Findings about an all-reduce that a communicator keeps for the next ones like it: `repeated.rs`
//! says why.

use crate::decide;
use mpi::ffi;
use std::ffi::c_int;

/// A type and an operation, with all that was found for them.
#[derive(Clone, Copy)]
pub struct Alike {
    datatype: ffi::MPI_Datatype,
    op: ffi::MPI_Op,
    pub by_kolo: ByKolo,
    /// Of any number of elements, which lie without gaps.
    pub elements: decide::Elements,
}

/// Kolo's type and operation.
#[derive(Clone, Copy)]
pub struct ByKolo {
    pub datatype: c_int,
    pub op: c_int,
}

impl Alike {
    pub fn new(
        datatype: ffi::MPI_Datatype,
        op: ffi::MPI_Op,
        by_kolo: ByKolo,
        elements: decide::Elements,
    ) -> Alike {
        Alike {
            datatype,
            op,
            by_kolo,
            elements,
        }
    }

    /// Whether a call of this type and operation is like it.
    #[inline]
    pub fn is_like(&self, datatype: ffi::MPI_Datatype, op: ffi::MPI_Op) -> bool {
        self.datatype == datatype && self.op == op
    }
}
