//! A root on a machine with several interfaces: all are known, and the port is open at the first of
//! them alone.

use super::support::*;
use kolo::base::interfaces;
use kolo::bootstrap::{Family, NetSettings, UniqueId};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

/// The names in the system's order, the user's list, and the interface that carries the port.
const MACHINES: [([&str; 2], Option<&str>, &str); 7] = [
    (["eno1", "eno2"], None, "eno1"),
    (["eno2", "eno1"], None, "eno2"),
    (["docker0", "eno1"], None, "eno1"),
    (["eth0", "ib0"], None, "ib0"),
    (["eno1", "eno2"], Some("=eno2"), "eno2"),
    (["eno1", "eno2"], Some("eno2,eno1"), "eno1"),
    (["eno1", "eno2"], Some("^eno1"), "eno2"),
];

fn ip(words: &str) -> bool {
    let output = Command::new("ip").args(words.split(' ')).output();
    output.is_ok_and(|output| output.status.success())
}

/// Gives this thread a network of its own with both ends of one cable, each an interface; their
/// addresses. Other machines have others: the roots of one process share the port of an address.
fn two_interfaces([first, second]: [&str; 2], machine: usize) -> Option<[IpAddr; 2]> {
    let places = [2 * machine, 2 * machine + 1].map(|net| [10, 66, net as u8, 1]);
    let [here, there] = places.map(IpAddr::from);
    let made = own_network()
        && [
            format!("link add {first} index 11 type veth peer name {second} index 12"),
            format!("address add {here}/24 dev {first}"),
            format!("address add {there}/24 dev {second}"),
            format!("link set {first} up"),
            format!("link set {second} up"),
        ]
        .iter()
        .all(|words| ip(words));
    made.then_some([here, there])
}

/// False where no such machine can be made.
fn is_right(machine: usize) -> bool {
    let (names, list, carrier) = MACHINES[machine];
    let Some(places) = two_interfaces(names, machine) else {
        return false;
    };
    let told = format!("{names:?}, KOLO_SOCKET_IFNAME={list:?}");
    let settings = NetSettings {
        socket_ifname: list.map(str::to_owned),
        ..settings()
    };
    let cards = interfaces::table(Family::V4, list).unwrap().cards;
    for name in names {
        let is_known = cards.iter().any(|card| card.name == name);
        assert_eq!(
            is_known,
            interfaces::matches(list.unwrap_or(""), name),
            "{told}"
        );
    }
    let id = UniqueId::create(&settings).unwrap();
    let (mut open, port) = (Vec::new(), id.address().port());
    for (name, place) in names.into_iter().zip(places) {
        let limit = Duration::from_secs(5);
        let made = TcpStream::connect_timeout(&SocketAddr::new(place, port), limit);
        open.extend(made.is_ok().then_some((name, place)));
    }
    assert_eq!(open, [(carrier, id.address().ip())], "{told}");
    let ranks = [0, 1].map(|rank| start(id, rank, 2, settings.clone()));
    let members = ranks.map(|rank| rank.join().unwrap().unwrap());
    each(&members, check_exchange);
    true
}

#[test]
fn a_root_listens_at_the_first_of_two_interfaces() {
    within(60, || {
        for machine in 0..MACHINES.len() {
            // Its network belongs to this thread.
            let made = std::thread::spawn(move || is_right(machine)).join();
            if !made.unwrap() {
                let why = "no virtual cable can be made (it needs root and `ip`)";
                crate::skip::skip("root-interfaces", why);
                return;
            }
        }
    });
}
