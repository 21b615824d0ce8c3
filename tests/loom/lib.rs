//! What `interleavings.rs` models: the sources of kolo's two lowest layers, with loom's atomics.

#[path = "../../src/base/mod.rs"]
pub mod base;
#[path = "../../src/wire/mod.rs"]
pub mod wire;
