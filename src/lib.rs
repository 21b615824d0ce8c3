//! **kolo**: collective communication for batch HPC jobs: all-reduce, broadcast, gather, halo
//! exchange and the rest, between ranks on one node or many.
//!
//! ```
//! use kolo::{CommConfig, Communicator, RedOp};
//!
//! # fn main() -> kolo::Result<()> {
//! // All processes that a launcher (mpirun, srun) has started; one rank where there is none.
//! let comm = Communicator::init_env(&CommConfig::default())?;
//! let mut sum = [0.0];
//! comm.all_reduce(&[f64::from(comm.rank() + 1)], &mut sum, RedOp::SUM)?;
//! assert_eq!(sum, [f64::from(comm.nranks() * (comm.nranks() + 1) / 2)]);
//! comm.destroy()
//! # }
//! ```
//!
//! # What there is
//!
//! - A [`Communicator`] is made by [`Communicator::init_env`] from what a launcher says, by
//!   [`Communicator::init_mpi`] from an `MPI_Comm`, by [`Communicator::init_rank`] from a
//!   [`UniqueId`] that one process makes and hands to the others, or by [`Communicator::init_all`]
//!   for ranks that are threads of one process. [`Communicator::split`] makes parts of it, and
//!   [`Communicator::begin`] does not wait for the others.
//! - Its calls are blocking, and take slices of any [`Element`]: numbers, and the types in
//!   [`types`]. All ranks make the same calls in the same order.
//! - A [`SharedBuffer`] is memory that ranks of a node read where it lies.
//! - [`Communicator::scope`] holds asynchronous calls, which borrow their buffers until it ends.
//! - A [`Graph`] says who exchanges with whom in neighbour calls; [`Blocks`] say where blocks of
//!   different sizes lie; a [`RedOp`] says how a reduction combines.
//! - An [`Error`] is a sentence that names rank, peer, call and remedy.
//!
//! `docs/rust-api.md` lists every call on one page. Only what stands there is meant for programs:
//! everything else in this crate serves kolo's own libraries and tools, is hidden here, and may
//! change with any version.
//!
//! # The rooms of the source
//!
//! A collective is a *plan*: a pure function emits *steps*, and the host executor, the checker and
//! the simulator all read the same steps. `docs/ARCHITECTURE.md` is the map: it says which room
//! may import which, and which file to open for what. Whoever reads the source reads it in this
//! order:
//!
//! 1. `base`: errors, identifiers, the table of collectives, checked arithmetic, atomics, the
//!    clock.
//! 2. `plan`: steps, operand lists, lanes, plans, windows; the checker that proves a plan.
//! 3. `algo`: the algorithms, from one-shot and ring to trees, halving and doubling, PAT, scans and
//!    hierarchies over nodes: pure functions from a shape to steps (`docs/algorithms.md`).
//! 4. `dtype`: data types, reduction operations, the SIMD kernels that fold them, exact sums.
//! 5. `wire`: connections: lines, slots, fans, casts, flagged lines; how a token changes hands.
//! 6. `price`: the machine as counts, what hand-overs cost by level, and what a call costs by that.
//! 7. `exec`: executors of plans: the interpreter on host memory, short forms of small calls, GPUs,
//!    and the simulator.
//! 8. `config`: one table of options; every value knows the layer it came from.
//! 9. `topo`: the machine as hwloc sees it, and rings and trees in it; pinning, the waiting policy.
//! 10. `trust`: secrets of a job, the proof that both ends of a connection know one, seals.
//! 11. `bootstrap`: how ranks first meet: unique id and TCP ring, tables of functions (MPI),
//!     launchers (PMIx, PMI, Slurm), threads of one process.
//! 12. `transport`: constructs connections: the shared memory of a node, and networks between nodes
//!     (TCP sockets, plugins such as RDMA's, the program's MPI).
//! 13. `proxy`: the service thread (hand-over of memory, death of peers), the progress thread, the
//!     engine that moves tokens between nodes, and lookouts, which carry news between nodes.
//! 14. `tune`: which algorithm, protocol and channels for which size.
//! 15. `cuda`: the driver of GPUs, typed: contexts, memory, streams, events, kernels.
//! 16. `ras`: looking into a job from outside: one table of all ranks, and who holds it up.
//! 17. `comm`: communicators, groups, streams: what the bindings call.

// First, for its table of algorithms is text that rooms below it read names from.
#[macro_use]
#[doc(hidden)]
pub mod algo;
#[doc(hidden)]
pub mod base;
#[doc(hidden)]
pub mod bootstrap;
#[doc(hidden)]
pub mod comm;
#[doc(hidden)]
pub mod config;
#[doc(hidden)]
pub mod cuda;
#[doc(hidden)]
pub mod exec;
#[doc(hidden)]
pub mod plan;
#[doc(hidden)]
pub mod price;
#[doc(hidden)]
pub mod proxy;
#[doc(hidden)]
pub mod ras;
#[doc(hidden)]
pub mod topo;
#[doc(hidden)]
pub mod transport;
#[doc(hidden)]
pub mod trust;
#[doc(hidden)]
pub mod tune;
#[doc(hidden)]
pub mod wire;

// A crate of its own: its kernels are compiled once.
#[doc(hidden)]
pub extern crate kolo_dtype as dtype;

#[rustfmt::skip] // In the order in which docs/rust-api.md lists them.
pub use comm::{
    Communicator, Starting, CommConfig, RedOp, Blocks, Graph, NO_RANK, RegisteredBuffer,
    SharedBuffer, Scope,
};
pub use base::{Code, Error, ErrorParts, Rank, Result};
pub use bootstrap::UniqueId;
#[doc(inline)]
pub use dtype::Element;

/// Elements beside the integers and floats of Rust: pairs of a value and an index, complex numbers,
/// truth values, bytes and characters, half precision and what is smaller.
pub mod types {
    /// A complex number, `Complex<f32>` or `Complex<f64>`: the type of crate `num-complex`.
    pub use crate::dtype::Complex;
    #[doc(inline)]
    pub use crate::dtype::exact::Summand;
    #[doc(inline)]
    pub use crate::dtype::{
        Byte, Character, DoubleDouble, DoubleInt, FloatFloat, FloatInt, IntInt, Logical8,
        Logical16, Logical32, Logical64, LongInt,
    };
    /// A number of 8 bits by the OCP specification, with `from_f32` and `to_f32`.
    #[doc(inline)]
    pub use crate::dtype::{F8E4M3, F8E5M2};
    /// A number of 16 bits: the type of crate `half`.
    pub use crate::dtype::{bf16, f16};
}
