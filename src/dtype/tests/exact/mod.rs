//! Exact sums against an oracle that adds bit by bit, and against crate `accurate`; every seed is
//! in the message of the assertion.

mod data;
mod mutants;
mod oracle;
mod special;
mod sums;
mod travel;
