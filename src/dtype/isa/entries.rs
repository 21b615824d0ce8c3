//! The kernels of one instruction set, from its vectors: what each file of this folder expands.

use crate::{DataType, FoldFn, ReduceOp};

/// The kernels of one instruction set.
pub(crate) struct Kernels {
    /// The fold of a data type and an operation that combines it.
    pub(crate) fold: fn(DataType, ReduceOp) -> Option<FoldFn>,
    /// Copy of bytes.
    pub(crate) copy: FoldFn,
}

/// The folds of truth values: see [`crate::compound`] for the names.
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
pub(crate) use logical;

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
pub(crate) use bitwise;

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
pub(crate) use pair;

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
        use crate::element::*;
        use crate::isa::entries::{bitwise, logical, pair};
        use crate::kernel::{Avg, Max, Min, PreMulSum, Prod, Sum};
        use crate::lanes::Array;
        use crate::{DataType, FoldFn, ReduceOp};
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
        crate::isa::Kernels { fold: find, copy }
    }};
}
pub(crate) use kernels;

/// The entry points of an instruction set: here, and only here, its features are enabled, and all
/// arithmetic has the same modes on every rank.
macro_rules! entries {
    ($bytes:ty $(, $features:literal)?) => {
        /// [`FoldFn`] for one vector type and an operation that does not scale.
        ///
        /// # Safety
        /// As [`FoldFn`], and the processor has this instruction set.
        ///
        /// [`FoldFn`]: crate::FoldFn
        $(#[target_feature(enable = $features)])?
        unsafe fn fold<V: crate::lanes::Lanes, O: crate::kernel::Operation>(
            srcs: &[*const u8],
            dsts: &[*mut u8],
            count: usize,
            params: &crate::FoldParams,
        ) {
            // SAFETY: the caller's promises are the callee's.
            unsafe {
                if srcs.len() == 1 {
                    copy(srcs, dsts, count * size_of::<V::Element>(), params)
                } else {
                    let _modes = crate::kernel::modes::<V>();
                    crate::kernel::fold::<V, O>(srcs, dsts, count, params)
                }
            }
        }

        /// [`FoldFn`] for elements that are `K` numbers side by side, combined one by one.
        ///
        /// # Safety
        /// As [`FoldFn`], and the processor has this instruction set.
        ///
        /// [`FoldFn`]: crate::FoldFn
        $(#[target_feature(enable = $features)])?
        unsafe fn fold_parts<
            V: crate::lanes::Lanes,
            O: crate::kernel::Operation,
            const K: usize,
        >(
            srcs: &[*const u8],
            dsts: &[*mut u8],
            count: usize,
            params: &crate::FoldParams,
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
        /// [`FoldFn`]: crate::FoldFn
        $(#[target_feature(enable = $features)])?
        unsafe fn fold_scaled<
            V: crate::lanes::Lanes,
            P: crate::lanes::Lanes,
            O: crate::kernel::Operation,
            const K: usize,
        >(
            srcs: &[*const u8],
            dsts: &[*mut u8],
            count: usize,
            params: &crate::FoldParams,
        ) {
            // SAFETY: the caller's promises are the callee's.
            unsafe {
                if crate::kernel::scales::<O>(params) {
                    let _modes = crate::kernel::modes::<V>();
                    crate::kernel::sweep::<V, O, _, _>(srcs, dsts, 0..count, params)
                } else {
                    fold::<P, crate::kernel::Sum>(srcs, dsts, count * K, params)
                }
            }
        }

        /// [`FoldFn`] that copies bytes.
        ///
        /// # Safety
        /// As [`FoldFn`], and the processor has this instruction set.
        ///
        /// [`FoldFn`]: crate::FoldFn
        $(#[target_feature(enable = $features)])?
        unsafe fn copy(
            srcs: &[*const u8],
            dsts: &[*mut u8],
            bytes: usize,
            params: &crate::FoldParams,
        ) {
            // SAFETY: the caller's promises are the callee's.
            unsafe { crate::kernel::copy::<$bytes>(srcs, dsts, bytes, params) }
        }
    };
}
pub(crate) use entries;
