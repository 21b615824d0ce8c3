//! Every algorithm for every collective, forced in turn, with real data: all types and operations
//! at small sizes, some large ones in several rounds, on one node and on several imagined ones.
//!
//! Data and expected results are those of `kolo perf` ([`super::cases`]).

use super::cases::{Case, Known};
use super::support::ranks;
use crate::drawn;
use kolo::algo::{Entry, REGISTRY};
use kolo::comm::Inspect;
use kolo::comm::RawCalls;
use kolo::comm::{Call, Communicator, RedOp};
use kolo::dtype::known::Data;
use kolo::dtype::{DataType, ReduceOp};
use kolo::plan::Collective;
use kolo::tune::ProtocolChoice;

/// Ranks of all tests; `tests/every_algorithm.sh` takes the others too.
const RANKS: &[u32] = &[2, 3, 4, 5, 7, 8];
/// Ranks where system calls carry the data.
const RANKS_ON_NODES: &[u32] = &[2, 3];
/// Of each algorithm, so many of these numbers are drawn: `make test-full` takes all.
const DRAWN: usize = 2;
/// Elements of the large calls: several rounds of the small buffers, and no multiple of anything.
const LARGE: [usize; 3] = [4_099, 20_011, 50_023];

/// All calls of one algorithm on one communicator.
fn every_call(comm: &Communicator, entry: &Entry, what: &str) {
    let n = comm.nranks();
    let mut random = fastrand::Rng::with_seed(u64::from(n));
    let mut repetition = 0;
    let mut one = |dtype, op: Option<ReduceOp>, handle, count| {
        repetition += 1;
        let mut case = Case {
            collective: entry.collective,
            data: Data {
                dtype,
                op,
                nranks: n,
                repetition,
            },
            count,
            root: (repetition % u64::from(n)) as u32,
            in_place: false,
        };
        let places: &[bool] = match entry.collective {
            Collective::AllToAll | Collective::Barrier => &[false],
            _ => &[false, true],
        };
        for &in_place in places {
            case.in_place = in_place;
            let wrong = case
                .run(comm, handle, &Known::of(n))
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            let (rank, root) = (comm.rank(), case.root);
            assert_eq!(
                wrong, 0,
                "{what}: rank {rank} of {n} has wrong elements: {count} {dtype:?} {op:?}, root \
                 {root}, in place {in_place}"
            );
        }
    };
    if entry.collective.reduces() {
        return every_reduction(comm, entry, &mut random, &mut one);
    }
    for dtype in DataType::ALL {
        one(dtype, None, RedOp::SUM, random.usize(1..200));
    }
    let large = LARGE.iter();
    large.for_each(|&count| one(DataType::Int32, None, RedOp::SUM, count));
}

/// All types and operations, each as one call by `one`.
fn every_reduction(
    comm: &Communicator,
    entry: &Entry,
    random: &mut fastrand::Rng,
    one: &mut dyn FnMut(DataType, Option<ReduceOp>, RedOp, usize),
) {
    let n = comm.nranks();
    for dtype in DataType::ALL {
        let scan = entry.collective.is_scan();
        for op in dtype
            .operations()
            .filter(|&op| !(scan && op == ReduceOp::Avg))
        {
            if let Some(number) = op.number() {
                one(dtype, Some(op), RedOp(number), random.usize(1..200));
            }
        }
        if !ReduceOp::PreMulSum.combines(dtype) {
            continue;
        }
        let factor = Data {
            dtype,
            op: None,
            nranks: n,
            repetition: 0,
        };
        let handle = comm
            .pre_mul_sum(&factor.scalar_bytes(comm.rank()), dtype)
            .expect("an operation");
        one(
            dtype,
            Some(ReduceOp::PreMulSum),
            handle,
            random.usize(1..200),
        );
        comm.destroy_op(handle).expect("known");
    }
    for &count in &LARGE {
        one(DataType::Float32, Some(ReduceOp::Sum), RedOp::SUM, count);
        if !entry.collective.is_scan() {
            one(DataType::Int64, Some(ReduceOp::Avg), RedOp::AVG, count);
        }
    }
}

/// A forced algorithm whose channels pass the ranks as a graph file says.
pub fn forced_in_orders(algorithm: &str, n: u32, settings: &[(&str, &str)]) {
    for entry in forcible().filter(|entry| entry.algorithm.name() == algorithm) {
        forced_with(entry, n, settings);
    }
}

