//! Ways between nodes that are made up and drawn.

use super::super::Family;
use super::super::cards;
use super::super::face::{Interface, Signs};
use super::*;
use std::net::Ipv4Addr;

fn face(name: &str, text: &str) -> Interface {
    let (ip, prefix) = text.split_once('/').unwrap();
    let (ip, prefix): (IpAddr, u32) = (ip.parse().unwrap(), prefix.parse().unwrap());
    let ones = |width: u32| u128::MAX.checked_shl(width - prefix).unwrap_or(0);
    let netmask = match ip {
        IpAddr::V4(_) => IpAddr::from(Ipv4Addr::from(ones(32) as u32)),
        IpAddr::V6(_) => IpAddr::from(std::net::Ipv6Addr::from(ones(128))),
    };
    Interface {
        name: name.into(),
        address: ip,
        scope: u32::from(ip.to_string().starts_with("fe80")) * 7,
        netmask: Some(netmask),
        signs: Signs::default(),
    }
}

/// A node with these interfaces; `!` before a name: without a signal.
fn node(machine: u64, faces: &[(&str, &str)]) -> FaceTable {
    let found = faces.iter().map(|(name, text)| {
        let signal = !name.starts_with('!');
        let mut face = face(name.trim_start_matches('!'), text);
        face.signs.signal = signal;
        face
    });
    let found: Vec<Interface> = found.collect();
    FaceTable {
        machine,
        is_named: false,
        cards: cards(&found, Family::Any, None, None),
    }
}

/// The best ways, as `eth0 > eth1`.
fn shown(from: &FaceTable, to: &FaceTable) -> Vec<String> {
    let all = ways(from, to, &Barred::new());
    let name = |table: &FaceTable, at: usize| table.cards[at].name.clone();
    let shown = best(&all).iter();
    let shown = shown.map(|way| format!("{} > {}", name(from, way.exit), name(to, way.entry)));
    shown.collect()
}

#[test]
fn equal_addresses_lead_nowhere_but_within_a_machine() {
    let faces = |number: u8| {
        let own = format!("10.0.0.{number}/24");
        node(
            u64::from(number),
            &[
                ("docker0", "172.17.0.1/16"),
                ("tun0", "10.8.0.1/24"),
                ("enp7s0", "192.168.50.1/24"),
                ("vethab12", "fe80::1/64"),
                ("eth0", &own),
            ],
        )
    };
    assert_eq!(shown(&faces(1), &faces(2)), ["eth0 > eth0"]);
    let alone = [("docker0", "172.17.0.1/16"), ("lo", "127.0.0.1/8")];
    assert_eq!(shown(&node(1, &alone), &node(2, &alone)), [""; 0]);
    assert_eq!(
        shown(&node(1, &alone), &node(1, &alone)),
        ["docker0 > docker0"]
    );
    assert_eq!(shown(&node(0, &alone), &node(0, &alone)), [""; 0]);
    let named = |number| FaceTable {
        is_named: true,
        ..node(number, &alone)
    };
    assert_eq!(shown(&named(1), &named(2)), ["docker0 > docker0"]);
}

#[test]
fn any_address_and_either_family_may_join_two_nodes() {
    let one = node(1, &[("eth0", "172.30.1.1/24"), ("eth0", "10.0.0.1/24")]);
    let other = node(2, &[("eth7", "fd00::2/64"), ("eth7", "10.0.0.2/24")]);
    assert_eq!(shown(&one, &other), ["eth0 > eth7"]);
    let used_of =
        |mine: &FaceTable, other: &FaceTable| used(mine, &[other], &Barred::new()).unwrap();
    assert_eq!(used_of(&one, &other)[0].places.len(), 1);
    let six = node(3, &[("eth0", "fd00::3/64")]);
    assert_eq!(shown(&six, &other), ["eth0 > eth7"]);
    assert_eq!(used(&six, &[&one], &Barred::new()), Err(0));
    // Addresses of the link are what is left.
    let link = |number: u64| node(number, &[("eth0", &format!("fe80::{number}/64"))]);
    assert_eq!(shown(&link(1), &link(2)), ["eth0 > eth0"]);
}

#[test]
fn a_dead_cable_leaves_the_other_rail() {
    let rails = |number: u8, second: &str| {
        let (first, other) = (format!("10.0.0.{number}/24"), format!("10.1.0.{number}/24"));
        let link = [0, 1].map(|rail| format!("fe80::{rail}:{number}/64"));
        let faces: [(&str, &str); 4] = [
            ("eth0", &first),
            ("eth0", &link[0]),
            (second, &other),
            (second, &link[1]),
        ];
        node(u64::from(number), &faces)
    };
    let (one, two, dead) = (rails(1, "eth1"), rails(2, "eth1"), rails(3, "!eth1"));
    assert_eq!(shown(&one, &two), ["eth0 > eth0", "eth1 > eth1"]);
    assert_eq!(shown(&one, &dead), ["eth0 > eth0"]);
    let names = |cards: Vec<FaceCard>| cards.into_iter().map(|it| it.name).collect::<Vec<_>>();
    let none = Barred::new();
    assert_eq!(
        names(used(&one, &[&two, &dead], &none).unwrap()),
        ["eth0", "eth1"]
    );
    assert_eq!(names(used(&dead, &[&one, &two], &none).unwrap()), ["eth0"]);
    // Both first rails were tried in vain: what has no signal is tried last.
    let pair = |a: &str, b: &str| (a.parse().unwrap(), b.parse().unwrap());
    let barred = Barred::from([pair("10.0.0.1", "10.0.0.3"), pair("10.0.0.3", "10.0.0.1")]);
    let all = ways(&one, &dead, &barred);
    let tiers: Vec<FaceClass> = all.iter().map(|way| way.tier.class).collect();
    assert_eq!(tiers[0], FaceClass::LinkLocal);
    assert_eq!(tiers.last(), Some(&FaceClass::Dark));
}

