//! Which network interfaces to use, and in which order.
//!
//! Problem: a node has several (`ib0`, `eth0`, `docker0`, `lo`), and all ranks must meet on a
//! network that they share. Idea: discovery reads them from the system; everything after that is
//! a pure function over a list, so that it is tested with invented machines. The order follows
//! the field's habit: `ib*` first, then the subnet of an explicit address, then whatever is not
//! a container's or virtual machine's bridge or the loopback, then `docker*`, `lo*`, `virbr*`. The
//! first of these classes that has an interface is the answer; the first entry carries the
//! bootstrap, and every entry is a rail for data.

use super::{Error, Result};
use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// The most interfaces that are considered.
pub const MAX_IFS: usize = 32;

/// The most entries of the system's list that are read (an interface has one per address).
const MAX_SYSTEM_ENTRIES: usize = 65_536;

/// Which address families may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Family {
    /// IPv4 or IPv6, whichever an interface offers first.
    #[default]
    Any,
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
}

impl Family {
    /// Whether the address is of such a family.
    pub fn takes(self, address: IpAddr) -> bool {
        match self {
            Family::Any => true,
            Family::V4 => address.is_ipv4(),
            Family::V6 => address.is_ipv6(),
        }
    }
}

impl std::str::FromStr for Family {
    type Err = Error;

