//! Instruction sets: each file instantiates the generic kernel; the choice is made once.

mod portable;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod x86;

use super::{DataType, FoldFn, ReduceOp};
use std::sync::OnceLock;

/// The kernels of one instruction set.
pub(super) struct Kernels {
    /// The fold of a data type and an operation that combines it.
    pub(super) fold: fn(DataType, ReduceOp) -> Option<FoldFn>,
    /// Copy of bytes.
    pub(super) copy: FoldFn,
}

/// The folds of truth values: see [`crate::dtype::compound`] for the names.
macro_rules! logical {
    ($op:ident, $truth:ident, $width:literal) => {{
        type Truth = Array<$truth, { $width / size_of::<$truth>() }>;
        match $op {
            ReduceOp::Land => fold::<Truth, Prod>,
            ReduceOp::Lor => fold::<Truth, Max>,
            ReduceOp::Lxor => fold::<Truth, Sum>,
            _ => return None,
        }
    }};
}
use logical;

/// The folds of the bits of elements of so many bytes.
macro_rules! bitwise {
    ($op:ident, $bits:ty, $size:expr) => {
        match $op {
            ReduceOp::Band => fold_parts::<$bits, Prod, { $size }>,
            ReduceOp::Bor => fold_parts::<$bits, Max, { $size }>,
            ReduceOp::Bxor => fold_parts::<$bits, Sum, { $size }>,
            _ => return None,
        }
    };
}
use bitwise;

/// The folds of pairs.
macro_rules! pair {
    ($op:ident, $pair:ident, $width:literal) => {{
        type Pairs = Array<$pair, { $width / size_of::<$pair>() }>;
        match $op {
            ReduceOp::Maxloc => fold::<Pairs, Max>,
            ReduceOp::Minloc => fold::<Pairs, Min>,
            _ => return None,
        }
    }};
}
use pair;

/// The kernels of one instruction set. Integers are `type: vector, vector for sums and products`:
/// signed ones use the unsigned ones there, since they wrap to the same bits. `bytes` and `bits`
/// are the vectors for ordering bytes and for bitwise operations on any type. The rest has
/// `array`s of so many bytes, which the compiler spreads over the registers of the instruction
/// set.
macro_rules! kernels {
    (integers { $($int:ident: $lanes:ty, $unsigned:ty, $truth:ident;)* }
     floats { $($float:ident: $real:ty;)* }
     complex { $($complex:ident: $part:ty, $number:ty;)* }
     bytes $bytes:ty; bits $bits:ty; array $width:literal;) => {{
        use crate::dtype::element::*;
        use crate::dtype::isa::{bitwise, logical, pair};
        use crate::dtype::kernel::{Avg, Max, Min, PreMulSum, Prod, Sum};
        use crate::dtype::lanes::Array;
        use crate::dtype::{DataType, FoldFn, ReduceOp};
        fn find(dtype: DataType, op: ReduceOp) -> Option<FoldFn> {
            let kernel: FoldFn = match dtype {
                $(DataType::$int => match op {
                    ReduceOp::Sum => fold::<$unsigned, Sum>,
                    ReduceOp::Prod => fold::<$unsigned, Prod>,
                    ReduceOp::Max => fold::<$lanes, Max>,
                    ReduceOp::Min => fold::<$lanes, Min>,
                    ReduceOp::Avg => fold_scaled::<$lanes, $unsigned, Avg, 1>,
                    ReduceOp::PreMulSum => fold_scaled::<$unsigned, $unsigned, PreMulSum, 1>,
                    ReduceOp::Land | ReduceOp::Lor | ReduceOp::Lxor => logical!(op, $truth, $width),
                    _ => bitwise!(op, $bits, DataType::$int.size_bytes()),
                },)*
                $(DataType::$float => match op {
                    ReduceOp::Sum => fold::<$real, Sum>,
                    ReduceOp::Prod => fold::<$real, Prod>,
                    ReduceOp::Max => fold::<$real, Max>,
                    ReduceOp::Min => fold::<$real, Min>,
                    ReduceOp::Avg => fold_scaled::<$real, $real, Avg, 1>,
                    ReduceOp::PreMulSum => fold_scaled::<$real, $real, PreMulSum, 1>,
                    _ => return None,
                },)*
                $(DataType::$complex => match op {
                    ReduceOp::Sum => fold_parts::<$part, Sum, 2>,
                    ReduceOp::Prod => fold::<$number, Prod>,
                    ReduceOp::Avg => fold_scaled::<$number, $part, Avg, 2>,
                    ReduceOp::PreMulSum => fold_scaled::<$number, $part, PreMulSum, 2>,
                    _ => return None,
                },)*
                DataType::Logical8 => logical!(op, Logical8, $width),
                DataType::Logical16 => logical!(op, Logical16, $width),
                DataType::Logical32 => logical!(op, Logical32, $width),
                DataType::Logical64 => logical!(op, Logical64, $width),
                DataType::Byte | DataType::Character => match op {
                    ReduceOp::Max => fold::<$bytes, Max>,
                    ReduceOp::Min => fold::<$bytes, Min>,
                    _ => bitwise!(op, $bits, 1),
                },
                DataType::FloatInt => pair!(op, FloatInt, $width),
                DataType::DoubleInt => pair!(op, DoubleInt, $width),
                DataType::IntInt => pair!(op, IntInt, $width),
                DataType::LongInt => pair!(op, LongInt, $width),
                DataType::FloatFloat => pair!(op, FloatFloat, $width),
                DataType::DoubleDouble => pair!(op, DoubleDouble, $width),
            };
            Some(kernel)
        }
        crate::dtype::isa::Kernels { fold: find, copy }
    }};
}
use kernels;

