//! Macros that the x86 files share: they turn a list of intrinsics into a [`Lanes`] type, and have
//! the fallback for operations without an instruction.
//!
//! [`Lanes`]: crate::lanes::Lanes

use crate::lanes::Array;
use crate::scalar::Arithmetic;
use std::mem::transmute_copy;

/// A vector of integers. `mul`, `max` and `min` name functions of two registers.
macro_rules! integer_lanes {
    ($name:ident: [$element:ty; $count:literal] in $register:ty;
     $load:ident, $store:ident, $stream:ident, $add:ident, $mul:expr, $max:expr, $min:expr) => {
        #[doc = concat!(stringify!($count), " accumulators of ", stringify!($element), ".")]
        #[derive(Clone, Copy)]
        pub(super) struct $name($register);

        impl Lanes for $name {
            type Element = $element;
            type Packed = $register;
            type Bytes = U8;
            const COUNT: usize = $count;
            const IS_REGISTER: bool = true;

            #[inline(always)]
            unsafe fn load(from: *const u8) -> Self {
                // SAFETY: an unaligned load of what the caller made readable.
                unsafe { $name($load(from.cast())) }
            }

            #[inline(always)]
            unsafe fn pack(self) -> $register {
                self.0
            }

            #[inline(always)]
            unsafe fn store(packed: $register, to: *mut u8) {
                // SAFETY: an unaligned store to what the caller made writable.
                unsafe { $store(to.cast(), packed) }
            }

            #[inline(always)]
            unsafe fn stream(packed: $register, to: *mut u8) {
                debug_assert!(to.cast::<$register>().is_aligned());
                // SAFETY: writable and aligned, by the caller's promise.
                unsafe { $stream(to.cast(), packed) }
            }

            #[inline(always)]
            unsafe fn splat(scalar: &[u8; 16]) -> Self {
                let lanes = [scalar_of::<$element>(scalar); $count];
                // SAFETY: the array has the register's size; every bit pattern is a register.
                unsafe { $name(std::mem::transmute::<[$element; $count], $register>(lanes)) }
            }

            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                // SAFETY: the caller guarantees the instruction set.
                unsafe { $name($add(self.0, other.0)) }
            }

            #[inline(always)]
            unsafe fn mul(self, other: Self) -> Self {
                // SAFETY: the caller guarantees the instruction set.
                unsafe { $name($mul(self.0, other.0)) }
            }

            #[inline(always)]
            unsafe fn max(self, other: Self) -> Self {
                // SAFETY: the caller guarantees the instruction set.
                unsafe { $name($max(self.0, other.0)) }
            }

            #[inline(always)]
            unsafe fn min(self, other: Self) -> Self {
                // SAFETY: the caller guarantees the instruction set.
                unsafe { $name($min(self.0, other.0)) }
            }

            #[inline(always)]
            unsafe fn divide(self, by: u32) -> Self {
                let divide = |lane, _| <$element as Arithmetic>::divide(lane, by);
                // SAFETY: the register holds exactly these lanes.
                unsafe {
                    $name(by_lanes::<$register, $element, $count>(
                        self.0, self.0, divide,
                    ))
                }
            }
        }
    };
}
pub(super) use integer_lanes;

/// A vector of floats: `canonical` replaces NaN, `max` and `min` name functions of two registers.
macro_rules! float_lanes {
    ($name:ident: [$element:ty; $count:literal] in $register:ty, packed $packed:ty;
     load $load:expr; pack $pack:expr; $store:ident, $stream:ident; broadcast $set:ident as $acc:ty;
     $add:ident, $mul:ident, $div:ident, $max:expr, $min:expr) => {
        #[doc = concat!(stringify!($count), " accumulators of ", stringify!($element), ".")]
        #[derive(Clone, Copy)]
        pub(super) struct $name($register);

        impl Lanes for $name {
            type Element = $element;
            type Packed = $packed;
            type Bytes = U8;
            const COUNT: usize = $count;
            const IS_REGISTER: bool = true;

            #[inline(always)]
            unsafe fn load(from: *const u8) -> Self {
                // SAFETY: an unaligned load of what the caller made readable.
                unsafe { $name($load(from)) }
            }

            #[inline(always)]
            unsafe fn pack(self) -> $packed {
                // SAFETY: the caller guarantees the instruction set.
                unsafe { $pack(self.0) }
            }

            #[inline(always)]
            unsafe fn store(packed: $packed, to: *mut u8) {
                // SAFETY: an unaligned store to what the caller made writable.
                unsafe { $store(to.cast(), packed) }
            }

            #[inline(always)]
            unsafe fn stream(packed: $packed, to: *mut u8) {
                debug_assert!(to.cast::<$packed>().is_aligned());
                // SAFETY: writable and aligned, by the caller's promise.
                unsafe { $stream(to.cast(), packed) }
            }

            #[inline(always)]
            unsafe fn splat(scalar: &[u8; 16]) -> Self {
                // SAFETY: the caller guarantees the instruction set.
                unsafe { $name($set(scalar_of::<$element>(scalar).widen())) }
            }

            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                // SAFETY: the caller guarantees the instruction set.
                unsafe { $name($add(self.0, other.0)) }
            }

            #[inline(always)]
            unsafe fn mul(self, other: Self) -> Self {
                // SAFETY: the caller guarantees the instruction set.
                unsafe { $name($mul(self.0, other.0)) }
            }

            #[inline(always)]
            unsafe fn max(self, other: Self) -> Self {
                // SAFETY: the caller guarantees the instruction set.
                unsafe { $name($max(self.0, other.0)) }
            }

            #[inline(always)]
            unsafe fn min(self, other: Self) -> Self {
                // SAFETY: the caller guarantees the instruction set.
                unsafe { $name($min(self.0, other.0)) }
            }

            #[inline(always)]
            unsafe fn divide(self, by: u32) -> Self {
                // SAFETY: the caller guarantees the instruction set.
                unsafe { $name($div(self.0, $set(by as $acc))) }
            }
        }
    };
}
pub(super) use float_lanes;

/// An operation of [`Array`] on two registers, for what an instruction set lacks.
///
/// # Safety
/// `V` is a register that holds exactly `N` accumulators of `E`.
#[inline(always)]
pub(super) unsafe fn by_lanes<V: Copy, E: Arithmetic, const N: usize>(
    a: V,
    b: V,
    combine: impl Fn(E::Acc, E::Acc) -> E::Acc,
) -> V {
    const { assert!(size_of::<V>() == size_of::<Array<E, N>>()) };
    // SAFETY: equal sizes (checked above), and both are plain numbers for every bit pattern.
    unsafe {
        let (a, b): (Array<E, N>, Array<E, N>) = (transmute_copy(&a), transmute_copy(&b));
        transmute_copy(&a.zip(b, combine))
    }
}
