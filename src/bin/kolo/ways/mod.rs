//! Which way data take between two ranks of a job, and why not a better one.
//!
//! **Problem.** Whether a job goes by shared memory, RDMA or sockets is decided by communicators,
//! from what all ranks have told each other. Who wants to know it beforehand, or why it is not
//! better, should not have to read the log of a program.
//!
//! **Idea.** Every rank tells the others what a communicator would ([`said`]): its place, networks
//! and interfaces, by the functions that communicators call. Then it tries what only trying shows,
//! whether it may read the memory of its mates, and the lowest rank of each node joins its
//! interfaces with those of others ([`tried`]). From all of it ([`mod@gather`]) follow *groups*
//! ([`job`]): pairs of ranks with one way, which are few however many ranks there are.

mod gather;
mod group;
mod job;
#[cfg(test)]
pub mod made_up;
mod said;
mod tried;

pub use gather::gather;
pub use group::WayGroup;
pub use job::JobWays;
pub use said::{NetworkSaid, RankWays, opened};
