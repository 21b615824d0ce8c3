//! Seeded faults: each is caught, and the message names rank and step.

use super::{collectives, name, options, plans};
use kolo::algo;
use kolo::plan::check::{self, Counterexample, Form, Member, Options};
use kolo::plan::{
    Algorithm, Collective, Emitter, Layout, Operand, POST_SCALE, PRE_SCALE, Plan, Shape, StepOp,
};

fn of(collective: Collective, algorithm: Algorithm, n: u32, root: u32) -> Vec<Plan> {
    let entry = algo::find(collective, algorithm).expect("registered");
    plans(entry, n, root, 1)
}

fn ring_all_reduce(n: u32) -> Vec<Plan> {
    of(Collective::AllReduce, Algorithm::Ring, n, 0)
}

/// The counterexample, whose text names rank and step and shows the step.
pub fn caught(plans: &[Plan], options: &Options) -> Counterexample {
    let fault = check::check(plans, options).expect_err("the fault must be caught");
    let text = fault.to_string();
    let Counterexample {
        rank, lane, step, ..
    } = fault;
    assert!(
        text.starts_with(&format!("rank {rank}, lane {lane}, step {step}: ")),
        "{text}"
    );
    assert!(text.contains(&format!("> {step:>3}  ")), "{text}");
    println!("{text}");
    fault
}

/// Makes the plans of `n` ranks by hand.
pub fn by_hand(
    collective: Collective,
    n: u32,
    chunks: u32,
    build: impl Fn(&mut Emitter, u32),
) -> Vec<Plan> {
    (0..n)
        .map(|rank| {
            let shape = Shape {
                collective,
                algorithm: Algorithm::OneShot,
                rank,
                nranks: n,
                root: 0,
                channels: 1,
            };
            let mut e = Emitter::new(shape, chunks, Layout::Blocks);
            build(e.lane(0), rank);
            e.finish()
        })
        .collect()
}

#[test]
fn wrong_chunk() {
    let mut plans = ring_all_reduce(5);
    // Rank 2 sends chunk 3 where chunk 1 is due.
    plans[2].steps[0].chunk = 3;
    let fault = caught(&plans, &Options::default());
    assert_eq!((fault.rank, fault.step), (3, 1));
    assert!(
        fault.message.contains("expects chunk 1 but gets chunk 3"),
        "{fault}"
    );
    assert!(fault.message.contains("rank 2, lane 0, step 0"), "{fault}");

    let mut plans = of(Collective::AllGather, Algorithm::Ring, 4, 0);
    // Both at once: received into the wrong block.
    let last = plans[1].steps.len() - 1;
    plans[1].steps[last].chunk = 1;
    let fault = caught(&plans, &Options::default());
    assert_eq!((fault.rank, fault.step), (1, last));
    assert!(
        fault
            .message
            .contains("output[1] ends as input[0] of rank 2"),
        "{fault}"
    );
}

#[test]
fn missing_receive() {
    let mut plans = ring_all_reduce(4);
    let plan = &mut plans[3];
    plan.steps.pop();
    plan.lanes[0].steps.end -= 1;
    let fault = caught(&plans, &Options::default());
    assert_eq!(fault.rank, 2);
    assert!(
        fault
            .message
            .contains("rank 3 receives 5; this one is never received"),
        "{fault}"
    );
}

#[test]
fn a_reader_that_leaves_a_fan_alone() {
    let mut plans = of(Collective::Broadcast, Algorithm::OneShot, 4, 1);
    plans[2].steps.clear();
    plans[2].lanes.clear();
    let fault = caught(&plans, &Options::one_round());
    assert_eq!((fault.rank, fault.step), (1, 0));
    assert!(fault.message.contains("rank 2 receives 0"), "{fault}");
}

#[test]
fn doubled_send() {
    let mut plans = ring_all_reduce(4);
    plans[1].steps[0].repeat = 2;
    let fault = caught(&plans, &Options::default());
    assert!(fault.rank == 1 || fault.rank == 2, "{fault}");

    let mut plans = of(Collective::Reduce, Algorithm::OneShot, 4, 0);
    plans[3].steps[0].repeat = 2;
    let fault = caught(&plans, &Options::one_round());
    assert_eq!((fault.rank, fault.step), (3, 0));
    assert!(fault.message.contains("rank 0 receives 1"), "{fault}");
}

