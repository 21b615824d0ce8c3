//! Different calls after each other on the same connections, and groups of sends and receives.

use super::{collectives, name, plans};
use kolo::algo;
use kolo::plan::check::{self, Call, Member, Options, Release};
use kolo::plan::{Algorithm, Collective, Nodes, Plan, Shape};

/// Seeds of each random test.
const SEEDS: u64 = 300;

/// A rank begins a call as soon as it has completed the one before, whatever that was.
#[test]
fn mixed_calls_do_not_deadlock() {
    let entries: Vec<_> = collectives().collect();
    for seed in 0..SEEDS {
        let mut random = fastrand::Rng::with_seed(seed);
        let n = random.u32(2..=9);
        let mut text = format!("seed {seed}, {n} ranks:");
        let mut capacity = 1;
        let chosen: Vec<_> = (0..random.usize(2..=6))
            .map(|_| {
                let entry = entries[random.usize(0..entries.len())];
                let root = random.u32(0..n);
                let (rounds, slices) = match entry.most_rounds {
                    0 => (random.u32(1..=3), random.u32(1..=2)),
                    most => (most, random.u32(1..=2)),
                };
                let release = match entry.most_rounds == 1 && random.bool() {
                    true => Release::CallEnd,
                    false => Release::Immediate,
                };
                text += &format!(" {} root {root} {release:?};", name(entry));
                capacity = capacity.max((entry.least_tokens)(slices));
                (
                    plans(entry, n, root, random.u16(1..=2)),
                    rounds,
                    slices,
                    release,
                )
            })
            .collect();
        let calls: Vec<Call> = chosen
            .iter()
            .map(|(plans, rounds, slices, release)| Call {
                plans,
                rounds: *rounds,
                slices: *slices,
                release: *release,
            })
            .collect();
        for tokens in [capacity, capacity + 1, 8] {
            if let Err(fault) = check::check_sequence(&calls, tokens) {
                panic!("{text} {tokens} tokens: {fault}");
            }
        }
    }
}

/// The call that needs most tokens decides for the whole sequence.
#[test]
fn a_sequence_is_as_demanding_as_its_calls() {
    let of = |collective, algorithm, root| {
        let entry = algo::find(collective, algorithm).expect("registered");
        plans(entry, 4, root, 1)
    };
    let broadcast = of(Collective::Broadcast, Algorithm::Ring, 2);
    let all_reduce = of(Collective::AllReduce, Algorithm::Ring, 0);
    let call = |plans| Call {
        plans,
        rounds: 3,
        slices: 2,
        release: Release::Immediate,
    };
    let calls = [call(&broadcast[..]), call(&all_reduce[..])];
    assert!(check::check_sequence(&calls[..1], 1).is_ok());
    assert!(check::check_sequence(&calls, 3).is_ok());
    let fault = check::check_sequence(&calls, 2).expect_err("three tokens are needed");
    let text = fault.to_string();
    assert!(
        text.contains("deadlock with 2 tokens") && text.contains("call 1"),
        "{text}"
    );
}

/// One message of a group.
#[derive(Clone, Copy)]
struct Message {
    from: u32,
    to: u32,
    rounds: u32,
}

/// Plans of each rank, with rounds, in an order of issue that keeps the order of each pair.
fn group(n: u32, messages: &[Message], random: &mut fastrand::Rng) -> Vec<Vec<(Plan, u32)>> {
    let plan = |collective, rank, peer| {
        let shape = Shape {
            collective,
            algorithm: Algorithm::Bundle,
            rank,
            nranks: n,
            root: peer,
            channels: 1,
        };
        algo::plan(&shape, &Nodes::one(n)).expect("registered")
    };
    (0..n)
        .map(|rank| {
            let sends = messages.iter().filter(|m| m.from == rank);
            let recvs = messages.iter().filter(|m| m.to == rank);
            let mut halves = [
                sends
                    .map(|m| (plan(Collective::Send, rank, m.to), m.rounds))
                    .collect::<Vec<_>>(),
                recvs
                    .map(|m| (plan(Collective::Recv, rank, m.from), m.rounds))
                    .collect(),
            ];
            halves.iter_mut().for_each(|half| half.reverse());
            let mut order = Vec::new();
            while halves.iter().any(|half| !half.is_empty()) {
                order.extend(halves[usize::from(random.bool())].pop());
            }
            order
        })
        .collect()
}

pub fn members(group: &[Vec<(Plan, u32)>]) -> Vec<Vec<Member<'_>>> {
    group
        .iter()
        .map(|rank| {
            let plans = rank.iter();
            plans
                .map(|(plan, rounds)| Member {
                    plan,
                    rounds: *rounds,
                })
                .collect()
        })
        .collect()
}

#[test]
fn random_groups_of_sends_and_receives() {
    for seed in 0..SEEDS {
        let mut random = fastrand::Rng::with_seed(seed);
        let n = random.u32(1..=7);
        let messages: Vec<Message> = (0..random.usize(1..20))
            .map(|_| Message {
                from: random.u32(0..n),
                to: random.u32(0..n),
                rounds: random.u32(1..=4),
            })
            .collect();
        let good = group(n, &messages, &mut random);
        let report = check::check_bundle(&members(&good), &Options::default())
            .unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
        assert_eq!(report.least_tokens, [1, 1], "seed {seed}");
        assert!(report.direct_read_ok.out_of_place, "seed {seed}");
        assert!(report.direct_write_ok.out_of_place, "seed {seed}");

        let victim = messages[random.usize(0..messages.len())];
        let mut missing = good.clone();
        let to = &mut missing[victim.to as usize];
        let is_recv = |(plan, _): &(Plan, u32)| {
            plan.shape.collective == Collective::Recv && plan.shape.root == victim.from
        };
        let at = to.iter().position(is_recv).expect("it is received");
        to.remove(at);
        let fault = check::check_bundle(&members(&missing), &Options::default())
            .expect_err("a receive is missing");
        // Where several messages of the pair differ in rounds, that shows first.
        let text = fault.to_string();
        assert!(
            text.contains("never received") || text.contains("rounds"),
            "seed {seed}: {text}"
        );

        let mut longer = good.clone();
        longer[victim.to as usize][at].1 += 1;
        let fault = check::check_bundle(&members(&longer), &Options::default())
            .expect_err("the sides disagree");
        assert!(fault.message.contains("rounds"), "seed {seed}: {fault}");
        assert_eq!(fault.rank, victim.to, "seed {seed}");
    }
}
