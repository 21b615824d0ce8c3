//! How ranks first meet.
//!
//! **Problem.** Processes that a launcher started on many machines know nothing but their rank, the
//! number of ranks, and 128 bytes that somebody handed to all of them. Before they can build
//! connections they must exchange a few kilobytes each: host names, addresses, settings.
//!
//! **Idea.** One trait, [`Bootstrap`], with the three operations that start-up needs, over whatever
//! is at hand:
//!
//! - [`TcpRing`]: ranks check in with a *root* thread ([`tcp_root`]) at the address inside the
//!   [`UniqueId`]. Those of one process join, and learn the address of the *next* process; the
//!   processes form a ring of sockets.
//! - [`TableBootstrap`]: a table of C functions, which is how MPI comes in (`libkolo_mpi`;
//!   [`mpi_library`] loads it for programs in Rust).
//! - [`ThreadsBootstrap`]: ranks that are threads of one process.
//!
//! Where nobody hands an id over, [`launch`] asks whoever started the process.
//!
//! **Terms.** *Root*, the thread that calls the roll; *check-in*, a rank telling the root that it
//! is there; *door*, what lets in only those who prove that they know the secret
//! ([`crate::trust::door`]); *link*, one socket that carries sealed frames; *lead*, the lowest
//! rank of a process; *next* and *prev*, the neighbours in the ring of processes, which stand in
//! the order of their leads.
//!
//! The bootstrap network is TCP only and carries start-up data only; collectives never use it.
//! Only [`launch`] reads the environment: all else is handed in as [`NetSettings`].
//!
//! Reference: RFC 2104 (HMAC), RFC 8439 (ChaCha20-Poly1305); R. Castain, J. Hursey, A. Bouteiller,
//! D. Solt, "PMIx: process management for exascale environments", Parallel Computing 79 (2018),
//! doi:10.1016/j.parco.2018.08.002.

mod bell;
mod bundle;
mod check_in;
mod circle;
mod frame;
#[doc(hidden)]
pub mod fuzz;
mod gathered;
mod leads;
mod link;
mod neighbour;
mod net;
mod office;
mod opening;
mod rendezvous;
mod ring_words;
mod roll;
mod stream;
mod team;

pub mod launch;
pub mod local;
pub mod mpi_abi;
pub mod mpi_library;
pub mod reach;
pub mod report;
pub mod settings;
pub mod table;
pub mod tcp_ring;
pub mod tcp_root;
pub mod unique_id;

pub use gathered::ContributionList;
pub use launch::Launch;
pub use local::ThreadsBootstrap;
pub use settings::{Family, NetSettings};
pub use table::{IdleHook, TableBootstrap};
pub use tcp_ring::TcpRing;
pub use unique_id::UniqueId;

use crate::base::birth::Birth;
use crate::base::{Rank, Result};
use std::ffi::c_void;
use std::time::Duration;

/// The most bytes that one rank may contribute to one operation: 64 MiB.
pub const MAX_FRAME: usize = 64 << 20;

/// The exchanges that start-up needs. All ranks call the same operations in the same order.
///
/// Waiting for a live rank has no limit unless the implementation was given one. The death of a
/// rank is an error at every rank that is inside an operation or enters one later; after an error
/// every further operation returns the same error. Calls from several threads are safe but their
/// order must agree between ranks, so in practice one thread calls.
pub trait Bootstrap: Send + Sync {
    /// This rank, `0..nranks`.
    fn rank(&self) -> Rank;

    /// The number of ranks, at least 1.
    fn nranks(&self) -> u32;

    /// Gathers the bytes of every rank, in rank order; lengths may differ (each at most
    /// [`MAX_FRAME`]).
    fn all_gather(&self, mine: &[u8]) -> Result<ContributionList>;

    /// Replaces `data` by that of rank `root` (at most [`MAX_FRAME`] bytes).
    fn broadcast(&self, root: Rank, data: &mut Vec<u8>) -> Result<()>;

    /// Returns when every rank has called it.
    fn barrier(&self) -> Result<()>;

    /// How much is left of the time in which the ranks must have met; `None`: there is no limit.
    fn time_left(&self) -> Option<Duration> {
        None
    }

    /// The start that the ranks meet for, where it may be called off while it waits.
    fn birth(&self) -> Option<&Birth> {
        None
    }

    /// The name that the program has given these ranks, as another library knows it.
    fn name(&self) -> Option<String> {
        None
    }

    /// Point-to-point functions that came with this bootstrap, and their context: null, or as
    /// [`TableBootstrap::net_functions`] says.
    fn point_to_point(&self) -> (*const c_void, *mut c_void) {
        (std::ptr::null(), std::ptr::null_mut())
    }
}
