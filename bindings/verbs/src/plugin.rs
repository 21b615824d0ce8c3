//! RDMA as a network behind the table.

use crate::flush::{FLUSHES, Flush};
use crate::gid::Gid;
use crate::hello::{Hello, SIGNS};
use crate::network::Network;
use crate::recv::{Buffer, Receiver};
use crate::send::{self, Sender};
use crate::settings;
use crate::verbs::{self, Region, Registered};
use kolo::base::interfaces::Interface;
use kolo::base::{Error, Result};
use kolo_plugin::abi::{MAX_REQUESTS, PTR_CUDA, PTR_DMABUF, PTR_HOST, Properties, VirtualDevice};
use kolo_plugin::fabric::{Dmabuf, Fabric, GROUP, MESSAGES, RING, Receiving, Sending, Side, Signs};
use kolo_plugin::greeting::HELLO_BYTES;
use kolo_plugin::line::Line;
use kolo_plugin::reading::{Diversion, Fetches, Lends, LentMessage, Reads};
use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Duration;

kolo_plugin::exports!(Network, c"verbs");
kolo_plugin::reading_exports!(Network);

const _: () = assert!(MESSAGES >= MAX_REQUESTS && RING >= MAX_REQUESTS);

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

impl Fabric for Network {
    const SIGNS: Signs = SIGNS;
    type Memory = Registered;
    type Sender = Meeting;
    type Receiver = Receiver;

    fn open() -> Result<Network> {
        Network::find()
    }

    fn configure(key: &str, value: &str) -> bool {
        settings::configure(key, value)
    }

    fn devices(&self) -> usize {
        self.ports.len()
    }

    fn properties(&self, device: usize) -> Properties {
        let port = &self.ports[device];
        let largest = send::largest(port.piece);
        let mut kinds = PTR_HOST;
        if has_peer_memory() {
            kinds |= PTR_CUDA;
        }
        if port.device.dmabuf.is_some() {
            kinds |= PTR_DMABUF;
        }
        let path = &port.device.pci_path;
        Properties {
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
            max_comms: (port.device.max_queues / self.settings.queues) as c_int,
            max_recvs: GROUP as c_int,
            net_device_type: 0,
            net_device_version: 0,
            virtual_device: VirtualDevice {
                ndevs: 1,
                devs: [device as c_int, 0, 0, 0],
            },
            max_p2p_bytes: largest,
            max_coll_bytes: largest,
            max_multi_request_size: 1,
        }
    }

    fn meeting(&self) -> &Interface {
        &self.interface
    }

    fn link_timeout(&self) -> Option<Duration> {
        self.settings.link_timeout
    }
}

/// Registers memory on the device of an end.
///
/// # Safety
/// The memory stays mapped until the registration is dropped.
unsafe fn register(
    ends: &crate::ends::Ends,
    data: usize,
    bytes: usize,
    kind: c_int,
) -> Result<Registered> {
    let of_device = kind == PTR_CUDA;
    let device = &ends.port().device;
    let memory = device
        .cache
        .register(data, bytes, of_device, |start, bytes| {
            // SAFETY: the caller's promise; whole pages are mapped where a part of them is.
            unsafe { Region::new(&device.domain, start, bytes, verbs::access(of_device)) }
        });
    memory.map_err(|mut error| {
        if of_device {
            error.remedy =
                "load the kernel module nvidia_peermem, or register through a dmabuf".into();
        }
        error
    })
}

impl Reads for Network {
    unsafe fn pin(&self, device: usize, data: usize, bytes: usize) -> Result<Registered> {
        let domain = &self.ports[device].device.domain;
        // Never one that a message under way still holds: its pages may be old ones.
        // SAFETY: the caller's promise.
        let region = unsafe { Region::new(domain, data, bytes, verbs::PINNED)? };
        Ok(Registered::alone(region, data, bytes, false))
    }
}

impl Lends<Network> for Meeting {
    fn is_read(&self) -> bool {
        self.sender.is_read
    }

    unsafe fn isend_at(&mut self, message: &LentMessage<Registered>) -> Result<Option<usize>> {
        // SAFETY: the caller's promise.
        unsafe { self.sender.isend_at(message) }
    }
}

impl Fetches<Network> for Receiver {
    unsafe fn divert(&mut self, number: usize, to: &Diversion<Registered>) -> Result<bool> {
        Receiver::divert(self, number, to)
    }

    fn test_at(&mut self, number: usize, hold: bool) -> Result<Option<(usize, bool)>> {
        let mut sizes = [0; GROUP];
        let taken = self.take(number, hold, &mut sizes)?;
        Ok(taken.map(|_| (sizes[0], self.is_placed(number))))
    }
}

fn register_dmabuf(ends: &crate::ends::Ends, memory: &Dmabuf) -> Result<Registered> {
    let device = &ends.port().device;
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
    let place = (memory.offset, memory.bytes, memory.data as u64, memory.fd);
    let region = Region::of_dmabuf(&device.domain, register, place).map_err(|error| {
        refused(format!(
            "{} refuses {} bytes of a dmabuf: {error}",
            device.name, memory.bytes
        ))
    })?;
    Ok(Registered::alone(region, memory.data, memory.bytes, true))
}

