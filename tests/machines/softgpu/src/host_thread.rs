//! The thread that runs functions of the host, one after the other, in the order in which streams
//! come to them.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};

/// A function of the caller, and what it gets.
#[derive(Clone)]
pub enum HostCall {
    /// Of `cuLaunchHostFunc`.
    Function(extern "C" fn(*mut c_void), u64),
    /// Of `cuStreamAddCallback`: with the stream as the caller wrote it, and a result.
    Callback(extern "C" fn(u64, i32, *mut c_void), u64, u64),
}

thread_local! {
    static IS_HOST_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread runs a function of the host: it must not call the driver.
pub fn is_here() -> bool {
    IS_HOST_THREAD.get()
}

/// Hears that a function has returned.
static TELL: OnceLock<fn()> = OnceLock::new();

/// Has `tell` called whenever a function has returned.
pub fn tells(tell: fn()) {
    let _ = TELL.set(tell);
}

/// A call, and where it is said that it has returned.
type Order = (HostCall, Arc<AtomicBool>);

/// The thread, which begins with the first call.
fn start() -> Sender<Order> {
    let (sender, receiver) = channel::<Order>();
    let run = move || {
        IS_HOST_THREAD.set(true);
        for (call, has_ended) in receiver {
            call.run();
            has_ended.store(true, Ordering::Release);
            if let Some(tell) = TELL.get() {
                tell();
            }
        }
    };
    let thread = std::thread::Builder::new().name("softgpu-host".into());
    if let Err(error) = thread.spawn(run) {
        eprintln!("kolo software GPU: no thread for functions of the host: {error}");
    }
    sender
}

/// Lets the thread call a function; what is given back says whether it has returned.
pub fn call(call: HostCall) -> Arc<AtomicBool> {
    static THREAD: OnceLock<Sender<Order>> = OnceLock::new();
    let has_ended = Arc::new(AtomicBool::new(false));
    // Without the thread the stream stands still, as the line on standard error says why.
    let _ = THREAD
        .get_or_init(start)
        .send((call, Arc::clone(&has_ended)));
    has_ended
}

impl HostCall {
    fn run(&self) {
        match *self {
            HostCall::Function(function, data) => {
                function(std::ptr::with_exposed_provenance_mut(data as usize));
            }
            HostCall::Callback(function, stream, data) => {
                let data = std::ptr::with_exposed_provenance_mut(data as usize);
                function(stream, 0, data);
            }
        }
    }
}