/// For every algorithm: one token fewer than the least deadlocks, and the circle is named.
#[test]
fn too_few_slots() {
    for entry in collectives() {
        for n in [2, 3, 7] {
            let plans = plans(entry, n, 0, 1);
            let whole = options(entry);
            let report = check::check(&plans, &whole).unwrap_or_else(|fault| panic!("{fault}"));
            for (slices, least) in [1, 2].into_iter().zip(report.least_tokens) {
                let options = Options {
                    slices: vec![slices],
                    most_tokens: least - 1,
                    ..whole.clone()
                };
                let fault = caught(&plans, &options);
                let wanted = format!("deadlock with {} tokens a connection: rank", least - 1);
                assert!(
                    fault.message.starts_with(&wanted),
                    "{}: {fault}",
                    name(entry)
                );
            }
        }
    }
}

#[test]
fn contributions_twice_or_never() {
    // Rank 1 folds rank 0's fan and its own input twice.
    let twice = |n| {
        by_hand(Collective::AllReduce, n, 1, move |e, rank| {
            let mine = e.fan(rank);
            e.send(mine, 0);
            let mut srcs: Vec<Operand> = (0..n)
                .map(|r| {
                    if r == rank {
                        Operand::INPUT
                    } else {
                        e.fan(r).operand()
                    }
                })
                .collect();
            if rank == 1 {
                srcs.push(Operand::INPUT);
            }
            e.fold(&srcs, 0);
        })
    };
    let fault = caught(&twice(3), &Options::one_round());
    assert_eq!((fault.rank, fault.step), (1, 1));
    assert!(
        fault
            .message
            .contains("contribution of rank 1 to chunk 0 twice"),
        "{fault}"
    );

    let mut plans = of(Collective::AllReduce, Algorithm::OneShot, 3, 0);
    let fold = plans[2].steps[1];
    let srcs: Vec<Operand> = plans[2].lists.get(fold.srcs)[..2].to_vec();
    plans[2].steps[1].srcs = plans[2].lists.intern(&srcs);
    let fault = caught(&plans, &Options::one_round());
    assert_eq!((fault.rank, fault.step), (2, 1));
    assert!(
        fault.message.contains("lacks the contribution of rank 2"),
        "{fault}"
    );
}

/// A sum in another order may have other bits.
#[test]
fn ranks_that_fold_in_different_orders() {
    let mut plans = of(Collective::AllReduce, Algorithm::OneShot, 3, 0);
    let fold = plans[2].steps[1];
    let mut srcs: Vec<Operand> = plans[2].lists.get(fold.srcs).to_vec();
    srcs.swap(0, 1);
    plans[2].steps[1].srcs = plans[2].lists.intern(&srcs);
    let fault = caught(&plans, &Options::one_round());
    assert_eq!((fault.rank, fault.step), (2, 1));
    assert!(
        fault.message.contains("another order than rank 0"),
        "{fault}"
    );
}

#[test]
fn scaling_left_out_or_doubled() {
    for (flag, words) in [(PRE_SCALE, "PRE_SCALE"), (POST_SCALE, "POST_SCALE")] {
        let mut plans = ring_all_reduce(4);
        let steps = &mut plans[1].steps;
        let at = steps
            .iter()
            .rposition(|step| step.flags & flag != 0)
            .expect("scales");
        steps[at].flags &= !flag;
        let fault = caught(&plans, &Options::default());
        assert!(fault.message.contains(words), "{fault}");
        // An unscaled result shows at whoever first compares it.
        let place = (fault.rank, fault.step);
        assert!(flag == POST_SCALE || place == (1, at), "{fault}");
    }
    let mut plans = ring_all_reduce(4);
    plans[1].steps[3].flags |= POST_SCALE;
    let fault = caught(&plans, &Options::default());
    assert_eq!((fault.rank, fault.step), (1, 3));
    assert!(
        fault.message.contains("post-scales a value twice"),
        "{fault}"
    );
}

/// The counterexample of the design: a fast rank writes its result over the input that slower
/// ranks still read.
#[test]
fn direct_one_shot_all_reduce_in_place() {
    let plans = of(Collective::AllReduce, Algorithm::OneShot, 3, 0);
    let required = |in_place| Options {
        required: vec![(Form::DirectRead, in_place)],
        ..Options::one_round()
    };
    assert!(check::check(&plans, &required(false)).is_ok());
    let fault = caught(&plans, &required(true));
    assert!(
        fault.message.starts_with("in place, direct read: "),
        "{fault}"
    );
    assert_eq!(fault.step, 1);
    // The other side.
    assert!(fault.message.contains("lane 0, step 1"), "{fault}");
    let report = check::check(&plans, &Options::one_round()).unwrap_or_else(|f| panic!("{f}"));
    assert!(report.in_place_ok && !report.direct_read_ok.in_place);
    assert_eq!(report.forms.steps(Form::DirectRead, true).count(), 0);
    assert_eq!(report.forms.steps(Form::DirectRead, false).count(), 3);
}

