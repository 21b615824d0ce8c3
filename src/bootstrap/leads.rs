//! The lowest ranks of all processes, as the root tells them.
//!
//! Ranks are mostly dealt to processes evenly, in blocks or in turn. So the list is told as *runs*:
//! what the root says to a process does not grow with the job there.

use crate::base::Rank;
use serde::{Deserialize, Serialize};

/// Ranks at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct LeadRun {
    first: u32,
    step: u32,
    count: u32,
}

/// An ascending list of ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Leads(Vec<LeadRun>);

impl Leads {
    /// Tells the ascending `ranks`.
    pub fn of(ranks: &[Rank]) -> Leads {
        let mut runs: Vec<LeadRun> = Vec::new();
        for rank in ranks.iter().map(|rank| rank.0) {
            match runs.last_mut() {
                Some(run) if run.count == 1 => {
                    (run.step, run.count) = (rank - run.first, 2);
                }
                Some(run) if run.first + run.step * run.count == rank => run.count += 1,
                _ => runs.push(LeadRun {
                    first: rank,
                    step: 1,
                    count: 1,
                }),
            }
        }
        Leads(runs)
    }

    /// The ranks, if they are ascending ones of `nranks`.
    pub fn ranks(&self, nranks: u32) -> Option<Vec<Rank>> {
        let mut ranks: Vec<Rank> = Vec::new();
        for run in &self.0 {
            for at in 0..run.count {
                let rank = run.step.checked_mul(at)?.checked_add(run.first)?;
                let is_next = ranks.last().is_none_or(|last| last.0 < rank);
                if rank >= nranks || !is_next {
                    return None;
                }
                ranks.push(Rank(rank));
            }
        }
        Some(ranks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::record::Record;

    impl Record for Leads {
        const NAME: &'static str = "leads";
    }

    fn list(ranks: impl IntoIterator<Item = u32>) -> Vec<Rank> {
        ranks.into_iter().map(Rank).collect()
    }

    #[test]
    fn any_list_comes_back() {
        let mut random = fastrand::Rng::with_seed(3);
        let drawn = (0..200).map(|_| list((0..90).filter(|_| random.bool())));
        let even = [
            list([]),
            list([4]),
            list(0..70),
            list((0..1000).step_by(16)),
        ];
        for ranks in drawn.collect::<Vec<_>>().into_iter().chain(even) {
            assert_eq!(Leads::of(&ranks).ranks(1000), Some(ranks));
        }
        assert_eq!(Leads::of(&list((0..100_000).step_by(16))).0.len(), 1);
    }

    #[test]
    fn what_is_no_list_of_ranks_is_refused() {
        let of = |runs: &[(u32, u32, u32)]| {
            let run = |&(first, step, count)| LeadRun { first, step, count };
            Leads(runs.iter().map(run).collect()).ranks(10)
        };
        assert_eq!(of(&[(1, 2, 5)]), Some(list([1, 3, 5, 7, 9])));
        for bad in [
            &[(1, 2, 6)][..],
            &[(0, 0, 2)],
            &[(0, 0, u32::MAX)],
            &[(9, u32::MAX, 2)],
            &[(5, 1, 2), (6, 1, 1)],
            &[(10, 1, 1)],
        ] {
            assert_eq!(of(bad), None, "{bad:?}");
        }
    }
}
