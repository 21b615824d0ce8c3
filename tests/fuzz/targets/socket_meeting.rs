//! Target `socket_meeting` of cargo-fuzz.
#![no_main]

#[path = "../targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::run("socket_meeting", bytes));
