//! Calls that read peers' buffers where they lie: every step may, for every shape.

use super::faults::{by_hand, caught};
use kolo::algo;
use kolo::base::InPlace;
use kolo::plan::analysis::direct::{is_possible, is_pushed, may_push};
use kolo::plan::check::{Form, Options, check};
use kolo::plan::{Algorithm, Collective, Link, Nodes, Operand, Plan, Shape, StepOp};
use std::collections::HashMap;

fn plans(collective: Collective, nranks: u32, root: u32) -> Vec<Plan> {
    let algorithm = algo::direct(collective).unwrap_or(Algorithm::TwoShot);
    let nodes = Nodes::one(nranks);
    let of = |rank| Shape {
        collective,
        algorithm,
        rank,
        nranks,
        root,
        channels: 1,
    };
    let plan = |rank| algo::plan(&of(rank), &nodes).expect("registered");
    (0..nranks).map(plan).collect()
}

#[test]
fn what_runs_directly_may_in_place_and_out_of_place() {
    let direct = Collective::ALL
        .into_iter()
        .filter(|&one| algo::direct(one).is_some());
    let direct: Vec<Collective> = direct.collect();
    assert_eq!(direct.len(), 7);
    for collective in direct {
        let mut required = vec![(Form::DirectRead, false)];
        if collective.in_place() != InPlace::Never {
            required.push((Form::DirectRead, true));
        }
        for nranks in (2..=17).chain([32, 64]) {
            for root in [0, nranks - 1] {
                let plans = plans(collective, nranks, root);
                assert!(plans.iter().all(is_possible), "{collective:?} {nranks}");
                let options = Options {
                    required: required.clone(),
                    slices: vec![1],
                    every_capacity: false,
                    ..Options::default()
                };
                if let Err(fault) = check(&plans, &options) {
                    panic!("{collective:?} of {nranks}, root {root}: {fault}");
                }
            }
        }
    }
}

#[test]
fn what_lies_nowhere_is_not_direct() {
    // The owner of a slice sends its fold to the root without keeping it.
    assert!(!plans(Collective::Reduce, 4, 0).iter().all(is_possible));
}

/// The chunks that a rank publishes with pushed steps (or reads, `me` being the reader), for each
/// link in the order of its tokens. What is published in another way is `None`.
fn chunks(plan: &Plan, reads: bool) -> HashMap<Link, Vec<Option<u32>>> {
    let mut all: HashMap<Link, Vec<Option<u32>>> = HashMap::new();
    for step in &plan.steps {
        let (srcs, dsts) = (plan.lists.get(step.srcs), plan.lists.get(step.dsts));
        let ends = if reads { srcs } else { dsts };
        let counts = match reads {
            // A reader that would not only copy to its output could not leave that to the writer.
            true => step.op == StepOp::Copy && dsts.contains(&Operand::OUTPUT),
            false => is_pushed(step, dsts),
        };
        for index in ends.iter().filter_map(Operand::as_connection) {
            for k in 0..step.tokens() {
                let chunk = counts.then(|| step.chunk_at(k, plan.chunks));
                let link = plan.connections[index].link;
                all.entry(link).or_default().push(chunk);
            }
        }
    }
    all
}

/// The word of `may_push` is proved: the writer may write when it publishes, into the same chunk of
/// every reader's output.
#[test]
fn pushed_steps_may_be_written_directly() {
    let mut pushed = 0;
    for collective in [
        Collective::AllReduce,
        Collective::AllGather,
        Collective::Broadcast,
    ] {
        for nranks in (2..=17).chain([32, 64]) {
            for root in [0, nranks - 1] {
                let plans = plans(collective, nranks, root);
                let pushes = collective != Collective::Broadcast || nranks == 2;
                let all = plans.iter().filter(|plan| may_push(plan)).count();
                assert_eq!(
                    all,
                    if pushes { plans.len() } else { 0 },
                    "{collective:?} {nranks}"
                );
                let options = Options {
                    slices: vec![1],
                    every_capacity: false,
                    ..Options::default()
                };
                let report = check(&plans, &options).unwrap_or_else(|fault| panic!("{fault}"));
                for (rank, plan) in plans.iter().enumerate() {
                    for (at, step) in plan.steps.iter().enumerate() {
                        if !is_pushed(step, plan.lists.get(step.dsts)) {
                            continue;
                        }
                        pushed += 1;
                        for in_place in [false, true] {
                            assert!(
                                report.forms.allows(rank, at, Form::DirectWrite, in_place),
                                "{collective:?} of {nranks}, root {root}: rank {rank}, step {at}"
                            );
                        }
                    }
                    for (link, written) in chunks(plan, false) {
                        for reader in (0..nranks).filter(|&r| r != plan.shape.rank) {
                            let read = chunks(&plans[reader as usize], true);
                            let Some(read) = read.get(&link) else {
                                continue;
                            };
                            let pairs = written.iter().zip(read);
                            for (written, read) in pairs.filter(|(written, _)| written.is_some()) {
                                assert_eq!(written, read, "{collective:?} {nranks} {link:?}");
                            }
                        }
                    }
                }
            }
        }
    }
    assert!(pushed > 1000, "{pushed}");
}

/// Other algorithms and collectives do not push.
#[test]
fn nothing_else_is_pushed() {
    for collective in [Collective::ReduceScatter, Collective::Reduce] {
        assert!(
            !plans(collective, 4, 0).iter().any(may_push),
            "{collective:?}"
        );
    }
}

/// The writer of a cast may not write again into the output of one of its readers that
/// is still sending the first chunk on, though the other reader is done with it.
#[test]
fn direct_write_by_cast_over_output_in_use() {
    let plans = by_hand(Collective::Broadcast, 3, 1, |e, rank| match rank {
        0 => {
            let cast = e.cast(0);
            e.copy_send(cast, 0);
            e.send(cast, 0);
        }
        1 => {
            let (cast, to) = (e.cast(0), e.to(2));
            e.recv(cast, 0);
            e.send_from_output(to, 0);
            e.recv(cast, 0);
        }
        _ => {
            let (cast, from) = (e.cast(0), e.from(1));
            e.recv(cast, 0);
            e.recv(from, 0);
            e.recv(cast, 0);
        }
    });
    let report = check(&plans, &Options::default()).unwrap_or_else(|f| panic!("{f}"));
    assert!(report.forms.allows(0, 0, Form::DirectWrite, false));
    assert!(!report.forms.allows(0, 1, Form::DirectWrite, false));
    let options = Options {
        required: vec![(Form::DirectWrite, false)],
        ..Options::default()
    };
    let fault = caught(&plans, &options);
    assert_eq!((fault.rank, fault.step), (0, 1));
}
