//! The calls as programs in Rust see them: slices instead of pointers and counts.

mod lengths;
pub mod safe;
pub(in crate::comm) mod safe_blocks;
pub mod shared_buffer;
