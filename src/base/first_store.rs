//! The way of a call to its first store, in builds with debug assertions: a test counts the files
//! on it, for they are what somebody reads who follows a call.

#[cfg(debug_assertions)]
use std::{
    backtrace::Backtrace,
    sync::Mutex,
    sync::atomic::{AtomicBool, Ordering},
};

/// Where data leave a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// A line of memory that another rank reads.
    Line,
    /// A socket.
    Socket,
    /// The first bytes of a direct call, which are moved from where they lie.
    Data,
}

#[cfg(debug_assertions)]
static AWAITED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];
#[cfg(debug_assertions)]
static FOUND: Mutex<Option<String>> = Mutex::new(None);

/// Has the next store of this kind, on any thread, remember how it was reached.
#[cfg(debug_assertions)]
pub fn await_store(store: Store) {
    *FOUND.lock().expect("no panic") = None;
    AWAITED[store as usize].store(true, Ordering::SeqCst);
}

/// How the store was reached that was awaited, once it has happened.
#[cfg(debug_assertions)]
pub fn found() -> Option<String> {
    FOUND.lock().expect("no panic").take()
}

/// Data leave here.
#[inline(always)]
pub fn passes(store: Store) {
    #[cfg(debug_assertions)]
    if AWAITED[store as usize].load(Ordering::Relaxed)
        && AWAITED[store as usize].swap(false, Ordering::SeqCst)
    {
        *FOUND.lock().expect("no panic") = Some(Backtrace::force_capture().to_string());
    }
    #[cfg(not(debug_assertions))]
    let _ = store;
}
