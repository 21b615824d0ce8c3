//! The calls as programs in Rust see them: slices instead of pointers and counts.

pub(in crate::comm) mod graph;
pub(in crate::comm) mod inspect;
pub(in crate::comm) mod lengths;
pub(in crate::comm) mod raw;
mod running;
pub mod safe;
pub(in crate::comm) mod safe_blocks;
pub mod shared_buffer;
