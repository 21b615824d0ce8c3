//! The table, and its functions up to a connection: start, devices, listen, connect, accept.
//!
//! Each function checks its pointers, keeps panics inside, turns errors into the table's codes and
//! keeps their sentences for `kolo_net_last_error`. A connection is used by one thread at a time;
//! the network, devices and registration may be used by several.

use crate::abi::{CommConfig, HANDLE_BYTES, Logger, MAX_REQUESTS, Properties, Table};
use crate::calls::{close, dereg_mr, iflush, irecv, isend, reg_mr, reg_mr_dma_buf, test};
use crate::connecting::{Connecting, Progress};
use crate::connection::{Connection, End};
use crate::fabric::{self, MESSAGES, RING};
use crate::guard::{guard, missing, object, put};
use crate::handle::{self, Handle};
use crate::listener::Listener;
use crate::report;
use crate::running::Stands;
use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

/// The table of a network, which has this name in the log.
pub const fn of<F: Stands>(name: &'static CStr) -> Table {
    Table {
        name: name.as_ptr(),
        init: init::<F>,
        devices: devices::<F>,
        get_properties: get_properties::<F>,
        listen: listen::<F>,
        connect: connect::<F>,
        accept: accept::<F>,
        reg_mr: reg_mr::<F>,
        reg_mr_dma_buf: reg_mr_dma_buf::<F>,
        dereg_mr: dereg_mr::<F>,
        isend: isend::<F>,
        irecv: irecv::<F>,
        iflush: iflush::<F>,
        test: test::<F>,
        close_send: close::<F>,
        close_recv: close::<F>,
        close_listen: close_listen::<F>,
        get_device_mr: None,
        irecv_consumed: None,
        make_virtual_device: None,
        finalize: finalize::<F>,
        set_net_attr: None,
    }
}

const _: () = assert!(MESSAGES >= MAX_REQUESTS && RING >= MAX_REQUESTS);

/// Context that `init` gives to a communicator.
struct Context {
    traffic_class: u8,
}

unsafe extern "C" fn init<F: Stands>(
    context: *mut *mut c_void,
    _communicator: u64,
    config: *const CommConfig,
    logger: Option<Logger>,
    _profiler: *const c_void,
) -> c_int {
    guard(|| {
        if logger.is_some() {
            report::set_logger(logger);
        }
        F::running().start()?;
        // SAFETY: null, or a configuration of the caller.
        let class = unsafe { config.as_ref() }.map_or(-1, |config| config.traffic_class);
        let own = Box::new(Context {
            traffic_class: u8::try_from(class).unwrap_or(0),
        });
        if !context.is_null() {
            // SAFETY: the caller's place for the context.
            unsafe { context.write(Box::into_raw(own).cast()) };
        }
        Ok(())
    })
}

unsafe extern "C" fn finalize<F: Stands>(context: *mut c_void) -> c_int {
    guard(|| {
        if !context.is_null() {
            // SAFETY: made by `init`, and given back once.
            drop(unsafe { Box::from_raw(context.cast::<Context>()) });
        }
        F::running().stop();
        Ok(())
    })
}

unsafe extern "C" fn devices<F: Stands>(count: *mut c_int) -> c_int {
    guard(|| {
        let running = F::running().get()?;
        // SAFETY: the caller's place for the number.
        unsafe { put(count, running.fabric.devices() as c_int) }
    })
}

unsafe extern "C" fn get_properties<F: Stands>(
    device: c_int,
    properties: *mut Properties,
) -> c_int {
    guard(|| {
        let fabric = Arc::clone(&F::running().get()?.fabric);
        let facts = fabric.properties(fabric::device(&*fabric, device)?);
        // SAFETY: the caller's place for the properties.
        unsafe { put(properties, facts) }
    })
}

/// # Safety
/// `context` is null or came from `init`.
unsafe fn traffic_class(context: *mut c_void) -> u8 {
    // SAFETY: the caller's promise.
    unsafe { context.cast::<Context>().as_ref() }.map_or(0, |context| context.traffic_class)
}

unsafe extern "C" fn listen<F: Stands>(
    context: *mut c_void,
    device: c_int,
    handle: *mut c_void,
    out: *mut *mut c_void,
) -> c_int {
    guard(|| {
        let fabric = Arc::clone(&F::running().get()?.fabric);
        let device = fabric::device(&*fabric, device)?;
        // SAFETY: the context is of `init`.
        let class = unsafe { traffic_class(context) };
        let (listener, bytes) = Listener::new(&fabric, device, class)?;
        // SAFETY: the caller's places for a handle and for the listener.
        unsafe {
            put(handle.cast::<[u8; HANDLE_BYTES]>(), bytes)?;
            put(out, Box::into_raw(Box::new(listener)).cast())
        }
    })
}

unsafe extern "C" fn connect<F: Stands>(
    context: *mut c_void,
    device: c_int,
    bytes: *mut c_void,
    out: *mut *mut c_void,
    _device_side: *mut *mut c_void,
) -> c_int {
    guard(|| {
        let running = F::running().get()?;
        let fabric = &running.fabric;
        let device = fabric::device(&**fabric, device)?;
        // SAFETY: the caller's place for the connection, and its copy of a handle.
        let bytes = unsafe {
            put(out, null_mut())?;
            object::<[u8; HANDLE_BYTES]>(bytes, "the handle")?
        };
        let number = handle::local(bytes);
        let begun = running.pending().remove(&number);
        let connecting = match begun {
            Some(connecting) => connecting,
            None => {
                // SAFETY: the context is of `init`.
                let class = unsafe { traffic_class(context) };
                Connecting::new(fabric, device, Handle::read(bytes, &F::SIGNS)?, class)?
            }
        };
        handle::set_local(bytes, 0);
        match connecting.poll()? {
            Progress::NotYet(connecting) => {
                let number = running.new_number();
                handle::set_local(bytes, number);
                running.pending().insert(number, *connecting);
                Ok(())
            }
            // SAFETY: the caller's place for the connection.
            Progress::Connected(sender) => unsafe {
                put(out, Connection::<F>::open(End::Send(sender)))
            },
        }
    })
}

unsafe extern "C" fn accept<F: Stands>(
    listener: *mut c_void,
    out: *mut *mut c_void,
    _device_side: *mut *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: the listener is of `listen`.
        let listener: &mut Listener<F> = unsafe { object(listener, "the listener") }?;
        let connection = match listener.accept()? {
            None => null_mut(),
            Some(receiver) => Connection::<F>::open(End::Receive(Box::new(receiver))),
        };
        // SAFETY: the caller's place for the connection.
        unsafe { put(out, connection) }
    })
}

unsafe extern "C" fn close_listen<F: Stands>(listener: *mut c_void) -> c_int {
    guard(|| {
        if listener.is_null() {
            return Err(missing("the listener"));
        }
        // SAFETY: made by `listen`, and closed once.
        drop(unsafe { Box::from_raw(listener.cast::<Listener<F>>()) });
        Ok(())
    })
}
