//! Plans made by hand that use packed tokens, casts and scratch: proved, run on the naive machine,
//! and mutated.

use super::machine::{self, Setting};
use super::samples::{self, SAMPLES, Sample};
use kolo::plan::check::{self, Counterexample, Form, Member, Options, Report};
use kolo::plan::dump::dump;
use kolo::plan::{Collective, Emitter, Layout, Operand, Plan, Runs, Shape, Step, StepOp};

/// Ranks up to here.
const MOST: u32 = 17;

fn fitting(sample: &Sample, most: u32) -> impl Iterator<Item = u32> {
    let fits = sample.fits;
    (1..=most).filter(move |&n| fits(n))
}

pub fn proved(plans: &[Plan], what: &str) -> Report {
    check::check(plans, &Options::default()).unwrap_or_else(|fault| panic!("{what}: {fault}"))
}

#[test]
fn samples_are_proved_and_run() {
    for sample in SAMPLES {
        for n in fitting(sample, MOST).chain((sample.fits)(32).then_some(32)) {
            for channels in [1, 2] {
                let what = format!("{} of {n}, {channels} channels", sample.name);
                let plans = samples::plans(sample, n, channels);
                let report = proved(&plans, &what);
                for seed in 0..3 {
                    let setting = Setting {
                        rounds: 2,
                        slices: 2,
                        capacity: [report.least_tokens[1].max(1) as usize, 8, 8][seed as usize],
                        in_place: seed == 2 && report.in_place_ok,
                        seed,
                    };
                    let run = machine::run(&plans, setting);
                    run.unwrap_or_else(|fault| panic!("{what}, {setting:?}: {fault}"));
                }
            }
        }
    }
}

/// A packed token is one hand-over: log2(n) of them, whatever the number of chunks.
#[test]
fn packed_tokens_are_single_tokens() {
    let sample = &SAMPLES[1];
    let plans = samples::plans(sample, 16, 1);
    for plan in &plans {
        assert_eq!(plan.steps_per_round(), 4 * 4);
        assert_eq!(plan.pieces, 8);
        for index in 0..plan.connections.len() {
            assert_eq!(plan.touches(index), 2, "one way there and one way back");
        }
        let text = dump(plan);
        assert!(text.contains("packed"), "{text}");
    }
    let report = proved(&plans, sample.name);
    // Only what is not packed can lie whole in user memory: the last exchange before the turn.
    assert!(
        report
            .forms
            .steps(Form::DirectRead, false)
            .all(|(rank, step)| {
                let step = &plans[rank].steps[step];
                !step.is_packed()
            })
    );
}

fn caught(plans: &[Plan]) -> Counterexample {
    let fault = check::check(plans, &Options::default()).expect_err("the fault must be caught");
    println!("{fault}");
    fault
}

#[test]
fn faults_of_packed_steps() {
    let original = samples::plans(&SAMPLES[1], 8, 1);
    // Another chunk of the same number.
    let mut plans = original.clone();
    plans[3].steps[0].chunk = 1;
    let fault = caught(&plans);
    assert!(fault.message.contains("expects chunks"), "{fault}");
    assert!(fault.message.contains("rank 3, lane 0, step 0"), "{fault}");
    // One chunk less, on one side.
    let mut plans = original.clone();
    plans[3].steps[0].chunks = 3;
    assert!(caught(&plans).message.contains("expects chunks"));
    // More than the ranks agreed on.
    let mut plans = original.clone();
    plans[3].steps[0].chunks = 5;
    let fault = caught(&plans);
    assert!(fault.message.contains("hold at most 4"), "{fault}");
    // Ranks that do not agree.
    let mut plans = original.clone();
    plans[5].pieces = 6;
    let fault = caught(&plans);
    assert_eq!(fault.rank, 5);
    assert!(fault.message.contains("Emitter::pieces"), "{fault}");
    // The same chunk twice in one token.
    let mut plans = original.clone();
    (plans[2].steps[0].repeat, plans[2].steps[0].chunks) = (2, 2);
    plans[2].steps[0].stride = 1;
    let fault = caught(&plans);
    assert!(fault.message.contains("packs chunk"), "{fault}");
    // Flags that do not exist.
    let mut plans = original;
    plans[2].steps[0].flags |= 64;
    assert!(caught(&plans).message.contains("flags"));
}

fn by_hand(collective: Collective, layout: Layout, build: impl Fn(&mut Emitter, u32)) -> Vec<Plan> {
    let plan = |rank| {
        let shape = Shape {
            collective,
            algorithm: kolo::plan::Algorithm::Ring,
            rank,
            nranks: 2,
            root: 0,
            channels: 1,
        };
        let mut e = Emitter::new(shape, 4, layout);
        build(e.lane(0), rank);
        e.finish()
    };
    (0..2).map(plan).collect()
}

