//! Parameters of a fold, and what it does beside combining.

use std::ffi::c_void;
use std::num::NonZeroU32;

/// The function: sources, sources and results, number of elements, number of the data type (as the
/// C interface counts them), and the context that was given with it. Where one unwinds, as by an
/// exception of C++, the process ends with a sentence.
pub type UserCall =
    unsafe extern "C-unwind" fn(*const c_void, *mut c_void, usize, i32, *mut c_void);

/// On whose behalf a function of the program is called.
#[derive(Clone, Copy, Debug)]
pub struct Behalf {
    /// The rank that combines.
    pub rank: u32,
    /// The name of its call.
    pub call: &'static str,
}

/// A function of the program, with what it is called with.
#[derive(Clone, Copy, Debug)]
pub struct UserFunction {
    /// The function.
    pub call: UserCall,
    /// Passed on as the last argument.
    pub context: *mut c_void,
    /// Number of the data type.
    pub number: i32,
    /// Bytes of one element.
    pub element_bytes: usize,
    /// Who calls it.
    pub behalf: Behalf,
}

// SAFETY: whoever makes an operation promises that it may be called from any thread.
unsafe impl Send for UserFunction {}
// SAFETY: as above.
unsafe impl Sync for UserFunction {}

/// Deeds of a fold beside combining. The default scales nothing and writes in the ordinary way.
#[derive(Clone, Copy, Debug, Default)]
pub struct FoldParams {
    /// Bit `i` set: source `i` is multiplied by `scalar` when loaded. [`ReduceOp::PreMulSum`]
    /// only; 0 for every other operation.
    pub pre_scale_mask: u64,
    /// Of the sources from number 64 on, for which the mask has no bits, this one is multiplied,
    /// too; 0 if none is. More are never needed: a rank scales its own input alone.
    pub pre_scale_beyond: usize,
    /// The factor, in the data type and the machine's byte order, in the first bytes.
    pub scalar: [u8; 16],
    /// The result is divided by this before it is written. [`ReduceOp::Avg`] only; `None` for
    /// every other operation. The number of ranks, in the step that completes a sum.
    pub divisor: Option<NonZeroU32>,
    /// Bit `i` set: destination `i` is not read soon, so it may be written past the caches
    /// (non-temporal stores, ordered before everything that follows the call). Only a hint: short
    /// ranges, and destinations that cannot be brought to the start of a cache line together with
    /// the first streamed one, are written in the ordinary way.
    pub stream_mask: u64,
    /// The function of the program that combines elements, where one does.
    pub user: Option<UserFunction>,
}

/// Folds `count` elements of every source, in list order, and writes the result to every
/// destination.
///
/// # Safety
/// - At least one source; any number of destinations.
/// - Every source is readable and every destination writable for `count` elements, and nobody
///   else writes the former or touches the latter during the call.
/// - A destination equals a source exactly or does not overlap it; destinations do not overlap one
///   another.
/// - Pointers have the alignment of the data type (more is not needed, and less is tolerated).
/// - `params` holds only what the operation knows (see [`FoldParams`]).
pub type FoldFn =
    unsafe fn(srcs: &[*const u8], dsts: &[*mut u8], count: usize, params: &FoldParams);
