//! The modes of arithmetic: rounding, and what is flushed to zero.
//!
//! A program may change them, each thread for itself. But all ranks must get the same bits, so
//! folds run in [`SameModes`]: a few instructions where the thread has the default modes already.
//!
//! Reference: Intel, "Software Developer's Manual", volume 1, 10.2.3 (MXCSR); Arm, "Architecture
//! Reference Manual", FPCR and FPSR.

use std::marker::PhantomData;

/// Where the modes of the processor's vector arithmetic and its flags are, if kolo knows.
#[cfg(target_arch = "x86_64")]
pub mod control {
    use std::arch::asm;
    use std::mem::MaybeUninit;

    /// Rounding to the nearest, and no number is flushed to zero: these bits are 0.
    pub const MODES: u64 = 0x8040 | 0x6000;

    /// Modes, traps and flags.
    #[inline(always)]
    pub fn read() -> (u64, u64) {
        let mut word = MaybeUninit::<u32>::uninit();
        // SAFETY: fills the four bytes of `word`. It may not be moved across accesses to memory,
        // which is where folds get their numbers and leave them.
        let word = unsafe {
            asm!("stmxcsr [{}]", in(reg) word.as_mut_ptr(), options(nostack, preserves_flags));
            word.assume_init()
        };
        (u64::from(word), 0)
    }

    /// Writes them.
    ///
    /// # Safety
    /// The two are from [`read`], perhaps with other modes.
    #[cold]
    pub unsafe fn write((word, _): (u64, u64)) {
        let word = word as u32;
        // SAFETY: the caller's promise: no reserved bit is set. As above.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack)) };
    }
}

/// Modes and flags of Arm's processors.
#[cfg(target_arch = "aarch64")]
pub mod control {
    use std::arch::asm;

    /// Rounding to the nearest, NaNs as they come, and no number is flushed to zero: these bits (AH
    /// and its like, FZ16, RMode, FZ, DN) are 0.
    pub const MODES: u64 = 0b111 | 1 << 19 | 0b11 << 22 | 1 << 24 | 1 << 25;

    /// Modes with traps, and flags.
    #[inline(always)]
    pub fn read() -> (u64, u64) {
        let (control, status): (u64, u64);
        // SAFETY: reads two registers. It may not be moved across accesses to memory, which is
        // where folds get their numbers and leave them.
        unsafe {
            asm!("mrs {}, fpcr", "mrs {}, fpsr", out(reg) control, out(reg) status,
                options(nostack, preserves_flags));
        }
        (control, status)
    }

    /// Writes them.
    ///
    /// # Safety
    /// The two are from [`read`], perhaps with other modes.
    #[cold]
    pub unsafe fn write((control, status): (u64, u64)) {
        // SAFETY: the caller's promise. As above.
        unsafe {
            asm!("msr fpcr, {}", "msr fpsr, {}", in(reg) control, in(reg) status,
                options(nostack));
        }
    }
}

/// Of other processors none is known.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub mod control {
    /// None.
    pub const MODES: u64 = 0;

    /// Nothing.
    pub fn read() -> (u64, u64) {
        (0, 0)
    }

    /// Does nothing.
    ///
    /// # Safety
    /// None.
    pub unsafe fn write(_: (u64, u64)) {}
}

/// Arithmetic rounds to the nearest and flushes nothing to zero while this lives, as on every other
/// rank. Traps stay the program's; afterwards its modes and flags are as they were.
#[must_use = "dropping it at once puts the modes back at once"]
pub struct SameModes {
    before: (u64, u64),
    /// The modes are the thread's: they must not be put back on another one.
    _thread: PhantomData<*const ()>,
}

impl SameModes {
    /// Changes the modes of this thread where they differ.
    #[inline(always)]
    pub fn begin() -> SameModes {
        let before = control::read();
        if before.0 & control::MODES != 0 {
            // SAFETY: what was there, with the default modes.
            unsafe { control::write((before.0 & !control::MODES, before.1)) };
        }
        SameModes {
            before,
            _thread: PhantomData,
        }
    }
}

impl Drop for SameModes {
    #[inline(always)]
    fn drop(&mut self) {
        if control::read() != self.before {
            // SAFETY: what was there.
            unsafe { control::write(self.before) };
        }
    }
}
