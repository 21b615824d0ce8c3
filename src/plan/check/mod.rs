//! The checker: proves the plans of all ranks of a call, or says what goes wrong where.
//!
//! The problem: a fault in a plan is a hang, a race or a wrong sum that shows on 500 ranks, once a
//! month. The idea: a plan is data, so all ranks' plans can be run together without memory, sizes
//! or threads, and what holds there holds in every run:
//!
//! * (a) `tokens`: no deadlock, from a least capacity up, at the executor's slice granularity,
//!   over several rounds and several calls back to back;
//! * (b) `memory`: conflicting accesses to any chunk are ordered by lanes and tokens, for slots,
//!   direct reads and direct writes, in place and out of place; steps may be direct only where
//!   this says so;
//! * (c) `values`: every result is made of every contribution exactly once, all ranks get the
//!   same bits, scaling happens once; whether rank order is kept is computed.
//!
//! Before that `structure` looks at each plan, `net` lays them out flat, and `pairing` pairs the
//! k-th send of each connection with the k-th receive. Terms: *event*: one repetition of a step;
//! *port*: a connection operand of it; *place*: a chunk of user memory or scratch; *component*:
//! lanes that are connected; *piece*: one of the chunks that a packed token holds.
//!
//! All functions are pure: no clock, no environment, no randomness; any thread may call them.

mod clocks;
mod contents;
mod expressions;
mod memory;
mod net;
mod order;
mod pairing;
mod report;
mod structure;
mod tokens;
mod touch;
mod trace;
mod values;

pub use report::{Counterexample, Form, Forms, Placement, Refusal, Report};
pub use tokens::Release;
pub use trace::{TokenEvent, expected_tokens, expected_trace};

use super::Plan;
use crate::base::InPlace;
use net::{Item, Net};
use order::Order;

/// Options of a proof.
#[derive(Clone, Debug)]
pub struct Options {
    /// Slices of a chunk: the token part is done for each of these.
    pub slices: Vec<u32>,
    /// Rounds of each call.
    pub rounds: u32,
    /// Calls back to back.
    pub calls: u32,
    /// Also with credit that comes back only when a reader has completed the call, as one-shot
    /// slots do.
    pub call_end_credit: bool,
    /// The largest capacity looked at, in tokens.
    pub most_tokens: u32,
    /// All capacities from the least to the largest; else only these two.
    pub every_capacity: bool,
    /// A call returns only after every region it published is released. Off: to see why.
    pub await_release: bool,
    /// Direct access begins after all ranks exchanged addresses. Off: to see why.
    pub address_exchange: bool,
    /// Forms that *all* steps with memory for it must be able to have, with `true` for in place.
    pub required: Vec<(Form, bool)>,
}

impl Default for Options {
    /// One and two slices, three rounds, two calls, capacities to 8, all rules kept.
    fn default() -> Options {
        Options {
            slices: vec![1, 2],
            rounds: 3,
            calls: 2,
            call_end_credit: false,
            most_tokens: 8,
            every_capacity: true,
            await_release: true,
            address_exchange: true,
            required: Vec::new(),
        }
    }
}

impl Options {
    /// For plans of at most one round: four calls, and both rules of credit.
    pub fn one_round() -> Options {
        Options {
            rounds: 1,
            calls: 4,
            call_end_credit: true,
            ..Options::default()
        }
    }
}

/// Proves the plans of one collective call: `plans[r]` is rank r's.
///
/// # Errors
/// The first fault found. In place is an error where callers may rely on it, else a line of the
/// report.
pub fn check(plans: &[Plan], options: &Options) -> Result<Report, Counterexample> {
    structure::same_call(plans)?;
    let items: Vec<Item> = plans
        .iter()
        .enumerate()
        .map(|(rank, plan)| Item {
            rank: rank as u32,
            plan,
            rounds: options.rounds,
        })
        .collect();
    check_items(plans.len() as u32, &items, options.rounds, options)
}

/// A send or receive of a point-to-point group.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// A plan whose root is the peer.
    pub plan: &'a Plan,
    /// Its rounds: both sides of a pair have the same.
    pub rounds: u32,
}

/// Proves a group of sends and receives: `groups[r]` are rank r's, in the order of issue. In the
/// report, plans are numbered through.
///
/// # Errors
/// The first fault found.
pub fn check_bundle(groups: &[Vec<Member>], options: &Options) -> Result<Report, Counterexample> {
    let mut items = Vec::new();
    for (rank, members) in groups.iter().enumerate() {
        for member in members {
            let (rank, shape) = (rank as u32, &member.plan.shape);
            if shape.rank != rank || shape.nranks as usize != groups.len() {
                let message = format!("this plan is made for another rank: {shape:?}");
                return Err(Counterexample::new(member.plan, rank, 0, 0, message));
            }
            items.push(Item {
                rank,
                plan: member.plan,
                rounds: member.rounds.max(1),
            });
        }
    }
    check_items(groups.len() as u32, &items, 0, options)
}

/// One call of a sequence.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The plan of each rank.
    pub plans: &'a [Plan],
    /// Rounds.
    pub rounds: u32,
    /// Slices of a chunk.
    pub slices: u32,
    /// The rule of credit.
    pub release: Release,
}

