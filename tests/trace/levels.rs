//! Tokens inside caches, between them and between sockets when real ranks run plans that go level
//! by level: as many as the simulator counts, no more than algorithms promise, and the right
//! results.

use super::{SLOT_BYTES, Traced, all, interpreted_plan, shape_of};
use kolo::algo;
use kolo::exec::host::Wires;
use kolo::exec::sim::{self, Job};
use kolo::exec::trace::Event;
use kolo::plan::{Algorithm, Collective, Geometry, Nodes, Shape};
use kolo::price::seating::in_turn;
use kolo::price::{Cluster, Costs, Level, parts};

/// Two sockets with so many caches each, and the ranks of a cache.
fn machines(caches: u32, cores: u32) -> [Cluster; 2] {
    let nranks = 2 * caches * cores;
    let in_order = Cluster {
        sockets: 2,
        caches,
        ..Cluster::uniform(1, nranks)
    };
    let dealt = in_turn(nranks, 2, caches);
    [in_order, Cluster::listed(1, dealt)]
}

/// Tokens by level.
type Tokens = [u64; 4];

struct Case {
    collective: Collective,
    algorithm: Algorithm,
    root: u32,
    /// Elements of a rank, or of a block.
    count: usize,
}

impl Case {
    fn input(&self, rank: u32, nranks: u32) -> Vec<i64> {
        let elements = 0..(self.count * nranks as usize) as i64;
        elements
            .map(|element| i64::from(rank + 3) * (element + 1))
            .collect()
    }

    /// The result that a rank must have, if any.
    fn wanted(&self, rank: u32, nranks: u32) -> Option<Vec<i64>> {
        let inputs = || (0..nranks).map(|rank| self.input(rank, nranks));
        let factors: i64 = (0..nranks).map(|rank| i64::from(rank + 3)).sum();
        let sum = |elements: std::ops::Range<usize>| {
            elements
                .map(|element| factors * (element as i64 + 1))
                .collect()
        };
        let mine = rank as usize * self.count;
        match self.collective {
            Collective::AllReduce => Some(sum(0..self.count)),
            Collective::Reduce => (rank == self.root).then(|| sum(0..self.count)),
            Collective::ReduceScatter => Some(sum(mine..mine + self.count)),
            Collective::Broadcast => Some(self.input(self.root, nranks)[..self.count].to_vec()),
            Collective::AllGather => Some(
                inputs()
                    .flat_map(|input| input[..self.count].to_vec())
                    .collect(),
            ),
            _ => None,
        }
    }

    fn shape(&self, rank: u32, nranks: u32) -> Shape {
        Shape {
            collective: self.collective,
            algorithm: self.algorithm,
            rank,
            nranks,
            root: self.root,
            channels: 1,
        }
    }

    /// Tokens of real ranks, which have checked their results.
    fn traced(&self, machine: &Cluster, nodes: &Nodes) -> Tokens {
        let nranks = machine.nranks();
        let run = |wires: &mut Wires| -> Traced {
            let shape = shape_of(self.collective, self.algorithm, wires, self.root);
            let buffers = (
                self.input(shape.rank, nranks),
                vec![-7; self.count * nranks as usize],
            );
            interpreted_plan(&shape, nodes, wires, self.count, buffers)
        };
        let mut tokens = Tokens::default();
        for (rank, (events, found, _)) in (0..).zip(all(nranks as usize, run)) {
            let what = format!("{:?} {:?} rank {rank}", self.collective, self.algorithm);
            match self.wanted(rank, nranks) {
                Some(wanted) => assert_eq!(found[..wanted.len()], wanted, "{what}"),
                None => assert!(found.iter().all(|&word| word == -7), "{what} wrote"),
            }
            for event in events {
                let Event::Publish { link, .. } = event else {
                    continue;
                };
                for reader in link.read_by(nranks) {
                    tokens[machine.level(link.writer(), reader) as usize] += 1;
                }
            }
        }
        tokens
    }

    fn simulated(&self, machine: &Cluster, nodes: &Nodes) -> Tokens {
        let nranks = machine.nranks();
        let job = Job {
            machine: machine.clone(),
            costs: Costs::default(),
            count: self.count,
            element_bytes: 8,
            geometry: Geometry::bundle(8 * SLOT_BYTES),
            blocks: (
                self.collective.input_blocks(nranks),
                self.collective.output_blocks(nranks),
            ),
            mapped: false,
        };
        let plan = |rank| algo::plan(&self.shape(rank, nranks), nodes);
        let report = sim::simulate(&job, &plan).expect("it can be simulated");
        report.levels.map(|level| level.tokens)
    }

