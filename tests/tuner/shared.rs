//! Estimates on nodes of many ranks, where caches, sockets and memory are shared: one cache, two
//! sockets of caches of eight, in order and dealt to the sockets in turn.

use crate::drawn;
use crate::support::{Shown, inputs, setting, simulated};
use kolo::algo::{Entry, REGISTRY};
use kolo::plan::window::Binding;
use kolo::plan::{Collective, Nodes, Shape, Window};
use kolo::price::{Cluster, Costs, seating};
use kolo::tune::{self, ProtocolChoice, Table};

/// Every estimate is within this factor of the simulated time.
const MOST: f64 = 1.5;
/// Half of them are within this one.
const MIDDLE: f64 = 1.1;
/// Of each algorithm for each collective so many calls are drawn.
const DRAWN: usize = 6;
/// Slices of steps that a simulation may take: of those that are drawn, and of all.
const STEPS: [f64; 2] = [3e5, 3e6];

const RANKS: [u32; 7] = [16, 24, 32, 64, 96, 128, 192];
const SIZES: [usize; 7] = [8, 512, 8 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20];

/// A node of `n` ranks on so many sockets, with caches of eight on two of them.
fn arranged(n: u32) -> [Cluster; 3] {
    let caches = (n / 16).max(1);
    let block = Cluster {
        sockets: 2,
        caches,
        ..Cluster::uniform(1, n)
    };
    let cyclic = Cluster::listed(1, seating::in_turn(n, 2, caches));
    [Cluster::uniform(1, n), block, cyclic]
}

/// A call that can be simulated.
#[derive(Clone)]
struct Case {
    entry: &'static Entry,
    machine: Cluster,
    bytes: usize,
}

impl Case {
    /// Slices of steps of all ranks, about; `None` where the algorithm does not run so.
    fn steps(&self) -> Option<f64> {
        let (entry, n) = (self.entry, self.machine.nranks());
        let setting = setting(self.machine.clone(), Costs::default());
        let in_token = self.bytes * entry.blocks_in_token(n);
        let eager = entry.most_rounds != 0 && in_token > setting.eager_bytes;
        let empty = entry.collective == Collective::Barrier && self.bytes > 8;
        if eager || empty || n > entry.most_ranks || entry.collective.is_point_to_point() {
            return None;
        }
        let nodes = Nodes::uniform(1, n);
        let of_rank = |rank| {
            let shape = Shape {
                collective: entry.collective,
                algorithm: entry.algorithm,
                rank,
                nranks: n,
                root: 0,
                channels: entry.channels,
            };
            let plan = (entry.plan)(&shape, &nodes);
            let memory = (setting.buffer_bytes, setting.eager_bytes);
            let over = ProtocolChoice::of(entry.collective, entry.algorithm);
            let geometry = tune::geometry(entry.collective, entry.algorithm, over, memory);
            let binding = Binding {
                count: self.bytes / 4,
                element_bytes: 4,
                input_blocks: entry.collective.input_blocks(n),
                output_blocks: entry.collective.output_blocks(n),
                lane: 0,
                lanes: u32::from(entry.channels),
                pieces: plan.pieces,
            };
            let window = Window::bind(plan.layout, plan.chunks, &geometry, &binding);
            plan.steps_per_round() as f64 * window.rounds() as f64 * f64::from(window.slices())
        };
        Some(of_rank(0) + of_rank(n / 2) * f64::from(n - 1))
    }
}

#[test]
fn estimates_count_what_is_shared() {
    let most = STEPS[usize::from(drawn::is_full())];
    let of = |entry: &'static Entry| {
        let calls = RANKS.iter().flat_map(|&n| arranged(n));
        let calls = calls.flat_map(|machine| SIZES.map(|bytes| (machine.clone(), bytes)));
        let case = move |(machine, bytes)| Case {
            entry,
            machine,
            bytes,
        };
        let fits = |case: &Case| case.steps().is_some_and(|steps| steps <= most);
        calls.map(case).filter(fits).collect::<Vec<_>>()
    };
    let off = |ratio: f64| ratio.max(1.0 / ratio);
    let mut ratios: Vec<(f64, Shown)> = Vec::new();
    for case in drawn::of_each("shared", REGISTRY.iter().map(of), DRAWN) {
        let Case {
            entry,
            machine,
            bytes,
        } = case;
        let (collective, algorithm, channels) = (entry.collective, entry.algorithm, entry.channels);
        let protocol = ProtocolChoice::of(collective, algorithm);
        let (setting, way) = (
            setting(machine.clone(), Costs::default()),
            (algorithm, protocol),
        );
        let Some(estimate) = tune::predict(collective, way, bytes, channels, &setting) else {
            continue;
        };
        let known = simulated(collective, way, bytes, channels, &setting);
        ratios.push((
            estimate / known,
            Shown {
                collective,
                algorithm,
                protocol,
                machine,
                bytes,
                known,
                estimate,
            },
        ));
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

/// Direct reads, by which every rank reads every other, are not asked for where links between the
/// parts of a node would carry much more than they do level by level.
#[test]
fn many_ranks_of_many_caches_read_nobody_directly() {
    let node = |per_node, seen| Cluster {
        sockets: 2,
        caches: 8,
        seen,
        ..Cluster::uniform(1, per_node)
    };
    let large = |machine| {
        let table = Table::new(inputs(machine));
        table.may_be_direct(Collective::AllReduce, 16 << 20)
    };
    assert!(!large(node(128, true)));
    assert!(large(node(128, false)), "levels that nobody sees");
    assert!(large(Cluster::uniform(1, 128)), "one cache");
    assert!(large(node(16, true)), "as few as were measured");
    assert!(!large(Cluster::uniform(1, 300)), "too many");
}
