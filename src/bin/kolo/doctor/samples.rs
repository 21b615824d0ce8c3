//! Facts of a job on which nothing is wrong, for tests to change.

use super::facts::{Face, Gathered, NodeFacts, NodeSeen, RankFacts, Trial, Trials, partners};
use super::finding::Finding;
use crate::ways::JobWays;
use kolo::base::interfaces::class::FaceClass;
use kolo::base::interfaces::face::{FaceAddress, Signs};
use kolo::base::interfaces::ways::FaceCard;
use kolo::bootstrap::reach::Reached;
use std::net::IpAddr;

/// A job of so many nodes called `node1` and so on, with so many ranks each.
pub fn healthy(nodes: usize, per_node: usize) -> Gathered {
    let name = |node: usize| format!("node{}", node + 1);
    let address = |node: usize| IpAddr::from([10, 77, 0, node as u8 + 1]);
    let rank = |number: usize| RankFacts {
        host: name(number / per_node),
        cpus: (number % per_node).to_string(),
        files: Some(65_536),
        processes: Some(65_536),
        ..RankFacts::default()
    };
    let table = |node: usize| {
        let mut seen = NodeSeen::default();
        seen.facts.table.machine = node as u64 + 1;
        lead(&mut seen, "eth0", &format!("{}/24", address(node)));
        seen.facts.table
    };
    let facts = |node: usize| NodeFacts {
        faces: vec![Face {
            name: "eth0".into(),
            address: Some(address(node)),
            prefix: 24,
            up: true,
            carrier: Some(true),
            dark: None,
            mtu: Some(1500),
            speed: Some(10_000),
        }],
        table: table(node),
        shm: Some((1 << 30, 1 << 30)),
        wants_cma: true,
        cpus: "0-7".into(),
        processor: "Sample CPU".into(),
        builds: [("libkolo.so.0".into(), "0.1.0".into())].into(),
        ..NodeFacts::default()
    };
    let trial = |node: usize| Trial {
        from: "eth0".into(),
        node,
        to: "eth0".into(),
        address: (address(node), 4777).into(),
        answer: Reached::Passed,
    };
    Gathered {
        ways: JobWays::default(),
        ranks: (0..nodes * per_node).map(rank).collect(),
        nodes: (0..nodes)
            .map(|node| NodeSeen {
                name: name(node),
                ranks: (node * per_node..(node + 1) * per_node).collect(),
                facts: facts(node),
                trials: Trials {
                    links: partners(node, nodes).into_iter().map(trial).collect(),
                    names: Vec::new(),
                    clock: (1000.0, 1000.5),
                },
            })
            .collect(),
    }
}

/// Gives the table of a node one more interface, with this address and a port.
pub fn lead(node: &mut NodeSeen, name: &str, text: &str) {
    let (ip, prefix) = text.split_once('/').expect("an address with its prefix");
    let place = FaceAddress {
        ip: ip.parse().expect("an address"),
        prefix: prefix.parse().expect("a prefix"),
        scope: 0,
        port: 4777,
    };
    let places = vec![place];
    let class = FaceClass::of(name, &places, Signs::default(), (false, false));
    let name = name.into();
    node.facts.table.cards.push(FaceCard {
        name,
        class,
        places,
    });
}

/// The findings as they are printed.
pub fn lines(found: &[Finding]) -> String {
    let lines: Vec<String> = found.iter().map(Finding::line).collect();
    lines.join("\n")
}
