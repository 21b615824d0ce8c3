//! How a communicator comes to be: who meets, what they tell each other, what is made of it.
//!
//! **Problem.** Every rank must come to the same tables, rings and connections, though each sees
//! only its own machine and settings; and a rank that cannot begin must not leave others waiting.
//!
//! **Idea.** Ranks show each other what they have seen, errors too ([`meet`]), and each computes
//! the same from the same facts ([`init`], after [`joining`]). A split has all of its parent's
//! facts and makes less ([`kin`]).

pub(in crate::comm) mod adopted;
pub mod begun;
#[cfg(test)]
mod bind_tests;
pub(in crate::comm) mod by_switch;
pub(in crate::comm) mod cma;
mod community;
pub(in crate::comm) mod device;
pub(in crate::comm) mod executor;
#[cfg(test)]
mod fencing_tests;
pub(in crate::comm) mod heritage;
pub(in crate::comm) mod init;
pub(in crate::comm) mod joining;
pub(in crate::comm) mod kin;
pub(in crate::comm) mod layout;
pub(in crate::comm) mod living;
pub(in crate::comm) mod made;
pub(in crate::comm) mod meet;
pub(in crate::comm) mod mpi;
pub(in crate::comm) mod net;
pub mod orders;
mod over_parent;
pub(in crate::comm) mod party;
pub(in crate::comm) mod pinning;
pub(in crate::comm) mod split;
pub mod stores;
pub(in crate::comm) mod summary;
pub(in crate::comm) mod together;
pub mod tuning;
