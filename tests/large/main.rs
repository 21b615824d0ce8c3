//! Large nodes: real ranks, as threads, on machines that nobody has here. Each rank is bound, as
//! far as kolo can see, to a core of a machine of up to 192 that a file describes; from there on
//! all is as in a job: what ranks share, levels, prices, plans.
//!
//! Data differ by rank, element and call, receive buffers are poisoned, and every rank checks.

mod bound;
mod calls;
#[path = "../ranks/cases.rs"]
mod cases;
#[path = "../drawn/mod.rs"]
mod drawn;
mod levels;
mod machines;
#[allow(dead_code, reason = "not every test uses all of it")]
#[path = "../ranks/support.rs"]
mod support;
#[path = "../within/mod.rs"]
mod within;