/// A reader that gets fewer blocks than were packed: lengths are alike, numbers are not.
#[test]
fn packed_blocks_are_counted() {
    let plans = by_hand(Collective::AllToAll, Layout::Blocks, |e, rank| match rank {
        0 => {
            let to = e.to(1);
            e.send_many(to, 0..2);
        }
        _ => {
            let from = e.from(0);
            e.recv_many(from, 0..1);
        }
    });
    let mut plans = plans;
    plans[1].pieces = 2;
    let fault = caught(&plans);
    assert!(
        fault.message.contains("expects chunk 0 but gets 2 chunks"),
        "{fault}"
    );
}

/// Pieces of one step that are copied over each other have no order.
#[test]
fn pieces_that_lie_on_each_other() {
    let plans = by_hand(Collective::AllGather, Layout::Blocks, |e, rank| {
        e.copy(i64::from(rank));
        let moved = Operand::OUTPUT.at(1);
        let runs = Runs::from(0..2);
        e.pack((StepOp::Copy, 0), &[Operand::OUTPUT], &[moved], runs);
    });
    let fault = caught(&plans);
    assert!(
        fault.message.contains("lie on each other at output"),
        "{fault}"
    );
}

/// In a split, one chunk is no place for another.
#[test]
fn chunks_of_a_split_are_not_taken_for_each_other() {
    let plans = by_hand(Collective::AllReduce, Layout::Split, |e, _| {
        e.step(
            StepOp::Copy,
            0,
            &[Operand::INPUT.at(1)],
            &[Operand::OUTPUT],
            0,
        );
    });
    let fault = caught(&plans);
    assert!(fault.message.contains("lengths differ"), "{fault}");
}

fn named(name: &str) -> &'static Sample {
    let found = SAMPLES.iter().find(|sample| sample.name == name);
    found.expect("a sample")
}

/// Every reader of a cast must read every token.
#[test]
fn readers_that_leave_a_cast_alone() {
    let original = samples::plans(named("broadcast by casts of packed chunks"), 5, 1);
    let mut plans = original.clone();
    plans[3].steps.pop();
    plans[3].lanes[0].steps.end -= 1;
    let fault = caught(&plans);
    assert_eq!((fault.rank, fault.step), (0, 1));
    let wanted = "2 tokens a round on the cast of rank 0 on channel 0, but rank 3 receives 1";
    assert!(fault.message.contains(wanted), "{fault}");
    let mut plans = original;
    plans[4].steps.clear();
    plans[4].lanes.clear();
    assert!(caught(&plans).message.contains("rank 4 receives 0"));
}

/// The credit of a cast is that of its slowest reader: two ranks that read each other's casts
/// only after having cast more than the slots hold wait for ever.
#[test]
fn casts_wait_for_their_slowest_reader() {
    let plans = by_hand(Collective::AllGather, Layout::Blocks, |e, rank| {
        let (mine, theirs) = (e.cast(rank), e.cast(1 - rank));
        for _ in 0..3 {
            e.copy_send(mine, i64::from(rank));
        }
        for _ in 0..3 {
            e.recv(theirs, i64::from(1 - rank));
        }
    });
    let mut plans = plans;
    plans.iter_mut().for_each(|plan| plan.chunks = 2);
    let report = proved(&plans, "three casts each");
    assert_eq!(report.least_tokens, [3, 6]);
    let few = Options {
        most_tokens: 2,
        ..Options::default()
    };
    let fault = check::check(&plans, &few).expect_err("two tokens are too few");
    assert!(
        fault
            .message
            .contains("waits for credit on the cast of rank"),
        "{fault}"
    );
}

/// Data that are cast may be read where they lie, and their writer may write into all readers'
/// outputs.
#[test]
fn forms_of_casts() {
    let plans = samples::plans(named("all-gather by casts"), 4, 1);
    let report = proved(&plans, "all-gather by casts");
    assert!(report.direct_read_ok.out_of_place && report.direct_read_ok.in_place);
    assert!(report.direct_write_ok.out_of_place && report.direct_write_ok.in_place);
    let casts = report.forms.steps(Form::DirectWrite, false);
    assert_eq!(casts.count(), 4, "one a rank");
    assert!(
        proved(
            &samples::plans(named("all-reduce by casts, in rank order"), 5, 1),
            ""
        )
        .rank_ordered
    );
}

