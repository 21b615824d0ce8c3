//! The checks of the network, by facts that are made up.

use super::super::facts::{NoFace, settle};
use super::super::samples::{healthy, lead, lines};
use super::*;
use kolo::base::interfaces::face::FaceAddress;

/// Lets a trial of a healthy job end otherwise: from a node to another one, over `eth0`.
fn end(job: &mut Gathered, from: usize, to: usize, answer: Reached) {
    let mut links = job.nodes[from].trials.links.iter_mut();
    links.find(|trial| trial.node == to).unwrap().answer = answer;
}

#[test]
fn a_healthy_network_is_silent() {
    let job = healthy(4, 2);
    let checks = [interfaces, mtu, speed, reach, names, clocks];
    for found in checks.map(|check| check(&job)) {
        assert_eq!(found, []);
    }
}

#[test]
fn an_interface_that_is_down_or_dark_is_told() {
    let mut job = healthy(3, 1);
    let face = &mut job.nodes[1].facts.faces[0];
    (face.up, face.address) = (false, None);
    let found = lines(&interfaces(&job));
    assert!(
        found.starts_with("interface: node2: eth0 is down"),
        "{found}"
    );
    assert!(found.contains("ip link set eth0 up"), "{found}");

    let mut job = healthy(3, 1);
    let face = &mut job.nodes[2].facts.faces[0];
    (face.dark, face.address) = (face.address, None);
    end(&mut job, 0, 2, Reached::NoWay("no route".into()));
    let found = lines(&interfaces(&job));
    assert!(
        found.starts_with("interface: node3: eth0 has no signal"),
        "{found}"
    );
    assert_eq!(reach(&job), [], "its trials are explained");

    let mut job = healthy(3, 1);
    job.nodes[0].facts.faces.clear();
    job.nodes[0].facts.no_face = Some(NoFace {
        what: "no network interface to start on".into(),
        ..NoFace::default()
    });
    let found = lines(&interfaces(&job));
    assert!(
        found.contains("no network interface to start on"),
        "{found}"
    );
    assert!(
        found.contains("there is no interface in 10.77.0.0/24"),
        "{found}"
    );
}

#[test]
fn a_bridge_of_one_node_among_many_is_no_fault_of_the_others() {
    let mut job = healthy(3, 1);
    let bridge = Face {
        name: "br0".into(),
        address: Some("192.168.7.1".parse().unwrap()),
        ..job.nodes[0].facts.faces[0].clone()
    };
    job.nodes[0].facts.faces.push(bridge);
    assert_eq!(interfaces(&job), []);
}

/// Of two nodes one is no majority; where the other has an interface of that name, it is a fault.
#[test]
fn a_bridge_of_one_node_of_two_is_no_fault_of_the_other() {
    let mut job = healthy(2, 1);
    let bridge = Face {
        name: "br0".into(),
        address: Some("192.168.7.1".parse().unwrap()),
        ..job.nodes[0].facts.faces[0].clone()
    };
    job.nodes[0].facts.faces.push(bridge.clone());
    assert_eq!(interfaces(&job), []);
    job.nodes[1].facts.faces.push(Face {
        address: None,
        up: false,
        ..bridge.clone()
    });
    let found = lines(&interfaces(&job));
    assert!(found.contains("node2: br0 is down"), "{found}");
    // Three of four have it.
    let mut job = healthy(4, 1);
    for node in &mut job.nodes[..3] {
        node.facts.faces.push(bridge.clone());
    }
    let found = lines(&interfaces(&job));
    let words = "node4: there is no interface in 192.168.7.";
    assert!(found.contains(words), "{found}");
}

#[test]
fn packets_and_speeds_that_differ_are_told() {
    let mut job = healthy(3, 1);
    job.nodes[2].facts.faces[0].mtu = Some(9000);
    let found = lines(&mtu(&job));
    assert!(
        found.starts_with(
            "MTU: node3: eth0 (10.77.0.0/24) differs: 1500 on node1, node2; 9000 on node3"
        ),
        "{found}"
    );
    assert_eq!(speed(&job), []);
    job.nodes[0].facts.faces[0].speed = Some(1000);
    let found = lines(&speed(&job));
    assert!(found.starts_with("speed: node1: "), "{found}");
    assert!(found.contains("1000 Mbit/s on node1"), "{found}");
}

#[test]
fn the_bad_pair_is_named() {
    let mut job = healthy(4, 1);
    end(&mut job, 1, 3, Reached::Silent);
    let found = lines(&reach(&job));
    assert!(
        found.starts_with("reach: node2, node4: eth0 of node2 does not reach eth0 of node4"),
        "{found}"
    );
    assert!(found.contains("ports are blocked"), "{found}");
    end(&mut job, 1, 3, Reached::Stuck);
    assert!(lines(&reach(&job)).contains("no data pass"));
    end(&mut job, 1, 3, Reached::NoWay("No route to host".into()));
    assert!(lines(&reach(&job)).contains("No route to host"));
}

