//! Arguments of calls, as the program gives them.

use crate::kinds;
use crate::turn::Elements;
use mpi::ffi;
use std::ffi::c_void;

/// One side of a call as the program gives it.
#[derive(Clone, Copy)]
pub struct Side {
    pub at: *const c_void,
    pub count: i64,
    pub datatype: ffi::MPI_Datatype,
}

impl Side {
    /// None: MPI says what is wrong with it.
    pub fn elements(&self) -> Option<Elements> {
        let kind = kinds::kind(self.datatype)?;
        let made = Elements::new(self.at, self.count, self.datatype, kind)?;
        (!made.is_missing()).then_some(made)
    }
}

/// The arguments that all reductions have.
#[derive(Clone, Copy)]
pub struct Folded {
    pub send: *const c_void,
    pub recv: *mut c_void,
    pub datatype: ffi::MPI_Datatype,
    pub op: ffi::MPI_Op,
    pub comm: ffi::MPI_Comm,
}
