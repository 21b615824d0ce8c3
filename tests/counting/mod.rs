//! An allocator that counts for each thread: what a test uses in place of a clock.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, Ordering};

/// Counts what each thread holds.
struct Counting;

thread_local! {
    /// Bytes that this thread holds, the most of them, and how often it asked.
    pub static HELD: Cell<isize> = const { Cell::new(0) };
    pub static MOST: Cell<isize> = const { Cell::new(0) };
    pub static ASKED: Cell<u64> = const { Cell::new(0) };
}

/// Bytes that all threads hold.
pub static ALL: AtomicIsize = AtomicIsize::new(0);

fn count(bytes: isize) {
    ALL.fetch_add(bytes, Ordering::Relaxed);
    ASKED.set(ASKED.get() + u64::from(bytes > 0));
    let held = HELD.get() + bytes;
    HELD.set(held);
    MOST.set(MOST.get().max(held));
}

// SAFETY: every call is handed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promises are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promises are the same.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promises are the same.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;
