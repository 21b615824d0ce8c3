//! Every registered algorithm through the checker: the whole grid of ranks, roots, channels,
//! slices and capacities; sequences of different calls; groups of sends and receives.

#[path = "plans/faults.rs"]
mod faults;
#[path = "plans/machine.rs"]
mod machine;
#[path = "plans/mutants.rs"]
mod mutants;
#[path = "plans/sequences.rs"]
mod sequences;
#[path = "plans/vectors.rs"]
mod vectors;

use kolo::algo::{self, Entry, REGISTRY};
use kolo::base::clock;
use kolo::plan::check::{self, Form, Options, Placement, Report};
use kolo::plan::{Algorithm, Collective, Plan, Shape};
use std::time::Duration;

/// Ranks up to here: every capacity from the least to the most.
const DENSE: u32 = 64;
/// Larger communicators: the least capacity (and the failure one below) and 8 only.
const SPARSE: [u32; 3] = [96, 128, 256];
/// Most capacity looked at, in tokens.
const MOST_TOKENS: u32 = 8;
/// Up to here 3 channels too, and all roots.
const FEW: u32 = 8;

/// The plans of all ranks.
fn plans(entry: &Entry, n: u32, root: u32, channels: u16) -> Vec<Plan> {
    let shape = |rank| Shape {
        collective: entry.collective,
        algorithm: entry.algorithm,
        rank,
        nranks: n,
        root,
        channels,
    };
    (0..n)
        .map(|rank| algo::plan(&shape(rank)).expect("a registered algorithm"))
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

fn roots(entry: &Entry, n: u32) -> Vec<u32> {
    if !entry.collective.has_root() {
        return vec![0];
    }
    let mut roots: Vec<u32> = match n <= FEW {
        true => (0..n).collect(),
        false => vec![0, 1, n - 1],
    };
    roots.dedup();
    roots
}

fn name(entry: &Entry) -> String {
    format!("{} {}", entry.collective.name(), entry.algorithm.name())
}

/// What the report must say of each algorithm, beside having no counterexample.
fn expect(entry: &Entry, n: u32, root: u32, report: &Report) {
    let name = format!("{} of {n} ranks, root {root}", name(entry));
    for (&slices, &least) in [1, 2].iter().zip(&report.least_tokens) {
        let declared = (entry.least_tokens)(slices);
        // `least` was found by failing with one token fewer. Where one fewer than declared passes:
        // two ranks on a ring of one hand-over; one rank alone, which exchanges nothing.
        let one_hand_over = entry.algorithm == Algorithm::Ring
            && matches!(
                entry.collective,
                Collective::AllGather | Collective::ReduceScatter
            );
        let expected = match n {
            1 => 0,
            2 if one_hand_over => declared - 1,
            // Nobody hands on.
            2 if entry.collective == Collective::Exscan && entry.algorithm == Algorithm::Chain => 1,
            _ => declared,
        };
        assert_eq!(least, expected, "{name}, {slices} slices");
    }
    let any_order = matches!(entry.algorithm, Algorithm::Ring | Algorithm::Bundle);
    let ring_fold = any_order && entry.collective.reduces();
    let chain_ends_last = entry.collective == Collective::Reduce && root == n - 1;
    let ordered = !ring_fold || n == 1 || chain_ends_last;
    assert_eq!(report.rank_ordered, ordered, "{name}");
    let apart = entry.collective == Collective::AllToAll && n > 1;
    assert_eq!(report.in_place_ok, !apart, "{name}");
}

fn check_entry(entry: &Entry, n: u32, channels: u16) -> u64 {
    let options = Options {
        most_tokens: MOST_TOKENS,
        every_capacity: n <= DENSE,
        ..options(entry)
    };
    let mut events = 0;
    for root in roots(entry, n) {
        let plans = plans(entry, n, root, channels);
        let report = check::check(&plans, &options).unwrap_or_else(|fault| panic!("{fault}"));
        expect(entry, n, root, &report);
        events += report.events;
    }
    events
}

#[test]
fn the_grid() {
    let start = clock::now();
    for entry in collectives() {
        let begin = clock::now();
        let mut events = 0;
        for n in (1..=DENSE).chain(SPARSE) {
            events += check_entry(entry, n, 1);
            if n <= FEW {
                events += check_entry(entry, n, 3);
            }
        }
        println!(
            "{:24} {events:>8} events {:>8.2?}",
            name(entry),
            begin.elapsed()
        );
    }
    let time = start.elapsed();
    println!("in all {time:.2?}");
    assert!(
        time < Duration::from_secs(200),
        "seconds are wanted, this took {time:.2?}"
    );
}

/// Which forms the checker allows for which algorithm, as the executor will rely on.
#[test]
fn forms_of_connections() {
    let verdict = |out_of_place, in_place| Placement {
        out_of_place,
        in_place,
    };
    let has_verdict = |entry: &&Entry| {
        matches!(entry.algorithm, Algorithm::Ring | Algorithm::Bundle)
            || (entry.algorithm == Algorithm::OneShot && !entry.collective.is_scan())
    };
    for entry in collectives().filter(has_verdict) {
        let plans = plans(entry, 5, 1, 2);
        let report = check::check(&plans, &options(entry)).unwrap_or_else(|f| panic!("{f}"));
        let one_shot = entry.algorithm == Algorithm::OneShot;
        let read = match (entry.collective, one_shot) {
            (Collective::Barrier, _) => verdict(false, false),
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
