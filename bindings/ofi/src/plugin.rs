//! libfabric as a network behind the table.

use crate::endpoint::Registered;
use crate::hello::{Hello, SIGNS};
use crate::network::Network;
use crate::recv::{self, Buffer, Receiver};
use crate::send::Sender;
use crate::settings;
use kolo::base::interfaces::Interface;
use kolo::base::{Error, Result};
use kolo_plugin::abi::{PTR_HOST, Properties, VirtualDevice};
use kolo_plugin::fabric::{Dmabuf, Fabric, GROUP, Receiving, Sending, Side, Signs};
use kolo_plugin::greeting::HELLO_BYTES;
use kolo_plugin::line::Line;
use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Duration;

kolo_plugin::exports!(Network, c"ofi");

/// Connections of a device: its endpoint is one for all.
const CONNECTIONS: c_int = 65_536;

/// A device that does not tell its speed, in Mbit/s.
const USUAL_SPEED: u64 = 10_000;

impl Fabric for Network {
    const SIGNS: Signs = SIGNS;
    type Memory = Registered;
    type Sender = Sender;
    type Receiver = Receiver;

    fn open() -> Result<Network> {
        Network::find()
    }

    fn configure(key: &str, value: &str) -> bool {
        settings::configure(key, value)
    }

    fn about(&self) -> Option<String> {
        let first = self.devices.first()?;
        Some(format!("the libfabric provider {}", first.facts.provider))
    }

    fn devices(&self) -> usize {
        self.devices.len()
    }

    fn properties(&self, device: usize) -> Properties {
        let one = &self.devices[device];
        let largest = most_bytes(one.facts.max_message);
        let speed = match one.facts.speed / 1_000_000 {
            0 => USUAL_SPEED,
            speed => speed,
        };
        let path = one.pci_path.as_ref();
        Properties {
            name: one.name.as_ptr().cast_mut(),
            pci_path: path.map_or(null_mut(), |path| path.as_ptr().cast_mut()),
            guid: device as u64,
            ptr_support: PTR_HOST,
            reg_is_global: 0,
            force_flush: 0,
            speed: c_int::try_from(speed).unwrap_or(c_int::MAX),
            port: 1,
            latency: 2.0,
            max_comms: CONNECTIONS,
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

/// Largest message: the table gives sizes as C integers.
fn most_bytes(of_provider: u64) -> usize {
    of_provider.min(i32::MAX as u64) as usize
}

fn only_host_memory(what: &str) -> Error {
    Error::argument(
        format!("{what} is not taken: libfabric is used for host memory"),
        "register host memory (kind 1), and receive into it",
    )
}

/// Registers host memory with an endpoint.
///
/// # Safety
/// The memory stays mapped until the registration is dropped.
unsafe fn register(
    ends: &crate::ends::Ends,
    data: usize,
    bytes: usize,
    kind: c_int,
) -> Result<Registered> {
    if kind != PTR_HOST {
        return Err(only_host_memory("memory of a device"));
    }
    // SAFETY: the caller's promise.
    unsafe { ends.endpoint.register(data, bytes) }
}

impl Side<Network> for Sender {
    fn keep_line(&mut self, line: Line) {
        self.ends.keep_line(line);
    }

    unsafe fn register(&mut self, data: usize, bytes: usize, kind: c_int) -> Result<Registered> {
        // SAFETY: the caller's promise.
        unsafe { register(&self.ends, data, bytes, kind) }
    }

    fn register_dmabuf(&mut self, _: &Dmabuf) -> Result<Registered> {
        Err(only_host_memory("a dmabuf"))
    }

    fn part(&mut self) -> Result<()> {
        Sender::part(self)
    }
}

impl Sending<Network> for Sender {
    fn new(network: &Arc<Network>, device: usize, _: u8) -> Result<Sender> {
        Sender::new(network, device)
    }

    fn greeting(&self) -> [u8; HELLO_BYTES] {
        self.ends.hello().write()
    }

    fn answered(&mut self, answer: &[u8; HELLO_BYTES]) -> Result<bool> {
        let Some(peer) = Hello::read(answer)? else {
            return Ok(false);
        };
        self.connect(&peer)?;
        Ok(true)
    }

    unsafe fn isend(
        &mut self,
        data: usize,
        bytes: usize,
        tag: u32,
        memory: Option<&Registered>,
    ) -> Result<Option<usize>> {
        let span = recv::span(data, bytes, memory)?;
        // SAFETY: the caller's promise.
        unsafe { self.start(span, tag) }
    }

    fn test(&mut self, number: usize) -> Result<Option<usize>> {
        self.finish(number)
    }
}

impl Side<Network> for Receiver {
    fn keep_line(&mut self, line: Line) {
        self.ends.keep_line(line);
    }

    unsafe fn register(&mut self, data: usize, bytes: usize, kind: c_int) -> Result<Registered> {
        // SAFETY: the caller's promise.
        unsafe { register(&self.ends, data, bytes, kind) }
    }

    fn register_dmabuf(&mut self, _: &Dmabuf) -> Result<Registered> {
        Err(only_host_memory("a dmabuf"))
    }

    fn part(&mut self) -> Result<()> {
        Receiver::part(self)
    }
}

impl Receiving<Network> for Receiver {
    /// Host memory needs none.
    const FLUSHES: usize = 0;

    fn greeted(
        network: &Arc<Network>,
        device: usize,
        _: u8,
        greeting: &[u8; HELLO_BYTES],
    ) -> Result<Option<(Receiver, [u8; HELLO_BYTES])>> {
        let Ok(Some(peer)) = Hello::read(greeting) else {
            return Ok(None);
        };
        let receiver = Receiver::new(network, device, &peer)?;
        let answer = receiver.ends.hello().write();
        Ok(Some((receiver, answer)))
    }

    unsafe fn irecv(&mut self, buffers: &[Buffer]) -> Result<Option<usize>> {
        // SAFETY: the caller's promise.
        unsafe { self.post(buffers) }
    }

    fn test(&mut self, number: usize, sizes: &mut [usize; GROUP]) -> Result<Option<usize>> {
        self.take(number, sizes)
    }

    fn iflush(&mut self, _: &[(usize, &Registered)]) -> Result<Option<usize>> {
        Ok(None)
    }

    fn flushed(&mut self, _: usize) -> Result<bool> {
        Ok(true)
    }
}
