//! Instruction sets: each file instantiates the generic kernel; the choice is made once.

mod entries;
mod portable;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod x86;

use entries::Kernels;
use std::sync::OnceLock;

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
#[inline]
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