/// Proves that a sequence of different calls does not deadlock with `capacity` tokens a
/// connection. A rank begins a call as soon as it has completed the one before.
///
/// # Errors
/// The circle of waiting lanes, or the first fault of structure.
pub fn check_sequence(calls: &[Call], capacity: u32) -> Result<(), Counterexample> {
    let nranks = calls.first().map_or(0, |call| call.plans.len());
    let mut net = Net::new(nranks as u32);
    let mut sequence = Vec::with_capacity(calls.len());
    for call in calls {
        structure::same_call(call.plans)?;
        let items: Vec<Item> = call
            .plans
            .iter()
            .enumerate()
            .map(|(rank, plan)| Item {
                rank: rank as u32,
                plan,
                rounds: call.rounds,
            })
            .collect();
        sequence.push(tokens::Call {
            block: pairing::add(&mut net, &items)?,
            rounds: call.rounds,
            slices: call.slices,
            release: call.release,
        });
    }
    let mut run = tokens::Run::new(&net, &sequence, capacity);
    match run.run(|_| ())? {
        true => Ok(()),
        false => Err(run.deadlock()),
    }
}

fn check_items(
    nranks: u32,
    items: &[Item],
    rounds: u32,
    options: &Options,
) -> Result<Report, Counterexample> {
    let mut net = Net::new(nranks);
    let block = pairing::add(&mut net, items)?;
    let mut least_tokens = Vec::with_capacity(options.slices.len());
    for &slices in &options.slices {
        least_tokens.push(least(&net, block, rounds, slices, options)?);
    }
    let order = Order::new(&net, block)?;
    let rank_ordered = values::check(&net, block, &order, false)?;
    let rules = memory::Rules {
        await_release: options.await_release,
        address_exchange: options.address_exchange,
    };
    let mut proved = memory::check(&net, block, &order, rules)?;
    let in_place = in_place(&net, block, &order, &mut proved)?;
    let placement = |form| Placement {
        out_of_place: proved.forms.all(form, false),
        in_place: proved.forms.all(form, true),
    };
    let report = Report {
        least_tokens,
        rank_ordered,
        direct_read_ok: placement(Form::DirectRead),
        direct_write_ok: placement(Form::DirectWrite),
        in_place_ok: in_place,
        events: net.events.len() as u64,
        forms: proved.forms,
        refusals: proved.refusals,
    };
    for &(form, in_place) in &options.required {
        if let Some(because) = report.refusal(form, in_place) {
            return Err(because.clone());
        }
    }
    Ok(report)
}

/// Whether slots work in place: values and memory. Where they do not, nothing may be direct.
fn in_place(
    net: &Net,
    block: usize,
    order: &Order,
    proved: &mut memory::Outcome,
) -> Result<bool, Counterexample> {
    let values = values::check(net, block, order, true).err();
    let race = proved
        .refusals
        .iter()
        .find(|refusal| refusal.form == Form::Slot);
    let race = race.map(|refusal| refusal.because.clone());
    let Some(because) = values.or(race) else {
        return Ok(true);
    };
    let first = net.blocks[block].instances.start as usize;
    if net.instances[first].plan.shape.collective.in_place() != InPlace::Never {
        return Err(because);
    }
    proved.forms.refuse_in_place();
    proved.refusals.retain(|refusal| !refusal.in_place);
    for form in [Form::Slot, Form::DirectRead, Form::DirectWrite] {
        proved.refusals.push(Refusal {
            form,
            in_place: true,
            because: because.clone(),
        });
    }
    Ok(false)
}

/// The least capacity that does not deadlock; the larger ones are run too.
fn least(
    net: &Net,
    block: usize,
    rounds: u32,
    slices: u32,
    options: &Options,
) -> Result<u32, Counterexample> {
    let rules = match options.call_end_credit {
        false => &[Release::Immediate][..],
        true => &[Release::CallEnd, Release::Immediate],
    };
    let completes = |capacity: u32| {
        for &release in rules {
            let call = tokens::Call {
                block,
                rounds,
                slices,
                release,
            };
            let calls = vec![call; options.calls as usize];
            let mut run = tokens::Run::new(net, &calls, capacity);
            if !run.run(|_| ())? {
                return Ok(Err(
                    (capacity == options.most_tokens).then(|| run.deadlock())
                ));
            }
        }
        Ok::<_, Counterexample>(Ok(()))
    };
    let mut least = 0;
    while let Err(deadlock) = completes(least)? {
        if let Some(deadlock) = deadlock {
            return Err(deadlock);
        }
        least += 1;
    }
    let first = match options.every_capacity {
        true => least + 1,
        false => options.most_tokens.max(least + 1),
    };
    for capacity in first..=options.most_tokens {
        if let Err(deadlock) = completes(capacity)? {
            let fault = "more capacity hurts: this plan is not a Kahn network";
            return Err(deadlock.unwrap_or_else(|| {
                net.instances[0].at_end(format!("{fault} (capacity {capacity})"))
            }));
        }
    }
    Ok(least)
}
