//! The clock of the measurements, which all ranks of a machine can compare.

/// Seconds that have passed since some moment, which is one for all processes of a machine.
pub fn seconds() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the place holds a timespec; the clock exists on Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