    /// Runs and counts on both dealings.
    fn count(&self, (caches, cores): (u32, u32)) -> [Tokens; 2] {
        machines(caches, cores).map(|machine| {
            let nodes = Nodes::one(machine.nranks()).with_parts(&parts::names(&machine));
            assert_eq!(nodes.parts().levels().len(), 2);
            let tokens = self.traced(&machine, &nodes);
            let (name, algorithm) = (self.collective.name(), self.algorithm.name());
            assert_eq!(
                tokens,
                self.simulated(&machine, &nodes),
                "{name} {algorithm}"
            );
            tokens
        })
    }
}

fn case(collective: Collective, algorithm: Algorithm, root: u32, count: usize) -> Case {
    Case {
        collective,
        algorithm,
        root,
        count,
    }
}

/// Tokens of `node`, `socket` and `cache` are at most these.
fn at_most(tokens: Tokens, [cache, socket, node]: [u64; 3], what: &str) {
    let found = [Level::Cache, Level::Socket, Level::Node].map(|level| tokens[level as usize]);
    let wanted = [cache, socket, node];
    let more = (found.iter().zip(&wanted)).any(|(found, wanted)| found > wanted);
    assert!(!more, "{what}: {found:?} tokens, {wanted:?} are enough");
    assert_eq!(tokens[Level::Network as usize], 0);
}

/// 128 ranks on 2 x 8 caches: a token a part each way, and one beside them for a root that leads
/// nothing.
#[test]
fn leaders_of_128_ranks_cross_as_seldom_as_can_be() {
    use Collective::{AllReduce, Barrier, Broadcast, Reduce};
    for (collective, root, count, most) in [
        (AllReduce, 0, 1, [224, 28, 2]),
        (Barrier, 0, 0, [224, 28, 2]),
        (Broadcast, 0, 1, [112, 14, 1]),
        (Broadcast, 5, 1, [113, 15, 2]),
        (Reduce, 5, 1, [113, 15, 2]),
        (Reduce, 77, 1, [113, 15, 2]),
    ] {
        for tokens in case(collective, Algorithm::Leader, root, count).count((8, 8)) {
            at_most(tokens, most, &format!("{collective:?} of root {root}"));
        }
    }
}

/// Large calls: each byte crosses between the sockets once each way. The simulator counts 128
/// ranks, and real ones are 32.
#[test]
fn shares_cross_as_seldom_as_can_be() {
    use Collective::{AllGather, AllReduce, Broadcast, Reduce, ReduceScatter};
    for (collective, count, most) in [
        (AllReduce, 130, [1792, 1792, 128]),
        (Broadcast, 130, [7 * 128 + 8, 7 * 128 + 56, 64]),
        (Reduce, 130, [7 * 128 + 8, 7 * 128 + 56, 64]),
        (AllGather, 3, [896, 896, 128]),
        (ReduceScatter, 3, [896, 896, 128]),
    ] {
        let case = case(collective, Algorithm::Hierarchical, 5, count);
        for machine in machines(8, 8) {
            let nodes = Nodes::one(128).with_parts(&parts::names(&machine));
            at_most(
                case.simulated(&machine, &nodes),
                most,
                &format!("{collective:?}"),
            );
        }
        let most = match collective {
            AllReduce => [192, 192, 32],
            Broadcast | Reduce => [3 * 32 + 4, 3 * 32 + 12, 16],
            _ => [96, 96, 32],
        };
        for tokens in case.count((4, 4)) {
            at_most(tokens, most, &format!("{collective:?} of 32 ranks"));
        }
    }
}

/// Several rounds and slices, and groups that casts cannot name.
#[test]
fn a_few_ranks_with_much_data() {
    for collective in Collective::ALL {
        for algorithm in [Algorithm::Leader, Algorithm::Hierarchical] {
            let barrier = collective == Collective::Barrier;
            if algo::find(collective, algorithm).is_some() && !barrier {
                for (caches, cores) in [(2, 2), (3, 2)] {
                    case(collective, algorithm, 3, 12_003).count((caches, cores));
                }
            }
        }
    }
}
