//! Data types, reduction operations, and the kernels that fold buffers.
//!
//! **Problem.** A step of a plan folds an ordered list of sources and writes the result to a list
//! of destinations, for 26 data types and 14 operations, at the speed of memory; and whatever the
//! processor, the bits of the result must be the same.
//!
//! **Idea.** One generic algorithm (`kernel`) over a vector trait (`lanes`). The files of `isa`
//! only instantiate it: plain Rust, AVX2, AVX-512. One element's arithmetic is defined once
//! (`scalar` for numbers, `compound` for the rest); every instruction set must equal it bit for
//! bit, and tests compare them all with a naive oracle. Which instruction set is used is decided
//! once in a process.
//!
//! **Order.** Sources are folded from left to right: `((s0 op s1) op s2) ...`. Nothing is
//! reassociated and no multiply-add is contracted.
//!
//! **Rounding.** float and double round every operation to nearest even. half, bfloat16 and the two
//! 8-bit floats are converted to float (exactly), folded in float over all sources of the step, and
//! rounded once to nearest even when written. Too large becomes infinity, for e4m3 (which has none)
//! NaN: the non-saturating mode of the OCP specification.
//!
//! **Special values.** A NaN that a fold writes is always the canonical NaN of its type. `max` and
//! `min` are IEEE 754-2019 `maximum` and `minimum`: NaN if any source is NaN, and `-0 < +0`.
//! Integers wrap. An average divides the sum once by the number of ranks; integers truncate toward
//! zero. A fold of one source that scales nothing copies the bits.
//!
//! **Compounds.** Sums of complex numbers are sums of their parts. Truth: every non-zero element is
//! true; a result is 0 or 1. Bitwise operations do not know types. Pairs: the order of values is
//! that of `max` and `min`; NaN wins; of equal values the smaller index is taken.
//!
//! **Exact sums** ([`exact`]) are apart: long integers instead of floats, one rounding at the end.
//!
//! **Terms.** *Fold*: to combine sources in order. *Kernel*: the function that folds one type by
//! one operation. *Lanes*: the elements of one vector register (not the lanes of a plan).
//! *Narrow*: shorter than float.
//!
//! Reference: IEEE 754-2019; OCP 8-bit Floating Point Specification (OFP8) 1.0.
//!
//! `docs/numerics.md` says the same for users, with the consequences for whole collectives.
//! Everything here is thread-safe: no state but the choice of the instruction set.
//!
//! **Crate.** The kernels are much code and seldom change. So the room is a crate of its own, which
//! is compiled once and needs nothing of kolo; the library passes it on as `kolo::dtype`.

mod compound;
mod element;
pub mod exact;
mod fold;
mod isa;
mod kernel;
pub mod known;
mod lanes;
pub mod minifloat;
pub mod modes;
mod scalar;
mod types;

pub use element::{
    Byte, Character, DoubleDouble, DoubleInt, Element, FloatFloat, FloatInt, IntInt, Logical8,
    Logical16, Logical32, Logical64, LongInt,
};
pub use fold::{Behalf, FoldFn, FoldParams, UserCall, UserFunction};
pub use half::{bf16, f16};
pub use isa::Isa;
pub use minifloat::{F8E4M3, F8E5M2};
pub use num_complex::Complex;
pub use types::{Class, DataType, ReduceOp};

/// The fastest fold of this processor for a data type and an operation, or `None` if the operation
/// does not combine elements of the type ([`ReduceOp::combines`]). Look it up once, not for every
/// call.
#[inline]
pub fn fold(dtype: DataType, op: ReduceOp) -> Option<FoldFn> {
    (isa::chosen().1.fold)(dtype, op)
}

/// The fastest copy of this processor: exactly one source, any number of destinations, `count` in
/// bytes; of `params` only `stream_mask` is read.
#[inline]
pub fn copy() -> FoldFn {
    isa::chosen().1.copy
}

/// Copies bytes; few ones in a word or two, without any call.
///
/// # Safety
/// So many bytes are readable and writable there, and do not overlap.
#[inline(always)]
pub unsafe fn move_bytes(from: *const u8, to: *mut u8, bytes: usize) {
    const WORD: usize = size_of::<u64>();
    // SAFETY: our caller's promise; the two words overlap where there are fewer bytes.
    unsafe {
        if (WORD..=2 * WORD).contains(&bytes) {
            let last = bytes - WORD;
            let word = from.cast::<u64>().read_unaligned();
            let end = from.add(last).cast::<u64>().read_unaligned();
            to.cast::<u64>().write_unaligned(word);
            to.add(last).cast::<u64>().write_unaligned(end);
        } else if bytes < kernel::LEAST_BY_LANES {
            to.copy_from_nonoverlapping(from, bytes);
        } else {
            copy()(&[from], &[to], bytes, &FoldParams::default());
        }
    }
}

/// Copies bytes past the cache, for somebody who reads them on another core.
///
/// # Safety
/// As [`move_bytes`].
#[inline]
pub unsafe fn stream_bytes(from: *const u8, to: *mut u8, bytes: usize) {
    let params = FoldParams {
        stream_mask: 1,
        ..FoldParams::default()
    };
    // SAFETY: our caller's promise.
    unsafe { copy()(&[from], &[to], bytes, &params) };
}

/// [`fold`] of one instruction set, also `None` where the processor lacks it: for tests and
/// measurements.
pub fn fold_of(isa: Isa, dtype: DataType, op: ReduceOp) -> Option<FoldFn> {
    (isa.kernels()?.fold)(dtype, op)
}

/// [`copy`] of one instruction set, or `None` where the processor lacks it.
pub fn copy_of(isa: Isa) -> Option<FoldFn> {
    Some(isa.kernels()?.copy)
}

/// The name of the instruction set in use (`portable`, `avx2` or `avx512`).
pub fn isa_name() -> &'static str {
    isa::chosen().0.name()
}
