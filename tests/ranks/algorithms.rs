//! Every algorithm for every collective, forced in turn, with real data: all types and operations
//! at small sizes, some large ones in several rounds, on one node and on several imagined ones.
//!
//! Data and expected results are those of `kolo perf`: they are computed in integers, by none of
//! the code under test. Receive buffers are poisoned, and every rank checks all that it holds.

use super::support::ranks;
use crate::drawn;
use kolo::algo::{Entry, REGISTRY};
use kolo::comm::Inspect;
use kolo::comm::RawCalls;
use kolo::comm::{Call, Communicator, RedOp};
use kolo::dtype::known::{Data, POISON, Pattern};
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

/// One call to make.
#[derive(Clone, Copy)]
struct Case {
    collective: Collective,
    data: Data,
    count: usize,
    root: u32,
    in_place: bool,
}

/// Bytes that begin at a multiple of 8.
struct Buffer {
    words: Vec<u64>,
    bytes: usize,
}

impl Buffer {
    fn poisoned(bytes: usize) -> Buffer {
        let words = vec![u64::from_ne_bytes([POISON; 8]); bytes / 8 + 2];
        Buffer { words, bytes }
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the words are initialised bytes, more than `self.bytes` of them.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), self.bytes) }
    }
}

impl Case {
    fn blocks(&self, n: usize) -> (usize, usize) {
        match self.collective {
            Collective::AllGather | Collective::Gather => (1, n),
            Collective::ReduceScatter | Collective::Scatter => (n, 1),
            Collective::AllToAll => (n, n),
            Collective::Barrier => (0, 0),
            _ => (1, 1),
        }
    }

    /// Data that `rank` must hold in block `block` of its output; `None` where it keeps what it
    /// has.
    fn wanted(&self, rank: u32, block: u32) -> Option<(Pattern, usize)> {
        let count = self.count;
        let at_root = rank == self.root;
        let whole = |from: u32, elements: usize| self.data.input(from, elements);
        let n = self.data.nranks as usize;
        let op = || self.data.op.expect("reduces");
        let sum = |elements| self.data.reduced_of(op(), self.data.nranks, elements);
        let prefix = |ranks: u32| (self.data.reduced_of(op(), ranks, count), 0);
        match self.collective {
            Collective::AllReduce => Some((sum(count), 0)),
            Collective::Reduce => at_root.then(|| (sum(count), 0)),
            Collective::ReduceScatter => Some((sum(count * n), rank as usize * count)),
            Collective::Broadcast => Some((whole(self.root, count), 0)),
            Collective::AllGather => Some((whole(block, count), 0)),
            Collective::Gather => at_root.then(|| (whole(block, count), 0)),
            Collective::Scatter => Some((whole(self.root, count * n), rank as usize * count)),
            Collective::AllToAll => Some((whole(block, count * n), rank as usize * count)),
            Collective::Scan => Some(prefix(rank + 1)),
            Collective::Exscan => (rank > 0).then(|| prefix(rank)),
            _ => None,
        }
    }

    /// Makes the call, and counts wrong elements.
    fn run(&self, comm: &Communicator, op: RedOp) -> Result<u64, kolo::base::Error> {
        let (rank, n) = (comm.rank(), comm.nranks() as usize);
        let size = self.data.dtype.size_bytes();
        let block = self.count * size;
        let (inputs, outputs) = self.blocks(n);
        let mut send = Buffer::poisoned(inputs * block);
        let mut recv = Buffer::poisoned(outputs * block);
        let mine = self.data.input(rank, inputs * self.count);
        let (from, to) = match self.in_place {
            false => {
                mine.fill(0, send.bytes());
                (send.bytes().as_mut_ptr(), recv.bytes().as_mut_ptr())
            }
            // The smaller buffer lies in the larger one.
            true if outputs >= inputs => {
                let at = if outputs > inputs {
                    rank as usize * block
                } else {
                    0
                };
                mine.fill(0, &mut recv.bytes()[at..at + inputs * block]);
                (recv.bytes()[at..].as_mut_ptr(), recv.bytes().as_mut_ptr())
            }
            true => {
                mine.fill(0, send.bytes());
                let at = rank as usize * block;
                (send.bytes().as_mut_ptr(), send.bytes()[at..].as_mut_ptr())
            }
        };
        let call = Call {
            collective: self.collective,
            send: from,
            recv: to,
            count: self.count,
            dtype: self.data.dtype,
            op,
            peer: self.root,
        };
        // SAFETY: the buffers hold the blocks of the call and outlive it.
        unsafe { comm.enqueue(&call, None)? };
        let mut wrong = 0;
        for number in 0..outputs as u32 {
            // SAFETY: `to` points to `outputs` blocks of a live buffer.
            let found = unsafe {
                std::slice::from_raw_parts(to.add(number as usize * block).cast_const(), block)
            };
            // What a call has no result for stays as it was: in place, this rank's data.
            let held = self.in_place && (outputs == inputs || number == rank);
            wrong += match self.wanted(rank, number) {
                Some((pattern, first)) => pattern.wrong(first, found),
                None if held => mine.wrong(0, found),
                None => Pattern::poison(size).wrong(0, found),
            };
        }
        if !self.in_place {
            wrong += mine.wrong(0, send.bytes());
        }
        Ok(wrong)
    }
}

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
                .run(comm, handle)
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
            assert_eq!(case.run(comm, RedOp::SUM).expect("runs"), 0);
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
            let wrong = case.run(comm, RedOp::SUM);
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
