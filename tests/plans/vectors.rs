//! Collectives of blocks of different sizes, and those along graphs: their messages as groups of
//! sends and receives, each pair with rounds of its own.

use super::sequences::members;
use kolo::algo::vector::Neighbours;
use kolo::algo::{self};
use kolo::base::exchange::{self, Transfer};
use kolo::plan::check::{self, Options};
use kolo::plan::{Algorithm, Collective, Nodes, Plan, Shape};
use std::collections::HashMap;

/// Rounds of the messages between two ranks, drawn once per message.
type Rounds = HashMap<(u32, u32, usize), u32>;

fn plan(collective: Collective, rank: u32, n: u32, peer: u32) -> Plan {
    let shape = Shape {
        collective,
        algorithm: Algorithm::Bundle,
        rank,
        nranks: n,
        root: peer,
        channels: 1,
    };
    algo::plan(&shape, &Nodes::one(n)).expect("registered")
}

/// The sends and receives of all ranks, as the checker takes them.
fn groups(lists: &[Vec<Transfer>], random: &mut fastrand::Rng) -> Vec<Vec<(Plan, u32)>> {
    let n = lists.len() as u32;
    let mut rounds = Rounds::new();
    let mut draw = |from: u32, to: u32, number: usize| {
        *rounds
            .entry((from, to, number))
            .or_insert_with(|| random.u32(1..=4))
    };
    let mut groups = Vec::new();
    for (rank, list) in lists.iter().enumerate() {
        let rank = rank as u32;
        let mut seen: HashMap<(u32, u32), usize> = HashMap::new();
        let mut next = |from, to| {
            let number = seen.entry((from, to)).or_default();
            *number += 1;
            *number
        };
        let group = list.iter().filter_map(|message| match *message {
            Transfer::Send { to, .. } => {
                let rounds = draw(rank, to, next(rank, to));
                Some((plan(Collective::Send, rank, n, to), rounds))
            }
            Transfer::Recv { from, .. } => {
                let rounds = draw(from, rank, next(from, rank));
                Some((plan(Collective::Recv, rank, n, from), rounds))
            }
            _ => None,
        });
        groups.push(group.collect());
    }
    groups
}

fn prove(what: &str, lists: &[Vec<Transfer>], random: &mut fastrand::Rng) {
    let groups = groups(lists, random);
    let report = check::check_bundle(&members(&groups), &Options::default())
        .unwrap_or_else(|fault| panic!("{what}: {fault}"));
    assert!(
        report.least_tokens.iter().all(|&least| least <= 1),
        "{what}"
    );
}

/// Reduce-scatter is proved as a plan of its own: its lanes are these sends and one fold.
#[test]
fn blocks_of_different_sizes() {
    let collectives = [
        Collective::AllGatherV,
        Collective::GatherV,
        Collective::ScatterV,
        Collective::AllToAllV,
    ];
    let mut random = fastrand::Rng::with_seed(5);
    for collective in collectives {
        for n in (1..=12).chain([16, 33]) {
            let root = random.u32(0..n);
            let lists: Vec<_> = (0..n)
                .map(|rank| exchange::transfers(collective, rank, n, root).collect())
                .collect();
            prove(
                &format!("{collective:?} of {n}, root {root}"),
                &lists,
                &mut random,
            );
        }
    }
}

/// Several edges between the same ranks keep their order.
#[test]
fn random_graphs_and_grids() {
    for seed in 0..100 {
        let mut random = fastrand::Rng::with_seed(seed);
        let n = random.u32(1..=9);
        let mut neighbours: Vec<Neighbours> = vec![Neighbours::default(); n as usize];
        for from in 0..n {
            for _ in 0..random.usize(..5) {
                let to = random.u32(..n);
                neighbours[from as usize].outs.push(Some(to));
                neighbours[to as usize].ins.push(Some(from));
            }
        }
        let lists: Vec<_> = neighbours
            .into_iter()
            .enumerate()
            .map(|(rank, one)| Neighbours::new(one.ins, one.outs).messages(rank as u32, false))
            .collect();
        prove(&format!("graph {seed}"), &lists, &mut random);
        let dims: Vec<u32> = (0..random.usize(1..4)).map(|_| random.u32(1..4)).collect();
        let periodic: Vec<bool> = dims.iter().map(|_| random.bool()).collect();
        let lists: Vec<_> = (0..dims.iter().product())
            .map(|rank| Neighbours::cartesian(rank, &dims, &periodic).messages(rank, false))
            .collect();
        prove(&format!("grid {dims:?} {periodic:?}"), &lists, &mut random);
    }
}
