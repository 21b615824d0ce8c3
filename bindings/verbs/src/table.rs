//! The table, and its functions up to a connection: start, devices, listen, connect, accept.
//!
//! Each function checks its pointers, keeps panics inside, turns errors into the table's codes and
//! keeps their sentences for `kolo_net_last_error`. A connection is used by one thread at a time;
//! the network, devices and registration may be used by several.

use crate::abi::{
    CommConfig, HANDLE_BYTES, Logger, MAX_REQUESTS, PTR_CUDA, PTR_DMABUF, PTR_HOST, Properties,
    Table, VirtualDevice,
};
use crate::calls::{
    close_recv, close_send, dereg_mr, iflush, irecv, isend, reg_mr, reg_mr_dma_buf, test,
};
use crate::connecting::{Connecting, Progress};
use crate::connection::{Connection, End};
use crate::guard::{guard, missing, object, put};
use crate::handle::{self, Handle};
use crate::listener::Listener;
use crate::report;
use crate::running;
use crate::send::{self, MESSAGES};
use crate::slot::{GROUP, RING};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

/// The table, under the name that users of such plugins look for.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static ncclNetPlugin_v11: Table = Table {
    name: c"verbs".as_ptr(),
    init,
    devices,
    get_properties,
    listen,
    connect,
    accept,
    reg_mr,
    reg_mr_dma_buf,
    dereg_mr,
    isend,
    irecv,
    iflush,
    test,
    close_send,
    close_recv,
    close_listen,
    get_device_mr: None,
    irecv_consumed: None,
    make_virtual_device: None,
    finalize,
    set_net_attr: None,
};

const _: () = assert!(MESSAGES >= MAX_REQUESTS && RING >= MAX_REQUESTS);

/// Context that `init` gives to a communicator.
struct Context {
    traffic_class: u8,
}

unsafe extern "C" fn init(
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
        running::start()?;
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

unsafe extern "C" fn finalize(context: *mut c_void) -> c_int {
    guard(|| {
        if !context.is_null() {
            // SAFETY: made by `init`, and given back once.
            drop(unsafe { Box::from_raw(context.cast::<Context>()) });
        }
        running::stop();
        Ok(())
    })
}

unsafe extern "C" fn devices(count: *mut c_int) -> c_int {
    guard(|| {
        let network = Arc::clone(&running::current()?.network);
        // SAFETY: the caller's place for the number.
        unsafe { put(count, network.ports.len() as c_int) }
    })
}

/// Whether the kernel lets adapters reach a GPU's memory by its address.
fn has_peer_memory() -> bool {
    [
        "/sys/kernel/mm/memory_peers/nv_mem/version",
        "/sys/kernel/mm/memory_peers/nv_mem_nc/version",
        "/sys/module/nvidia_peermem/version",
    ]
    .iter()
    .any(|path| std::path::Path::new(path).exists())
}

unsafe extern "C" fn get_properties(device: c_int, properties: *mut Properties) -> c_int {
    guard(|| {
        let network = Arc::clone(&running::current()?.network);
        let port = &network.ports[network.port(device)?];
        let largest = send::largest(port.piece);
        let mut kinds = PTR_HOST;
        if has_peer_memory() {
            kinds |= PTR_CUDA;
        }
        if port.device.dmabuf.is_some() {
            kinds |= PTR_DMABUF;
        }
        let path = &port.device.pci_path;
        let facts = Properties {
            name: port.name.as_ptr().cast_mut(),
            pci_path: path
                .as_ref()
                .map_or(null_mut(), |path| path.as_ptr().cast_mut()),
            guid: port.device.guid,
            ptr_support: kinds,
            reg_is_global: 0,
            force_flush: 0,
            speed: port.speed as c_int,
            port: port.number.into(),
            latency: 2.0,
            max_comms: (port.device.max_queues / network.settings.queues) as c_int,
            max_recvs: GROUP as c_int,
            net_device_type: 0,
            net_device_version: 0,
            virtual_device: VirtualDevice {
                ndevs: 1,
                devs: [device, 0, 0, 0],
            },
            max_p2p_bytes: largest,
            max_coll_bytes: largest,
            max_multi_request_size: 1,
        };
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

unsafe extern "C" fn listen(
    context: *mut c_void,
    device: c_int,
    handle: *mut c_void,
    out: *mut *mut c_void,
) -> c_int {
    guard(|| {
        let network = Arc::clone(&running::current()?.network);
        let port = network.port(device)?;
        // SAFETY: the context is of `init`.
        let class = unsafe { traffic_class(context) };
        let (listener, bytes) = Listener::new(&network, port, class)?;
        // SAFETY: the caller's places for a handle and for the listener.
        unsafe {
            put(handle.cast::<[u8; HANDLE_BYTES]>(), bytes)?;
            put(out, Box::into_raw(Box::new(listener)).cast())
        }
    })
}

unsafe extern "C" fn connect(
    context: *mut c_void,
    device: c_int,
    bytes: *mut c_void,
    out: *mut *mut c_void,
    _device_side: *mut *mut c_void,
) -> c_int {
    guard(|| {
        let running = running::current()?;
        let network = &running.network;
        let port = network.port(device)?;
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
                Connecting::new(network, port, Handle::read(bytes)?, class)?
            }
        };
        handle::set_local(bytes, 0);
        match connecting.poll()? {
            Progress::NotYet(connecting) => {
                let number = network.new_number();
                handle::set_local(bytes, number);
                running.pending().insert(number, *connecting);
                Ok(())
            }
            // SAFETY: the caller's place for the connection.
            Progress::Connected(sender) => unsafe { put(out, Connection::open(End::Send(sender))) },
        }
    })
}

unsafe extern "C" fn accept(
    listener: *mut c_void,
    out: *mut *mut c_void,
    _device_side: *mut *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: the listener is of `listen`.
        let listener: &mut Listener = unsafe { object(listener, "the listener") }?;
        let connection = match listener.accept()? {
            None => null_mut(),
            Some(receiver) => Connection::open(End::Receive(Box::new(receiver))),
        };
        // SAFETY: the caller's place for the connection.
        unsafe { put(out, connection) }
    })
}

unsafe extern "C" fn close_listen(listener: *mut c_void) -> c_int {
    guard(|| {
        if listener.is_null() {
            return Err(missing("the listener"));
        }
        // SAFETY: made by `listen`, and closed once.
        drop(unsafe { Box::from_raw(listener.cast::<Listener>()) });
        Ok(())
    })
}
