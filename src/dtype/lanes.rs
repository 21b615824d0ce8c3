//! The vector trait: several accumulators side by side.
//!
//! [`Lanes`] is all that the generic kernel knows of an instruction set. [`Array`] implements it
//! with plain Rust for every element type: it is the portable vector, the one-element vector for
//! the ends of a range, and the fallback for operations an instruction set lacks.

use super::scalar::Arithmetic;

/// `COUNT` accumulators of one data type.
///
/// Every method needs a processor that has the implementor's instruction set; the kernels that use
/// it are only reachable where that was checked. All methods are inlined into the one function per
/// kernel that enables the instruction set.
pub(super) trait Lanes: Copy {
    /// The element type in memory.
    type Element: Arithmetic;
    /// The accumulators in the form in which they are written.
    type Packed: Copy;
    /// The bytes of a register of the same instruction set.
    type Bytes: Lanes<Element = u8>;
    /// Elements per vector.
    const COUNT: usize;
    /// Whether it is one register, of which several make a block and which can be streamed. (An
    /// array is a block of its own: the compiler spreads it over registers.)
    const IS_REGISTER: bool;

    /// Reads and widens `COUNT` elements.
    ///
    /// # Safety
    /// `COUNT` elements are readable at `from`, which may have any alignment.
    unsafe fn load(from: *const u8) -> Self;
    /// Rounds each accumulator to an element, NaN to the canonical NaN.
    ///
    /// # Safety
    /// The processor has the instruction set (so for all methods below).
    unsafe fn pack(self) -> Self::Packed;
    /// Writes `COUNT` elements.
    ///
    /// # Safety
    /// `COUNT` elements are writable at `to`, which may have any alignment.
    unsafe fn store(packed: Self::Packed, to: *mut u8);
    /// Writes `COUNT` elements past the caches where the instruction set can.
    ///
    /// # Safety
    /// As [`Lanes::store`], and `to` is a multiple of [`LINE_BYTES`] or follows such an address by
    /// whole vectors.
    unsafe fn stream(packed: Self::Packed, to: *mut u8);
    /// All accumulators equal to the element at the start of `scalar`.
    ///
    /// # Safety
    /// The processor has the instruction set.
    unsafe fn splat(scalar: &[u8; 16]) -> Self;
    /// [`Arithmetic::add`] on each pair.
    ///
    /// # Safety
    /// The processor has the instruction set.
    unsafe fn add(self, other: Self) -> Self;
    /// [`Arithmetic::mul`] on each pair.
    ///
    /// # Safety
    /// The processor has the instruction set.
    unsafe fn mul(self, other: Self) -> Self;
    /// [`Arithmetic::max`] on each pair.
    ///
    /// # Safety
    /// The processor has the instruction set.
    unsafe fn max(self, other: Self) -> Self;
    /// [`Arithmetic::min`] on each pair.
    ///
    /// # Safety
    /// The processor has the instruction set.
    unsafe fn min(self, other: Self) -> Self;
    /// [`Arithmetic::divide`] on each accumulator.
    ///
    /// # Safety
    /// The processor has the instruction set; `by` is not 0.
    unsafe fn divide(self, by: u32) -> Self;
}

/// Bytes of a cache line: the unit in which streaming stores leave the core.
pub(super) const LINE_BYTES: usize = 64;

/// Reads one element at any alignment from the start of `scalar`.
#[inline(always)]
pub(super) fn scalar_of<E: Arithmetic>(scalar: &[u8; 16]) -> E {
    const { assert!(size_of::<E>() <= 16) };
    // SAFETY: an element has at most 16 bytes, and every bit pattern is a value of it.
    unsafe { scalar.as_ptr().cast::<E>().read_unaligned() }
}

/// `N` accumulators in plain Rust.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Array<E: Arithmetic, const N: usize>([E::Acc; N]);

impl<E: Arithmetic, const N: usize> Array<E, N> {
    #[inline(always)]
    pub(super) fn zip(self, other: Self, combine: impl Fn(E::Acc, E::Acc) -> E::Acc) -> Self {
        let mut result = self.0;
        for (lane, other) in result.iter_mut().zip(other.0) {
            *lane = combine(*lane, other);
        }
        Array(result)
    }
}

impl<E: Arithmetic, const N: usize> Lanes for Array<E, N> {
    type Element = E;
    type Packed = [E; N];
    type Bytes = Array<u8, 32>;
    const COUNT: usize = N;
    const IS_REGISTER: bool = false;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller gives N readable elements; an array of them may be read unaligned.
        let elements = unsafe { from.cast::<[E; N]>().read_unaligned() };
        let mut lanes = [elements[0].widen(); N];
        for (lane, element) in lanes.iter_mut().zip(elements) {
            *lane = element.widen();
        }
        Array(lanes)
    }

    #[inline(always)]
    unsafe fn pack(self) -> [E; N] {
        let mut elements = [E::narrow(self.0[0]); N];
        for (element, lane) in elements.iter_mut().zip(self.0) {
            *element = E::narrow(lane);
        }
        elements
    }

    #[inline(always)]
    unsafe fn store(packed: [E; N], to: *mut u8) {
        // SAFETY: the caller gives N writable elements; an array may be written unaligned.
        unsafe { to.cast::<[E; N]>().write_unaligned(packed) }
    }

    #[inline(always)]
    unsafe fn stream(packed: [E; N], to: *mut u8) {
        // SAFETY: the caller promises more than `store` needs.
        unsafe { Self::store(packed, to) }
    }

    #[inline(always)]
    unsafe fn splat(scalar: &[u8; 16]) -> Self {
        Array([scalar_of::<E>(scalar).widen(); N])
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        self.zip(other, E::add)
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        self.zip(other, E::mul)
    }

    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        self.zip(other, E::max)
    }

    #[inline(always)]
    unsafe fn min(self, other: Self) -> Self {
        self.zip(other, E::min)
    }

    #[inline(always)]
    unsafe fn divide(self, by: u32) -> Self {
        self.zip(self, |lane, _| E::divide(lane, by))
    }
}
