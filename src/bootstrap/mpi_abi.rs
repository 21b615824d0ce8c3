//! The C structures between kolo and `libkolo_mpi`, which alone is linked to MPI.
//!
//! This file imports nothing from kolo: `bindings/mpi` compiles the same file, so that both sides
//! agree by construction. A structure begins with its size; members are only ever appended.

use std::ffi::{c_char, c_int, c_void};

/// Value of [`MpiTable::version`].
pub const TABLE_VERSION: u32 = 1;

/// Broadcasts `bytes` at `buffer` from `root`.
pub type BcastFn = unsafe extern "C" fn(
    context: *mut c_void,
    buffer: *mut c_void,
    bytes: usize,
    root: c_int,
) -> c_int;

/// Gathers `bytes` of every rank into `receive`, which holds nranks * bytes, in rank order.
pub type AllgatherFn = unsafe extern "C" fn(
    context: *mut c_void,
    send: *const c_void,
    bytes: usize,
    receive: *mut c_void,
) -> c_int;

/// Takes nothing but the context.
pub type ContextFn = unsafe extern "C" fn(context: *mut c_void) -> c_int;

/// Argument of `koloCommInitTable`: a way to reach the other ranks. Functions return 0 for success.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MpiTable {
    /// `sizeof` this structure as the caller knows it.
    pub size: usize,
    /// [`TABLE_VERSION`].
    pub version: u32,
    /// Handed to every function. Owned by kolo once the table is accepted.
    pub context: *mut c_void,
    /// This rank.
    pub rank: c_int,
    /// The number of ranks.
    pub nranks: c_int,
    /// Collective.
    pub bcast: Option<BcastFn>,
    /// Collective.
    pub allgather: Option<AllgatherFn>,
    /// Lets the other library make progress; called by a thread that waits inside a kolo call. Not
    /// 0 where that thread may not call it.
    pub idle: Option<ContextFn>,
    /// Gives the context back; kolo calls it once and uses nothing of the table afterwards.
    pub free: Option<ContextFn>,
    /// Null, or a sentence (valid during the call) why the caller could not make a table: the
    /// call then fails with it, so that `koloGetLastError` shows errors found before kolo.
    pub problem: *const c_char,
    /// The result code that goes with `problem`.
    pub problem_code: c_int,
    /// Null, or the `MpiNetTable` of `transport::net::mpi::abi`: point-to-point functions, whose
    /// `open` takes the context.
    pub net: *const c_void,
    /// How many processes the other library started together with this one, all of them and not
    /// only the ranks of the table; 0 if the caller does not know.
    pub world: usize,
    /// The negative number that means "no rank" to the other library (MPI_PROC_NULL); 0: none.
    pub no_rank: c_int,
    /// Null, or the name (valid until `free`) that the program has given the ranks of the table.
    pub name: *const c_char,
}

/// Value of [`MpiApi::version`].
pub const API_VERSION: u32 = 1;

/// The call cannot be expressed in MPI here: the type (f16, bf16, fp8, and what is newer than the
/// real numbers), the operation (avg, pre-multiplied and exact sums) or a count beyond `int`.
/// Nothing was sent.
pub const MPI_NOT_SUPPORTED: c_int = -1;
/// A pointer, root or number makes no sense, or the call panicked. Nothing was sent.
pub const MPI_BAD_ARGUMENT: c_int = -2;

/// A communicator of MPI, by value and opaque.
pub type MpiComm = usize;

