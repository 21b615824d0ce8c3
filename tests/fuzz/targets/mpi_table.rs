//! Target `mpi_table` of cargo-fuzz.
#![no_main]

#[path = "../targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::run("mpi_table", bytes));
