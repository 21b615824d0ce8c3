//! Plain Rust vectors; the compiler uses what its target has (SSE2 on x86-64, NEON on AArch64).

use super::entries::{Kernels, entries, kernels};
use crate::compound::Bits;
use crate::lanes::Array;
use crate::minifloat::{F8E4M3, F8E5M2};
use half::{bf16, f16};
use num_complex::Complex;

entries!(Array<u8, 32>);

/// The kernels.
pub(super) static KERNELS: Kernels = kernels!(
    integers {
        Int8: Array<i8, 32>, Array<u8, 32>, Logical8;
        Uint8: Array<u8, 32>, Array<u8, 32>, Logical8;
        Int32: Array<i32, 8>, Array<u32, 8>, Logical32;
        Uint32: Array<u32, 8>, Array<u32, 8>, Logical32;
        Int64: Array<i64, 4>, Array<u64, 4>, Logical64;
        Uint64: Array<u64, 4>, Array<u64, 4>, Logical64;
    }
    floats {
        Float16: Array<f16, 8>;
        Float32: Array<f32, 8>;
        Float64: Array<f64, 4>;
        Bfloat16: Array<bf16, 8>;
        Float8e4m3: Array<F8E4M3, 8>;
        Float8e5m2: Array<F8E5M2, 8>;
    }
    complex {
        Complex64: Array<f32, 8>, Array<Complex<f32>, 4>;
        Complex128: Array<f64, 4>, Array<Complex<f64>, 2>;
    }
    bytes Array<u8, 32>;
    bits Array<Bits, 32>;
    array 32;
);
