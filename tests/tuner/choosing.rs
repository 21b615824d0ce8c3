//! Worth of estimates as a choice: over a grid of shapes, the simulated time of what they choose
//! against the least simulated time of all.
//!
//! Two estimates are compared: the closed forms, which kolo has, and a walk of the plans of all
//! ranks, which would need no form. The walk is the simulator over at most [`MANY`] rounds; where a
//! call has more, they follow at the pace of the last ones. `docs/tuning.md` says what came out,
//! and `benches/prices.rs` what either costs.

use crate::support::{SIZES, setting, simulated};
use crate::{is_skipped, machines};
use kolo::algo::{Entry, REGISTRY};
use kolo::plan::window::Binding;
use kolo::plan::{Collective, Nodes, Shape, Window};
use kolo::price::{Cluster, Costs};
use kolo::tune::{self, ProtocolChoice, Setting};

/// A choice is good if it takes at most this many times the least time ...
const GOOD: f64 = 1.2;
/// ... at most one choice of so many is not ...
const ONE_OF: usize = 20;
/// ... and none takes longer than this many times.
const MOST: f64 = 2.1;

/// Rounds of a walk, and from which one on the pace is taken.
const MANY: u64 = 10;
const FEW: u64 = 4;

/// Shapes beside those on which every form is held against the simulator.
fn others() -> Vec<Cluster> {
    let two_sockets = |nodes, per_node| Cluster {
        sockets: 2,
        ..Cluster::uniform(nodes, per_node)
    };
    vec![
        Cluster::uniform(1, 4),
        Cluster::uniform(1, 5),
        Cluster::one_node(6, 3),
        two_sockets(1, 16),
        Cluster::uniform(8, 1),
        Cluster::uniform(7, 1),
        Cluster::uniform(2, 8),
        Cluster::uniform(5, 3),
        two_sockets(8, 4),
    ]
}

/// The rounds of a call.
fn rounds(entry: &Entry, bytes: usize, setting: &Setting) -> u64 {
    let (collective, algorithm) = (entry.collective, entry.algorithm);
    let nranks = setting.machine.nranks();
    let shape = Shape {
        collective,
        algorithm,
        rank: 0,
        nranks,
        root: 0,
        channels: entry.channels,
    };
    let nodes = Nodes::uniform(setting.machine.nodes, setting.machine.per_node);
    let plan = (entry.plan)(&shape, &nodes);
    let protocol = ProtocolChoice::of(collective, algorithm);
    let memory = (setting.buffer_bytes, setting.eager_bytes);
    let geometry = tune::geometry(collective, algorithm, protocol, memory);
    let binding = Binding {
        count: bytes / 4,
        element_bytes: 4,
        input_blocks: collective.input_blocks(nranks),
        output_blocks: collective.output_blocks(nranks),
        lane: 0,
        lanes: plan.channels(),
        pieces: plan.pieces,
    };
    Window::bind(plan.layout, plan.chunks, &geometry, &binding).rounds()
}

/// The time by a walk; `known` is that of all rounds.
fn walked(entry: &Entry, bytes: usize, setting: &Setting, known: f64) -> f64 {
    let rounds = rounds(entry, bytes, setting);
    if rounds <= MANY {
        return known;
    }
    let part = |walked: u64| {
        let bytes = bytes / rounds as usize * walked as usize;
        simulated(entry.collective, way(entry), bytes, entry.channels, setting)
    };
    let (few, many) = (part(FEW), part(MANY));
    many + (rounds - MANY) as f64 * (many - few) / (MANY - FEW) as f64
}

fn way(entry: &Entry) -> (kolo::plan::Algorithm, ProtocolChoice) {
    let protocol = ProtocolChoice::of(entry.collective, entry.algorithm);
    (entry.algorithm, protocol)
}

/// Choices of one estimate, and how many times the least time each takes.
#[derive(Default)]
struct Choices {
    all: Vec<(f64, String)>,
}

impl Choices {
    /// Of `ways` (name, simulated time, estimate) the one with the least estimate.
    fn add(&mut self, ways: &[(&str, f64, f64)], call: &str) {
        let least = |key: fn(&(&str, f64, f64)) -> f64| {
            let least = ways.iter().min_by(|a, b| key(a).total_cmp(&key(b)));
            *least.expect("some way")
        };
        let (best, chosen) = (least(|way| way.1), least(|way| way.2));
        let text = format!(
            "{call}: {} takes {:.0}, estimated {:.0}; {} takes {:.0}, estimated {:.0}",
            chosen.0, chosen.1, chosen.2, best.0, best.1, best.2
        );
        self.all.push((chosen.1 / best.1, text));
    }

    /// Prints the worst, and asserts that few are bad.
    fn judge(mut self, what: &str) {
        self.all.sort_by(|a, b| b.0.total_cmp(&a.0));
        let bad = self.all.iter().filter(|(ratio, _)| *ratio > GOOD).count();
        for (ratio, text) in self.all.iter().take(bad) {
            println!("{ratio:.2} {text}");
        }
        let (worst, text) = &self.all[0];
        let all = self.all.len();
        println!("{what}: {bad} of {all} choices above {GOOD}, the worst {worst:.2}");
        assert!(bad * ONE_OF <= all, "{what}: {bad} of {all}");
        assert!(*worst <= MOST, "{what}: {worst:.2} {text}");
    }
}

fn judge(machines: &[Cluster], what: &str) {
    let (mut forms, mut walks) = (Choices::default(), Choices::default());
    for machine in machines {
        let setting = setting(machine.clone(), Costs::default());
        let calls = Collective::ALL
            .into_iter()
            .flat_map(|c| SIZES.map(|bytes| (c, bytes)));
        for (collective, bytes) in calls {
            let (mut form, mut walk) = (Vec::new(), Vec::new());
            let meant = |entry: &&Entry| {
                entry.collective == collective && !is_skipped(entry, bytes, &setting)
            };
            for entry in REGISTRY.iter().filter(meant) {
                let (way, channels) = (way(entry), entry.channels);
                let known = simulated(collective, way, bytes, channels, &setting);
                let name = entry.algorithm.name();
                if let Some(time) = tune::predict(collective, way, bytes, channels, &setting) {
                    form.push((name, known, time));
                }
                walk.push((name, known, walked(entry, bytes, &setting, known)));
            }
            // Where there is one way there is no choice.
            if form.len() > 1 {
                let call = format!("{} of {bytes} bytes, {machine:?}", collective.name());
                forms.add(&form, &call);
                walks.add(&walk, &call);
            }
        }
    }
    walks.judge(&format!("walks of {what}"));
    forms.judge(&format!("forms of {what}"));
}

#[test]
fn choices_are_good_on_the_machines_of_the_forms() {
    judge(&machines(), "the machines of the forms");
}

#[test]
fn choices_are_good_on_other_machines() {
    judge(&others(), "other machines");
}
