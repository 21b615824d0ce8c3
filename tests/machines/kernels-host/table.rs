//! kolo's kernels, by name.

use crate::interface::KernelFunction;
use crate::machine::Kernel;
use kolo::exec::cuda::launch::LAUNCH_BYTES;
use std::ffi::{CStr, c_char};

unsafe extern "C" {
    safe fn kolo_table_length() -> u32;
    fn kolo_table_name(index: u32) -> *const c_char;
    fn kolo_table_kernel(index: u32) -> KernelFunction;

    safe fn kolo_litmus_length() -> u32;
    fn kolo_litmus_name(index: u32) -> *const c_char;
    fn kolo_litmus_kernel(index: u32) -> KernelFunction;
    fn kolo_litmus_bytes(index: u32) -> u32;
}

/// All kernels: one for each protocol, type and operation of `kernels.def`.
pub fn kernels() -> impl Iterator<Item = (&'static str, Kernel)> {
    (0..kolo_table_length()).map(|index| {
        // SAFETY: the index is one of the table, whose names are constants; each kernel is defined
        // by KOLO_KERNEL, and its structure is `Launch` of plan.h.
        unsafe {
            let name = CStr::from_ptr(kolo_table_name(index));
            let kernel = Kernel::new(name, kolo_table_kernel(index), LAUNCH_BYTES);
            (name.to_str().expect("a name in ASCII"), kernel)
        }
    })
}

/// The kernel of this name.
pub fn kernel(name: &str) -> Option<Kernel> {
    kernels().find(|one| one.0 == name).map(|one| one.1)
}

/// The kernels of `litmus.cu`, which try a device.
pub fn litmus() -> impl Iterator<Item = (&'static str, Kernel)> {
    (0..kolo_litmus_length()).map(|index| {
        // SAFETY: the index is one of the table, whose names are constants; each kernel is defined
        // by KOLO_KERNEL, which says how long its structure is.
        unsafe {
            let name = CStr::from_ptr(kolo_litmus_name(index));
            let bytes = kolo_litmus_bytes(index) as usize;
            let kernel = Kernel::new(name, kolo_litmus_kernel(index), bytes);
            (name.to_str().expect("a name in ASCII"), kernel)
        }
    })
}
