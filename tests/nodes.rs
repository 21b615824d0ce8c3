//! Some of what `tests/ranks.rs` does, with ranks on several nodes, and what only nodes have: each
//! rank is told the name of a node, and ranks with different names reach each other over sockets.

#[allow(dead_code, reason = "orders of channels are for one node")]
#[path = "ranks/algorithms.rs"]
mod algorithms;
#[path = "alone/mod.rs"]
mod alone;
#[path = "ranks/basics.rs"]
mod basics;
#[path = "ranks/bits.rs"]
mod bits;
#[path = "ranks/blocks.rs"]
mod blocks;
#[path = "ranks/bounded.rs"]
mod bounded;
#[path = "ranks/cases.rs"]
mod cases;
#[path = "ranks/circles.rs"]
mod circles;
mod drawn;
#[path = "nodes/engine.rs"]
mod engine;
#[path = "ranks/groups.rs"]
mod groups;
#[path = "nodes/near.rs"]
mod near;
#[path = "ranks/operations.rs"]
mod operations;
#[path = "nodes/proxied.rs"]
mod proxied;
#[path = "nodes/rails.rs"]
mod rails;
#[path = "ranks/routes.rs"]
mod routes;
#[path = "skip/mod.rs"]
mod skip;
#[path = "nodes/steps.rs"]
mod steps;
#[allow(dead_code, reason = "not every test uses all of it")]
#[path = "ranks/support.rs"]
mod support;
#[path = "nodes/trouble.rs"]
mod trouble;
mod within;
