//! The functions of the table, and the few others that this library exports.
//!
//! Each one checks its pointers, keeps panics inside, turns errors into the table's codes and keeps
//! their sentences for `kolo_net_last_error`. A connection is used by one thread at a time; the
//! network, devices and registration may be used by several.

use crate::abi::{
    CommConfig, HANDLE_BYTES, Logger, MAX_REQUESTS, PTR_CUDA, PTR_DMABUF, PTR_HOST, Properties,
    Table, VirtualDevice,
};
use crate::base::{Code, Error, Result};
use crate::connecting::{Connecting, Progress};
use crate::device::Device;
use crate::ends::Ends;
use crate::flush::FLUSHES;
use crate::handle::{self, Handle};
use crate::listener::Listener;
use crate::memory::Registered;
use crate::network;
use crate::recv::{Buffer, Receiver};
use crate::report::{self, Sink};
use crate::send::{self, MESSAGES, Sender};
use crate::settings;
use crate::slot::{GROUP, RING};
use crate::verbs::Region;
use std::ffi::{c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

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

/// What `init` gives to a communicator.
struct Context {
    traffic_class: u8,
}

/// A connection as the table's users see it.
struct Connection {
    end: End,
    requests: Vec<Request>,
}

enum End {
    Send(Box<Sender>),
    Receive(Box<Receiver>),
}

/// A request as the table's users see it: it stays where it is as long as the connection.
#[derive(Clone, Copy)]
struct Request {
    connection: *mut Connection,
    kind: Kind,
    number: usize,
}

#[derive(Clone, Copy)]
enum Kind {
    Message,
    Receive,
    Flush,
}

/// Runs a call, keeps its error's sentence, and gives its code.
fn guard(call: impl FnOnce() -> Result<()>) -> c_int {
    let result = catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|_| Err(Error::internal("the RDMA network panicked")));
    match result {
        Ok(()) => Code::Success as c_int,
        Err(error) => {
            report::remember(&error);
            error.code as c_int
        }
    }
}

fn missing(what: &str) -> Error {
    Error::argument(
        format!("{what} is a null pointer"),
        "pass what the table gave",
    )
}

/// Writes to a place of the caller.
///
/// # Safety
/// `place` is null or valid for a write.
unsafe fn put<T>(place: *mut T, value: T) -> Result<()> {
    if place.is_null() {
        return Err(missing("the place for a result"));
    }
    // SAFETY: the caller's promise.
    unsafe { place.write(value) };
    Ok(())
}

/// The object behind a pointer of the table.
///
/// # Safety
/// `pointer` is null or came from this table, was not closed, and is used by no one else now.
unsafe fn object<'a, T>(pointer: *mut c_void, what: &str) -> Result<&'a mut T> {
    // SAFETY: the caller's promise.
    unsafe { pointer.cast::<T>().as_mut() }.ok_or_else(|| missing(what))
}

impl Connection {
    fn open(end: End) -> *mut c_void {
        let kinds: Vec<(Kind, usize)> = match &end {
            End::Send(_) => (0..MESSAGES)
                .map(|number| (Kind::Message, number))
                .collect(),
            End::Receive(_) => {
                let flushes = (0..FLUSHES).map(|number| (Kind::Flush, number));
                (0..RING)
                    .map(|number| (Kind::Receive, number))
                    .chain(flushes)
                    .collect()
            }
        };
        let connection = Box::into_raw(Box::new(Connection {
            end,
            requests: Vec::new(),
        }));
        let request = |(kind, number)| Request {
            connection,
            kind,
            number,
        };
        let requests = kinds.into_iter().map(request).collect();
        // SAFETY: the box was made above, and nobody else knows it yet.
        unsafe { (*connection).requests = requests };
        connection.cast()
    }

    fn ends(&self) -> &Ends {
        match &self.end {
            End::Send(sender) => &sender.ends,
            End::Receive(receiver) => &receiver.ends,
        }
    }

    fn device(&self) -> &Device {
        &self.ends().port().device
    }

    fn sender(&mut self) -> Result<&mut Sender> {
        match &mut self.end {
            End::Send(sender) => Ok(sender),
            End::Receive(_) => Err(wrong_end("sends")),
        }
    }

    fn receiver(&mut self) -> Result<&mut Receiver> {
        match &mut self.end {
            End::Receive(receiver) => Ok(receiver),
            End::Send(_) => Err(wrong_end("receives")),
        }
    }

    /// The pointer of a request; null: not yet.
    fn request(&self, index: Option<usize>) -> *mut c_void {
        index.map_or(null_mut(), |index| {
            (&raw const self.requests[index]).cast_mut().cast()
        })
    }
}

fn wrong_end(does: &str) -> Error {
    Error::argument(
        format!("this end of the connection is not the one that {does}"),
        "send on what connect gave, and receive on what accept gave",
    )
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
        network::start()?;
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
        network::stop();
        Ok(())
    })
}

