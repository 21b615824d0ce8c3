//! The tuner: its model against the simulator, its choices against what must hold of any choice.

#[path = "tuner/choices.rs"]
mod choices;
#[path = "tuner/choosing.rs"]
mod choosing;
mod counting;
mod drawn;
#[path = "tuner/guidelines.rs"]
mod guidelines;
#[path = "tuner/leaders.rs"]
mod leaders;
#[path = "tuner/many.rs"]
mod many;
#[path = "tuner/placement.rs"]
mod placement;
#[path = "tuner/rails.rs"]
mod rails;
#[path = "tuner/shared.rs"]
mod shared;
#[path = "tuner/support.rs"]
mod support;

use kolo::algo::{Entry, REGISTRY};
use kolo::plan::Collective;
use kolo::price::{Cluster, Costs};
use kolo::tune::{self, ProtocolChoice, Setting};
use std::collections::BTreeSet;
use support::{SIZES, Shown, setting, simulated};

/// Every estimate is within this factor of the simulated time ...
const MOST: f64 = 2.5;
/// ... and half of them within this one.
const MIDDLE: f64 = 1.35;
/// The collectives of each algorithm that have a closed form, which is held to the simulator.
const PRICED: &[(&str, &str)] = &[
    ("binomial", "Broadcast Gather Reduce Scatter"),
    ("bruck", "AllGather AllToAll"),
    ("bundle", "AllToAll Gather ReduceScatter Scatter"),
    ("chain", "Broadcast Exscan Reduce Scan"),
    ("collnet", "AllReduce"),
    ("dissemination", "AllGather Barrier"),
    ("hd", "AllGather AllReduce ReduceScatter"),
    (
        "hier",
        "AllGather AllReduce Barrier Broadcast Reduce ReduceScatter",
    ),
    ("leader", "AllReduce Barrier Broadcast Reduce"),
    ("nvls", "AllGather AllReduce Broadcast ReduceScatter"),
    ("nvlstree", "AllReduce"),
    (
        "oneshot",
        "AllGather AllReduce AllToAll Barrier Broadcast Exscan Reduce ReduceScatter Scan Scatter",
    ),
    ("ordered", "AllReduce Reduce ReduceScatter"),
    ("pairwise", "AllToAll"),
    ("pat", "AllGather ReduceScatter"),
    ("rd", "AllGather AllReduce Barrier Exscan Scan"),
    ("ring", "AllGather AllReduce Broadcast Reduce ReduceScatter"),
    ("tree", "AllReduce Broadcast Reduce"),
    (
        "twoshot",
        "AllGather AllReduce Broadcast Reduce ReduceScatter",
    ),
];
/// At most one algorithm of so many has no closed form.
const FEW: usize = 20;

fn machines() -> Vec<Cluster> {
    vec![
        Cluster::uniform(1, 2),
        Cluster::uniform(1, 8),
        Cluster::one_node(8, 2),
        Cluster {
            sockets: 2,
            caches: 2,
            ..Cluster::uniform(1, 32)
        },
        Cluster::uniform(16, 1),
        Cluster {
            sockets: 2,
            ..Cluster::uniform(4, 8)
        },
        Cluster::uniform(16, 4),
        Cluster::uniform(3, 5),
        Cluster {
            cores: 2,
            ..Cluster::uniform(2, 4)
        },
    ]
}

/// Most bytes, in all blocks, that are simulated here.
const MOST_BYTES: usize = 64 << 20;
/// Most bytes of a call that are simulated over flagged lines.
const MOST_LINES_BYTES: usize = 32 << 10;

