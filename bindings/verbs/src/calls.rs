//! The table's functions on a connection: registration, send, receive, flush, test, close.

use crate::abi::{PTR_CUDA, PTR_HOST};
use crate::connection::{Connection, End, Kind, Request};
use crate::guard::{guard, missing, object, put};
use crate::memory::Registered;
use crate::recv::Buffer;
use crate::slot::{GROUP, RING};
use crate::verbs::Region;
use kolo::base::Error;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

/// As the table says.
///
/// # Safety
/// Pointers are null, or came from this table and are in use; arrays have as many entries as said.
pub unsafe extern "C" fn reg_mr(
    comm: *mut c_void,
    data: *mut c_void,
    bytes: usize,
    kind: c_int,
    out: *mut *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: the connection is of `connect` or `accept`.
        let connection: &mut Connection = unsafe { object(comm, "the connection") }?;
        if ![PTR_HOST, PTR_CUDA].contains(&kind) {
            return Err(Error::argument(
                format!("{kind} is not a kind of memory that has an address"),
                "register memory as NCCL_PTR_HOST (1) or NCCL_PTR_CUDA (2)",
            ));
        }
        let of_device = kind == PTR_CUDA;
        if let (true, End::Receive(receiver)) = (of_device, &mut connection.end) {
            receiver.prepare_flush()?;
        }
        let device = connection.device();
        // SAFETY: the caller keeps the memory mapped until it is deregistered.
        let memory = unsafe {
            device
                .cache
                .register(&device.domain, data as usize, bytes, of_device)
        }
        .map_err(|error| gpu_remedy(error, of_device))?;
        // SAFETY: the caller's place for the registration.
        unsafe { put(out, connection.keep(memory)) }
    })
}

fn gpu_remedy(mut error: Error, of_device: bool) -> Error {
    if of_device {
        error.remedy = "load the kernel module nvidia_peermem, or register through a dmabuf".into();
    }
    error
}

/// As the table says.
///
/// # Safety
/// Pointers are null, or came from this table and are in use; arrays have as many entries as said.
pub unsafe extern "C" fn reg_mr_dma_buf(
    comm: *mut c_void,
    data: *mut c_void,
    bytes: usize,
    _kind: c_int,
    offset: u64,
    fd: c_int,
    out: *mut *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: the connection is of `connect` or `accept`.
        let connection: &mut Connection = unsafe { object(comm, "the connection") }?;
        let device = connection.device();
        let refused = |what: String| {
            Error::usage(
                what,
                "register by address (nvidia_peermem), or receive into host memory",
            )
        };
        let Some(register) = device.dmabuf else {
            let what = format!("{} or its libibverbs takes no dmabuf memory", device.name);
            return Err(refused(what));
        };
        let place = (offset, bytes, data as u64, fd);
        let region = Region::of_dmabuf(&device.domain, register, place).map_err(|error| {
            refused(format!(
                "{} refuses {bytes} bytes of a dmabuf: {error}",
                device.name
            ))
        })?;
        let memory = Registered::alone(region, data as usize, bytes);
        if let End::Receive(receiver) = &mut connection.end {
            receiver.prepare_flush()?;
        }
        // SAFETY: the caller's place for the registration.
        unsafe { put(out, connection.keep(memory)) }
    })
}

/// As the table says.
///
/// # Safety
/// Pointers are null, or came from this table and are in use; arrays have as many entries as said.
pub unsafe extern "C" fn dereg_mr(comm: *mut c_void, memory: *mut c_void) -> c_int {
    guard(|| {
        // SAFETY: the connection is of `connect` or `accept`.
        let connection: &mut Connection = unsafe { object(comm, "the connection") }?;
        let known = connection
            .memory
            .iter()
            .position(|kept| kept.cast() == memory);
        let Some(index) = known else {
            return Err(Error::argument(
                "this is no registration of this connection",
                "deregister what was registered on the same connection, once",
            ));
        };
        // SAFETY: it was made by a registration, and is forgotten here.
        let memory = unsafe { Box::from_raw(connection.memory.swap_remove(index)) };
        connection.device().cache.release(*memory);
        Ok(())
    })
}

/// As the table says.
///
/// # Safety
/// Pointers are null, or came from this table and are in use; arrays have as many entries as said.
pub unsafe extern "C" fn isend(
    comm: *mut c_void,
    data: *mut c_void,
    bytes: usize,
    tag: c_int,
    memory: *mut c_void,
    _profile: *mut c_void,
    out: *mut *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: the connection is of `connect`, the registration of this network; the caller
        // leaves the memory alone until the request is done.
        unsafe {
            let connection: &mut Connection = object(comm, "the connection")?;
            let memory = memory.cast::<Registered>().as_ref();
            let sender = connection.sender()?;
            let number = sender.isend(data as usize, bytes, tag as u32, memory)?;
            put(out, connection.request(number))
        }
    })
}

