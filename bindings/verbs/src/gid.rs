//! Which address of a port a connection uses.
//!
//! Problem: a port has a table of addresses (GIDs), of two kinds of RoCE and of several networks,
//! and the two ends must use addresses that can reach each other. Idea: a setting wins; else the
//! best of the table, where routable RoCE v2 over IPv4 is best, because every switch knows it.

use kolo::base::{Error, Result};
use std::net::Ipv6Addr;

/// How packets look on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// InfiniBand.
    Infiniband,
    /// RoCE version 1: within one Ethernet.
    RoceV1,
    /// RoCE version 2: in UDP.
    RoceV2,
}

/// One entry of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gid {
    /// Its place in the table.
    pub index: u32,
    /// The address.
    pub raw: [u8; 16],
    /// How packets look.
    pub kind: Kind,
}

impl Gid {
    /// Whether it stands for an IPv4 address.
    pub fn is_v4(&self) -> bool {
        Ipv6Addr::from(self.raw).to_ipv4_mapped().is_some()
    }

    fn rank(&self) -> u32 {
        let address = Ipv6Addr::from(self.raw);
        let kind = match self.kind {
            Kind::RoceV2 => 0,
            Kind::RoceV1 => 10,
            Kind::Infiniband => 20,
        };
        let reach = match self.is_v4() {
            true => 0,
            false if !address.is_unicast_link_local() => 1,
            false => 2,
        };
        kind + reach
    }
}

/// An address for people: IPv4 where it stands for one.
pub fn text(raw: &[u8; 16]) -> String {
    let address = Ipv6Addr::from(*raw);
    match address.to_ipv4_mapped() {
        Some(v4) => v4.to_string(),
        None => address.to_string(),
    }
}

/// The entry to use of `table`, which has no empty ones. `wanted` is the setting; `port` names
/// the port in errors.
pub fn choose(table: &[Gid], wanted: Option<u32>, ethernet: bool, port: &str) -> Result<Gid> {
    if let Some(index) = wanted {
        let found = table.iter().find(|gid| gid.index == index).copied();
        return found.ok_or_else(|| {
            let known: Vec<String> = table.iter().map(|gid| gid.index.to_string()).collect();
            Error::argument(
                format!(
                    "{port} has no address with index {index}: it has {}",
                    known.join(", ")
                ),
                "set KOLO_IB_GID_INDEX to one of these, or to auto",
            )
        });
    }
    let best = match ethernet {
        true => table.iter().min_by_key(|gid| (gid.rank(), gid.index)),
        // On InfiniBand the first one is the port's own.
        false => table.iter().min_by_key(|gid| gid.index),
    };
    best.copied().ok_or_else(|| {
        Error::new(
            kolo::base::Code::SystemError,
            format!("{port} has no address"),
            "give its network interface an IP address and bring it up (`ip address`, `rdma link`), \
             or exclude the port with KOLO_IB_HCA",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gid(index: u32, address: &str, kind: Kind) -> Gid {
        let address: std::net::IpAddr = address.parse().unwrap();
        let raw = match address {
            std::net::IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            std::net::IpAddr::V6(v6) => v6.octets(),
        };
        Gid { index, raw, kind }
    }

    fn table() -> Vec<Gid> {
        vec![
            gid(0, "fe80::1", Kind::RoceV1),
            gid(1, "fe80::1", Kind::RoceV2),
            gid(2, "10.0.0.1", Kind::RoceV1),
            gid(3, "2001:db8::1", Kind::RoceV2),
            gid(4, "10.0.0.1", Kind::RoceV2),
            gid(5, "10.0.1.1", Kind::RoceV2),
        ]
    }

    fn pick(table: &[Gid], wanted: Option<u32>) -> u32 {
        choose(table, wanted, true, "mlx5_0 port 1").unwrap().index
    }

    #[test]
    fn the_best_address_in_order() {
        let mut table = table();
        for best in [4, 5, 3, 1, 2, 0] {
            assert_eq!(pick(&table, None), best);
            table.retain(|gid| gid.index != best);
        }
        let error = choose(&table, None, true, "mlx5_0 port 1").unwrap_err();
        assert!(error.what.contains("mlx5_0 port 1"), "{error}");
    }

    #[test]
    fn a_setting_wins_and_must_exist() {
        assert_eq!(pick(&table(), Some(0)), 0);
        let error = choose(&table(), Some(9), true, "mlx5_0 port 1").unwrap_err();
        assert!(
            error.what.contains('9') && error.what.contains("0, 1, 2"),
            "{error}"
        );
        assert!(error.remedy.contains("KOLO_IB_GID_INDEX"), "{error}");
    }

    #[test]
    fn infiniband_takes_its_first() {
        let table = [
            gid(1, "fe80::2", Kind::Infiniband),
            gid(0, "fe80::1", Kind::Infiniband),
        ];
        assert_eq!(
            choose(&table, None, false, "mlx5_0 port 1").unwrap().index,
            0
        );
    }

    #[test]
    fn addresses_for_people() {
        assert_eq!(text(&table()[4].raw), "10.0.0.1");
        assert_eq!(text(&table()[0].raw), "fe80::1");
        assert!(table()[4].is_v4() && !table()[3].is_v4());
    }
}
