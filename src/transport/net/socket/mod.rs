//! TCP sockets as a network between nodes.
//!
//! **Problem.** TCP gives streams, not messages; one stream may be limited to a part of a link;
//! the kernel copies everything once, and more copies would halve the speed; the port is open to
//! everybody; and a dead link is silent for a quarter of an hour.
//!
//! **Idea.** Every usable interface is a device (a *rail*), and a connection listens on and leaves
//! by the address of its interface. A connection has one or several sockets
//! ([`SocketOptions::sockets`]); messages are cut into *pieces* that the sockets carry side by
//! side, written and read by scatter/gather straight from and to the callers' memory (`send`,
//! `recv`). A message starts when its buffer was posted, so nothing is ever stored. Sockets
//! are accepted only from holders of the handle (`accept`, `connect`); every frame names its
//! connection and protects its header by a CRC32C, on request its payload too (`frame`). Silence
//! of a link is told from silence of a rank (`stream`).
//!
//! **Memory.** A connection holds at each end at most 16 KiB of tables plus 4 KiB a socket; the
//! kernel's socket buffers come on top, at most `net.ipv4.tcp_wmem[2]` at the sender and
//! `net.ipv4.tcp_rmem[2]` at the receiver for each socket. None of it grows with the number or
//! the size of messages: at most [`options::MAX_POSTED`] buffers are posted and [`send::MAX_SENDS`]
//! messages in flight.
//!
//! A call hands at most about [`super::AT_ONCE`] bytes to a socket: so sending and receiving take
//! turns while the data are in the cache.
//!
//! `MSG_ZEROCOPY` is not used: over the loopback the kernel copies all the same, and its
//! notifications would make a send depend on the peer's reading.

mod accept;
mod connect;
mod ends;
mod frame;
#[doc(hidden)]
pub mod fuzz;
mod input;
mod message;
mod options;
mod recv;
pub mod send;
mod stream;

pub use ends::was_closed;
use options::MAX_SOCKETS;
pub use options::SocketOptions;

use super::{Connecting, Handle, Listener, MAX_RECEIVES, MemoryKinds, Net, Properties};
use crate::base::interfaces::{self, Interface};
use crate::base::{Error, Result};
use std::path::Path;

/// Speed of interfaces that do not tell theirs, in Mbit/s.
const USUAL_SPEED: u32 = 10_000;
/// One way of a small message between two nodes, in nanoseconds, as the field assumes for TCP.
const USUAL_LATENCY: u32 = 20_000;
/// A bound that only says "enough": open files run out first.
const MANY_CONNECTIONS: u32 = 65_536;

/// The network of TCP sockets.
#[derive(Debug)]
pub struct SocketNet {
    options: SocketOptions,
    interfaces: Vec<Interface>,
    devices: Vec<Properties>,
}

impl SocketNet {
    /// Its name.
    pub const NAME: &str = "socket";

    /// Finds the interfaces; opens nothing.
    ///
    /// Errors: `InvalidUsage` when none is usable, with the list of those that were found.
    pub fn new(options: SocketOptions) -> Result<SocketNet> {
        let list = options.ifname.as_deref();
        let interfaces = interfaces::find(options.family, list, None)?;
        let devices = interfaces.iter().map(properties).collect();
        Ok(SocketNet {
            options: SocketOptions {
                sockets: options.sockets.clamp(1, MAX_SOCKETS),
                ..options
            },
            interfaces,
            devices,
        })
    }

    fn interface(&self, device: usize) -> Result<&Interface> {
        self.interfaces.get(device).ok_or_else(|| {
            Error::argument(
                format!(
                    "network device {device} was asked for, but there are {}",
                    self.interfaces.len()
                ),
                "use a position in the list of devices, from 0",
            )
        })
    }
}

impl Net for SocketNet {
    fn name(&self) -> &str {
        SocketNet::NAME
    }

    fn devices(&self) -> &[Properties] {
        &self.devices
    }

    fn takes_parts(&self) -> bool {
        true
    }

    fn listen(&self, device: usize) -> Result<(Handle, Box<dyn Listener>)> {
        let door = accept::SocketDoor::open(self.interface(device)?, &self.options)?;
        Ok((door.handle()?, Box::new(door)))
    }

    fn connect(&self, device: usize, handle: &Handle) -> Result<Box<dyn Connecting>> {
        let interface = self.interface(device)?;
        let (peer, secret) = frame::decode_handle(handle, interface.scope)?;
        Ok(Box::new(connect::Connector::new(
            interface.clone(),
            peer,
            secret,
            self.options.clone(),
        )))
    }

    /// An address in the subnet of another interface belongs to that one; what is in none may be
    /// behind a router.
    fn reaches(&self, device: usize, handle: &Handle) -> bool {
        let Ok(interface) = self.interface(device) else {
            return false;
        };
        let Ok((peer, _)) = frame::decode_handle(handle, interface.scope) else {
            return false;
        };
        let others = self.interfaces.iter();
        interface.same_subnet(peer.ip()) || !others.into_iter().any(|it| it.same_subnet(peer.ip()))
    }
}

fn properties(interface: &Interface) -> Properties {
    let place = Path::new("/sys/class/net").join(&interface.name);
    let speed = std::fs::read_to_string(place.join("speed")).unwrap_or_default();
    Properties {
        name: interface.name.clone(),
        address: Some(interface.address),
        pci_path: std::fs::canonicalize(place.join("device"))
            .ok()
            .map(|path| path.to_string_lossy().into_owned()),
        speed_mbits: speed_of(&speed),
        port: 1,
        max_connections: MANY_CONNECTIONS,
        max_receives: MAX_RECEIVES as u32,
        latency_ns: USUAL_LATENCY,
        memory: MemoryKinds {
            host: true,
            ..MemoryKinds::default()
        },
    }
}

/// Virtual interfaces say nothing, or -1.
fn speed_of(text: &str) -> u32 {
    let speed = text.trim().parse().ok();
    speed.filter(|&speed| speed > 0).unwrap_or(USUAL_SPEED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_of_interfaces() {
        assert_eq!(speed_of("25000\n"), 25_000);
        assert_eq!(speed_of("-1\n"), USUAL_SPEED);
        assert_eq!(speed_of(""), USUAL_SPEED);
    }

    #[test]
    fn the_loopback_is_a_device() {
        let options = SocketOptions {
            ifname: Some("=lo".into()),
            ..SocketOptions::default()
        };
        let net = SocketNet::new(options).unwrap();
        assert_eq!(net.devices().len(), 1);
        let device = &net.devices()[0];
        assert!(device.name == "lo" && device.memory.host && device.pci_path.is_none());
        assert!(net.listen(1).is_err());
        let foreign = Handle::new(&[1; 40]).unwrap();
        assert!(net.connect(0, &foreign).is_err());
    }
}
