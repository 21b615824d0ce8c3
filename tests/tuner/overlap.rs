//! Estimates of hierarchies between nodes, whose levels overlap: over slots and of mapped buffers.

use crate::drawn;
use crate::support::{Shown, setting, simulated};
use kolo::plan::{Algorithm, Collective};
use kolo::price::{Cluster, Costs};
use kolo::tune::{self, ProtocolChoice, Setting};

/// Every estimate is within this factor of the simulated time ...
const MOST: f64 = 1.5;
/// ... and half of them within this one.
const MIDDLE: f64 = 1.1;
/// So many calls are drawn.
const DRAWN: usize = 60;
/// Tokens of columns that a simulation may take, about: of those that are drawn, and of all.
const TOKENS: [f64; 2] = [1e5, 3e5];

const NODES: [u32; 5] = [2, 3, 4, 16, 64];
const SIZES: [usize; 8] = [
    8,
    1 << 10,
    16 << 10,
    128 << 10,
    1 << 20,
    4 << 20,
    16 << 20,
    64 << 20,
];

/// Ranks of a node, by caches and sockets: all in one cache, seen or not.
fn nodes_of(nodes: u32) -> Vec<Cluster> {
    let flat = [1, 2, 4, 8, 128].map(|per_node| Cluster::uniform(nodes, per_node));
    let with = |per_node, sockets, caches| Cluster {
        sockets,
        caches,
        ..Cluster::uniform(nodes, per_node)
    };
    let seen = [(4, 2, 1), (8, 2, 2), (16, 2, 1), (128, 2, 8)];
    let seen = seen.map(|(per_node, sockets, caches)| with(per_node, sockets, caches));
    let two_interfaces = Cluster {
        nics: 2,
        ..Cluster::uniform(nodes, 8)
    };
    let crowded = Cluster {
        cores: 2,
        ..Cluster::uniform(nodes, 4)
    };
    let uneven = with(6, 2, 2);
    flat.into_iter()
        .chain(seen)
        .chain([two_interfaces, crowded, uneven])
        .collect()
}

#[derive(Clone)]
struct Case {
    setting: Setting,
    bytes: usize,
    channels: u16,
}

impl Case {
    fn tokens(&self) -> f64 {
        let machine = &self.setting.machine;
        let columns = f64::from(machine.per_node);
        let of_rank = 4.0 * columns + 4.0 * f64::from(machine.nodes).log2();
        let lanes = (self.bytes as f64 / columns / 256e3).max(f64::from(self.channels));
        lanes * of_rank * f64::from(machine.nranks())
    }
}

#[test]
fn estimates_know_that_levels_overlap() {
    let most = TOKENS[usize::from(drawn::is_full())];
    let machines = NODES.into_iter().flat_map(nodes_of);
    let of = |machine: Cluster| {
        let setting = setting(machine, Costs::default());
        let mapped = [false, true].map(|is_mapped| Setting {
            is_mapped,
            ..setting.clone()
        });
        let calls = mapped
            .into_iter()
            .flat_map(|setting| SIZES.map(|bytes| (setting.clone(), bytes)));
        let case = |(setting, bytes): (Setting, usize)| {
            [1, 2, 8].map(|channels| Case {
                setting: setting.clone(),
                bytes,
                channels,
            })
        };
        calls.flat_map(case).collect::<Vec<_>>()
    };
    let fits = |case: &Case| case.tokens() <= most;
    let all: Vec<Case> = machines.flat_map(of).filter(fits).collect();
    let off = |ratio: f64| ratio.max(1.0 / ratio);
    let mut ratios: Vec<(f64, String)> = Vec::new();
    for case in drawn::of_each("overlap", [all], DRAWN) {
        let (setting, bytes, channels) = (case.setting, case.bytes, case.channels);
        let (collective, algorithm) = (Collective::AllReduce, Algorithm::Hierarchical);
        let protocol = ProtocolChoice::Simple;
        let way = (algorithm, protocol);
        let estimate = tune::predict(collective, way, bytes, channels, &setting).expect("a form");
        let known = simulated(collective, way, bytes, channels, &setting);
        let shown = Shown {
            collective,
            algorithm,
            protocol,
            machine: setting.machine,
            bytes,
            known,
            estimate,
        };
        let how = if setting.is_mapped { "mapped" } else { "slots" };
        let text = format!("{shown}, {how}, {channels} channels");
        ratios.push((estimate / known, text));
    }
    ratios.sort_by(|a, b| off(a.0).total_cmp(&off(b.0)));
    for (ratio, shown) in ratios.iter().rev().take(10) {
        println!("{ratio:.2} {shown}");
    }
    let (worst, shown) = ratios.last().expect("something was compared");
    let middle = off(ratios[ratios.len() / 2].0);
    println!("{} compared, half within {middle:.2}", ratios.len());
    assert!(
        middle <= MIDDLE,
        "half of the estimates are off by {middle:.2}"
    );
    assert!(off(*worst) <= MOST, "{worst:.2} {shown}");
}