#[test]
fn a_node_that_nobody_reaches_is_named_once() {
    let mut job = healthy(4, 1);
    for from in [0, 1, 3] {
        end(&mut job, from, 2, Reached::Refused);
    }
    let found = lines(&reach(&job));
    assert!(
        found.starts_with("reach: node3: none of 3 trials reached eth0"),
        "{found}"
    );
    assert_eq!(found.lines().count(), 1, "{found}");
}

#[test]
fn a_node_that_is_cut_off_is_named_once() {
    let mut job = healthy(4, 1);
    for other in [0, 1, 3] {
        end(&mut job, 2, other, Reached::Silent);
    }
    let found = lines(&reach(&job));
    assert!(
        found.starts_with("reach: node3: none of 3 trials from eth0 reached another node: ports"),
        "{found}"
    );
    assert_eq!(found.lines().count(), 1, "{found}");
    for other in [0, 1, 3] {
        end(&mut job, other, 2, Reached::Silent);
    }
    // One pair of others is another matter.
    end(&mut job, 0, 3, Reached::Stuck);
    let found = lines(&reach(&job));
    let said: Vec<&str> = found.lines().collect();
    assert_eq!(said.len(), 2, "{found}");
    let words = "reach: node3: none of 3 trials reached eth0 (10.77.0.3), and it reached nobody:";
    assert!(said[0].starts_with(words), "{found}");
    assert!(
        said[1].starts_with("reach: node1, node4: eth0 of node1 does not reach"),
        "{found}"
    );
}

#[test]
fn names_without_an_address_are_told() {
    let mut job = healthy(3, 1);
    for node in [0, 2] {
        job.nodes[node].trials.names = vec![("node2".into(), "unknown".into())];
    }
    let found = lines(&names(&job));
    assert!(
        found.starts_with("name: node1, node3: node2 has no address here"),
        "{found}"
    );
}

#[test]
fn clocks_are_apart_only_where_that_is_certain() {
    let mut job = healthy(3, 1);
    // It came late: nothing follows from that.
    job.nodes[1].trials.clock = (1009.0, 1010.5);
    job.nodes[0].trials.clock = (1000.0, 1010.5);
    job.nodes[2].trials.clock = (1000.0, 1010.5);
    assert_eq!(clocks(&job), []);
    job.nodes[1].trials.clock = (1039.0, 1040.5);
    let found = lines(&clocks(&job));
    assert!(
        found.contains("that of node2 is at least 28.5 s ahead of that of node1"),
        "{found}"
    );
}

#[test]
fn nodes_that_no_network_joins_are_told_once() {
    let mut job = healthy(4, 1);
    job.nodes[2].facts.table.cards.clear();
    lead(&mut job.nodes[2], "veth0", "fe80::1/64");
    lead(&mut job.nodes[2], "docker0", "172.17.0.1/16");
    for node in [0, 1, 3] {
        lead(&mut job.nodes[node], "docker0", "172.17.0.1/16");
    }
    let found = reach(&job);
    let said = lines(&found);
    assert_eq!(found.len(), 1, "{said}");
    let words = "reach: node3, node1: no network joins them (nor with 2 others): node3 has veth0 \
                 fe80::1/64, docker0 172.17.0.1/16 (which both have); node1 has eth0 10.77.0.1/24";
    assert!(said.starts_with(words), "{said}");
}

/// The ways of two interfaces are one attempt: any of their addresses will do.
#[test]
fn one_of_several_addresses_is_enough() {
    let mut job = healthy(2, 1);
    let mut other = job.nodes[0].trials.links[0].clone();
    other.address = "[fd77::2]:9".parse().unwrap();
    other.answer = Reached::Silent;
    job.nodes[0].trials.links.push(other.clone());
    assert_eq!(reach(&job), []);
    job.nodes[0].trials.links[0].answer = Reached::Silent;
    assert_eq!(reach(&job).len(), 1);
}

/// An interface is told by the address that other nodes reach, not by its first one.
#[test]
fn the_address_that_is_used_counts() {
    let mut job = healthy(3, 1);
    let node = &mut job.nodes[1];
    let face = &mut node.facts.faces[0];
    (face.address, face.prefix) = ("172.30.0.1".parse().ok(), 24);
    let place = node.facts.table.cards[0].places[0];
    node.facts.table.cards[0].places.insert(
        0,
        FaceAddress {
            ip: "172.30.0.1".parse().unwrap(),
            ..place
        },
    );
    settle(&mut job.nodes);
    assert_eq!(interfaces(&job), []);
    assert_eq!(job.nodes[1].facts.faces[0].address, Some(place.ip));
}