/// Scratch: what it needs is stated, what is read was written, and as the same chunk of a split.
#[test]
fn faults_of_scratch() {
    let bruck = samples::plans(named("all-to-all by Bruck"), 5, 1);
    assert!(bruck.iter().all(|plan| plan.scratch == 5));
    assert!(dump(&bruck[0]).contains("5 of scratch a lane"));
    let mut plans = bruck.clone();
    plans[2].scratch = 4;
    let fault = caught(&plans);
    assert!(
        fault.message.contains("lie on each other at scratch"),
        "{fault}"
    );
    let mut plans = bruck;
    plans[2].scratch = 0;
    assert!(caught(&plans).message.contains("the plan has none"));

    let reduce = samples::plans(named("binomial reduce with partial sums in scratch"), 4, 1);
    let mut plans = reduce.clone();
    plans[2].steps.remove(0);
    plans[2].lanes[0].steps.end -= 1;
    let fault = caught(&plans);
    assert_eq!((fault.rank, fault.step), (2, 0));
    assert!(
        fault
            .message
            .contains("reads scratch[0], which nothing has written"),
        "{fault}"
    );

    let plans = by_hand(Collective::AllReduce, Layout::Split, |e, _| {
        let srcs = [Operand::INPUT];
        e.step(StepOp::Copy, 1, &srcs, &[Operand::SCRATCH], 1);
        e.step(
            StepOp::Copy,
            0,
            &[Operand::SCRATCH.at(-2)],
            &[Operand::OUTPUT],
            3,
        );
    });
    let fault = caught(&plans);
    assert_eq!((fault.rank, fault.step), (0, 1));
    assert!(
        fault.message.contains("as chunk 3, and it holds chunk 1"),
        "{fault}"
    );
}

/// Two messages in flight use scratch each, in the same chunk number: it is not the same memory.
#[test]
fn scratch_of_calls_in_flight_is_apart() {
    let message = |collective, rank: u32| {
        let shape = Shape {
            collective,
            algorithm: kolo::plan::Algorithm::Bundle,
            rank,
            nranks: 2,
            root: 1 - rank,
            channels: 1,
        };
        let mut e = Emitter::new(shape, 1, Layout::Blocks);
        let (src, dst) = match collective {
            Collective::Send => (Operand::INPUT, e.to(1 - rank).operand()),
            _ => (e.from(1 - rank).operand(), Operand::OUTPUT),
        };
        e.step(StepOp::Copy, 0, &[src], &[Operand::SCRATCH], 0);
        e.step(StepOp::Copy, 0, &[Operand::SCRATCH], &[dst], 0);
        e.finish()
    };
    let kinds = [Collective::Send, Collective::Recv];
    let plans = [0, 1].map(|rank| kinds.map(|kind| [message(kind, rank), message(kind, rank)]));
    let groups: Vec<Vec<Member>> = plans
        .iter()
        .map(|plans| {
            let plans = plans.iter().flatten();
            plans.map(|plan| Member { plan, rounds: 2 }).collect()
        })
        .collect();
    let report = check::check_bundle(&groups, &Options::default());
    assert_eq!(
        report
            .unwrap_or_else(|fault| panic!("{fault}"))
            .least_tokens,
        [1, 1]
    );
}

/// One random change of what only packed steps have.
fn mutate(step: &mut Step, chunks: u32, random: &mut fastrand::Rng) {
    match random.u32(0..6) {
        0 => step.flags ^= kolo::plan::PACKED,
        1 => step.chunks = random.u16(0..=step.chunks + 1),
        2 => step.repeat = random.u16(0..=step.repeat + 1),
        3 if step.repeat > 1 => step.stride += random.i16(-2..=2),
        4 => step.chunk = random.u32(0..chunks),
        _ => std::mem::swap(&mut step.chunks, &mut step.repeat),
    }
}

#[test]
fn mutants_of_packed_steps_are_caught_or_harmless() {
    let (mut all, mut accepted) = (0, 0);
    for (number, sample) in SAMPLES.iter().enumerate() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed * 64 + number as u64);
            let sizes: Vec<u32> = fitting(sample, 8).filter(|&n| n > 1).collect();
            let n = sizes[random.usize(0..sizes.len())];
            let original = samples::plans(sample, n, 1);
            let mut plans = original.clone();
            let plan = &mut plans[random.usize(0..n as usize)];
            let (at, chunks) = (random.usize(0..plan.steps.len()), plan.chunks);
            mutate(&mut plan.steps[at], chunks, &mut random);
            if plans == original {
                continue;
            }
            all += 1;
            let Ok(report) = check::check(&plans, &Options::default()) else {
                continue;
            };
            accepted += 1;
            let setting = Setting {
                rounds: 2,
                slices: 2,
                capacity: report.least_tokens[1].max(1) as usize,
                in_place: report.in_place_ok,
                seed,
            };
            let run = machine::run(&plans, setting);
            run.unwrap_or_else(|fault| panic!("{}, seed {seed}, {n} ranks: {fault}", sample.name));
        }
    }
    println!("{all} mutants, {accepted} accepted and shown harmless");
    assert!(all > 500 && accepted * 3 < all, "{accepted} of {all}");
}
