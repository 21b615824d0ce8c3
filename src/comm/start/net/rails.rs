//! Over which devices of the network the ways go that the search found.
//!
//! A search knows ports as the machine lists them, a network its devices. Every rank tells all
//! others which device each port of its node is. Where that is not known (virtual interfaces), and
//! where `pxn` asks for one rank a device, channel c takes device c, modulo their number, at both
//! ends.

use super::said::{NO_DEVICE, Said};
use crate::base::Rank;
use crate::comm::start::party::{Party, plain_channels};
use crate::proxy::net::{Rail, Rails};
use crate::topo::channels::Channels;
use crate::topo::ways;
use crate::transport::net::Properties;
use std::collections::BTreeSet;
use std::path::{Component, Path};
use std::sync::Arc;

/// Ways that lead over known devices.
struct Found {
    channels: Arc<Channels>,
    /// For each rank the device of each port of its node.
    devices: Vec<Vec<u8>>,
}

impl Found {
    fn device(&self, rank: Rank, port: u32) -> Option<usize> {
        let device = *self.devices[rank.index()].get(port as usize)?;
        (device != NO_DEVICE).then_some(usize::from(device))
    }
}

impl Rails for Found {
    fn rail(&self, from: Rank, to: Rank, channel: u16) -> Option<Rail> {
        let way = ways::way(&self.channels, from, to, usize::from(channel))?;
        Some(Rail {
            exit: self.device(from, way.exit.net)?,
            entry: self.device(to, way.entry)?,
        })
    }
}

/// The device of each of the ports with these names on cards with these addresses.
fn of_ports(names: &[String], buses: &[String], devices: &[Properties]) -> Vec<u8> {
    let is_on = |device: &Properties, bus: &str| {
        let path = device.pci_path.as_deref().map(Path::new);
        let is_it = |part: Component| part.as_os_str().eq_ignore_ascii_case(bus);
        !bus.is_empty() && path.is_some_and(|path| path.components().any(is_it))
    };
    let find = |(port, name): (usize, &String)| {
        let bus = buses.get(port).map_or("", String::as_str);
        let is_it = |(_, device): &(usize, &Properties)| device.name == *name || is_on(device, bus);
        let all: Vec<usize> = devices
            .iter()
            .enumerate()
            .filter(is_it)
            .map(|(at, _)| at)
            .collect();
        // Of several ports of one card each has its own device, in the order of both lists.
        let before = names[..port].iter().filter(|other| *other == name).count();
        let device = all.get(before).or(all.last());
        device.map_or(NO_DEVICE, |&device| {
            u8::try_from(device).unwrap_or(NO_DEVICE)
        })
    };
    names.iter().enumerate().map(find).collect()
}

/// The devices that are ports of the rank's node.
fn known(said: &Said) -> BTreeSet<u8> {
    let known = said.ports.iter().copied();
    known.filter(|&device| device != NO_DEVICE).collect()
}

/// The device of each port of this rank's node.
pub(super) fn ports(party: &Party, devices: &[Properties]) -> Vec<u8> {
    let Some(found) = &party.channels else {
        return Vec::new();
    };
    let node = found.seats[party.bootstrap.rank().index()].0 as usize;
    of_ports(&found.nets[node], &found.buses[node], devices)
}

/// The rails of all connections, if the search decides: it must know every device of every
/// rank, or those that it does not know would never be used.
pub(super) fn rails(party: &Party, said: &[Said]) -> Option<Arc<dyn Rails>> {
    let knows_all = |said: &Said| known(said).len() == said.handles.len();
    let channels = Arc::clone(party.searched().filter(|_| said.iter().all(knows_all))?);
    let devices = said.iter().map(|said| said.ports.clone()).collect();
    Some(Arc::new(Found { channels, devices }))
}

/// Whether all ranks have several devices, which calls on few channels can use in turn. It
/// follows from what all have said and from nothing of this rank's own, such as its `pxn`:
/// turns must be the same at both ends.
pub(super) fn take_turns(said: &[Said]) -> bool {
    said.iter().all(|said| said.handles.len() > 1)
}

/// The devices that this rank uses, by ascending number.
pub(super) fn devices(party: &Party, ports: &[u8], count: usize) -> BTreeSet<usize> {
    let me = party.bootstrap.rank();
    let channels = plain_channels(party.settings, party.node.layout().channels);
    let known = |port: u32| {
        let device = ports.get(port as usize).copied();
        device
            .filter(|&device| device != NO_DEVICE)
            .map(usize::from)
    };
    let found = party.searched().into_iter();
    let used = found.flat_map(|found| (0..channels).flat_map(|it| ways::ports_of(found, me, it)));
    let used: BTreeSet<usize> = used.filter_map(known).collect();
    match used.is_empty() {
        true => (0..count.min(channels)).collect(),
        false => used,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::net::MemoryKinds;

    fn device(name: &str, pci_path: Option<&str>) -> Properties {
        Properties {
            name: name.into(),
            address: None,
            pci_path: pci_path.map(str::to_owned),
            speed_mbits: 1000,
            port: 1,
            max_connections: 1,
            max_receives: 1,
            latency_ns: 1,
            memory: MemoryKinds::default(),
        }
    }

    #[test]
    fn ports_are_known_by_their_names_or_by_their_cards() {
        let texts = |texts: &[&str]| {
            texts
                .iter()
                .map(|&text| text.to_owned())
                .collect::<Vec<_>>()
        };
        let names = texts(&["eth0", "mlx5_0", "mlx5_1", "mlx5_1", "mlx5_9"]);
        let buses = texts(&["", "0000:3B:00.0", "", "", "0000:99:00.0"]);
        let devices = [
            device("mlx5_1", None),
            device(
                "ib0",
                Some("/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0"),
            ),
            device("mlx5_1", None),
            device("eth0", None),
        ];
        let none = NO_DEVICE;
        assert_eq!(of_ports(&names, &buses, &devices), [3, 1, 0, 2, none]);
        assert_eq!(of_ports(&names, &[], &devices), [3, none, 0, 2, none]);
    }
}
