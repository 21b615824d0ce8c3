//! Transports construct connections: what they stand on is memory that ranks of a machine share,
//! and networks between machines.
//!
//! - [`node`]: the shared memory of a communicator on one node, by name instead of by offset.
//! - [`segment`]: one mapping per communicator and node, shared by its processes and threads.
//! - [`register`]: the segments of this process, by name.
//! - [`confirm`]: the proof that all local ranks see the same segment.
//! - [`futex`]: sleeping on a word of a segment.
//! - [`net`]: the network between nodes: a trait, sockets, plugins, the program's MPI.
//! - [`cma`]: reading the private memory of another process.
//! - [`fork`]: file descriptors and mappings that a forked child must not keep.

pub mod cma;
pub mod confirm;
pub mod fork;
pub mod futex;
pub mod memory;
pub mod net;
pub mod node;
pub mod register;
pub mod segment;

/// What to do when ranks of one machine cannot share memory.
pub const SAME_CONTAINER: &str = "start all ranks of a node in one container, or let the \
    containers share the network namespace (--network host) and the IPC namespace (--ipc host): \
    kolo's sockets belong to a network namespace; or give the ranks different host ids \
    (KOLO_SHM_DISABLE), so that they are treated as ranks of different nodes";
