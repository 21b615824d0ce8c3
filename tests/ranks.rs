//! Ranks as threads: every collective against an oracle that knows the exact result.
//!
//! Data differ by rank, element and iteration; receive buffers are poisoned; every rank checks.
//! Values are small integers, so that every type and every order of folding gives the same result.

#[path = "ranks/algorithms.rs"]
mod algorithms;
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
#[path = "ranks/devices.rs"]
mod devices;
mod drawn;
#[path = "ranks/groups.rs"]
mod groups;
#[path = "ranks/messages.rs"]
mod messages;
#[path = "ranks/misaligned.rs"]
mod misaligned;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[path = "ranks/modes.rs"]
mod modes;
#[path = "ranks/operations.rs"]
mod operations;
#[path = "ranks/orders.rs"]
mod orders;
#[path = "ranks/registered.rs"]
mod registered;
#[path = "ranks/routes.rs"]
mod routes;
#[path = "ranks/shared_buffers.rs"]
mod shared_buffers;
#[allow(dead_code, reason = "not every test uses all of it")]
#[path = "ranks/support.rs"]
mod support;
#[path = "../examples/rust/unit_test.rs"]
mod unit_test;
mod within;
