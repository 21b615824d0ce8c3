//! Settings and simulated times for the tests of the tuner.

use kolo::algo;
use kolo::exec::sim::{self, Job, Report};
use kolo::plan::{Algorithm, Collective, Nodes, Shape};
use kolo::price::{Cluster, Costs, Seating};
use kolo::tune::{self, Inputs, ProtocolChoice, Setting};
use std::fmt;

/// From a word to what several rounds move.
pub const SIZES: [usize; 8] = [
    4,
    64,
    1 << 10,
    8 << 10,
    32 << 10,
    256 << 10,
    2 << 20,
    16 << 20,
];

pub fn setting(machine: Cluster, costs: Costs) -> Setting {
    Setting {
        machine,
        costs,
        buffer_bytes: 1 << 20,
        eager_bytes: 32 << 10,
    }
}

pub fn inputs(machine: Cluster) -> Inputs {
    Inputs::unset(setting(machine, Costs::default()))
}

/// The simulated time in nanoseconds.
pub fn simulated(
    collective: Collective,
    way: (Algorithm, ProtocolChoice),
    bytes: usize,
    channels: u16,
    setting: &Setting,
) -> f64 {
    report(collective, way, bytes, channels, setting).time_ns
}

/// Report of the simulator.
pub fn report(
    collective: Collective,
    (algorithm, protocol): (Algorithm, ProtocolChoice),
    bytes: usize,
    channels: u16,
    setting: &Setting,
) -> Report {
    let n = setting.machine.nranks();
    let job = Job {
        machine: setting.machine.clone(),
        costs: setting.costs.over(protocol.of_pairs()),
        count: bytes / 4,
        element_bytes: 4,
        geometry: tune::geometry(
            collective,
            algorithm,
            protocol,
            (setting.buffer_bytes, setting.eager_bytes),
        ),
        blocks: (collective.input_blocks(n), collective.output_blocks(n)),
        mapped: false,
    };
    let nodes = Nodes::uniform(setting.machine.nodes, setting.machine.per_node);
    let nodes = nodes.with_parts(&kolo::price::parts::names(&setting.machine));
    let orders = setting.machine.orders();
    let nodes = nodes.in_orders(orders).expect("orders of these nodes");
    let plan = |rank| {
        let shape = Shape {
            collective,
            algorithm,
            rank,
            nranks: n,
            root: 0,
            channels,
        };
        algo::plan(&shape, &nodes)
    };
    sim::simulate(&job, &plan).expect("it can be simulated")
}

/// A comparison, for messages.
pub struct Shown {
    pub collective: Collective,
    pub algorithm: Algorithm,
    pub protocol: ProtocolChoice,
    pub machine: Cluster,
    pub bytes: usize,
    pub known: f64,
    pub estimate: f64,
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let m = &self.machine;
        write!(
            f,
            "{} {} over {} of {} bytes on {}x{} ({} sockets of {} caches, {} cores, {}): \
             simulated {:.0}, estimated {:.0}",
            self.collective.name(),
            self.algorithm.name(),
            self.protocol.name(),
            self.bytes,
            m.nodes,
            m.per_node,
            m.sockets,
            m.caches,
            m.cores,
            match m.seating {
                Seating::Block => "in order",
                Seating::Listed(_) => "listed",
            },
            self.known,
            self.estimate
        )
    }
}
