//! TCP sockets as a network between nodes.
//!
//! **Problem.** TCP gives streams, not messages; one stream may be limited to a part of a link;
//! the kernel copies everything once, and more copies would halve the speed; the port is open to
//! everybody; and a dead link is silent for a quarter of an hour.
//!
//! **Idea.** Every interface that is used is a device (a *rail*); a connection listens on its
//! addresses and leaves by one of them. Where that gets no answer, the next way is tried
//! (`connect`). A connection has one or several sockets
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
pub mod trial;

pub use ends::was_closed;
use options::MAX_SOCKETS;
pub use options::SocketOptions;

use super::{Connecting, Handle, Listener, MAX_RECEIVES, MemoryKinds, Net, Properties};
use crate::base::interfaces;
use crate::base::interfaces::class::FaceClass;
use crate::base::interfaces::face::FaceAddress;
use crate::base::interfaces::ways::{Barred, FaceCard, FaceTable, WayEnd, tier};
use crate::base::{Error, Result};
use connect::SocketPath;
use frame::Secret;
use std::sync::{Arc, Mutex, PoisonError};

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
    /// All interfaces of this node that may be used.
    table: FaceTable,
    /// Those that are used, which are the devices.
    cards: Vec<FaceCard>,
    devices: Vec<Properties>,
    barred: Arc<Mutex<Barred>>,
}

impl SocketNet {
    /// Its name.
    pub const NAME: &str = "socket";

    /// Finds the interfaces; opens nothing.
    ///
    /// Errors: `InvalidUsage` when none is usable, with the list of those that were found.
    pub fn new(options: SocketOptions) -> Result<SocketNet> {
        let list = options.ifname.as_deref();
        let table = interfaces::table(options.family, list)?;
        // An error of it lists what was found.
        interfaces::find(options.family, list, None)?;
        let best = table.cards.first().map(|card| card.class);
        let is_best = |card: &&FaceCard| Some(card.class) == best;
        let cards = table.cards.iter().filter(is_best).cloned().collect();
        Ok(SocketNet::over(table, cards, options))
    }

    /// Over these interfaces of this node, which it has agreed on with others. Those of its table
    /// are all that it has.
    pub fn over(table: FaceTable, cards: Vec<FaceCard>, options: SocketOptions) -> SocketNet {
        SocketNet {
            options: SocketOptions {
                sockets: options.sockets.clamp(1, MAX_SOCKETS),
                ..options
            },
            table,
            devices: cards.iter().map(properties).collect(),
            cards,
            barred: Arc::default(),
        }
    }

    /// Takes note of ways that were tried in vain: others are tried before them.
    pub fn bar(&self, ways: &Barred) {
        let mut barred = self.barred.lock().unwrap_or_else(PoisonError::into_inner);
        barred.clone_from(ways);
    }

    fn card(&self, device: usize) -> Result<&FaceCard> {
        self.cards.get(device).ok_or_else(|| {
            Error::argument(
                format!(
                    "network device {device} was asked for, but there are {}",
                    self.cards.len()
                ),
                "use a position in the list of devices, from 0",
            )
        })
    }

    fn open(&self, cards: &[&FaceCard]) -> Result<(Handle, Box<dyn Listener>)> {
        let about = (self.table.machine, self.table.is_named);
        let door = accept::SocketDoor::open(cards, about, &self.options)?;
        Ok((door.handle()?, Box::new(door)))
    }

    /// Listens on all devices at once, with one handle.
    ///
    /// Errors: of the system.
    pub fn listen_on_all(&self) -> Result<(Handle, Box<dyn Listener>)> {
        self.open(&self.cards.iter().collect::<Vec<_>>())
    }

    /// Begins to connect by the best way from any device.
    ///
    /// Errors: as [`Net::connect`].
    pub fn connect_from_any(&self, handle: &Handle) -> Result<Box<dyn Connecting>> {
        let all = self.cards.iter().enumerate();
        let mut ways: Vec<_> = all.map(|(device, _)| (device, handle)).collect();
        let far = |device| self.distance(device, handle).unwrap_or(u32::MAX);
        ways.sort_by_key(|&(device, _)| far(device));
        self.connect_by(&ways)
    }

    /// Ways from a device to a listener, the best first; with how good they are.
    fn ways(&self, device: usize, handle: &Handle) -> Result<(Vec<(u32, SocketPath)>, Secret)> {
        let card = self.card(device)?;
        let (spots, secret) = frame::decode_handle(handle)?;
        let places =
            |all: &[(FaceClass, FaceAddress)]| all.iter().map(|(_, place)| *place).collect();
        let ours: Vec<FaceAddress> = self.table.places().map(|(_, place)| *place).collect();
        let theirs: Vec<FaceAddress> = places(&spots.all);
        let there = FaceTable {
            machine: spots.machine,
            is_named: spots.is_named,
            cards: Vec::new(),
        };
        let may_share = self.table.may_share(&there);
        let barred = self.barred.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = Vec::new();
        for place in &card.places {
            for (class, to) in &spots.all {
                let end = |class, place, all| WayEnd { class, place, all };
                let ends = (end(card.class, place, &ours), end(*class, to, &theirs));
                let Some(tier) = tier(ends.0, ends.1, may_share) else {
                    continue;
                };
                let path = SocketPath::new(&card.name, place, to);
                let is_barred = barred.contains(&path.ends());
                let far = u32::from(tier.is_far) + 2 * tier.class as u32;
                found.push((far + if is_barred { BARRED } else { 0 }, path));
            }
        }
        if found.is_empty() {
            // An error must come from the system, not from a table.
            let both = card.places.iter().zip(&spots.all);
            found.extend(
                both.map(|(from, (_, to))| (HOPELESS, SocketPath::new(&card.name, from, to))),
            );
        }
        found.sort_by_key(|(far, _)| *far);
        Ok((found, secret))
    }
}

/// Added to what was tried in vain.
const BARRED: u32 = 1000;
/// A way that cannot be, as far as tables tell.
const HOPELESS: u32 = 1_000_000;
/// The most ways that one connection tries.
const MOST_PATHS: usize = 16;

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
        self.open(&[self.card(device)?])
    }

    fn connect(&self, device: usize, handle: &Handle) -> Result<Box<dyn Connecting>> {
        self.connect_by(&[(device, handle)])
    }

    fn connect_by(&self, ways: &[(usize, &Handle)]) -> Result<Box<dyn Connecting>> {
        let mut all = Vec::new();
        for &(device, handle) in ways {
            let (found, secret) = self.ways(device, handle)?;
            let is_first = all.is_empty();
            // What cannot be is tried where it was asked for.
            let found = found
                .into_iter()
                .filter(|(far, _)| is_first || *far < HOPELESS);
            all.extend(found.map(|(_, path)| (path, secret)));
        }
        all.truncate(MOST_PATHS);
        let barred = Arc::clone(&self.barred);
        let connector = connect::Connector::new(all, self.options.clone(), barred);
        Ok(Box::new(connector))
    }

    fn distance(&self, device: usize, handle: &Handle) -> Option<u32> {
        let (found, _) = self.ways(device, handle).ok()?;
        let (far, _) = found.first()?;
        (*far < HOPELESS).then_some(*far)
    }
}

fn properties(interface: &FaceCard) -> Properties {
    let place = std::path::Path::new("/sys/class/net").join(&interface.name);
    let speed = std::fs::read_to_string(place.join("speed")).unwrap_or_default();
    Properties {
        name: interface.name.clone(),
        address: interface.places.first().map(|place| place.ip),
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
