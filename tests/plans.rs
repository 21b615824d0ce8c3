//! Every registered algorithm through the checker: the whole grid of ranks, roots, channels,
//! slices and capacities; sequences of different calls; groups of sends and receives.

#[path = "plans/direct.rs"]
mod direct;
mod drawn;
#[path = "plans/faults.rs"]
mod faults;
#[path = "plans/grid.rs"]
mod grid;
#[path = "plans/levels.rs"]
mod levels;
#[path = "plans/machine.rs"]
mod machine;
#[path = "plans/mutants.rs"]
mod mutants;
#[path = "plans/orders.rs"]
mod orders;
#[path = "plans/packed.rs"]
mod packed;
#[path = "plans/programs.rs"]
mod programs;
mod samples;
#[path = "plans/sequences.rs"]
mod sequences;
#[path = "plans/straight.rs"]
mod straight;
#[path = "plans/switches.rs"]
mod switches;
#[path = "plans/vectors.rs"]
mod vectors;
#[path = "plans/words.rs"]
mod words;

use kolo::algo::{self, Entry, REGISTRY};
use kolo::plan::check::{self, Form, Options, Placement};
use kolo::plan::{Algorithm, Collective, Link, Nodes, Plan, Shape};

/// Most capacity looked at, in tokens.
const MOST_TOKENS: u32 = 8;
/// The plans of all ranks on one node.
fn plans(entry: &Entry, n: u32, root: u32, channels: u16) -> Vec<Plan> {
    plans_on(entry, &Nodes::one(n), root, channels)
}

/// The plans of all ranks.
fn plans_on(entry: &Entry, nodes: &Nodes, root: u32, channels: u16) -> Vec<Plan> {
    let n = nodes.nranks();
    let shape = |rank| Shape {
        collective: entry.collective,
        algorithm: entry.algorithm,
        rank,
        nranks: n,
        root,
        channels,
    };
    (0..n)
        .map(|rank| algo::plan(&shape(rank), nodes).expect("a registered algorithm"))
        .collect()
}

/// Entries whose plans all ranks run together.
fn collectives() -> impl Iterator<Item = &'static Entry> {
    let entries = REGISTRY.iter();
    entries.filter(|entry| !entry.collective.is_point_to_point())
}

fn options(entry: &Entry) -> Options {
    match entry.most_rounds {
        1 => Options::one_round(),
        _ => Options::default(),
    }
}

fn name(entry: &Entry) -> String {
    format!("{} {}", entry.collective.name(), entry.algorithm.name())
}

/// Which forms the checker allows for which algorithm, as the executor will rely on.
#[test]
fn forms_of_connections() {
    let verdict = |out_of_place, in_place| Placement {
        out_of_place,
        in_place,
    };
    let first = [Algorithm::Ring, Algorithm::OneShot, Algorithm::Bundle];
    for entry in collectives()
        .filter(|entry| first.contains(&entry.algorithm) && !entry.collective.is_scan())
    {
        let plans = plans(entry, 5, 1, 2);
        let report = check::check(&plans, &options(entry)).unwrap_or_else(|f| panic!("{f}"));
        let one_shot = entry.algorithm == Algorithm::OneShot;
        let read = match (entry.collective, one_shot) {
            (Collective::Barrier, _) => verdict(false, false),
            // A token with the blocks of all is no place in memory.
            _ if entry.all_blocks => verdict(false, false),
            (Collective::AllReduce, true) | (Collective::AllToAll, _) => verdict(true, false),
            _ => verdict(true, true),
        };
        assert_eq!(report.direct_read_ok, read, "{}", name(entry));
        // A fold at the reader, or a fan, cannot be written into directly.
        let write = match entry.collective {
            _ if one_shot => verdict(false, false),
            Collective::ReduceScatter | Collective::Reduce => verdict(false, false),
            Collective::AllToAll => verdict(true, false),
            _ => verdict(true, true),
        };
        assert_eq!(report.direct_write_ok, write, "{}", name(entry));
    }
}

