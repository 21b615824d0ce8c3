//! A function of the host that holds a stream up.

use super::alone::ok;
use cudarc::driver::sys::CUstream;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};

/// Holds a stream up until it is opened.
#[derive(Default)]
pub struct Gate {
    is_open: Mutex<bool>,
    is_reached: AtomicBool,
    opened: Condvar,
}

impl Gate {
    pub fn open(&self) {
        *self.is_open.lock().expect("no panic") = true;
        self.opened.notify_all();
    }
}

extern "C" fn pass(gate: *mut c_void) {
    // SAFETY: it is the gate of `close`, which is never freed.
    let gate = unsafe { &*gate.cast::<Gate>() };
    gate.is_reached.store(true, Ordering::Release);
    let is_open = gate.is_open.lock().expect("no panic");
    drop(
        gate.opened
            .wait_while(is_open, |is_open| !*is_open)
            .expect("no panic"),
    );
}

/// Closes a gate: all that comes next on the stream waits until it is opened.
pub fn close(stream: CUstream) -> &'static Gate {
    let gate: &'static Gate = Box::leak(Box::default());
    let data = (&raw const *gate).cast_mut().cast();
    ok!(cuLaunchHostFunc(stream, Some(pass), data));
    gate
}

/// Closes a gate, and waits until the stream has come there: functions of the host run one after
/// the other, so a gate that is closed later is reached later.
pub fn close_now(stream: CUstream) -> &'static Gate {
    let gate = close(stream);
    while !gate.is_reached.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    gate
}
