//! Atomics, and giving way, from one place: the standard library's, or loom's under `--cfg loom`.
//!
//! No other file mentions loom outside its tests.

#[cfg(not(loom))]
pub use std::{
    hint::spin_loop,
    sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence, fence,
    },
    thread::yield_now,
};

#[cfg(loom)]
pub use loom::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    thread::yield_now,
};

/// Loom reorders as processors do, and knows of no compiler.
#[cfg(loom)]
pub fn compiler_fence(_: Ordering) {}

/// Asks for a cache line of this core's own, to be written soon. A hint that changes nothing.
#[cfg(not(loom))]
#[inline(always)]
pub fn claim_line(place: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: it changes nothing but caches, wherever it points; processors may ignore it.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) place, options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Loom has no caches.
#[cfg(loom)]
pub fn claim_line(_: *const u8) {}

/// Whether this build is a model for loom: layouts then differ from those of shared memory.
pub const MODEL: bool = cfg!(loom);

/// Memory that a protocol hands from one thread to another; loom sees every access to it.
#[cfg(not(loom))]
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct Shared<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> Shared<T> {
    /// Wraps a value.
    pub const fn new(value: T) -> Self {
        Shared(std::cell::UnsafeCell::new(value))
    }

    /// A pointer to read through while `f` runs.
    #[inline(always)]
    pub fn read<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    /// A pointer to write through while `f` runs.
    #[inline(always)]
    pub fn write<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

/// Memory that a protocol hands from one thread to another; loom sees every access to it.
#[cfg(loom)]
#[derive(Debug)]
pub struct Shared<T>(loom::cell::UnsafeCell<T>);

#[cfg(loom)]
impl<T> Shared<T> {
    /// Wraps a value.
    pub fn new(value: T) -> Self {
        Shared(loom::cell::UnsafeCell::new(value))
    }

    /// A pointer to read through while `f` runs.
    pub fn read<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        self.0.with(f)
    }

    /// A pointer to write through while `f` runs.
    pub fn write<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        self.0.with_mut(f)
    }
}

// SAFETY: the protocol that owns the memory decides who touches it when; `Shared` only passes
// pointers on, and each access through them has a SAFETY sentence of its own.
unsafe impl<T: Send> Sync for Shared<T> {}