/// A plan for so many channels works on all of them: else prices that divide the data by channels
/// are wrong, and devices idle. (Messages have the channel of their pair of ranks.)
#[test]
fn plans_use_all_their_channels() {
    let of_messages = |entry: &&Entry| entry.algorithm == Algorithm::Bundle;
    for entry in collectives().filter(|entry| entry.most_rounds != 1 && !of_messages(entry)) {
        let channels = 3 * entry.channels;
        for nodes in [Nodes::one(4), Nodes::uniform(2, 2)] {
            for plan in plans_on(entry, &nodes, 1, channels) {
                assert_eq!(plan.channels(), u32::from(channels), "{}", name(entry));
            }
        }
    }
}

/// A ring has one connection each way on each channel, to the neighbours; one rank alone has none.
#[test]
fn rings_connect_neighbours_only() {
    let entry = algo::find(Collective::AllReduce, Algorithm::Ring).expect("registered");
    for plan in plans(entry, 6, 0, 2) {
        let (rank, n) = (plan.shape.rank, 6);
        let neighbours = [(rank + n - 1) % n, (rank + 1) % n];
        let peers = plan.connections.iter().map(|used| match used.link {
            Link::Pair { writer, reader, .. } => writer + reader - rank,
            other => panic!("{other:?}"),
        });
        let peers: Vec<u32> = peers.collect();
        assert_eq!(peers, [neighbours, neighbours].concat());
    }
    assert!(plans(entry, 1, 0, 1)[0].connections.is_empty());
}

/// The set is per step: what a ring sends while it still folds is never in user memory.
#[test]
fn forms_of_steps() {
    let entry = algo::find(Collective::AllReduce, Algorithm::Ring).expect("registered");
    let plans = plans(entry, 5, 0, 1);
    let report = check::check(&plans, &options(entry)).unwrap_or_else(|f| panic!("{f}"));
    for in_place in [false, true] {
        let of_rank_3 = |form| {
            let steps = report.forms.steps(form, in_place);
            let mine = steps.filter(|&(rank, _)| rank == 3);
            mine.map(|(_, step)| step).collect::<Vec<_>>()
        };
        // send, recv_reduce_send x 3, recv_reduce_copy_send, recv_copy_send x 3, recv
        assert_eq!(of_rank_3(Form::DirectRead), [0, 2, 3]);
        assert_eq!(of_rank_3(Form::DirectWrite), [2, 3]);
        assert!(!report.forms.allows(3, 1, Form::DirectRead, in_place));
    }
}

/// The trace, the totals and the formula of the ring agree.
#[test]
fn expected_tokens_follow_from_the_plan() {
    for entry in collectives() {
        for plan in plans(entry, 6, 1, 2) {
            let trace = check::expected_trace(&plan, 3, 2);
            for (link, direction, tokens) in check::expected_tokens(&plan, 3, 2) {
                let events = trace.iter().flatten();
                let mine = events.filter(|e| (e.link, e.direction) == (link, direction));
                assert_eq!(mine.count() as u64, tokens, "{} {link:?}", name(entry));
                if (entry.algorithm, entry.collective) == (Algorithm::Ring, Collective::AllReduce) {
                    assert_eq!(tokens, 2 * (6 - 1) * 3 * 2);
                }
            }
        }
    }
}

/// Algorithms for operations that do not commute keep the order of ranks.
#[test]
fn ordered_algorithms_keep_the_order_of_ranks() {
    let ordered = |entry: &&'static Entry| {
        entry.algorithm == Algorithm::Ordered
            || (entry.algorithm, entry.collective) == (Algorithm::TwoShot, Collective::AllReduce)
            || entry.collective.is_scan()
            || (entry.algorithm == Algorithm::OneShot && entry.collective.reduces())
    };
    let mut proved = 0;
    for entry in collectives().filter(ordered) {
        for n in 1..=20 {
            for root in grid::roots(entry, n) {
                let plans = plans(entry, n, root, 1);
                let report =
                    check::check(&plans, &options(entry)).unwrap_or_else(|f| panic!("{f}"));
                assert!(report.rank_ordered, "{} of {n}, root {root}", name(entry));
                proved += 1;
            }
        }
    }
    assert!(proved > 20 * 9, "{proved}");
}
