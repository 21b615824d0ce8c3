//! The time of initialisation if prices had no closed forms: `cargo bench --bench prices`.
//!
//! A communicator fills its table of choices when it is made. Beside that time stands what a walk
//! of the plans would take, for the same algorithms: making the plan of one rank, making those of
//! all ranks, and running them for eight sizes. `tests/tuner/choosing.rs` compares the choices.

use kolo::algo::{self, Entry, REGISTRY};
use kolo::base::clock;
use kolo::exec::sim::{self, Job};
use kolo::plan::{Nodes, Shape};
use kolo::price::{Cluster, Costs};
use kolo::tune::{self, Inputs, ProtocolChoice, Setting, Table};
use std::hint::black_box;

/// Nodes, and ranks of each.
const SHAPES: [(u32, u32); 9] = [
    (1, 2),
    (1, 4),
    (1, 8),
    (1, 16),
    (1, 32),
    (1, 64),
    (16, 16),
    (16, 64),
    (64, 64),
];
/// Most ranks whose plans are made, and run.
const MADE: u32 = 256;
const RUN: u32 = 64;
/// Sizes that are walked, in bytes: of one round each, but for the last.
const SIZES: [usize; 8] = [
    4,
    64,
    1 << 10,
    4 << 10,
    16 << 10,
    64 << 10,
    128 << 10,
    1 << 20,
];

fn inputs(machine: Cluster) -> Inputs {
    Inputs::unset(Setting {
        machine,
        costs: Costs::default(),
        buffer_bytes: 1 << 20,
        eager_bytes: 32 << 10,
    })
}

/// Milliseconds.
fn time(what: impl FnOnce()) -> f64 {
    let start = clock::now();
    what();
    start.elapsed().as_secs_f64() * 1e3
}

fn shape(entry: &Entry, machine: &Cluster, rank: u32) -> Shape {
    Shape {
        collective: entry.collective,
        algorithm: entry.algorithm,
        rank,
        nranks: machine.nranks(),
        root: 0,
        channels: entry.channels,
    }
}

fn make(entries: &[&Entry], machine: &Cluster, ranks: u32) {
    let nodes = Nodes::uniform(machine.nodes, machine.per_node);
    for entry in entries {
        for rank in 0..ranks {
            black_box(algo::plan(&shape(entry, machine, rank), &nodes)).expect("a plan");
        }
    }
}

fn run(entries: &[&Entry], machine: &Cluster) {
    let nodes = Nodes::uniform(machine.nodes, machine.per_node);
    let n = machine.nranks();
    let setting = inputs(machine.clone()).setting;
    for entry in entries {
        let (collective, algorithm) = (entry.collective, entry.algorithm);
        let protocol = ProtocolChoice::of(collective, algorithm);
        let memory = (setting.buffer_bytes, setting.eager_bytes);
        let sizes = |bytes: &&usize| entry.most_rounds == 0 || **bytes <= setting.eager_bytes;
        for bytes in SIZES.iter().filter(sizes) {
            let job = Job {
                machine: machine.clone(),
                costs: setting.costs,
                count: bytes / 4,
                element_bytes: 4,
                geometry: tune::geometry(collective, algorithm, protocol, memory),
                blocks: (collective.input_blocks(n), collective.output_blocks(n)),
                mapped: false,
            };
            let plan = |rank| algo::plan(&shape(entry, machine, rank), &nodes);
            black_box(sim::simulate(&job, &plan)).expect("it ends");
        }
    }
}

fn main() {
    println!("milliseconds of a process for all prices, and how many times those of the forms:");
    for (nodes, per_node) in SHAPES {
        let machine = Cluster::uniform(nodes, per_node);
        let n = machine.nranks();
        let meant = |e: &&Entry| !e.collective.is_point_to_point() && n <= e.most_ranks;
        let entries: Vec<&Entry> = REGISTRY.iter().filter(meant).collect();
        let table = || time(|| drop(black_box(Table::new(inputs(machine.clone())))));
        let forms = (0..5).map(|_| table()).fold(f64::INFINITY, f64::min);
        print!("{nodes} nodes of {per_node} ranks: forms {forms:.2}");
        let shown = |what: &str, ms: f64| print!(", {what} {ms:.2} ({:.0})", ms / forms);
        shown("plans of one rank", time(|| make(&entries, &machine, 1)));
        if n <= MADE {
            shown("plans of all ranks", time(|| make(&entries, &machine, n)));
        }
        if n <= RUN {
            shown("walk", time(|| run(&entries, &machine)));
        }
        println!();
    }
}