/// The entry points of an instruction set: here, and only here, its features are enabled, and all
/// arithmetic has the same modes on every rank.
macro_rules! entries {
    ($bytes:ty $(, $features:literal)?) => {
        /// [`FoldFn`] for one vector type and an operation that does not scale.
        ///
        /// # Safety
        /// As [`FoldFn`], and the processor has this instruction set.
        ///
        /// [`FoldFn`]: crate::dtype::FoldFn
        $(#[target_feature(enable = $features)])?
        unsafe fn fold<V: crate::dtype::lanes::Lanes, O: crate::dtype::kernel::Operation>(
            srcs: &[*const u8],
            dsts: &[*mut u8],
            count: usize,
            params: &crate::dtype::FoldParams,
        ) {
            // SAFETY: the caller's promises are the callee's.
            unsafe {
                if srcs.len() == 1 {
                    copy(srcs, dsts, count * size_of::<V::Element>(), params)
                } else {
                    let _modes = crate::base::float_env::SameModes::begin();
                    crate::dtype::kernel::fold::<V, O>(srcs, dsts, count, params)
                }
            }
        }

        /// [`FoldFn`] for elements that are `K` numbers side by side, combined one by one.
        ///
        /// # Safety
        /// As [`FoldFn`], and the processor has this instruction set.
        ///
        /// [`FoldFn`]: crate::dtype::FoldFn
        $(#[target_feature(enable = $features)])?
        unsafe fn fold_parts<
            V: crate::dtype::lanes::Lanes,
            O: crate::dtype::kernel::Operation,
            const K: usize,
        >(
            srcs: &[*const u8],
            dsts: &[*mut u8],
            count: usize,
            params: &crate::dtype::FoldParams,
        ) {
            // SAFETY: the caller's promises are the callee's; the same bytes.
            unsafe { fold::<V, O>(srcs, dsts, count * K, params) }
        }

        /// [`FoldFn`] for one vector type and an operation that scales; `P` for the plain sum of
        /// `K` parts that it is in the steps that do not scale.
        ///
        /// # Safety
        /// As [`FoldFn`], and the processor has this instruction set.
        ///
        /// [`FoldFn`]: crate::dtype::FoldFn
        $(#[target_feature(enable = $features)])?
        unsafe fn fold_scaled<
            V: crate::dtype::lanes::Lanes,
            P: crate::dtype::lanes::Lanes,
            O: crate::dtype::kernel::Operation,
            const K: usize,
        >(
            srcs: &[*const u8],
            dsts: &[*mut u8],
            count: usize,
            params: &crate::dtype::FoldParams,
        ) {
            // SAFETY: the caller's promises are the callee's.
            unsafe {
                if crate::dtype::kernel::scales::<O>(params) {
                    let _modes = crate::base::float_env::SameModes::begin();
                    crate::dtype::kernel::sweep::<V, O, _, _>(srcs, dsts, count, params)
                } else {
                    fold::<P, crate::dtype::kernel::Sum>(srcs, dsts, count * K, params)
                }
            }
        }

        /// [`FoldFn`] that copies bytes.
        ///
        /// # Safety
        /// As [`FoldFn`], and the processor has this instruction set.
        ///
        /// [`FoldFn`]: crate::dtype::FoldFn
        $(#[target_feature(enable = $features)])?
        unsafe fn copy(
            srcs: &[*const u8],
            dsts: &[*mut u8],
            bytes: usize,
            params: &crate::dtype::FoldParams,
        ) {
            // SAFETY: the caller's promises are the callee's.
            unsafe { crate::dtype::kernel::copy::<$bytes>(srcs, dsts, bytes, params) }
        }
    };
}
use entries;

/// An instruction set that kernels exist for. Results do not depend on it, only speed does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// Plain Rust; what the compiler's target allows.
    Portable,
    /// AVX2 with F16C (x86-64).
    Avx2,
    /// AVX-512 F, BW, DQ and VL (x86-64).
    Avx512,
}

impl Isa {
    /// Every instruction set, the slowest first.
    pub const ALL: [Isa; 3] = [Isa::Portable, Isa::Avx2, Isa::Avx512];

    /// The name that `kolo info` prints.
    pub const fn name(self) -> &'static str {
        match self {
            Isa::Portable => "portable",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
        }
    }

    /// Whether this processor (and this build) has it.
    pub fn is_available(self) -> bool {
        self.kernels().is_some()
    }

    /// The kernels, if the processor has the instruction set.
    pub(super) fn kernels(self) -> Option<&'static Kernels> {
        match self {
            Isa::Portable => Some(&portable::KERNELS),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => has_avx2().then_some(&avx2::KERNELS),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => has_avx512().then_some(&avx512::KERNELS),
            #[cfg(not(target_arch = "x86_64"))]
            Isa::Avx2 | Isa::Avx512 => None,
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c")
}

#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    has_avx2()
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
}

/// The instruction set of this process and its kernels: the best one the processor has.
pub(super) fn chosen() -> (Isa, &'static Kernels) {
    static CHOSEN: OnceLock<(Isa, &'static Kernels)> = OnceLock::new();
    *CHOSEN.get_or_init(|| {
        let best = Isa::ALL
            .into_iter()
            .rev()
            .find_map(|isa| isa.kernels().map(|kernels| (isa, kernels)));
        best.unwrap_or((Isa::Portable, &portable::KERNELS))
    })
}
