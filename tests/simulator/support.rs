//! Cases for the simulator.

use kolo::algo;
use kolo::base::Result;
use kolo::exec::sim::{self, Job, Report};
use kolo::plan::emit::Connection;
use kolo::plan::{
    Algorithm, Collective, Emitter, Geometry, Layout, Nodes, Operand, POST_SCALE, Plan, Shape,
    StepOp,
};
use kolo::price::{Cluster, Costs};

/// A collective among ranks that each have a node of their own, unless `machine` is changed.
#[derive(Clone, Debug)]
pub struct Case {
    pub collective: Collective,
    pub algorithm: Algorithm,
    pub machine: Cluster,
    /// Of the data, or of a block.
    pub bytes: usize,
    pub channels: u16,
}

impl Case {
    pub fn new(collective: Collective, algorithm: Algorithm, n: u32, bytes: usize) -> Case {
        Case {
            collective,
            algorithm,
            machine: Cluster::uniform(n, 1),
            bytes,
            channels: 1,
        }
    }

    pub fn nodes(&self) -> Nodes {
        let nodes = Nodes::uniform(self.machine.nodes, self.machine.per_node);
        let nodes = nodes.with_parts(&kolo::price::parts::names(&self.machine));
        let orders = self.machine.orders();
        nodes.in_orders(orders).expect("orders of these nodes")
    }

    pub fn plan(&self, rank: u32, nodes: &Nodes) -> Result<Plan> {
        let shape = Shape {
            collective: self.collective,
            algorithm: self.algorithm,
            rank,
            nranks: self.machine.nranks(),
            root: 0,
            channels: self.channels,
        };
        algo::plan(&shape, nodes)
    }

    pub fn job(&self, geometry: &Geometry, costs: &Costs) -> Job {
        let n = self.machine.nranks();
        Job {
            machine: self.machine.clone(),
            costs: *costs,
            count: self.bytes / 4,
            element_bytes: 4,
            geometry: *geometry,
            blocks: (
                self.collective.input_blocks(n),
                self.collective.output_blocks(n),
            ),
            mapped: false,
        }
    }

    pub fn run(&self, geometry: &Geometry, costs: &Costs) -> Report {
        let nodes = self.nodes();
        self.run_plans(geometry, costs, &|rank| self.plan(rank, &nodes))
    }

    pub fn run_plans(
        &self,
        geometry: &Geometry,
        costs: &Costs,
        plan: &dyn Fn(u32) -> Result<Plan>,
    ) -> Report {
        sim::simulate(&self.job(geometry, costs), plan).expect("it can be simulated")
    }
}

/// Chunks of at most `bytes` in one slice, each in a slot of its own.
pub fn one_pass(bytes: usize) -> Geometry {
    Geometry {
        slots: 8,
        slot_bytes: bytes,
        chunk_steps: 1,
        slice_steps: 1,
    }
}

pub fn assert_close(time: f64, known: f64, tolerance: f64, case: &Case) {
    let off = (time - known).abs() / known;
    assert!(
        off <= tolerance,
        "{case:?}: simulated {time} ns, known {known} ns, {:.1} % off",
        100.0 * off
    );
}

/// Partners at distances 1, 2, 4, ... exchange everything and fold; for powers of two.
pub fn doubling_all_reduce(rank: u32, nranks: u32) -> Plan {
    let shape = Shape {
        collective: Collective::AllReduce,
        algorithm: Algorithm::Ring,
        rank,
        nranks,
        root: 0,
        channels: 1,
    };
    let mut e = Emitter::new(shape, 1, Layout::Blocks);
    e.lane(0);
    let partners: Vec<u32> = (0..nranks.trailing_zeros())
        .map(|k| rank ^ 1 << k)
        .collect();
    let ends: Vec<(Connection, Connection)> =
        partners.iter().map(|&p| (e.from(p), e.to(p))).collect();
    e.copy_send(ends[0].1, 0);
    for (k, (from, _)) in ends.iter().enumerate() {
        let mut dsts = vec![Operand::OUTPUT];
        dsts.extend(ends.get(k + 1).map(|next| next.1.operand()));
        let srcs = [from.operand(), Operand::OUTPUT];
        let flags = if k + 1 == ends.len() { POST_SCALE } else { 0 };
        e.step(StepOp::Fold, flags, &srcs, &dsts, 0);
    }
    e.finish()
}