/// The other counterexample of the design: the root of a direct broadcast returns while its buffer
/// is published. Awaiting the release makes it sound.
#[test]
fn early_return_of_a_published_buffer() {
    for algorithm in [Algorithm::OneShot, Algorithm::Ring] {
        let plans = of(Collective::Broadcast, algorithm, 4, 2);
        let mut options = Options {
            required: vec![(Form::DirectRead, false)],
            ..Options::default()
        };
        assert!(check::check(&plans, &options).is_ok());
        options.await_release = false;
        let fault = caught(&plans, &options);
        assert_eq!(fault.step, 0);
        assert!(
            fault.message.contains("the call returns while rank"),
            "{fault}"
        );
    }
}

/// A direct writer must not write before the reader has entered the call.
#[test]
fn direct_write_without_exchange_of_addresses() {
    let plans = of(Collective::Gather, Algorithm::Bundle, 3, 0);
    let mut options = Options {
        required: vec![(Form::DirectWrite, false)],
        ..Options::default()
    };
    assert!(check::check(&plans, &options).is_ok());
    options.address_exchange = false;
    let fault = caught(&plans, &options);
    assert_eq!(fault.step, 0);
    assert!(
        fault.message.contains("before rank 0 has entered the call"),
        "{fault}"
    );
    // A ring writes only chunks to which the reader has contributed: it has entered.
    let plans = ring_all_reduce(3);
    assert!(check::check(&plans, &options).is_ok_and(|r| r.direct_write_ok.out_of_place));
}

/// Output that is received twice: the second one must not be direct, because the first is still
/// being sent on; and what is sent on must not be read where it lies.
#[test]
fn direct_over_output_in_use() {
    let plans = by_hand(Collective::Broadcast, 3, 1, |e, rank| match rank {
        0 => {
            let to = e.to(1);
            e.copy_send(to, 0);
            e.send(to, 0);
        }
        1 => {
            let (from, to) = (e.from(0), e.to(2));
            e.recv(from, 0);
            e.send_from_output(to, 0);
            e.recv(from, 0);
        }
        _ => {
            let from = e.from(1);
            e.recv(from, 0);
        }
    });
    let report = check::check(&plans, &Options::default()).unwrap_or_else(|f| panic!("{f}"));
    assert!(report.forms.allows(0, 0, Form::DirectWrite, false));
    assert!(!report.forms.allows(0, 1, Form::DirectWrite, false));
    assert!(report.forms.allows(0, 1, Form::DirectRead, false));
    assert!(!report.forms.allows(1, 1, Form::DirectRead, false));
    let require = |form| Options {
        required: vec![(form, false)],
        ..Options::default()
    };
    let fault = caught(&plans, &require(Form::DirectWrite));
    assert_eq!((fault.rank, fault.step), (0, 1));
    assert!(
        fault.message.contains("while rank 1, lane 0, step"),
        "{fault}"
    );
    let fault = caught(&plans, &require(Form::DirectRead));
    assert_eq!((fault.rank, fault.step), (1, 2));
    assert!(
        fault
            .message
            .contains("rank 2, lane 0, step 0 may still read it"),
        "{fault}"
    );
}

/// Two lanes of a rank that do not know of each other: apart they are right, in place they race.
#[test]
fn in_place_hazard_between_lanes() {
    let plans = by_hand(Collective::AllReduce, 2, 1, |e, rank| {
        let to = e.to(1 - rank);
        e.send(to, 0);
        let from = e.lane(0).from(1 - rank);
        let mut srcs = [from.operand(), Operand::INPUT];
        if rank == 0 {
            srcs.swap(0, 1);
        }
        e.fold(&srcs, 0);
    });
    let fault = caught(&plans, &Options::default());
    assert!(fault.message.starts_with("in place, "), "{fault}");
    assert!(fault.message.contains("lane"), "{fault}");
}

