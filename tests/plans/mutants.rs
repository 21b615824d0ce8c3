//! Random mutations: each is caught by the checker, or is proved harmless by running it.

use super::machine::{self, Setting};
use super::{collectives, name, options, plans};
use kolo::plan::check::{self, Options};
use kolo::plan::validate::validate;
use kolo::plan::{ListId, Operand, Plan, Step};

/// Mutations for each algorithm.
const MUTANTS: u64 = 250;

/// Removes step `at`, and its lane if nothing is left.
fn remove_step(plan: &mut Plan, at: usize) {
    plan.steps.remove(at);
    for lane in &mut plan.lanes {
        let shift = |edge: usize| if edge > at { edge - 1 } else { edge };
        lane.steps = shift(lane.steps.start)..shift(lane.steps.end);
    }
    plan.lanes.retain(|lane| !lane.steps.is_empty());
}

fn double_step(plan: &mut Plan, at: usize) {
    plan.steps.insert(at, plan.steps[at]);
    for lane in &mut plan.lanes {
        let shift = |edge: usize| if edge > at { edge + 1 } else { edge };
        lane.steps = shift(lane.steps.start)..shift(lane.steps.end);
    }
}

/// Another operand list in the place of `list`: one of the plan, or this one with an operand
/// swapped, dropped or added.
fn change_list(plan: &mut Plan, list: ListId, random: &mut fastrand::Rng) -> ListId {
    let mut operands = plan.lists.get(list).to_vec();
    match random.u32(0..5) {
        0 => return ListId(random.u16(0..plan.lists.len() as u16)),
        1 if operands.len() > 1 => {
            let (a, b) = (
                random.usize(0..operands.len()),
                random.usize(0..operands.len()),
            );
            operands.swap(a, b);
        }
        2 if !operands.is_empty() => {
            operands.remove(random.usize(0..operands.len()));
        }
        3 => operands.push([Operand::INPUT, Operand::OUTPUT][usize::from(random.bool())]),
        _ if !operands.is_empty() => {
            let at = random.usize(0..operands.len());
            operands[at].offset += random.i32(-1..=1);
        }
        _ => {}
    }
    plan.lists.intern(&operands)
}

/// One random change of one plan, in words.
fn mutate(plans: &mut [Plan], random: &mut fastrand::Rng) -> String {
    let rank = random.usize(0..plans.len());
    let plan = &mut plans[rank];
    if plan.steps.is_empty() {
        return format!("rank {rank}: nothing to change");
    }
    let at = random.usize(0..plan.steps.len());
    let step: Step = plan.steps[at];
    let what = match random.u32(0..9) {
        0 => {
            plan.steps[at].chunk = random.u32(0..plan.chunks.max(1));
            "chunk"
        }
        1 => {
            remove_step(plan, at);
            "dropped"
        }
        2 => {
            let other = random.usize(0..plan.steps.len());
            plan.steps.swap(at, other);
            "swapped with another"
        }
        3 => {
            plan.steps[at].srcs = change_list(plan, step.srcs, random);
            "sources"
        }
        4 => {
            plan.steps[at].dsts = change_list(plan, step.dsts, random);
            "destinations"
        }
        5 => {
            double_step(plan, at);
            "doubled"
        }
        6 if plan.shape.collective.reduces() => {
            plan.steps[at].flags ^= 1 << random.u8(0..2);
            "flags"
        }
        7 => {
            plan.steps[at].repeat = (step.repeat + random.u16(0..3)).saturating_sub(1);
            "repetitions"
        }
        _ if step.repeat > 1 => {
            plan.steps[at].stride += random.i16(-1..=1);
            "stride"
        }
        _ => {
            remove_step(plan, at);
            "dropped"
        }
    };
    format!("rank {rank}, step {at} of the plan: {what}")
}

/// Proves that plans which the checker accepts give the right numbers, in every schedule tried.
fn prove_harmless(plans: &[Plan], least: u32, in_place_ok: bool, what: &str) {
    for seed in 0..4 {
        let setting = Setting {
            rounds: 2,
            slices: 2,
            capacity: if seed % 2 == 0 { least as usize } else { 8 },
            in_place: seed >= 2 && in_place_ok,
            seed,
        };
        if let Err(fault) = machine::run(plans, setting) {
            panic!("{what} was accepted, but with {setting:?}: {fault}");
        }
    }
}

#[test]
fn every_mutant_is_caught_or_harmless() {
    let (mut all, mut accepted, mut strict) = (0, 0, 0);
    for entry in collectives() {
        let options = Options {
            every_capacity: false,
            ..options(entry)
        };
        for seed in 0..MUTANTS {
            let mut random = fastrand::Rng::with_seed(seed);
            let n = random.u32(2..=6);
            let original = plans(entry, n, random.u32(0..n), random.u16(1..=2));
            let mut plans = original.clone();
            let change = mutate(&mut plans, &mut random);
            if plans == original {
                continue;
            }
            let what = format!("{}, seed {seed}, {n} ranks: {change}", name(entry));
            all += 1;
            match check::check(&plans, &options) {
                Ok(report) => {
                    accepted += 1;
                    let least = report.least_tokens[1].max(1);
                    prove_harmless(&plans, least, report.in_place_ok, &what);
                }
                Err(fault) => {
                    let text = fault.to_string();
                    let place = format!(
                        "rank {}, lane {}, step {}",
                        fault.rank, fault.lane, fault.step
                    );
                    assert!(text.starts_with(&place), "{what}: {text}");
                    let setting = Setting {
                        rounds: 1,
                        slices: 1,
                        capacity: 8,
                        in_place: false,
                        seed,
                    };
                    let is_valid = plans.iter().all(|plan| validate(plan).is_ok());
                    let runs = is_valid && machine::run(&plans, setting).is_ok();
                    strict += u32::from(runs);
                }
            }
        }
    }
    println!(
        "{all} mutants (seeds 0..{MUTANTS} for each algorithm): {} caught, {accepted} accepted and \
         shown harmless; of the caught ones {strict} give right numbers in one simple run (races, \
         other fold orders, in-place hazards)",
        all - accepted
    );
    assert!(
        all > 2000 && accepted * 4 < all,
        "{accepted} of {all} accepted"
    );
}

/// The machine itself: right plans give right numbers, in place too.
#[test]
fn originals_run_on_the_machine() {
    for entry in collectives() {
        for n in 1..=5 {
            for root in 0..n {
                let plans = plans(entry, n, root, 2);
                let report =
                    check::check(&plans, &options(entry)).unwrap_or_else(|f| panic!("{f}"));
                let least = report.least_tokens[1].max(1);
                prove_harmless(&plans, least, report.in_place_ok, &name(entry));
            }
        }
    }
}