/// Nearly every algorithm has a closed form: one that has none is chosen by nobody unasked.
#[test]
fn algorithms_have_closed_forms() {
    let setting = setting(Cluster::uniform(2, 4), Costs::default());
    let has_form = |entry: &&Entry| {
        let way = (entry.algorithm, ProtocolChoice::Simple);
        tune::predict(entry.collective, way, 1024, entry.channels, &setting).is_some()
    };
    let without = || REGISTRY.iter().filter(|entry| !has_form(entry));
    for entry in without() {
        let (collective, algorithm) = (entry.collective.name(), entry.algorithm.name());
        println!("{collective} by {algorithm} has no closed form");
    }
    assert!(without().count() * FEW <= REGISTRY.len());
}

/// Everything that is not simulated by all of that.
fn is_skipped(entry: &Entry, bytes: usize, setting: &Setting) -> bool {
    let n = setting.machine.nranks();
    let blocks = entry.collective.output_blocks(n) * entry.collective.input_blocks(n);
    let in_token = bytes * entry.blocks_in_token(n);
    let eager = entry.most_rounds != 0 && in_token > setting.eager_bytes;
    let empty = entry.collective == Collective::Barrier && bytes > 4;
    let many = n > entry.most_ranks || bytes * blocks as usize > MOST_BYTES;
    entry.collective.is_point_to_point() || eager || empty || many
}

/// The protocols with which an algorithm is simulated at a size.
fn protocols(entry: &Entry, bytes: usize, nranks: u32) -> Vec<ProtocolChoice> {
    let mut all: Vec<_> =
        ProtocolChoice::possible(entry.collective, entry.algorithm, nranks).collect();
    // Flagged lines have small slots, and so many rounds.
    if bytes > MOST_LINES_BYTES {
        all.truncate(1);
    }
    all
}

#[test]
fn the_model_agrees_with_the_simulator() {
    let mut ratios: Vec<(f64, Shown)> = Vec::new();
    let mut priced = BTreeSet::new();
    for machine in machines() {
        let setting = setting(machine.clone(), Costs::default());
        let sizes = |entry: &'static Entry| SIZES.map(|bytes| (entry, bytes));
        for (entry, bytes) in REGISTRY.iter().flat_map(sizes) {
            if is_skipped(entry, bytes, &setting) {
                continue;
            }
            let (collective, algorithm) = (entry.collective, entry.algorithm);
            for protocol in protocols(entry, bytes, machine.nranks()) {
                let way = (algorithm, protocol);
                let channels = entry.channels;
                let estimate = tune::predict(collective, way, bytes, channels, &setting);
                let Some(estimate) = estimate else {
                    continue;
                };
                priced.insert((algorithm.name(), collective.name()));
                let known = simulated(collective, way, bytes, channels, &setting);
                let shown = Shown {
                    collective,
                    algorithm,
                    protocol,
                    machine: machine.clone(),
                    bytes,
                    known,
                    estimate,
                };
                ratios.push((estimate / known, shown));
            }
        }
    }
    // A new algorithm may be without a form; none loses its own, and none has one unseen.
    let listed = PRICED.iter().flat_map(|&(algorithm, collectives)| {
        let pair = move |collective| (algorithm, collective);
        collectives.split_whitespace().map(pair)
    });
    let listed: BTreeSet<(&str, &str)> = listed.collect();
    let lost: Vec<_> = listed.difference(&priced).collect();
    let new: Vec<_> = priced.difference(&listed).collect();
    assert_eq!(
        (lost, new),
        (vec![], vec![]),
        "lost their form; have one now"
    );
    let off = |ratio: f64| ratio.max(1.0 / ratio);
    ratios.sort_by(|a, b| off(a.0).total_cmp(&off(b.0)));
    for (ratio, shown) in ratios.iter().rev().take(40) {
        println!("{ratio:.2} {shown}");
    }
    let (worst, shown) = ratios.last().expect("something was compared");
    let middle = off(ratios[ratios.len() / 2].0);
    println!("{} compared, half within {middle:.2}", ratios.len());
    assert!(off(*worst) <= MOST, "{worst:.2} {shown}");
    assert!(
        middle <= MIDDLE,
        "half of the estimates are off by {middle:.2}"
    );
}