/// Input that is read after the output was written over it, in one lane.
#[test]
fn in_place_hazard_within_a_lane() {
    let plans = by_hand(Collective::AllReduce, 3, 1, |e, rank| {
        // Everybody to rank 0; rank 0 writes the result and then folds its input again.
        if rank > 0 {
            let root = e.to(0);
            e.send(root, 0);
            let back = e.lane(0).from(0);
            return e.recv(back, 0);
        }
        let parts = [1, 2].map(|r| e.from(r).operand());
        let srcs = [Operand::INPUT, parts[0], parts[1]];
        e.fold(&srcs, 0);
        let (a, b) = (e.to(1), e.to(2));
        e.step(
            StepOp::Copy,
            0,
            &[Operand::OUTPUT],
            &[a.operand(), b.operand()],
            0,
        );
        e.copy(0);
        e.fold(&[Operand::OUTPUT], 0);
    });
    let fault = caught(&plans, &Options::default());
    assert_eq!(fault.rank, 0);
}

/// Lanes of one rank that write one chunk of the output, ordered by nothing.
#[test]
fn racing_lanes() {
    let plans = by_hand(Collective::Broadcast, 3, 1, |e, rank| match rank {
        0 => {
            e.copy(0);
            for peer in [1, 2] {
                let to = e.lane(0).to(peer);
                e.send(to, 0);
            }
            // Rank 1 gets it a second time, from rank 2.
        }
        1 => {
            let from = e.lane(0).from(0);
            e.recv(from, 0);
            let from = e.lane(0).from(2);
            e.recv(from, 0);
        }
        _ => {
            let (from, to) = (e.from(0), e.to(1));
            e.recv_copy_send(from, to, 0);
        }
    });
    let fault = caught(&plans, &Options::default());
    assert_eq!((fault.rank, fault.step), (1, 0));
    assert!(
        fault
            .message
            .contains("writes output[0] while rank 1, lane"),
        "{fault}"
    );
}

/// Everybody signals its neighbour only.
#[test]
fn a_barrier_that_is_none() {
    let barrier = |rounds: u32| {
        by_hand(Collective::Barrier, 4, 1, move |e, rank| {
            for round in 0..rounds {
                let distance = 1 << round;
                let to = e.to((rank + distance) % 4);
                let from = e.from((rank + 4 - distance) % 4);
                e.signal(&[to.operand()]);
                e.wait(&[from.operand()]);
            }
        })
    };
    let fault = caught(&barrier(1), &Options::one_round());
    assert_eq!((fault.rank, fault.step), (0, 1));
    assert!(fault.message.contains("rank 1 may not be in it"), "{fault}");
    // Dissemination in log2(n) rounds is one.
    assert!(check::check(&barrier(2), &Options::one_round()).is_ok());
}

/// A kept token is read again; it costs a slot for each slice, and it must be released.
#[test]
fn kept_tokens() {
    let keep = |release: bool| {
        by_hand(Collective::Broadcast, 3, 1, move |e, rank| match rank {
            0 => {
                let next = e.to(1);
                e.copy_send(next, 0);
            }
            1 => {
                let (from, to) = (e.from(0), e.to(2));
                let kept = Operand {
                    keep: true,
                    ..from.operand()
                };
                e.step(StepOp::Copy, 0, &[kept], &[Operand::OUTPUT], 0);
                let again = if release { from.operand() } else { kept };
                e.step(StepOp::Copy, 0, &[again], &[to.operand()], 0);
            }
            _ => {
                let from = e.from(1);
                e.recv(from, 0);
            }
        })
    };
    let report = check::check(&keep(true), &Options::default()).unwrap_or_else(|f| panic!("{f}"));
    assert_eq!(report.least_tokens, [1, 2]);
    // Nobody can fill the output of a reader that reads the token twice, or has no memory to read.
    assert!(!report.forms.allows(0, 0, Form::DirectWrite, false));
    assert!(!report.forms.allows(1, 1, Form::DirectRead, false));
    let fault = caught(&keep(false), &Options::default());
    assert_eq!(fault.rank, 0);
    assert!(fault.message.contains("rank 1 receives 0"), "{fault}");
}

/// The send of a group that is meant for somebody else.
#[test]
fn a_group_with_plans_of_another_rank() {
    let plan = by_hand(Collective::Send, 2, 1, |e, rank| {
        let to = e.to(1 - rank);
        e.send(to, 0);
    });
    let member = |rank: usize| Member {
        plan: &plan[rank],
        rounds: 1,
    };
    let groups = [vec![member(1)], vec![]];
    let fault = check::check_bundle(&groups, &Options::default()).expect_err("not its plan");
    assert!(fault.message.contains("another rank"), "{fault}");
}