fn forced_with(entry: &Entry, n: u32, settings: &[(&str, &str)]) {
    let algorithm = entry.algorithm.name();
    let what = format!("{} {algorithm} {settings:?}", entry.collective.name());
    let mut all = vec![("algo", algorithm), ("buffsize", "64K")];
    all.extend(settings);
    ranks(n, &all, |comm| every_call(comm, entry, &what));
}

fn forced(entry: &Entry, n: u32, per_node: Option<u32>) {
    let name = entry.algorithm.name();
    let mut settings = vec![("algo", name), ("buffsize", "64K")];
    let per_node = per_node.map(|ranks| ranks.to_string());
    if let Some(ranks) = &per_node {
        settings.push(("ranks_per_node", ranks));
    }
    let what = format!("{} {name} {per_node:?}", entry.collective.name());
    ranks(n, &settings, |comm| every_call(comm, entry, &what));
}

fn numbers_of_ranks() -> impl Iterator<Item = u32> {
    let numbers = match crate::support::on_nodes() {
        true => RANKS_ON_NODES,
        false => RANKS,
    };
    numbers.iter().copied()
}

fn forcible() -> impl Iterator<Item = &'static Entry> {
    // Bundles are what kolo takes by itself where nothing else is forced.
    let known = |entry: &&Entry| {
        kolo::config::Algo::WORDS
            .iter()
            .any(|w| w.text == entry.algorithm.name())
    };
    // Between nodes nobody reads the memory of all.
    let possible = |entry: &&Entry| !(entry.one_memory && crate::support::on_nodes());
    REGISTRY.iter().filter(known).filter(possible)
}

#[test]
fn every_algorithm_with_every_type_and_operation() {
    let of = |entry| numbers_of_ranks().map(move |n| (entry, n)).collect();
    for (entry, n) in drawn::of_each("on one node", forcible().map(of), DRAWN) {
        forced(entry, n, None);
    }
}

#[test]
fn nodes_of_one_two_and_three_ranks() {
    let of = |entry| {
        let each = move |n| (1..=3).map(move |per_node| (entry, n, per_node));
        numbers_of_ranks().flat_map(each).collect()
    };
    let by_node = forcible().filter(|entry| entry.by_node);
    for (entry, n, per_node) in drawn::of_each("on nodes", by_node.map(of), DRAWN) {
        forced(entry, n, Some(per_node));
    }
}

/// Ranks that share caches and sockets, as far as plans know: alike, unalike, on several nodes.
#[test]
fn caches_and_sockets_of_several_ranks() {
    let parts = [
        (8, "2", "4", "auto"),
        (6, "3", "auto", "auto"),
        (7, "2", "4", "auto"),
        (9, "3", "auto", "auto"),
        (12, "2", "6", "auto"),
        (8, "2", "auto", "4"),
        (10, "2", "4", "6"),
    ];
    let of = |entry| parts.into_iter().map(move |parts| (entry, parts)).collect();
    let by_node = forcible().filter(|entry| entry.by_node);
    for (entry, (n, cache, socket, node)) in drawn::of_each("on parts", by_node.map(of), DRAWN) {
        let settings = [
            ("ranks_per_cache", cache),
            ("ranks_per_socket", socket),
            ("ranks_per_node", node),
        ];
        forced_with(entry, n, &settings);
    }
}

/// A forced algorithm is what runs: the steps are those of its plan.
#[test]
fn what_is_forced_is_what_runs() {
    use kolo::algo;
    use kolo::plan::{Algorithm, Nodes, Shape};
    for (algorithm, collective) in [
        (Algorithm::RecursiveDoubling, Collective::AllReduce),
        (Algorithm::TwoShot, Collective::AllReduce),
        (Algorithm::Binomial, Collective::Broadcast),
    ] {
        let settings = [("algo", algorithm.name())];
        ranks(5, &settings, |comm| {
            let data = Data {
                dtype: DataType::Int32,
                op: collective.reduces().then_some(ReduceOp::Sum),
                nranks: 5,
                repetition: 1,
            };
            let case = Case {
                collective,
                data,
                count: 3,
                root: 0,
                in_place: false,
            };
            assert_eq!(
                case.run(comm, RedOp::SUM, &Known::of(comm.nranks()))
                    .expect("runs"),
                0
            );
            let shape = Shape {
                collective,
                algorithm,
                rank: comm.rank(),
                nranks: 5,
                root: 0,
                channels: 1,
            };
            let plan = algo::plan(&shape, &Nodes::one(5)).expect("registered");
            assert_eq!(comm.step_counts().expect("alive").0, plan.steps_per_round());
        });
    }
}

