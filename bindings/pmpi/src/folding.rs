//! Reductions that MPI folds: operations of the program, and types that kolo does not fold.
//!
//! Kolo moves the elements, as numbers of the same size, and calls `MPI_Reduce_local` for each two
//! pieces. Each attached communicator makes two operations of kolo's for that, one that keeps the
//! order of ranks and one that need not, when they are first wanted. Programs make and free
//! operations and types by the thousand; nothing of those is kept beyond a call.

use crate::sys::{Comm, koloRedOpCreateUser, koloRedOpDestroy};
use mpi::ffi;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering};

/// The type and operation by which a call folds now. Its place does not change while an operation
/// points to it.
struct Current {
    datatype: ffi::MPI_Datatype,
    op: ffi::MPI_Op,
    /// MPI's last code, if it was no success.
    failed: AtomicI32,
}

/// The operations of a communicator.
#[derive(Default)]
pub struct Folding {
    current: Option<Box<Current>>,
    /// In any order, and in the order of ranks.
    ops: [Option<c_int>; 2],
}

/// The most elements of one call of MPI.
const PIECE: usize = 1 << 30;

unsafe extern "C" fn fold(
    input: *const c_void,
    inout: *mut c_void,
    count: usize,
    datatype: c_int,
    context: *mut c_void,
) {
    // SAFETY: the context is the `Current` of the communicator, which outlives its operations; it
    // is written between calls only.
    let current = unsafe { &*context.cast::<Current>() };
    let bytes = match datatype {
        1 => 1,
        6 => 2,
        3 => 4,
        5 => 8,
        _ => 16,
    };
    let mut done = 0;
    while done < count {
        let piece = (count - done).min(PIECE);
        // SAFETY: both have `count` elements of that many bytes.
        let code = unsafe {
            let (input, inout) = (input.byte_add(done * bytes), inout.byte_add(done * bytes));
            ffi::PMPI_Reduce_local(input, inout, piece as c_int, current.datatype, current.op)
        };
        if code != 0 {
            current.failed.store(code, Ordering::Relaxed);
            return;
        }
        done += piece;
    }
}

impl Folding {
    /// The operation of kolo's that folds elements of `datatype` by `op` in the next call.
    ///
    /// # Errors
    /// The code that kolo returned.
    pub fn next(
        &mut self,
        kolo: Comm,
        datatype: ffi::MPI_Datatype,
        op: ffi::MPI_Op,
    ) -> Result<c_int, c_int> {
        let mut commutes = 0;
        // SAFETY: a live operation.
        let code = unsafe { ffi::PMPI_Op_commutative(op, &mut commutes) };
        let ordered = code != 0 || commutes == 0;
        let current = self.current.get_or_insert_with(|| {
            Box::new(Current {
                datatype,
                op,
                failed: AtomicI32::new(0),
            })
        });
        (current.datatype, current.op) = (datatype, op);
        current.failed.store(0, Ordering::Relaxed);
        if let Some(made) = self.ops[usize::from(ordered)] {
            return Ok(made);
        }
        let mut made = 0;
        let context = (&raw mut **current).cast();
        // SAFETY: function and context live until `end`.
        let code =
            unsafe { koloRedOpCreateUser(&mut made, fold, context, c_int::from(!ordered), kolo) };
        if code != 0 {
            return Err(code);
        }
        self.ops[usize::from(ordered)] = Some(made);
        Ok(made)
    }

    /// MPI's code during the call, 0 where all went well.
    pub fn outcome(&self) -> c_int {
        self.current
            .as_ref()
            .map_or(0, |current| current.failed.load(Ordering::Relaxed))
    }

    /// Before the communicator ends.
    pub fn end(&mut self, kolo: Comm) {
        for op in self.ops.iter_mut().filter_map(Option::take) {
            // SAFETY: an operation of this communicator, with no call under way.
            unsafe { koloRedOpDestroy(op, kolo) };
        }
        self.current = None;
    }
}
