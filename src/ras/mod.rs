//! Looking into a job from outside: one table of all ranks, and who holds it up (`kolo ras`).
//!
//! **Problem.** A job hangs. Its output says nothing; its threads are in calls and cannot be asked;
//! and whoever looks at one rank alone does not see which of the others is to blame.
//!
//! **Idea.** Every process tells what it does to any process of its user ([`serve`], [`seen`]): of
//! each communicator how often it has called, for whom it waits and since when, and what its
//! threads do otherwise ([`threads`]). Whoever asks collects that on one node, has lookouts collect
//! it on the others ([`gather`]), and puts it together ([`table`]). Waits lead from rank to rank:
//! where they end stands the culprit, who is told in a sentence ([`verdict`]), before the table
//! ([`words`]).
//!
//! **Cost.** Nothing on the path of a call: what is told are counts and notes that are there
//! anyway. Nothing is sent, and no thread is there, while nobody asks.
//!
//! The shape is that of NCCL's RAS subsystem.

pub mod culprit;
mod doing;
mod figures;
pub mod gather;
pub mod seen;
pub mod serve;
mod starting;
pub mod table;
pub mod threads;
pub mod verdict;
pub mod words;

#[cfg(test)]
mod verdict_tests;