unsafe extern "C" fn devices(count: *mut c_int) -> c_int {
    guard(|| {
        let network = network::current()?;
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
        let network = network::current()?;
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
        let network = network::current()?;
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
        let network = network::current()?;
        let port = network.port(device)?;
        // SAFETY: the caller's place for the connection, and its copy of a handle.
        let bytes = unsafe {
            put(out, null_mut())?;
            object::<[u8; HANDLE_BYTES]>(bytes, "the handle")?
        };
        let number = handle::local(bytes);
        let begun = network.pending().remove(&number);
        let connecting = match begun {
            Some(connecting) => connecting,
            None => {
                // SAFETY: the context is of `init`.
                let class = unsafe { traffic_class(context) };
                Connecting::new(&network, port, Handle::read(bytes)?, class)?
            }
        };
        handle::set_local(bytes, 0);
        match connecting.poll()? {
            Progress::NotYet(connecting) => {
                let number = network.new_number();
                handle::set_local(bytes, number);
                network.pending().insert(number, *connecting);
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

unsafe extern "C" fn reg_mr(
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
        unsafe { put(out, Box::into_raw(Box::new(memory)).cast()) }
    })
}

fn gpu_remedy(mut error: Error, of_device: bool) -> Error {
    if of_device {
        error.remedy = "load the kernel module nvidia_peermem, or register through a dmabuf".into();
    }
    error
}

unsafe extern "C" fn reg_mr_dma_buf(
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
        unsafe { put(out, Box::into_raw(Box::new(memory)).cast()) }
    })
}

unsafe extern "C" fn dereg_mr(comm: *mut c_void, memory: *mut c_void) -> c_int {
    guard(|| {
        // SAFETY: the connection is of `connect` or `accept`.
        let connection: &mut Connection = unsafe { object(comm, "the connection") }?;
        if memory.is_null() {
            return Err(missing("the registration"));
        }
        // SAFETY: made by a registration, and given back once.
        let memory = unsafe { Box::from_raw(memory.cast::<Registered>()) };
        connection.device().cache.release(*memory);
        Ok(())
    })
}

unsafe extern "C" fn isend(
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

unsafe extern "C" fn irecv(
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

unsafe extern "C" fn iflush(
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

unsafe extern "C" fn test(request: *mut c_void, done: *mut c_int, sizes: *mut c_int) -> c_int {
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

unsafe extern "C" fn close_send(comm: *mut c_void) -> c_int {
    // SAFETY: the connection is of `connect`, and is closed once.
    unsafe { close(comm) }
}

unsafe extern "C" fn close_recv(comm: *mut c_void) -> c_int {
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
        let mut connection = unsafe { Box::from_raw(comm.cast::<Connection>()) };
        match &mut connection.end {
            End::Send(sender) => {
                let open = sender.open();
                sender.ends.close(open)
            }
            End::Receive(receiver) => {
                let open = receiver.open();
                receiver.ends.close(open)
            }
        }
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

/// The sentence of this thread's last error, with what to do; it stays until the thread's next
/// error. Never null.
#[unsafe(no_mangle)]
pub extern "C" fn kolo_net_last_error() -> *const c_char {
    report::last()
}

/// Hands over a setting by its key in kolo's files, before `init`; it goes before the environment.
/// 0, or 4 where the key is unknown.
///
/// # Safety
/// Both strings end with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kolo_net_configure(key: *const c_char, value: *const c_char) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let texts = unsafe { (report::text(key), report::text(value)) };
        match texts {
            (Some(key), Some(value)) if settings::configure(key, value) => Ok(()),
            (key, _) => Err(Error::argument(
                format!(
                    "there is no setting \"{}\" of the RDMA network",
                    key.unwrap_or("")
                ),
                "docs/net-verbs.md lists them",
            )),
        }
    })
}

/// Sets who takes lines of the log, as a level (2 warning, 3 information) and a sentence. Without
/// it they go to the logger that `init` is given.
#[unsafe(no_mangle)]
pub extern "C" fn kolo_net_set_log(sink: Option<Sink>) {
    report::set_sink(sink);
}

/// Gives up a connection that `connect` has not finished, by the caller's copy of the handle.
///
/// # Safety
/// `handle` is null or has 128 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kolo_net_abandon(handle: *mut c_void) {
    // What it returns cannot fail in a way that the caller could mend.
    let _code = guard(|| {
        let network = network::current()?;
        // SAFETY: the caller's promise.
        let bytes = unsafe { object::<[u8; HANDLE_BYTES]>(handle, "the handle") }?;
        let abandoned = network.pending().remove(&handle::local(bytes));
        handle::set_local(bytes, 0);
        drop(abandoned);
        Ok(())
    });
}