    /// `""` or `any`, `4`, `ipv4`, `AF_INET`, `6`, `ipv6`, `AF_INET6`; letter case does not matter.
    fn from_str(text: &str) -> Result<Family> {
        match text.trim().to_ascii_lowercase().as_str() {
            "" | "any" => Ok(Family::Any),
            "4" | "ipv4" | "af_inet" => Ok(Family::V4),
            "6" | "ipv6" | "af_inet6" => Ok(Family::V6),
            _ => Err(Error::argument(
                format!("\"{text}\" is not an address family"),
                "use AF_INET, AF_INET6 or nothing",
            )),
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
}

impl Interface {
    /// The address with a port.
    pub fn socket_address(&self, port: u16) -> SocketAddr {
        match self.address {
            IpAddr::V4(v4) => SocketAddr::new(IpAddr::V4(v4), port),
            IpAddr::V6(v6) => SocketAddrV6::new(v6, port, 0, self.scope).into(),
        }
    }

    /// Whether `other` lies in this interface's subnet.
    pub fn same_subnet(&self, other: IpAddr) -> bool {
        let equal = |a: &[u8], b: &[u8], mask: &[u8]| {
            let mut bytes = a.iter().zip(b).zip(mask);
            bytes.all(|((a, b), mask)| a & mask == b & mask)
        };
        match (self.address, other, self.netmask) {
            (IpAddr::V4(a), IpAddr::V4(b), Some(IpAddr::V4(mask))) => {
                equal(&a.octets(), &b.octets(), &mask.octets())
            }
            (IpAddr::V6(a), IpAddr::V6(b), Some(IpAddr::V6(mask))) => {
                equal(&a.octets(), &b.octets(), &mask.octets())
            }
            _ => false,
        }
    }
}

/// Whether an interface `name` is selected by `list`: names separated by commas, each standing
/// for every name that begins with it; a leading `=` asks for the exact name; a leading `^` (before
/// `=`) selects what the list does *not* match. An empty list selects everything.
pub fn matches(list: &str, name: &str) -> bool {
    let (exclude, rest) = match list.trim().strip_prefix('^') {
        Some(rest) => (true, rest),
        None => (false, list.trim()),
    };
    let (exact, rest) = match rest.strip_prefix('=') {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let mut entries = rest
        .split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
        .peekable();
    if entries.peek().is_none() {
        return true;
    }
    let matched = entries.any(|entry| match exact {
        true => name == entry,
        false => name.starts_with(entry),
    });
    matched != exclude
}

/// Keeps what a socket can use: the wanted family, no IPv6 loopback, no IPv6 link-local address
/// without a zone; one address a name (the first), at most [`MAX_IFS`].
pub fn usable(found: &[Interface], family: Family) -> Vec<Interface> {
    let mut kept: Vec<Interface> = Vec::new();
    for interface in found {
        let fits = match interface.address {
            IpAddr::V4(_) => family != Family::V6,
            IpAddr::V6(v6) => {
                let link_local = v6.is_unicast_link_local();
                family != Family::V4 && !v6.is_loopback() && !(link_local && interface.scope == 0)
            }
        };
        let known = kept.iter().any(|other| other.name == interface.name);
        if fits && !known && kept.len() < MAX_IFS {
            kept.push(interface.clone());
        }
    }
    kept
}

/// The interfaces to use, best first; never empty. `list` is the user's choice; `meeting_point`
/// is the address of an explicit `KOLO_COMM_ID`.
pub fn choose(
    found: &[Interface],
    family: Family,
    list: Option<&str>,
    meeting_point: Option<IpAddr>,
) -> Result<Vec<Interface>> {
    // The user's list comes before the bound on names, so that no bridge can push out a choice.
    let select = |list: &str| -> Vec<Interface> {
        let chosen = found.iter().filter(|i| matches(list, &i.name));
        usable(&chosen.cloned().collect::<Vec<_>>(), family)
    };
    if let Some(list) = list.filter(|list| !list.trim().is_empty()) {
        let chosen = select(list);
        if chosen.is_empty() {
            return Err(nothing(
                found,
                &format!("KOLO_SOCKET_IFNAME=\"{list}\" matches none"),
            ));
        }
        return Ok(chosen);
    }
    let near = |address: IpAddr| -> Vec<Interface> {
        let near = found.iter().filter(|i| i.same_subnet(address)).cloned();
        usable(&near.collect::<Vec<_>>(), family)
    };
    let classes: [&dyn Fn() -> Vec<Interface>; 6] = [
        &|| select("ib"),
        &|| meeting_point.map(near).unwrap_or_default(),
        &|| select("^docker,lo,virbr"),
        &|| select("docker"),
        &|| select("lo"),
        &|| select("virbr"),
    ];
    classes
        .iter()
        .map(|class| class())
        .find(|chosen| !chosen.is_empty())
        .ok_or_else(|| nothing(found, "none is usable"))
}

fn nothing(found: &[Interface], why: &str) -> Error {
    let list: Vec<String> = found
        .iter()
        .map(|interface| format!("{} {}", interface.name, interface.address))
        .collect();
    Error::usage(
        format!(
            "no network interface to start on: of {} found ({}) {why}",
            list.len(),
            list.join(", ")
        ),
        "set KOLO_SOCKET_IFNAME to one of them (`ip address` lists them) or unset it, and check \
         KOLO_SOCKET_FAMILY",
    )
}

/// Discovers and chooses; see [`choose`].
pub fn find(
    family: Family,
    list: Option<&str>,
    meeting_point: Option<IpAddr>,
) -> Result<Vec<Interface>> {
    choose(&discover()?, family, list, meeting_point)
}

/// All interfaces that are up and have an IPv4 or IPv6 address, in the system's order.
pub fn discover() -> Result<Vec<Interface>> {
    let mut head = std::ptr::null_mut();
    // SAFETY: `head` is a valid place for the pointer that the call writes.
    if unsafe { libc::getifaddrs(&mut head) } != 0 {
        return Err(Error::system(
            "cannot list the network interfaces",
            &std::io::Error::last_os_error(),
            "check that the process may open a netlink socket",
        ));
    }
    let mut found = Vec::new();
    let mut entry = head;
    for _ in 0..MAX_SYSTEM_ENTRIES {
        // SAFETY: `entry` is null or a node of the list that getifaddrs made and nobody freed.
        let Some(node) = (unsafe { entry.as_ref() }) else {
            break;
        };
        let up = node.ifa_flags & libc::IFF_UP as u32 != 0;
        // SAFETY: the addresses of a node are null or point to a sockaddr of their family.
        let (address, netmask) = unsafe { (ip(node.ifa_addr), ip(node.ifa_netmask)) };
        if let (true, Some((address, scope))) = (up, address) {
            // SAFETY: the name of a node is a string that ends with a zero byte.
            let name = unsafe { CStr::from_ptr(node.ifa_name) };
            found.push(Interface {
                name: name.to_string_lossy().into_owned(),
                address,
                scope,
                netmask: netmask.map(|(mask, _)| mask),
            });
        }
        entry = node.ifa_next;
    }
    // SAFETY: `head` came from getifaddrs and no reference into the list is left.
    unsafe { libc::freeifaddrs(head) };
    Ok(found)
}

/// The address and zone in a system address structure.
///
/// # Safety
/// `address` is null or points to a socket address that is complete for its family.
unsafe fn ip(address: *const libc::sockaddr) -> Option<(IpAddr, u32)> {
    // SAFETY: the caller says that it is null or valid.
    let family = i32::from(unsafe { address.as_ref() }?.sa_family);
    match family {
        libc::AF_INET => {
            // SAFETY: the family says that it is an IPv4 address; reads need no alignment.
            let v4 = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            let octets = v4.sin_addr.s_addr.to_ne_bytes();
            Some((Ipv4Addr::from(octets).into(), 0))
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that it is an IPv6 address; reads need no alignment.
            let v6 = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            let octets = v6.sin6_addr.s6_addr;
            Some((Ipv6Addr::from(octets).into(), v6.sin6_scope_id))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn face(name: &str, address: &str, netmask: &str) -> Interface {
        Interface {
            name: name.into(),
            address: address.parse().unwrap(),
            scope: 0,
            netmask: Some(netmask.parse().unwrap()),
        }
    }

    /// A login-node-like machine: everything that can be in the way.
    fn machine() -> Vec<Interface> {
        vec![
            face("lo", "127.0.0.1", "255.0.0.0"),
            face("docker0", "172.17.0.1", "255.255.0.0"),
            face("virbr0", "192.168.122.1", "255.255.255.0"),
            face("eth0", "10.0.0.5", "255.255.255.0"),
            face("eth1", "10.1.0.5", "255.255.0.0"),
            face("lo", "::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            face("eth0", "2001:db8::5", "ffff:ffff:ffff:ffff::"),
            face("eth1", "fe80::5", "ffff:ffff:ffff:ffff::"),
        ]
    }

    fn names(interfaces: Vec<Interface>) -> Vec<String> {
        interfaces.into_iter().map(|i| i.name).collect()
    }

    #[test]
    fn prefix_lists() {
        let cases = [
            ("eth", "eth0", true),
            ("eth", "meth0", false),
            ("eth,ib", "ib1", true),
            ("=eth0", "eth0", true),
            ("=eth0", "eth01", false),
            ("=eth0,ib0", "ib0", true),
            ("^docker,lo", "lo", false),
            ("^docker,lo", "eth0", true),
            ("^docker", "docker0", false),
            ("^=lo", "lo", false),
            ("^=lo", "lo1", true),
            ("", "anything", true),
            ("^", "anything", true),
            (" eth , ib ", "ib0", true),
            ("=^eth0", "^eth0", true),
        ];
        for (list, name, expected) in cases {
            assert_eq!(matches(list, name), expected, "list {list:?} name {name:?}");
        }
    }

    #[test]
    fn default_order() {
        let mut found = machine();
        let pick = |found: &[Interface], meeting: Option<&str>| {
            let meeting = meeting.map(|text| text.parse().unwrap());
            names(choose(found, Family::Any, None, meeting).unwrap())
        };
        assert_eq!(pick(&found, None), ["eth0", "eth1"]);
        assert_eq!(pick(&found, Some("10.1.77.3")), ["eth1"]);
        assert_eq!(pick(&found, Some("172.17.9.9")), ["docker0"]);
        assert_eq!(pick(&found, Some("8.8.8.8")), ["eth0", "eth1"]);
        found.push(face("ib0", "10.9.0.5", "255.255.0.0"));
        assert_eq!(pick(&found, Some("10.1.77.3")), ["ib0"]);
        found.retain(|i| !i.name.starts_with("eth") && !i.name.starts_with("ib"));
        assert_eq!(pick(&found, None), ["docker0"]);
        found.retain(|i| i.name != "docker0");
        assert_eq!(pick(&found, None), ["lo"]);
        found.retain(|i| i.name != "lo");
        assert_eq!(pick(&found, None), ["virbr0"]);
        found.clear();
        assert!(choose(&found, Family::Any, None, None).is_err());
    }

    #[test]
    fn families_and_useless_addresses() {
        let found = machine();
        let six = choose(&found, Family::V6, None, None).unwrap();
        assert_eq!(six.len(), 1);
        assert_eq!(six[0].address, "2001:db8::5".parse::<IpAddr>().unwrap());
        // Link-local addresses count once they have a zone.
        let mut zoned = found.clone();
        zoned[7].scope = 3;
        let six = choose(&zoned, Family::V6, None, None).unwrap();
        assert_eq!(names(six.clone()), ["eth0", "eth1"]);
        assert_eq!(six[1].socket_address(9), "[fe80::5%3]:9".parse().unwrap());
        let lo = choose(&found, Family::V6, Some("lo"), None).unwrap_err();
        assert!(lo.what.contains("lo") && lo.remedy.contains("KOLO_SOCKET_IFNAME"));
    }

    #[test]
    fn one_address_a_name_and_a_bound() {
        let found = machine();
        let four = choose(&found, Family::Any, Some("^"), None).unwrap();
        assert_eq!(names(four), ["lo", "docker0", "virbr0", "eth0", "eth1"]);
        let many: Vec<Interface> = (0..100)
            .map(|n| face(&format!("veth{n}"), "10.2.0.1", "255.0.0.0"))
            .chain([face("eth0", "10.0.0.1", "255.0.0.0")])
            .collect();
        assert_eq!(usable(&many, Family::Any).len(), MAX_IFS);
        let eth = choose(&many, Family::Any, Some("=eth0"), None).unwrap();
        assert_eq!(names(eth), ["eth0"]);
    }

    #[test]
    fn subnets() {
        let eth = face("eth0", "10.0.0.5", "255.255.255.0");
        assert!(eth.same_subnet("10.0.0.200".parse().unwrap()));
        assert!(!eth.same_subnet("10.0.1.5".parse().unwrap()));
        assert!(!eth.same_subnet("2001:db8::5".parse().unwrap()));
        let six = face("eth0", "2001:db8:0:1::5", "ffff:ffff:ffff:ffff::");
        assert!(six.same_subnet("2001:db8:0:1:9::".parse().unwrap()));
        assert!(!six.same_subnet("2001:db8:0:2::5".parse().unwrap()));
    }

    #[test]
    fn family_words() {
        assert_eq!("".parse::<Family>().unwrap(), Family::Any);
        assert_eq!("AF_INET".parse::<Family>().unwrap(), Family::V4);
        assert_eq!("af_inet6".parse::<Family>().unwrap(), Family::V6);
        let error = "ipx".parse::<Family>().unwrap_err();
        assert!(error.what.contains("ipx") && error.remedy.contains("AF_INET6"));
    }

    #[test]
    fn this_machine_has_a_loopback_that_can_be_chosen() {
        let found = discover().unwrap();
        let lo = choose(&found, Family::V4, Some("=lo"), None).unwrap();
        assert!(lo[0].address.is_loopback());
        assert!(lo[0].same_subnet("127.0.0.77".parse().unwrap()));
    }
}
