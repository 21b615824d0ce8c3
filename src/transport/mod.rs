//! Transports construct connections: what they stand on is memory that ranks of a machine share,
//! and networks between machines.
//!
//! **Problem.** Ranks of a node are processes or threads, in containers or not; between nodes every
//! fabric has another interface. What a connection is must not depend on any of it.
//!
//! **Idea.** Inside a node all connections lie in one segment, at positions that a formula gives.
//! Between nodes a network is a table of functions, and the same memory stands at both ends.
//!
//! - [`node`]: the shared memory of a communicator on one node, by name instead of by offset.
//! - [`segment`]: one mapping per communicator and node, shared by its processes and threads.
//! - [`homes`]: the NUMA nodes on which it lies.
//! - `register`: what is alive in this process, by name.
//! - [`pool`]: the file in which communicators that are split from each other have their memory.
//! - [`room`]: whether limits leave the memory that is asked for.
//! - [`sharing`]: a rank's part in making or opening it.
//! - [`confirm`]: the proof that all local ranks see the same segment.
//! - [`slots`]: the memory of slots that a process writes, and its bound.
//! - [`memory`]: memory of the program that peers can map.
//! - [`registered`]: memory of the program that is moved onto a file, so that they can.
//! - [`futex`]: sleeping on a word of a segment.
//! - [`gpu`]: memory of connections between CUDA devices.
//! - [`net`]: the network between nodes: a trait, sockets, plugins, the program's MPI.
//! - [`cma`]: reading the private memory of another process.
//!
//! **Terms.** *Segment*: shared memory of a communicator on a node. *Head*, *part*: what of it all
//! ranks map, and what belongs to one connection. *Region*: a communicator's place in a pool.
//!
//! Reference: Linux manual pages memfd_create(2), unix(7) (SCM_RIGHTS), futex(2),
//! process_vm_readv(2). `docs/memory.md` and `docs/between-nodes.md` tell the rest.

pub mod cma;
pub mod confirm;
pub mod futex;
pub mod gpu;
pub mod homes;
pub mod lasting;
mod mapped;
pub mod memory;
pub mod net;
pub mod node;
pub mod pool;
mod private;
mod register;
pub mod registered;
pub mod room;
pub mod segment;
pub mod sharing;
pub mod slots;

pub use crate::base::fork;

/// Remedy when ranks of one machine cannot share memory.
pub const SAME_CONTAINER: &str = "start all ranks of a node in one container, or let the \
    containers share the network namespace (--network host) and the IPC namespace (--ipc host): \
    kolo's sockets belong to a network namespace; or give the ranks different host ids \
    (KOLO_SHM_DISABLE), so that they are treated as ranks of different nodes";