/// The functions of [`MpiApi`], in the order of its members: the structure is made of them here,
/// and filled by the same list in `bindings/mpi`, where each name is a function.
macro_rules! mpi_functions {
    ($with:ident) => {
        $with! {
            /// Fills a table over `comm` for kolo's start-up; its `free` does not free `comm`.
            table: unsafe extern "C" fn(comm: MpiComm, table: *mut MpiTable) -> c_int,
            /// Rank and number of ranks.
            comm_info: unsafe extern "C" fn(
                comm: MpiComm,
                rank: *mut c_int,
                n: *mut c_int,
            ) -> c_int,
            /// MPI_Comm_split; a negative color joins nothing and gives 0 as `new`.
            split: unsafe extern "C" fn(
                comm: MpiComm,
                color: c_int,
                key: c_int,
                new: *mut MpiComm,
            ) -> c_int,
            /// MPI_Comm_free.
            comm_free: unsafe extern "C" fn(comm: MpiComm) -> c_int,
            /// MPI_Barrier.
            barrier: unsafe extern "C" fn(comm: MpiComm) -> c_int,
            /// MPI_Wtime, in seconds.
            wtime: unsafe extern "C" fn() -> f64,
            /// MPI_Bcast of bytes.
            bcast_bytes: unsafe extern "C" fn(
                comm: MpiComm,
                buffer: *mut c_void,
                bytes: usize,
                root: c_int,
            ) -> c_int,
            /// MPI_Allgather of bytes.
            allgather_bytes: unsafe extern "C" fn(
                comm: MpiComm,
                send: *const c_void,
                bytes: usize,
                receive: *mut c_void,
            ) -> c_int,
            /// MPI_Allreduce.
            allreduce: ReduceFn,
            /// MPI_Reduce_scatter_block; `count` is that of the result.
            reduce_scatter: ReduceFn,
            /// MPI_Reduce.
            reduce: unsafe extern "C" fn(
                comm: MpiComm,
                send: *const c_void,
                receive: *mut c_void,
                count: usize,
                dtype: c_int,
                op: c_int,
                root: c_int,
            ) -> c_int,
            /// MPI_Bcast.
            bcast: unsafe extern "C" fn(
                comm: MpiComm,
                buffer: *mut c_void,
                count: usize,
                dtype: c_int,
                root: c_int,
            ) -> c_int,
            /// MPI_Allgather.
            allgather: MoveFn,
            /// MPI_Alltoall.
            alltoall: MoveFn,
            /// MPI_Gather.
            gather: RootedFn,
            /// MPI_Scatter.
            scatter: RootedFn,
            /// MPI_Sendrecv: sends to `to`, receives from `from`; `count` both ways.
            sendrecv: unsafe extern "C" fn(
                comm: MpiComm,
                send: *const c_void,
                receive: *mut c_void,
                count: usize,
                dtype: c_int,
                to: c_int,
                from: c_int,
            ) -> c_int,
            /// MPI_Finalize, unless the program had initialised MPI itself or it is done already.
            finalize: unsafe extern "C" fn() -> c_int,
            /// MPI_Abort of `world`.
            abort: unsafe extern "C" fn(code: c_int) -> c_int,
            /// MPI_Scan.
            scan: ReduceFn,
            /// MPI_Exscan.
            exscan: ReduceFn,
            /// MPI_Allgatherv.
            allgatherv: GatherVFn,
            /// MPI_Gatherv.
            gatherv: unsafe extern "C" fn(
                comm: MpiComm,
                send: *const c_void,
                count: usize,
                receive: *mut c_void,
                counts: *const c_int,
                places: *const c_int,
                dtype: c_int,
                root: c_int,
            ) -> c_int,
            /// MPI_Scatterv; at the root it is `receive` that may be null for in place.
            scatterv: unsafe extern "C" fn(
                comm: MpiComm,
                send: *const c_void,
                counts: *const c_int,
                places: *const c_int,
                receive: *mut c_void,
                count: usize,
                dtype: c_int,
                root: c_int,
            ) -> c_int,
            /// MPI_Reduce_scatter.
            reduce_scatter_v: unsafe extern "C" fn(
                comm: MpiComm,
                send: *const c_void,
                receive: *mut c_void,
                counts: *const c_int,
                dtype: c_int,
                op: c_int,
            ) -> c_int,
            /// MPI_Alltoallv.
            alltoallv: AllToAllVFn,
            /// MPI_Cart_create: one periodic dimension of all ranks, which keep their numbers.
            ring: unsafe extern "C" fn(comm: MpiComm, new: *mut MpiComm) -> c_int,
            /// MPI_Neighbor_allgather.
            neighbor_allgather: MoveFn,
            /// MPI_Neighbor_alltoall.
            neighbor_alltoall: MoveFn,
            /// MPI_Neighbor_allgatherv.
            neighbor_allgatherv: GatherVFn,
            /// MPI_Neighbor_alltoallv.
            neighbor_alltoallv: AllToAllVFn,
        }
    };
}
#[allow(unused_imports)] // Each side uses it in another place.
pub(crate) use mpi_functions;

macro_rules! mpi_api {
    ($( $(#[$doc:meta])* $name:ident: $type:ty, )+) => {
        /// MPI for the `kolo` command line tool, which is not linked to it. `kolo_mpi_start`
        /// returns a pointer to one that lives until the process ends.
        ///
        /// Functions return 0, a positive error code of MPI's own, [`MPI_NOT_SUPPORTED`] or
        /// [`MPI_BAD_ARGUMENT`]. Types and operations carry kolo's numbers. Counts are elements per
        /// rank as in kolo's call of the same name; counts and places of blocks of different sizes
        /// are `int` arrays, which MPI gets as they are. `send` null means in place, as
        /// MPI_IN_PLACE does. Thread-safety is that of the thread level MPI gave.
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub struct MpiApi {
            /// `sizeof` this structure.
            pub size: usize,
            /// [`API_VERSION`].
            pub version: u32,
            /// 0 single, 1 funneled, 2 serialized, 3 multiple: what MPI gives.
            pub thread_level: c_int,
            /// `openmpi`, `mpich` (with all that share its binary interface) or `abi`.
            pub family: *const c_char,
            /// MPI_Get_library_version, first line.
            pub library: *const c_char,
            /// MPI_COMM_WORLD.
            pub world: MpiComm,
            /// This rank in `world`.
            pub rank: c_int,
            /// Number of ranks in `world`.
            pub nranks: c_int,
            $( $(#[$doc])* pub $name: $type, )+
        }
    };
}
mpi_functions!(mpi_api);

/// Every rank receives blocks of `counts` elements at `places`, and sends `count`.
pub type GatherVFn = unsafe extern "C" fn(
    comm: MpiComm,
    send: *const c_void,
    count: usize,
    receive: *mut c_void,
    counts: *const c_int,
    places: *const c_int,
    dtype: c_int,
) -> c_int;

/// Every rank sends blocks of `send_counts` elements at `send_places`, and receives likewise.
pub type AllToAllVFn = unsafe extern "C" fn(
    comm: MpiComm,
    send: *const c_void,
    send_counts: *const c_int,
    send_places: *const c_int,
    receive: *mut c_void,
    counts: *const c_int,
    places: *const c_int,
    dtype: c_int,
) -> c_int;

/// A reduction whose result every rank gets (part of).
pub type ReduceFn = unsafe extern "C" fn(
    comm: MpiComm,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    dtype: c_int,
    op: c_int,
) -> c_int;

/// A movement without a root.
pub type MoveFn = unsafe extern "C" fn(
    comm: MpiComm,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    dtype: c_int,
) -> c_int;

/// A movement with a root.
pub type RootedFn = unsafe extern "C" fn(
    comm: MpiComm,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    dtype: c_int,
    root: c_int,
) -> c_int;
