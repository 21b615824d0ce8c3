//! Everything that `tests/ranks.rs` does, with ranks on several nodes: each rank is told the name of
//! a node, and ranks with different names reach each other over sockets only.

#[path = "ranks.rs"]
mod ranks;