#[test]
fn routers_join_what_has_no_subnet_in_common() {
    let one = node(1, &[("eth0", "10.1.0.5/24"), ("docker0", "172.17.0.1/16")]);
    let two = node(2, &[("eth0", "10.2.0.5/24"), ("docker0", "172.17.0.2/16")]);
    assert_eq!(shown(&one, &two), ["eth0 > eth0"]);
    // The bridges seem to be in one subnet, which is believed last.
    let all = ways(&one, &two, &Barred::new());
    assert!(all[0].tier.is_far && all.iter().any(|way| way.tier.class == FaceClass::Made));
    let lacking = told(&two, &node(3, &[("docker0", "172.17.0.2/16")]));
    assert_eq!(
        lacking,
        "eth0 10.2.0.5/24, docker0 172.17.0.2/16 (which both have)"
    );
}

/// A generator of random numbers (SplitMix64).
fn draw(seed: &mut u64, below: u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*seed ^ (*seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) % below
}

/// Nodes with a network that joins all, and anything beside it: there is always a way, both ends
/// come to the same ones, and none leads to an address that the first node has itself.
#[test]
fn drawn_nodes_always_find_the_network_that_joins_them() {
    for round in 0..2000 {
        let mut seed = round;
        let count = 2 + draw(&mut seed, 3);
        let tables = (1..=count).map(|number| {
            let own = format!("10.77.0.{number}/24");
            let rail = format!("10.77.1.{number}/24");
            let link = format!("fe80::{number}/64");
            let alone = format!("192.168.10{number}.5/24");
            let mut faces: Vec<(&str, &str)> = Vec::new();
            let beside = [
                ("docker0", "172.17.0.1/16"),
                ("!virbr0", "192.168.122.1/24"),
                ("br-77", "192.168.49.1/24"),
                ("tun0", "10.8.0.1/24"),
                ("veth1", "fe80::1/64"),
                ("enp7s0", "192.168.50.1/24"),
                ("enp8s0", alone.as_str()),
                ("eth1", rail.as_str()),
                ("eth1", link.as_str()),
                ("!eth1", rail.as_str()),
                ("lo", "127.0.0.1/8"),
            ];
            for face in beside {
                if draw(&mut seed, 2) == 0 && !faces.iter().any(|(_, text)| *text == face.1) {
                    faces.push(face);
                }
            }
            let at = draw(&mut seed, faces.len() as u64 + 1) as usize;
            faces.insert(at, ("eth0", own.as_str()));
            faces.push(("eth0", link.as_str()));
            node(number, &faces)
        });
        let tables: Vec<FaceTable> = tables.collect();
        for (a, one) in tables.iter().enumerate() {
            for (b, other) in tables.iter().enumerate().filter(|(b, _)| *b != a) {
                let all = ways(one, other, &Barred::new());
                let names = shown(one, other);
                let both = ["eth0 > eth0", "eth1 > eth1"];
                assert!(
                    names.iter().all(|name| both.contains(&name.as_str())),
                    "{round} {a} {b}"
                );
                assert!(
                    names.contains(&both[0].to_string()),
                    "{round} {a} {b}: {names:?}"
                );
                let own = |ip| one.places().any(|(_, place)| place.ip == ip);
                assert!(all.iter().all(|way| !own(way.to.ip)), "{round} {a} {b}");
                let back = ways(other, one, &Barred::new());
                let turned = |way: &NodeWay| (way.to.ip, way.from.ip);
                let here: BTreeSet<_> = all.iter().map(|way| (way.from.ip, way.to.ip)).collect();
                assert_eq!(here, back.iter().map(turned).collect(), "{round} {a} {b}");
            }
        }
    }
}

#[test]
fn many_nodes_try_few_others_and_each_is_tried_as_often() {
    assert_eq!(partners(1, 4, 64), [0, 2, 3]);
    assert!(partners(0, 1, 64).is_empty());
    for count in [65, 100, 1024] {
        let mut tried = vec![0; count];
        for me in 0..count {
            for other in partners(me, count, 64) {
                assert_ne!(me, other);
                tried[other] += 1;
            }
        }
        let wanted = count.next_power_of_two().ilog2();
        assert!(tried.iter().all(|&times| times == wanted), "{count}");
    }
}
