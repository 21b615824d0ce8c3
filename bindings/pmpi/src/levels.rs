//! The two levels of a communicator on several nodes: the ranks of each node, and their leaders.

use crate::front::is_ending;
use crate::outcome;
use mpi::ffi;
use std::ffi::c_int;

/// The most bytes, or elements, of one call of MPI.
const PIECE: usize = 1 << 30;

/// A communicator in two levels.
pub struct Levels {
    /// The ranks of this node, of whose communicator kolo's was made.
    pub node: ffi::MPI_Comm,
    /// The leaders, in the order of the nodes; null where this rank is none.
    pub leaders: ffi::MPI_Comm,
    /// The node of this rank.
    pub own: usize,
    /// The node of each rank, and its place among the ranks of that node.
    pub places: Vec<(u32, u32)>,
    /// The ranks of each node.
    pub ranks: Vec<u32>,
}

/// Failure of a part of a call: of kolo's, or of MPI's with its code.
pub enum Fault {
    Kolo,
    Mpi(c_int),
}

pub type Step = Result<(), Fault>;

/// The end of a call of MPI's.
fn mpi(code: c_int) -> Step {
    outcome(code).map_err(Fault::Mpi)
}

impl Levels {
    /// How many times the data of a reduce to `root` the spare memory of `rank` has.
    pub fn room(&self, rank: c_int, root: c_int) -> usize {
        let is_of_root = self.own == self.places[root as usize].0 as usize;
        match self.is_leader() {
            false => 0,
            true if is_of_root && rank != root => 2,
            true => 1,
        }
    }

    /// Whether this rank is one.
    pub fn is_leader(&self) -> bool {
        // SAFETY: a constant of the MPI.
        self.leaders != unsafe { ffi::RSMPI_COMM_NULL }
    }

    /// Runs a call of MPI's, if this rank is a leader.
    pub fn across(&self, call: impl FnOnce(ffi::MPI_Comm) -> c_int) -> Step {
        if self.is_leader() {
            mpi(call(self.leaders))
        } else {
            Ok(())
        }
    }

    /// Runs a call of MPI's for each [`PIECE`] of `count`, if this rank is a leader.
    pub fn in_pieces(
        &self,
        count: usize,
        mut call: impl FnMut(usize, c_int, ffi::MPI_Comm) -> c_int,
    ) -> Step {
        let pieces = (0..count).step_by(PIECE);
        let mut piece = |first: usize| {
            let some = PIECE.min(count - first) as c_int;
            self.across(|leaders| call(first, some, leaders))
        };
        pieces.into_iter().try_for_each(&mut piece)
    }
}

impl Drop for Levels {
    fn drop(&mut self) {
        if is_ending() {
            return;
        }
        for comm in [&mut self.leaders, &mut self.node] {
            // SAFETY: null, or a live communicator of ours, of which nothing is under way.
            unsafe {
                if *comm != ffi::RSMPI_COMM_NULL {
                    ffi::PMPI_Comm_free(comm);
                }
            }
        }
    }
}
