//! The table's functions on a connection: registration, send, receive, flush, test, close.

use crate::abi::{PTR_CUDA, PTR_HOST};
use crate::connection::{Connection, End, Kind, Request};
use crate::fabric::{Buffer, Dmabuf, Fabric, GROUP, RING, Receiving, Sending, Side};
use crate::guard::{guard, missing, object, put};
use kolo::base::Error;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

/// Function of the table, by its name there.
///
/// # Safety
/// Pointers are null, or came from this table and are in use; arrays have as many entries as said.
pub unsafe extern "C" fn reg_mr<F: Fabric>(
    comm: *mut c_void,
    data: *mut c_void,
    bytes: usize,
    kind: c_int,
    out: *mut *mut c_void,
) -> c_int {
    guard(|| {
        if ![PTR_HOST, PTR_CUDA].contains(&kind) {
            return Err(Error::argument(
                format!("{kind} is not a kind of memory that has an address"),
                "register memory as NCCL_PTR_HOST (1) or NCCL_PTR_CUDA (2)",
            ));
        }
        // SAFETY: the connection is of `connect` or `accept`; the caller keeps the memory mapped
        // until it is deregistered, and has a place for the registration.
        unsafe {
            let connection: &mut Connection<F> = object(comm, "the connection")?;
            let memory = match &mut connection.end {
                End::Send(sender) => sender.register(data as usize, bytes, kind),
                End::Receive(receiver) => receiver.register(data as usize, bytes, kind),
            }?;
            put(out, connection.keep(memory))
        }
    })
}

/// Function of the table, by its name there.
///
/// # Safety
/// Pointers are null, or came from this table and are in use; arrays have as many entries as said.
pub unsafe extern "C" fn reg_mr_dma_buf<F: Fabric>(
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
        let connection: &mut Connection<F> = unsafe { object(comm, "the connection") }?;
        let memory = Dmabuf {
            data: data as usize,
            bytes,
            offset,
            fd,
        };
        let memory = match &mut connection.end {
            End::Send(sender) => sender.register_dmabuf(&memory),
            End::Receive(receiver) => receiver.register_dmabuf(&memory),
        }?;
        // SAFETY: the caller's place for the registration.
        unsafe { put(out, connection.keep(memory)) }
    })
}

/// Function of the table, by its name there.
///
/// # Safety
/// Pointers are null, or came from this table and are in use; arrays have as many entries as said.
pub unsafe extern "C" fn dereg_mr<F: Fabric>(comm: *mut c_void, memory: *mut c_void) -> c_int {
    guard(|| {
        // SAFETY: the connection is of `connect` or `accept`.
        let connection: &mut Connection<F> = unsafe { object(comm, "the connection") }?;
        connection.forget(memory)
    })
}

/// Function of the table, by its name there.
///
/// # Safety
/// Pointers are null, or came from this table and are in use; arrays have as many entries as said.
pub unsafe extern "C" fn isend<F: Fabric>(
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
            let connection: &mut Connection<F> = object(comm, "the connection")?;
            let memory = memory.cast::<F::Memory>().as_ref();
            let sender = connection.sender()?;
            let number = sender.isend(data as usize, bytes, tag as u32, memory)?;
            put(out, connection.request(number))
        }
    })
}

/// Function of the table, by its name there.
///
/// # Safety
/// Pointers are null, or came from this table and are in use; arrays have as many entries as said.
pub unsafe extern "C" fn irecv<F: Fabric>(
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
            let connection: &mut Connection<F> = object(comm, "the connection")?;
            let buffers: [Buffer<F::Memory>; GROUP] = std::array::from_fn(|index| {
                let given = index < count;
                Buffer {
                    data: if given { *data.add(index) as usize } else { 0 },
                    capacity: if given { *sizes.add(index) } else { 0 },
                    tag: if given { *tags.add(index) as u32 } else { 0 },
                    memory: given
                        .then(|| (*memory.add(index)).cast::<F::Memory>().as_ref())
                        .flatten(),
                }
            });
            let number = connection.receiver()?.irecv(&buffers[..count])?;
            put(out, connection.request(number))
        }
    })
}

/// Function of the table, by its name there.
///
/// # Safety
/// Pointers are null, or came from this table and are in use; arrays have as many entries as said.
pub unsafe extern "C" fn iflush<F: Fabric>(
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
            let connection: &mut Connection<F> = object(comm, "the connection")?;
            let filled: Vec<(usize, &F::Memory)> = (0..count)
                .filter(|&index| *sizes.add(index) > 0)
                .filter_map(|index| {
                    let memory = (*memory.add(index)).cast::<F::Memory>().as_ref()?;
                    Some((*data.add(index) as usize, memory))
                })
                .collect();
            let number = connection.receiver()?.iflush(&filled)?;
            put(out, connection.request(number.map(|number| RING + number)))
        }
    })
}

/// Function of the table, by its name there.
///
/// # Safety
/// Pointers are null, or came from this table and are in use; arrays have as many entries as said.
pub unsafe extern "C" fn test<F: Fabric>(
    request: *mut c_void,
    done: *mut c_int,
    sizes: *mut c_int,
) -> c_int {
    guard(|| {
        // SAFETY: the request is of this table, and its connection is open; the caller's places
        // have room for the sizes of all buffers of the request.
        unsafe {
            put(done, 0)?;
            let request = &*object::<Request<F>>(request, "the request")?;
            let connection: &mut Connection<F> = &mut *request.connection;
            let number = request.number;
            let mut all = [0; GROUP];
            let count = match request.kind {
                Kind::Message => connection.sender()?.test(number)?.map(|bytes| {
                    all[0] = bytes;
                    1
                }),
                Kind::Receive => connection.receiver()?.test(number, &mut all)?,
                Kind::Flush => connection.receiver()?.flushed(number)?.then_some(0),
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

/// Function of the table, by its name there.
///
/// # Safety
/// Pointers are null, or came from this table and are in use; arrays have as many entries as said.
pub unsafe extern "C" fn close<F: Fabric>(comm: *mut c_void) -> c_int {
    guard(|| {
        if comm.is_null() {
            return Err(missing("the connection"));
        }
        // SAFETY: the connection is of this table, and is closed once.
        let mut connection = unsafe { Box::from_raw(comm.cast::<Connection<F>>()) };
        match &mut connection.end {
            End::Send(sender) => sender.part(),
            End::Receive(receiver) => receiver.part(),
        }
    })
}