/// A few calls of one algorithm over flagged lines: of one element, within a slot, in many rounds.
fn over_lines(comm: &Communicator, entry: &Entry, protocol: ProtocolChoice) {
    let n = comm.nranks();
    let reduces = entry.collective.reduces();
    for (repetition, count) in [1, 77, LARGE[0], LARGE[1]].into_iter().enumerate() {
        let table = comm.tuner().expect("alive");
        let choice = table.choose(entry.collective, 4 * count);
        assert_eq!(
            (choice.algorithm, choice.protocol),
            (entry.algorithm, protocol)
        );
        for in_place in [false, true] {
            let once = [Collective::AllToAll, Collective::Barrier].contains(&entry.collective);
            if once && in_place {
                continue;
            }
            let case = Case {
                collective: entry.collective,
                data: Data {
                    dtype: DataType::Int32,
                    op: reduces.then_some(ReduceOp::Sum),
                    nranks: n,
                    repetition: repetition as u64,
                },
                count,
                root: repetition as u32 % n,
                in_place,
            };
            let what = format!(
                "{} {} of {count}",
                entry.collective.name(),
                choice.algorithm.name()
            );
            let wrong = case.run(comm, RedOp::SUM, &Known::of(comm.nranks()));
            let wrong = wrong.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(
                wrong,
                0,
                "{what} over {}, rank {}",
                protocol.name(),
                comm.rank()
            );
        }
    }
}

/// Every algorithm that can run over flagged lines does, on one node and on imagined ones; that
/// executed and planned steps are as many is checked with every communicator.
#[test]
fn flagged_lines_carry_every_algorithm() {
    let of = |entry: &'static Entry| -> Vec<_> {
        let places = [(2, "auto"), (5, "auto"), (6, "2")];
        let lines = [ProtocolChoice::Ll, ProtocolChoice::Ll128];
        let all = places.into_iter().flat_map(|(n, per_node)| {
            let can = move |protocol: &ProtocolChoice| {
                let possible = protocol.is_possible(entry.collective, entry.algorithm, n);
                // One-shot has one round, for what its eager slots hold.
                possible && entry.most_rounds == 0 && (per_node == "auto" || entry.by_node)
            };
            let lines = lines.into_iter().filter(can);
            lines.map(move |protocol| (entry, n, per_node, protocol))
        });
        all.collect()
    };
    let groups: Vec<Vec<_>> = forcible().map(of).collect();
    let possible: usize = groups.iter().map(Vec::len).sum();
    assert!(possible > 150, "{possible}");
    for (entry, n, per_node, protocol) in drawn::of_each("over lines", groups, DRAWN) {
        let settings = [
            ("algo", entry.algorithm.name()),
            ("proto", protocol.name()),
            ("buffsize", "64K"),
            ("ranks_per_node", per_node),
        ];
        ranks(n, &settings, |comm| over_lines(comm, entry, protocol));
    }
}

/// Sums without rounding have elements larger than any other: where a packed token of them does
/// not fit into lines, slots carry it.
#[test]
fn exact_sums_over_flagged_lines() {
    for protocol in ["ll", "ll128"] {
        for algorithm in ["hd", "rd", "ring"] {
            ranks(5, &[("algo", algorithm), ("proto", protocol)], |comm| {
                let mine = [1e300, f64::from(comm.rank()), -1e300];
                let mut sums = [0.0; 3];
                let call = Call {
                    collective: Collective::AllReduce,
                    send: mine.as_ptr().cast(),
                    recv: sums.as_mut_ptr().cast(),
                    count: 3,
                    dtype: DataType::Float64,
                    op: RedOp::SUM_EXACT,
                    peer: 0,
                };
                // SAFETY: the buffers hold three elements each and outlive the call.
                unsafe { comm.enqueue(&call, None) }.expect("a sum");
                assert_eq!(sums, [5e300, 10.0, -5e300]);
            });
        }
    }
}
