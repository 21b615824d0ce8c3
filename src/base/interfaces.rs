//! Which network interfaces to use, and in which order.
//!
//! Problem: a node has several (`ib0`, `eth0`, `docker0`, `lo`), some with several addresses, some
//! without a signal, and all ranks must meet on a network that they share. Idea: discovery reads
//! them from the system ([`system`]); everything after that is a pure function over a list, so that
//! it is tested with invented machines. Each interface has a class ([`class`]), better ones first.
//! The best class of a node is what it uses alone: its first interface carries the bootstrap. What
//! two nodes use between them follows from the tables of both ([`ways`]).

pub mod class;
pub mod face;
mod system;
pub mod ways;

use super::{Error, Result};
use class::FaceClass;
use face::FaceAddress;
pub use face::{Interface, MAX_IFS};
use std::net::IpAddr;
pub use system::{discover, machine};
use ways::{FaceCard, FaceTable};

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

/// Whether a socket can use an address: it is of a wanted family, no IPv6 loopback, and has a zone
/// where it is valid on one link only.
fn is_usable(interface: &Interface, family: Family) -> bool {
    let is_plain = match interface.address {
        IpAddr::V4(_) => true,
        IpAddr::V6(v6) => {
            let link_local = v6.is_unicast_link_local();
            !(v6.is_loopback() || link_local && interface.scope == 0)
        }
    };
    is_plain && family.takes(interface.address)
}

/// Whether a list of the user names interfaces, and does not only exclude some.
pub fn is_naming(list: Option<&str>) -> bool {
    list.is_some_and(|list| !list.trim().is_empty() && !list.trim().starts_with('^'))
}

/// All interfaces that may be used, each with all of its usable addresses, best first, at most
/// [`MAX_IFS`]. `list` is the user's choice: what it names is equal among itself, and what it
/// excludes comes on top of what the classes put last. `meeting_point` is the address of an
/// explicit `KOLO_COMM_ID`.
pub fn cards(
    found: &[Interface],
    family: Family,
    list: Option<&str>,
    meeting_point: Option<IpAddr>,
) -> Vec<FaceCard> {
    let is_named = is_naming(list);
    let mut cards: Vec<FaceCard> = Vec::new();
    for one in found {
        let is_chosen = matches(list.unwrap_or_default(), &one.name);
        if !is_chosen || !is_usable(one, family) || cards.iter().any(|it| it.name == one.name) {
            continue;
        }
        let of_name = |it: &&Interface| it.name == one.name && is_usable(it, family);
        let all: Vec<&Interface> = found.iter().filter(of_name).collect();
        let is_near = meeting_point.is_some_and(|at| all.iter().any(|it| it.same_subnet(at)));
        let mut places: Vec<FaceAddress> = all.iter().map(|it| FaceAddress::of(it)).collect();
        // Addresses of the link are the last ones, and the meeting point's is the first.
        let is_far = |place: &FaceAddress| meeting_point.is_some_and(|at| !place.is_near(at));
        places.sort_by_key(|place| (place.is_of_link(), is_far(place)));
        cards.push(FaceCard {
            name: one.name.clone(),
            class: FaceClass::of(&one.name, &places, one.signs, (is_named, is_near)),
            places,
        });
    }
    cards.sort_by_key(|card| card.class);
    cards.truncate(MAX_IFS);
    cards
}

/// The interfaces of a node's best class, each with its first address; never empty. See [`cards`].
pub fn choose(
    found: &[Interface],
    family: Family,
    list: Option<&str>,
    meeting_point: Option<IpAddr>,
) -> Result<Vec<Interface>> {
    let cards = cards(found, family, list, meeting_point);
    let Some(first) = cards.first() else {
        let list = list.unwrap_or_default().trim();
        let why = match list.is_empty() {
            true => "none is usable".into(),
            false => format!("KOLO_SOCKET_IFNAME=\"{list}\" matches none"),
        };
        return Err(nothing(found, &why));
    };
    let best = cards.iter().filter(|card| card.class == first.class);
    let interface = |card: &FaceCard| {
        let ip = card.places.first()?.ip;
        let is_it = |one: &&Interface| one.name == card.name && one.address == ip;
        found.iter().find(is_it).cloned()
    };
    Ok(best.filter_map(interface).collect())
}

/// The table of this node, which others are told: see [`cards`].
pub fn table(family: Family, list: Option<&str>) -> Result<FaceTable> {
    let table = FaceTable {
        machine: machine(),
        is_named: is_naming(list),
        cards: cards(&discover()?, family, list, None),
    };
    Ok(table.shortened())
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

#[cfg(test)]
mod tests {
    use super::*;
    use face::Signs;

    fn face(name: &str, address: &str, netmask: &str) -> Interface {
        Interface {
            name: name.into(),
            address: address.parse().unwrap(),
            scope: 0,
            netmask: Some(netmask.parse().unwrap()),
            signs: Signs::default(),
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
        assert_eq!(pick(&found, Some("10.1.77.3")), ["eth1"]);
        assert_eq!(pick(&found, None), ["ib0"]);
        found.retain(|i| !i.name.starts_with("eth") && !i.name.starts_with("ib"));
        assert_eq!(pick(&found, None), ["docker0", "virbr0"]);
        found.retain(|i| i.name == "lo" || i.name == "virbr0");
        found[1].signs.signal = false;
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
        assert_eq!(
            names(six),
            ["eth0"],
            "the other has an address of its link only"
        );
        let six = choose(&zoned, Family::V6, Some("=eth1"), None).unwrap();
        assert_eq!(six[0].socket_address(9), "[fe80::5%3]:9".parse().unwrap());
        let lo = choose(&found, Family::V6, Some("lo"), None).unwrap_err();
        assert!(lo.what.contains("lo") && lo.remedy.contains("KOLO_SOCKET_IFNAME"));
    }

    #[test]
    fn all_addresses_of_a_name_and_a_bound() {
        let found = machine();
        let all = cards(&found, Family::Any, None, None);
        let shown = all
            .iter()
            .map(|card| (card.name.as_str(), card.places.len()));
        let wanted = [
            ("eth0", 2),
            ("eth1", 1),
            ("docker0", 1),
            ("virbr0", 1),
            ("lo", 1),
        ];
        assert_eq!(shown.collect::<Vec<_>>(), wanted);
        let many: Vec<Interface> = (0..100)
            .map(|n| face(&format!("veth{n}"), "10.2.0.1", "255.0.0.0"))
            .chain([face("eth0", "10.0.0.1", "255.0.0.0")])
            .collect();
        let all = cards(&many, Family::Any, None, None);
        assert!(all.len() == MAX_IFS && all[0].name == "eth0");
        let eth = choose(&many, Family::Any, Some("=eth0"), None).unwrap();
        assert_eq!(names(eth), ["eth0"]);
    }

    /// Exclusions come on top of what is never first.
    #[test]
    fn an_exclusion_brings_back_neither_the_loopback_nor_a_bridge() {
        let found = machine();
        let pick = |list: &str| names(choose(&found, Family::Any, Some(list), None).unwrap());
        assert_eq!(pick("^eth1"), ["eth0"]);
        assert_eq!(pick("^docker0"), ["eth0", "eth1"]);
        assert_eq!(pick("^"), ["eth0", "eth1"]);
        assert_eq!(pick("^eth"), ["docker0", "virbr0"]);
        assert_eq!(pick("lo,docker"), ["lo", "docker0"], "named by the user");
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
