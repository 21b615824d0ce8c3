//! The machine itself: what its memory, its barriers and its schedules allow, and what they report.
//!
//! Kernels of `tests/litmus` are run over many seeds. What is right must hold on every one; what
//! lacks a part must fail on some.

mod checks;
mod kernels;
mod lines;
mod meetings;
mod messages;
mod replay;
