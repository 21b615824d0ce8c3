//! Every algorithm with every protocol, type and operation: results against known ones, steps
//! against those of the plans.

use crate::case::{Case, operation};
use crate::report::{Failure, Outcome, Verdict, note};
use crate::world::{Area, Rank, Setup, ranks};
use kolo::algo::REGISTRY;
use kolo::dtype::known::Data;
use kolo::dtype::{DataType, ReduceOp};
use kolo::plan::{Algorithm, Collective};
use serde_json::json;

/// Numbers of ranks.
pub const RANKS: [u32; 4] = [1, 2, 4, 8];
/// Protocols by their settings.
pub const PROTOCOLS: [&str; 3] = ["simple", "ll", "ll128"];
/// Elements of large calls: several rounds, and no multiple of anything.
const LARGE: [usize; 3] = [4_099, 50_023, 1_000_003];
/// Of small runs: as many as a GPU made of software reduces in a moment.
const LARGE_OF_SMALL: [usize; 1] = [4_099];
/// Collectives that have no algorithm of their own at this number of ranks run by the table.
const ALL_COLLECTIVES: [Collective; 11] = [
    Collective::AllReduce,
    Collective::Broadcast,
    Collective::Reduce,
    Collective::AllGather,
    Collective::ReduceScatter,
    Collective::AllToAll,
    Collective::Gather,
    Collective::Scatter,
    Collective::Scan,
    Collective::Exscan,
    Collective::Barrier,
];

/// The algorithms that a setting names, with the collectives of each.
fn algorithms() -> Vec<(Algorithm, Vec<Collective>)> {
    let mut found: Vec<(Algorithm, Vec<Collective>)> = Vec::new();
    let words = kolo::config::Algo::WORDS;
    for entry in REGISTRY {
        if !words.iter().any(|word| word.text == entry.algorithm.name()) {
            continue;
        }
        match found.iter_mut().find(|it| it.0 == entry.algorithm) {
            Some((_, collectives)) => collectives.push(entry.collective),
            None => found.push((entry.algorithm, vec![entry.collective])),
        }
    }
    found
}

/// One number of ranks with one protocol: each algorithm in turn, and the table's own choice.
pub fn run(setup: &Setup, nranks: u32, protocol: &str) -> Outcome {
    let mut calls = 0;
    let mut forced: Vec<(&str, Vec<Collective>)> = vec![("", ALL_COLLECTIVES.to_vec())];
    let named = algorithms();
    if nranks > 1 {
        forced.extend(
            named
                .iter()
                .map(|(algorithm, of)| (algorithm.name(), of.clone())),
        );
    }
    for (number, (name, collectives)) in (0..).zip(&forced) {
        let mut settings = vec![("proto", protocol)];
        if !name.is_empty() {
            settings.push(("algo", name));
        }
        note(format_args!("{nranks} ranks, {settings:?}"));
        let all = ranks(setup, nranks, &settings, |rank| {
            let mut work = Work::new(rank, setup.is_small, number)?;
            for &collective in collectives {
                work.every_call(collective)?;
            }
            if nranks > 1 {
                rank.has_done_its_steps()?;
            }
            Ok(work.calls)
        });
        calls += all[0];
    }
    Ok(Verdict::Passed(json!({
        "ranks": nranks,
        "calls": calls,
        "algorithms": forced.len() - 1,
    })))
}

/// The calls of a rank of one communicator.
struct Work<'a> {
    rank: &'a Rank,
    is_small: bool,
    /// Which of the selections of small runs this is.
    number: usize,
    areas: (Area, Area),
    calls: u64,
}

impl Work<'_> {
    fn new(rank: &Rank, is_small: bool, number: usize) -> Result<Work<'_>, Failure> {
        let n = rank.comm.nranks() as usize;
        let largest = if is_small {
            LARGE_OF_SMALL[0]
        } else {
            LARGE[2]
        };
        // Elements of 16 bytes are moved in small calls only.
        let bytes = (largest * 8 * n).max(200 * 16 * n);
        Ok(Work {
            rank,
            is_small,
            number,
            areas: (rank.area(bytes)?, rank.area(bytes)?),
            calls: 0,
        })
    }

    /// All types and operations of a collective, and some large calls.
    fn every_call(&mut self, collective: Collective) -> Result<(), Failure> {
        let kinds = kinds(collective);
        for (at, &(dtype, op)) in kinds.iter().enumerate() {
            // A small run takes a few, and other ones from communicator to communicator.
            let turn = at + 7 * self.number + collective as usize;
            if !self.is_small || turn.is_multiple_of(kinds.len().min(36)) {
                // Around the borders of words and lines.
                let count = 1 + (turn * 37 + at * 11) % 199;
                self.call(collective, (dtype, op), count)?;
            }
        }
        if collective == Collective::Barrier {
            return Ok(());
        }
        let large: &[usize] = if self.is_small {
            &LARGE_OF_SMALL
        } else {
            &LARGE
        };
        for (at, &count) in large.iter().enumerate() {
            let kinds = [
                (DataType::Float32, ReduceOp::Sum),
                (DataType::Int64, ReduceOp::Max),
                (DataType::Bfloat16, ReduceOp::Sum),
            ];
            let (dtype, op) = kinds[(at + self.number) % 3];
            self.call(
                collective,
                (dtype, collective.reduces().then_some(op)),
                count,
            )?;
        }
        Ok(())
    }

    fn call(
        &mut self,
        collective: Collective,
        (dtype, op): (DataType, Option<ReduceOp>),
        count: usize,
    ) -> Result<(), Failure> {
        let nranks = self.rank.comm.nranks();
        self.calls += 1;
        let case = Case {
            collective,
            data: Data {
                dtype,
                op,
                nranks,
                repetition: self.calls,
            },
            count: if collective == Collective::Barrier {
                0
            } else {
                count
            },
            root: (self.calls % u64::from(nranks)) as u32,
            in_place: self.calls % 3 == 1 && can_be_in_place(collective),
        };
        let handle = operation(self.rank, dtype, op)?;
        let checked = case.check(self.rank, (&self.areas.0, &self.areas.1), handle);
        if op == Some(ReduceOp::PreMulSum) {
            self.rank.comm.destroy_op(handle)?;
        }
        checked.map_err(|Failure(why)| Failure(format!("{case:?}: {why}")))
    }
}

fn can_be_in_place(collective: Collective) -> bool {
    !matches!(collective, Collective::AllToAll | Collective::Barrier)
}

/// Types and operations with which a collective is tried.
fn kinds(collective: Collective) -> Vec<(DataType, Option<ReduceOp>)> {
    if collective == Collective::Barrier {
        return vec![(DataType::Int8, None)];
    }
    if !collective.reduces() {
        return DataType::ALL.iter().map(|&dtype| (dtype, None)).collect();
    }
    let ops = ReduceOp::NCCL.into_iter();
    let ops = ops.filter(|&op| !(collective.is_scan() && op == ReduceOp::Avg));
    ops.flat_map(|op| DataType::NCCL.map(|dtype| (dtype, Some(op))))
        .filter(|(dtype, op)| op.is_some_and(|op| op.combines(*dtype)))
        .collect()
}
