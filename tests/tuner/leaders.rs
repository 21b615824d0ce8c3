//! Estimates of leaders where ranks share cores, and nodes a wire.

use crate::drawn;
use crate::support::{Shown, setting, simulated};
use kolo::algo::REGISTRY;
use kolo::plan::{Algorithm, Collective};
use kolo::price::{Cluster, Costs};
use kolo::tune::{self, ProtocolChoice};

/// Every estimate is within this factor of the simulated time.
const MOST: f64 = 1.6;
/// Half of them are within this one.
const MIDDLE: f64 = 1.2;
const DRAWN: usize = 200;

/// A few nodes, on which up to 24 ranks have a core each or share some.
fn drawn_machine(random: &mut fastrand::Rng) -> Cluster {
    let (nodes, per_node) = (random.u32(1..=8), random.u32(2..=24));
    Cluster {
        cores: if random.bool() {
            random.u32(1..per_node)
        } else {
            0
        },
        ..Cluster::uniform(nodes, per_node)
    }
}

#[test]
fn leaders_are_priced_where_ranks_share_cores() {
    let mut random = drawn::random("leaders");
    let leaders = REGISTRY
        .iter()
        .filter(|entry| entry.algorithm == Algorithm::Leader);
    let leaders: Vec<_> = leaders.collect();
    let mut off = Vec::new();
    for _ in 0..DRAWN {
        let entry = leaders[random.usize(..leaders.len())];
        let collective = entry.collective;
        let bytes = match collective {
            Collective::Barrier => 4,
            _ => [8, 512, 4 << 10, 64 << 10, 1 << 20][random.usize(..5)],
        };
        let costs = match random.bool() {
            true => Costs::default().over_sockets(),
            false => Costs::default(),
        };
        let setting = setting(drawn_machine(&mut random), costs);
        let way = (
            entry.algorithm,
            ProtocolChoice::of(collective, entry.algorithm),
        );
        let estimate = tune::predict(collective, way, bytes, entry.channels, &setting);
        let known = simulated(collective, way, bytes, entry.channels, &setting);
        let shown = Shown {
            collective,
            algorithm: way.0,
            protocol: way.1,
            machine: setting.machine.clone(),
            bytes,
            known,
            estimate: estimate.expect("leaders have a form"),
        };
        let ratio = shown.estimate / known;
        off.push((ratio.max(1.0 / ratio), shown));
    }
    off.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (most, worst) = &off[DRAWN - 1];
    assert!(*most <= MOST, "{most}: {worst}");
    let (middle, shown) = &off[DRAWN / 2];
    assert!(
        *middle <= MIDDLE,
        "half of them are off by {middle}: {shown}"
    );
}
