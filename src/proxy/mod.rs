//! Threads of kolo's own.

pub mod progress;
