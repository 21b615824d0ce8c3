//! An interface as the system tells it, and one of its addresses as others are told.

use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

/// The most interfaces that are considered.
pub const MAX_IFS: usize = 32;

/// Words of the system about an interface, beside its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signs {
    /// There is a signal: a cable, or somebody at the other end.
    pub signal: bool,
    /// A program made it for itself: a tunnel, or a bridge without a card.
    pub is_made: bool,
    /// It is InfiniBand.
    pub is_fast: bool,
}

impl Default for Signs {
    fn default() -> Signs {
        Signs {
            signal: true,
            is_made: false,
            is_fast: false,
        }
    }
}

/// One interface with one of its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The system's name, e.g. `eth0`.
    pub name: String,
    /// Its address.
    pub address: IpAddr,
    /// The zone of an IPv6 link-local address, else 0.
    pub scope: u32,
    /// The mask of its subnet, when the system tells it.
    pub netmask: Option<IpAddr>,
    /// Words of the system about the interface beside.
    pub signs: Signs,
}

impl Interface {
    /// The address with a port.
    pub fn socket_address(&self, port: u16) -> SocketAddr {
        match self.address {
            IpAddr::V4(v4) => SocketAddr::new(IpAddr::V4(v4), port),
            IpAddr::V6(v6) => SocketAddrV6::new(v6, port, 0, self.scope).into(),
        }
    }

    /// How many bits of the address are the subnet's.
    pub fn prefix(&self) -> u8 {
        let ones = match (self.netmask, self.address) {
            (Some(IpAddr::V4(mask)), IpAddr::V4(_)) => u32::from(mask).leading_ones(),
            (Some(IpAddr::V6(mask)), IpAddr::V6(_)) => u128::from(mask).leading_ones(),
            (_, IpAddr::V4(_)) => u32::BITS,
            (_, IpAddr::V6(_)) => u128::BITS,
        };
        ones as u8
    }

    /// Whether `other` lies in this interface's subnet.
    pub fn same_subnet(&self, other: IpAddr) -> bool {
        self.netmask.is_some() && in_subnet(self.address, self.prefix(), other)
    }
}

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaceAddress {
    /// The address.
    pub ip: IpAddr,
    /// How many of its bits are the subnet's.
    pub prefix: u8,
    /// The zone of an address of the link; it has a meaning on its own node only.
    pub scope: u32,
    /// The port where somebody listens; 0 if nobody does.
    pub port: u16,
}

impl FaceAddress {
    /// The address of an interface, at which nobody listens.
    pub fn of(interface: &Interface) -> FaceAddress {
        FaceAddress {
            ip: interface.address,
            prefix: interface.prefix(),
            scope: interface.scope,
            port: 0,
        }
    }

    /// Whether it is valid on its link only.
    pub fn is_of_link(&self) -> bool {
        match self.ip {
            IpAddr::V4(v4) => v4.is_link_local(),
            IpAddr::V6(v6) => v6.is_unicast_link_local(),
        }
    }

    /// Whether `other` lies in its subnet.
    pub fn is_near(&self, other: IpAddr) -> bool {
        in_subnet(self.ip, self.prefix, other)
    }

    /// With a port, as the node sees it whose zone of the link is `scope`.
    pub fn at(&self, port: u16, scope: u32) -> SocketAddr {
        match self.ip {
            IpAddr::V6(v6) if self.is_of_link() => SocketAddrV6::new(v6, port, 0, scope).into(),
            ip => SocketAddr::new(ip, port),
        }
    }

    /// Its own end of a connection, at any port.
    pub fn own(&self) -> SocketAddr {
        self.at(0, self.scope)
    }
}

/// As `10.1.0.7/16`.
impl std::fmt::Display for FaceAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.ip, self.prefix)
    }
}

/// Whether two addresses begin with the same `prefix` bits.
pub fn in_subnet(address: IpAddr, prefix: u8, other: IpAddr) -> bool {
    match (address, other) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            let differs = u32::from(a) ^ u32::from(b);
            differs.leading_zeros() >= u32::from(prefix.min(32))
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            let differs = u128::from(a) ^ u128::from(b);
            differs.leading_zeros() >= u32::from(prefix.min(128))
        }
        _ => false,
    }
}
