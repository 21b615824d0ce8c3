//! The floating-point environment of the calling thread: traps, flags, rounding.
//!
//! Problem: programs are built with traps on (`-ffpe-trap=invalid,zero,overflow`), and read the
//! exception flags afterwards. Libraries that kolo calls divide zero by zero on purpose, to make a
//! NaN: libxml2 does when hwloc first writes XML. That would kill the program, or leave it a flag
//! that its own arithmetic never raised.
//!
//! Idea: work that is not the program's own arithmetic runs between [`FloatEnv::hold`], which stops
//! all traps, and the drop of what it returns, which puts back everything that was there.
//!
//! Reference: ISO C 2011, 7.6 (`feholdexcept`, `fesetenv`).

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
    /// Keeps the environment of this thread, then clears its flags and stops its traps; rounding
    /// stays as it is.
    pub fn hold() -> FloatEnv {
        let mut before = Room([0; 256]);
        // SAFETY: the place is larger than any `fenv_t` and aligned for it. Where a machine cannot
        // hold exceptions the call says so and changes nothing, and there are no traps either.
        unsafe { feholdexcept(&mut before) };
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