/// As the table says.
///
/// # Safety
/// Pointers are null, or came from this table and are in use; arrays have as many entries as said.
pub unsafe extern "C" fn irecv(
    comm: *mut c_void,
    count: c_int,
    data: *const *mut c_void,
    sizes: *const usize,
    tags: *const c_int,
    memory: *const *mut c_void,
    _profile: *const *mut c_void,
    out: *mut *mut c_void,
) -> c_int {
    guard(|| {
        let count = usize::try_from(count).unwrap_or(0);
        if count > GROUP || data.is_null() || sizes.is_null() || tags.is_null() || memory.is_null()
        {
            return Err(Error::argument(
                format!("irecv of {count} buffers"),
                format!("post 1 to {GROUP} buffers, with addresses, sizes, tags, registrations"),
            ));
        }
        // SAFETY: the arrays have `count` entries; the rest as for isend.
        unsafe {
            let connection: &mut Connection = object(comm, "the connection")?;
            let mut buffers = [Buffer {
                data: 0,
                capacity: 0,
                tag: 0,
                memory: None,
            }; GROUP];
            for (index, buffer) in buffers[..count].iter_mut().enumerate() {
                *buffer = Buffer {
                    data: *data.add(index) as usize,
                    capacity: *sizes.add(index),
                    tag: *tags.add(index) as u32,
                    memory: (*memory.add(index)).cast::<Registered>().as_ref(),
                };
            }
            let number = connection.receiver()?.irecv(&buffers[..count])?;
            put(out, connection.request(number))
        }
    })
}

/// As the table says.
///
/// # Safety
/// Pointers are null, or came from this table and are in use; arrays have as many entries as said.
pub unsafe extern "C" fn iflush(
    comm: *mut c_void,
    count: c_int,
    data: *const *mut c_void,
    sizes: *const c_int,
    memory: *const *mut c_void,
    out: *mut *mut c_void,
) -> c_int {
    guard(|| {
        let count = usize::try_from(count).unwrap_or(0);
        if data.is_null() || sizes.is_null() || memory.is_null() {
            return Err(missing("an array of iflush"));
        }
        // SAFETY: the arrays have `count` entries, the registrations are of this network.
        unsafe {
            put(out, null_mut())?;
            let connection: &mut Connection = object(comm, "the connection")?;
            // One read pushes all earlier writes before it; the last filled buffer will do.
            let wanted = (0..count).rev().find_map(|index| {
                let memory = (*memory.add(index)).cast::<Registered>().as_ref()?;
                let filled = *sizes.add(index) > 0 && memory.of_device;
                filled.then_some((*data.add(index) as usize, memory))
            });
            let Some((data, memory)) = wanted else {
                return Ok(());
            };
            let receiver = connection.receiver()?;
            receiver.prepare_flush()?;
            let number = match &mut receiver.flush {
                Some(flush) => flush.start(data, memory)?,
                None => None,
            };
            put(out, connection.request(number.map(|number| RING + number)))
        }
    })
}

/// As the table says.
///
/// # Safety
/// Pointers are null, or came from this table and are in use; arrays have as many entries as said.
pub unsafe extern "C" fn test(request: *mut c_void, done: *mut c_int, sizes: *mut c_int) -> c_int {
    guard(|| {
        // SAFETY: the request is of this table, and its connection is open; the caller's places
        // have room for the sizes of all buffers of the request.
        unsafe {
            put(done, 0)?;
            let request = *object::<Request>(request, "the request")?;
            let connection: &mut Connection = &mut *request.connection;
            let mut all = [0; GROUP];
            let count = match request.kind {
                Kind::Message => connection.sender()?.test(request.number)?.map(|bytes| {
                    all[0] = bytes;
                    1
                }),
                Kind::Receive => connection.receiver()?.test(request.number, &mut all)?,
                Kind::Flush => match &mut connection.receiver()?.flush {
                    Some(flush) => flush.test(request.number)?.then_some(0),
                    None => None,
                },
            };
            let Some(count) = count else {
                return Ok(());
            };
            if !sizes.is_null() {
                for (index, bytes) in all[..count].iter().enumerate() {
                    sizes.add(index).write(*bytes as c_int);
                }
            }
            put(done, 1)
        }
    })
}

/// As the table says.
///
/// # Safety
/// Pointers are null, or came from this table and are in use; arrays have as many entries as said.
pub unsafe extern "C" fn close_send(comm: *mut c_void) -> c_int {
    // SAFETY: the connection is of `connect`, and is closed once.
    unsafe { close(comm) }
}

/// As the table says.
///
/// # Safety
/// Pointers are null, or came from this table and are in use; arrays have as many entries as said.
pub unsafe extern "C" fn close_recv(comm: *mut c_void) -> c_int {
    // SAFETY: the connection is of `accept`, and is closed once.
    unsafe { close(comm) }
}

/// # Safety
/// The connection is of this table, and is closed once.
unsafe fn close(comm: *mut c_void) -> c_int {
    guard(|| {
        if comm.is_null() {
            return Err(missing("the connection"));
        }
        // SAFETY: the caller's promise.
        let connection = unsafe { Box::from_raw(comm.cast::<Connection>()) };
        let Connection {
            mut end, memory, ..
        } = *connection;
        let (result, device) = match &mut end {
            End::Send(sender) => {
                let open = sender.open();
                (sender.ends.close(open), sender.ends.port().device.clone())
            }
            End::Receive(receiver) => {
                let open = receiver.open();
                (
                    receiver.ends.close(open),
                    receiver.ends.port().device.clone(),
                )
            }
        };
        // Queue pairs end before the memory that they may still use.
        drop(end);
        for one in memory {
            // SAFETY: it was made by a registration, and was not deregistered.
            device.cache.release(*unsafe { Box::from_raw(one) });
        }
        result
    })
}
