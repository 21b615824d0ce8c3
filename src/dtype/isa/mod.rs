//! Instruction sets: each file instantiates the generic kernel; the choice is made once.

mod portable;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod x86;

use super::FoldFn;
use std::sync::OnceLock;

/// The kernels of one instruction set.
pub(super) struct Kernels {
    /// `[data type][operation]`, by number.
    pub(super) fold: [[FoldFn; 6]; 12],
    /// Copy of bytes.
    pub(super) copy: FoldFn,
}

/// The kernels of one instruction set. Each entry is `vector: vector for sums and products`, in
/// the order of the data types' numbers; signed integers use the unsigned ones there, since they
/// wrap to the same bits.
macro_rules! kernels {
    ($($lanes:ty: $unsigned:ty),* $(,)?) => {
        crate::dtype::isa::Kernels {
            fold: [$([
                fold::<$unsigned, crate::dtype::kernel::Sum>,
                fold::<$unsigned, crate::dtype::kernel::Prod>,
                fold::<$lanes, crate::dtype::kernel::Max>,
                fold::<$lanes, crate::dtype::kernel::Min>,
                fold_scaled::<$lanes, $unsigned, crate::dtype::kernel::Avg>,
                fold_scaled::<$unsigned, $unsigned, crate::dtype::kernel::PreMulSum>,
            ]),*],
            copy,
        }
    };
}
use kernels;

/// The entry points of an instruction set: here, and only here, its features are enabled.
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
                    crate::dtype::kernel::fold::<V, O>(srcs, dsts, count, params)
                }
            }
        }

        /// [`FoldFn`] for one vector type and an operation that scales; `P` for the plain sum that
        /// it is in the steps that do not scale.
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
        >(
            srcs: &[*const u8],
            dsts: &[*mut u8],
            count: usize,
            params: &crate::dtype::FoldParams,
        ) {
            // SAFETY: the caller's promises are the callee's.
            unsafe {
                if crate::dtype::kernel::scales::<O>(params) {
                    crate::dtype::kernel::sweep::<V, O, _, _>(srcs, dsts, count, params)
                } else {
                    fold::<P, crate::dtype::kernel::Sum>(srcs, dsts, count, params)
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
