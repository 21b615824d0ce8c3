//! The C functions of `interface.cpp`, and the structures that cross.

use std::ffi::{c_char, c_void};

/// A kernel's entry, as `KOLO_KERNEL` defines it.
pub type KernelFunction = unsafe extern "C" fn(launch: *const c_void);

/// The machine of C++.
#[repr(C)]
pub struct Raw {
    opaque: [u8; 0],
}

/// As `Options` of state.h.
#[repr(C)]
pub struct RawOptions {
    pub seed: u64,
    pub most_switches: u64,
    pub devices: u32,
    pub resident_blocks: u32,
    pub is_weak: u32,
}

/// As `Patience` of state.h.
#[repr(C)]
pub struct Patience {
    pub base: u64,
    pub each: u64,
    pub ready: u64,
}

/// Counts of what has happened so far.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Switches to a fiber.
    pub switches: u64,
    /// Loads of device memory.
    pub loads: u64,
    /// Stores to device memory; a line of 128 bytes is one.
    pub stores: u64,
    /// Words and lines that landed by themselves.
    pub landed: u64,
    /// Loads that gave what memory held before.
    pub old_loads: u64,
    /// Calls for which a warp met.
    pub meetings: u64,
    /// Barriers that opened.
    pub barriers: u64,
    /// Blocks that began.
    pub blocks: u64,
}

pub const FAILED: i32 = -1;
pub const GOES_ON: i32 = 0;
pub const OVER: i32 = 1;

unsafe extern "C" {
    pub fn kolo_host_new(options: *const RawOptions) -> *mut Raw;
    pub fn kolo_host_drop(machine: *mut Raw);
    pub fn kolo_host_add_range(
        machine: *mut Raw,
        base: u64,
        bytes: u64,
        home: *mut u8,
        loads: u32,
        stores: u32,
        name: *const c_char,
    ) -> u32;
    pub fn kolo_host_remove_range(machine: *mut Raw, id: u32) -> i32;
    pub fn kolo_host_allow(machine: *mut Raw, id: u32, loads: u32, stores: u32);
    pub fn kolo_host_store(
        machine: *mut Raw,
        id: u32,
        offset: u64,
        from: *const u8,
        bytes: u64,
    ) -> i32;
    pub fn kolo_host_launch(
        machine: *mut Raw,
        device: u32,
        kernel: KernelFunction,
        name: *const c_char,
        blocks: u32,
        threads: u32,
        launch: *const c_void,
        bytes: u64,
    ) -> u32;
    pub fn kolo_host_is_over(machine: *const Raw, grid: u32) -> i32;
    pub fn kolo_host_run(machine: *mut Raw, switches: u64, patience: *const Patience) -> i32;
    pub fn kolo_host_fail_stuck(machine: *mut Raw);
    pub fn kolo_host_failure(machine: *const Raw) -> *const c_char;
    pub fn kolo_host_failed_access(machine: *const Raw) -> i32;
    pub fn kolo_host_counts(machine: *const Raw) -> *const Counts;
}