/// A sending end, and the address by which it meets the other one.
pub struct Meeting {
    sender: Sender,
    gid: Gid,
    traffic_class: u8,
}

impl Side<Network> for Meeting {
    fn keep_line(&mut self, line: Line) {
        self.sender.ends.line = Some(line);
    }

    unsafe fn register(&mut self, data: usize, bytes: usize, kind: c_int) -> Result<Registered> {
        // SAFETY: the caller's promise.
        unsafe { register(&self.sender.ends, data, bytes, kind) }
    }

    fn register_dmabuf(&mut self, memory: &Dmabuf) -> Result<Registered> {
        register_dmabuf(&self.sender.ends, memory)
    }

    fn part(&mut self) -> Result<()> {
        let open = self.sender.open();
        self.sender.ends.close(open)
    }
}

impl Sending<Network> for Meeting {
    fn new(network: &Arc<Network>, device: usize, traffic_class: u8) -> Result<Meeting> {
        let sender = Sender::new(network, device)?;
        let gid = sender.ends.gid()?;
        Ok(Meeting {
            sender,
            gid,
            traffic_class,
        })
    }

    fn greeting(&self) -> [u8; HELLO_BYTES] {
        let hello = self.sender.ends.hello(&self.gid, self.sender.area());
        hello.write()
    }

    fn answered(&mut self, answer: &[u8; HELLO_BYTES]) -> Result<bool> {
        let Some(hello) = Hello::read(answer)? else {
            return Ok(false);
        };
        self.sender.set_records((hello.area, hello.area_key));
        let answers = self.sender.ends.port().device.answers;
        self.sender.is_read = answers > 0 && hello.reads > 0;
        let ends = &mut self.sender.ends;
        ends.connect(&hello, &self.gid, self.traffic_class)?;
        Ok(true)
    }

    unsafe fn isend(
        &mut self,
        data: usize,
        bytes: usize,
        tag: u32,
        memory: Option<&Registered>,
    ) -> Result<Option<usize>> {
        // SAFETY: the caller's promise.
        unsafe { self.sender.isend(data, bytes, tag, memory) }
    }

    fn test(&mut self, number: usize) -> Result<Option<usize>> {
        self.sender.test(number)
    }
}

impl Side<Network> for Receiver {
    fn keep_line(&mut self, line: Line) {
        self.ends.line = Some(line);
    }

    unsafe fn register(&mut self, data: usize, bytes: usize, kind: c_int) -> Result<Registered> {
        if kind == PTR_CUDA {
            self.prepare_flush()?;
        }
        // SAFETY: the caller's promise.
        unsafe { register(&self.ends, data, bytes, kind) }
    }

    fn register_dmabuf(&mut self, memory: &Dmabuf) -> Result<Registered> {
        let memory = register_dmabuf(&self.ends, memory)?;
        self.prepare_flush()?;
        Ok(memory)
    }

    fn part(&mut self) -> Result<()> {
        self.settle();
        let open = self.open();
        self.ends.close(open)
    }
}

impl Receiving<Network> for Receiver {
    const FLUSHES: usize = FLUSHES;

    fn greeted(
        network: &Arc<Network>,
        device: usize,
        traffic_class: u8,
        greeting: &[u8; HELLO_BYTES],
    ) -> Result<Option<(Receiver, [u8; HELLO_BYTES])>> {
        let Ok(Some(hello)) = Hello::read(greeting) else {
            return Ok(None);
        };
        let mut receiver = Receiver::new(network, device, &hello)?;
        let gid = receiver.ends.gid()?;
        receiver.ends.connect(&hello, &gid, traffic_class)?;
        let answer = receiver.ends.hello(&gid, receiver.area());
        Ok(Some((receiver, answer.write())))
    }

    unsafe fn irecv(&mut self, buffers: &[Buffer]) -> Result<Option<usize>> {
        // SAFETY: the caller's promise.
        unsafe { self.post(buffers) }
    }

    fn test(&mut self, number: usize, sizes: &mut [usize; GROUP]) -> Result<Option<usize>> {
        self.take(number, false, sizes)
    }

    fn iflush(&mut self, filled: &[(usize, &Registered)]) -> Result<Option<usize>> {
        // One read pushes all earlier writes before it; the last filled buffer will do.
        let last = filled.iter().rev().find(|(_, memory)| memory.of_device);
        let Some((data, memory)) = last else {
            return Ok(None);
        };
        self.prepare_flush()?;
        match &mut self.flush {
            Some(flush) => flush.start(*data, memory),
            None => Ok(None),
        }
    }

    fn flushed(&mut self, number: usize) -> Result<bool> {
        self.flush
            .as_mut()
            .map_or(Ok(false), |flush: &mut Flush| flush.test(number))
    }
}
