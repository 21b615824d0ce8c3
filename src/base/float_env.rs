//! The floating-point environment of the calling thread: traps, flags, rounding, flushing to zero.
//!
//! Problem: programs are built with traps on (`-ffpe-trap=invalid,zero,overflow`), and read the
//! exception flags afterwards. Libraries that kolo calls divide zero by zero on purpose, to make a
//! NaN: libxml2 does when hwloc first writes XML. That would kill the program, or leave it a flag
//! that its own arithmetic never raised.
//!
//! Idea: work that is not the program's own arithmetic runs between [`FloatEnv::hold`], which stops
//! all traps, and the drop of what it returns, which puts back everything that was there.
//!
//! Folds are the program's arithmetic, and its traps count there. But all ranks must get the same
//! bits, whatever the modes of their threads: [`SameModes`] gives them the default ones, in a few
//! instructions where they are there already.
//!
//! Reference: ISO C 2011, 7.6 (`feholdexcept`, `fesetenv`).

use kolo_dtype::modes::SameModes;
use std::ffi::c_int;
use std::marker::PhantomData;

/// Room for a `fenv_t`: 32 bytes on x86-64, 8 on aarch64, 16 or fewer on the others.
#[repr(C, align(16))]
struct Room([u8; 256]);

unsafe extern "C" {
    fn feholdexcept(environment: *mut Room) -> c_int;
    fn fesetenv(environment: *const Room) -> c_int;
}

/// A floating-point environment that is put back on drop.
#[must_use = "dropping it at once puts the environment back at once"]
pub struct FloatEnv {
    before: Room,
    /// The environment is the thread's: it must not be dropped on another one.
    _thread: PhantomData<*const ()>,
}

impl FloatEnv {
    /// Keeps the environment of this thread, then clears its flags, stops its traps, and rounds to
    /// the nearest, flushing nothing to zero: what ranks compute alike must come out alike.
    pub fn hold() -> FloatEnv {
        let mut before = Room([0; 256]);
        // SAFETY: the place is larger than any `fenv_t` and aligned for it. Where a machine cannot
        // hold exceptions the call says so and changes nothing, and there are no traps either.
        unsafe { feholdexcept(&mut before) };
        std::mem::forget(SameModes::begin());
        FloatEnv {
            before,
            _thread: PhantomData,
        }
    }

    /// Stops the traps of this thread for good: a new thread inherits those of its maker.
    pub fn stop_traps() {
        std::mem::forget(FloatEnv::hold());
    }
}

impl Drop for FloatEnv {
    fn drop(&mut self) {
        // SAFETY: written by `feholdexcept` on this thread.
        unsafe { fesetenv(&self.before) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kolo_dtype::modes::control;
    use std::hint::black_box;

    unsafe extern "C" {
        fn feraiseexcept(exceptions: c_int) -> c_int;
        fn fetestexcept(exceptions: c_int) -> c_int;
        fn feenableexcept(exceptions: c_int) -> c_int;
        fn fegetexcept() -> c_int;
    }

    /// `FE_INVALID` of x86-64 and aarch64.
    const INVALID: c_int = 1;
    /// `FE_INEXACT`.
    const INEXACT: c_int = if cfg!(target_arch = "x86_64") {
        0x20
    } else {
        0x10
    };

    /// Flags and traps belong to a thread: one of its own keeps the other tests as they are.
    fn in_a_thread(body: impl FnOnce() + Send + 'static) {
        std::thread::spawn(body).join().unwrap();
    }

    #[test]
    fn flags_come_back_as_they_were() {
        in_a_thread(|| {
            // SAFETY: these calls touch the environment of this thread only.
            unsafe {
                feraiseexcept(INEXACT);
                let held = FloatEnv::hold();
                assert_eq!(fetestexcept(INVALID | INEXACT), 0);
                assert!((black_box(0.0_f64) / black_box(0.0)).is_nan());
                assert_eq!(fetestexcept(INVALID), INVALID);
                drop(held);
                assert_eq!(fetestexcept(INVALID | INEXACT), INEXACT);
            }
        });
    }

    /// Upward rounding, and all that is flushed to zero.
    const ODD_MODES: u64 = match () {
        #[cfg(target_arch = "x86_64")]
        () => 0x8040 | 0x4000,
        #[cfg(target_arch = "aarch64")]
        () => 1 << 24 | 1 << 22,
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        () => 0,
    };

    /// A sum that is inexact, and half of the least normal number.
    fn arithmetic() -> (f64, f64) {
        (
            black_box(1.0) + black_box(1e-30),
            black_box(f64::MIN_POSITIVE) / black_box(2.0),
        )
    }

    #[test]
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn modes_are_the_same_for_a_while() {
        in_a_thread(|| {
            let usual = arithmetic();
            assert_eq!((usual.0, usual.1 > 0.0), (1.0, true));
            // SAFETY: modes and flags of this thread.
            unsafe { feraiseexcept(INVALID) };
            let (word, flags) = control::read();
            let odd = (word | ODD_MODES, flags);
            // SAFETY: as above.
            unsafe { control::write(odd) };
            assert!(arithmetic().0 > 1.0 && arithmetic().1 == 0.0);
            // SAFETY: as above; the flags of that are cleared.
            unsafe { control::write(odd) };
            let modes = SameModes::begin();
            assert_eq!(arithmetic(), usual);
            drop(modes);
            assert_eq!(control::read(), odd, "modes and flags are the program's");
            let held = FloatEnv::hold();
            assert_eq!(arithmetic(), usual);
            drop(held);
            assert_eq!(control::read(), odd);
        });
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn traps_stop_and_come_back() {
        in_a_thread(|| {
            // SAFETY: as above; traps are on only while nothing raises an exception.
            unsafe {
                feenableexcept(INVALID);
                let held = FloatEnv::hold();
                assert!((black_box(0.0_f64) / black_box(0.0)).is_nan());
                drop(held);
                assert_eq!(fegetexcept(), INVALID);
                FloatEnv::stop_traps();
                assert!((black_box(0.0_f64) / black_box(0.0)).is_nan());
                assert_eq!(fegetexcept(), 0);
            }
        });
    }
}
