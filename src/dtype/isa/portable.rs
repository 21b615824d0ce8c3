//! Plain Rust vectors; the compiler uses what its target has (SSE2 on x86-64, NEON on AArch64).

use super::{Kernels, entries, kernels};
use crate::dtype::lanes::Array;
use crate::dtype::minifloat::{F8E4M3, F8E5M2};
use half::{bf16, f16};

entries!(Array<u8, 32>);

/// The kernels.
pub(super) static KERNELS: Kernels = kernels!(
    Array<i8, 32>: Array<u8, 32>,
    Array<u8, 32>: Array<u8, 32>,
    Array<i32, 8>: Array<u32, 8>,
    Array<u32, 8>: Array<u32, 8>,
    Array<i64, 4>: Array<u64, 4>,
    Array<u64, 4>: Array<u64, 4>,
    Array<f16, 8>: Array<f16, 8>,
    Array<f32, 8>: Array<f32, 8>,
    Array<f64, 4>: Array<f64, 4>,
    Array<bf16, 8>: Array<bf16, 8>,
    Array<F8E4M3, 8>: Array<F8E4M3, 8>,
    Array<F8E5M2, 8>: Array<F8E5M2, 8>,
);
