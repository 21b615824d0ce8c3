//! Ranks that are threads of one process: the exchange is shared memory and a condition variable.
//!
//! Operations are *rounds*. Every rank deposits its part; the last one makes the result and wakes
//! the others. A rank can be at most one round ahead, because the next round needs a deposit of
//! everybody, so one stored result is enough.

use super::frame::check_length;
use super::settings::{NetSettings, Warn};
use super::{Bootstrap, ContributionList};
use crate::base::clock::now;
use crate::base::{Error, Rank, Result, turns};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// When to warn, once a round, which ranks have not come.
const WARN_AFTER: Duration = Duration::from_secs(60);
/// The most missing ranks that a warning names.
const MAX_NAMED: usize = 16;

/// A [`Bootstrap`] among threads. Dropping a member while others wait for it is an error at the
/// others that names it; they never hang.
pub struct ThreadsBootstrap {
    rank: Rank,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    warn: Warn,
    warn_after: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Gather,
    Broadcast { root: u32 },
}

struct State {
    /// Number of the round that collects deposits now.
    round: u64,
    deposits: Vec<Option<Vec<u8>>>,
    count: usize,
    operation: Option<(Operation, Rank)>,
    /// Deposits of round `round - 1`.
    result: ContributionList,
    left: Vec<bool>,
    broken: Option<Error>,
}

impl ThreadsBootstrap {
    /// The members of a group of `nranks` (at least 1), in rank order: one for each thread.
    pub fn group(nranks: u32) -> Vec<ThreadsBootstrap> {
        ThreadsBootstrap::group_with(nranks, NetSettings::default().warn, WARN_AFTER)
    }

    /// Like [`ThreadsBootstrap::group`], with the warning after `warn_after` sent to `warn`.
    pub fn group_with(nranks: u32, warn: Warn, warn_after: Duration) -> Vec<ThreadsBootstrap> {
        let n = nranks as usize;
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                round: 0,
                deposits: vec![None; n],
                count: 0,
                operation: None,
                result: Vec::new().into(),
                left: vec![false; n],
                broken: None,
            }),
            changed: Condvar::new(),
            warn,
            warn_after,
        });
        let member = |rank| ThreadsBootstrap {
            rank: Rank(rank),
            shared: Arc::clone(&shared),
        };
        (0..nranks).map(member).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        let lock = self.shared.state.lock();
        lock.unwrap_or_else(PoisonError::into_inner)
    }

    fn round(&self, operation: Operation, mine: &[u8]) -> Result<ContributionList> {
        let name = match operation {
            Operation::Gather => "bootstrap all_gather",
            Operation::Broadcast { .. } => "bootstrap broadcast",
        };
        let result = self.wait_for_round(operation, mine);
        result.map_err(|error| error.at(self.rank).during(name))
    }

    fn wait_for_round(&self, operation: Operation, mine: &[u8]) -> Result<ContributionList> {
        let (start, mut warned) = (now(), false);
        let mut state = self.lock();
        let round = state.round;
        state.deposit(self.rank, operation, mine)?;
        if state.round > round || state.broken.is_some() {
            self.shared.changed.notify_all();
        }
        loop {
            // A finished round counts even if somebody has left since.
            if state.round > round {
                return Ok(state.result.clone());
            }
            if let Some(error) = &state.broken {
                return Err(error.clone());
            }
            if let Some(gone) = state.gone_without_deposit() {
                let error = gone_error(gone);
                state.broken = Some(error.clone());
                self.shared.changed.notify_all();
                return Err(error);
            }
            if !warned && start.past(self.shared.warn_after) {
                warned = true;
                let text = state.missing();
                drop(state);
                (self.shared.warn)(&format!("kolo: rank {} waits for {text}", self.rank));
                state = self.lock();
                continue;
            }
            let limit = match warned {
                true => Duration::MAX,
                false => start.left(self.shared.warn_after),
            };
            let place = (&self.shared.state, &self.shared.changed);
            state = turns::wait_while(place, state, limit, |state| state.waits(round));
        }
    }
}

impl State {
    fn deposit(&mut self, rank: Rank, operation: Operation, mine: &[u8]) -> Result<()> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        let (first, by) = *self.operation.get_or_insert((operation, rank));
        if self.deposits[rank.index()].is_some() {
            return Err(Error::usage(
                format!("rank {rank} calls an operation while another thread is in one"),
                "use one member from one thread at a time",
            ));
        }
        if let Some(error) = mismatch(rank, operation, by, first)
            .or_else(|| check_length(mine.len()).err())
            .or_else(|| self.bad_root(operation))
        {
            // The others wait for this rank's part, which cannot come any more.
            self.broken = Some(error);
            return Ok(());
        }
        self.deposits[rank.index()] = Some(mine.to_vec());
        self.count += 1;
        if self.count == self.deposits.len() {
            let parts = self.deposits.iter_mut().filter_map(Option::take);
            self.result = parts.collect::<Vec<Vec<u8>>>().into();
            self.count = 0;
            self.operation = None;
            self.round += 1;
        }
        Ok(())
    }

    fn bad_root(&self, operation: Operation) -> Option<Error> {
        let nranks = self.deposits.len();
        match operation {
            Operation::Broadcast { root } if root as usize >= nranks => Some(Error::argument(
                format!("root {root} of a broadcast among {nranks} ranks"),
                "roots count from 0 to nranks - 1",
            )),
            _ => None,
        }
    }

    /// Whether whoever waits for the end of a round has to go on waiting.
    fn waits(&self, round: u64) -> bool {
        self.round == round && self.broken.is_none() && self.gone_without_deposit().is_none()
    }

    fn gone_without_deposit(&self) -> Option<Rank> {
        let mut members = self.left.iter().zip(&self.deposits);
        let index = members.position(|(&left, deposit)| left && deposit.is_none());
        index.map(|index| Rank(index as u32))
    }

    fn missing(&self) -> String {
        let deposits = self.deposits.iter().enumerate();
        let missing = deposits.filter(|(_, deposit)| deposit.is_none());
        let named: Vec<String> = missing.map(|(rank, _)| rank.to_string()).collect();
        let cut = &named[..named.len().min(MAX_NAMED)];
        let more = named.len() - cut.len();
        match more {
            0 => format!("ranks: {}", cut.join(", ")),
            _ => format!("ranks: {} and {more} more", cut.join(", ")),
        }
    }
}

fn mismatch(rank: Rank, mine: Operation, other: Rank, theirs: Operation) -> Option<Error> {
    (mine != theirs).then(|| {
        Error::usage(
            format!("rank {rank} called {mine:?} where rank {other} called {theirs:?}"),
            "all ranks must call the same operations in the same order, with the same root",
        )
    })
}

fn gone_error(rank: Rank) -> Error {
    Error::remote(
        rank,
        format!("rank {rank} has left (its thread ended or its start failed)"),
        "look into the output of that rank for its own error",
    )
}

impl Bootstrap for ThreadsBootstrap {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn nranks(&self) -> u32 {
        self.lock().deposits.len() as u32
    }

    fn all_gather(&self, mine: &[u8]) -> Result<ContributionList> {
        self.round(Operation::Gather, mine)
    }

    fn broadcast(&self, root: Rank, data: &mut Vec<u8>) -> Result<()> {
        let mine: &[u8] = if root == self.rank { data } else { &[] };
        let all = self.round(Operation::Broadcast { root: root.0 }, mine)?;
        if root != self.rank {
            *data = all[root.index()].to_vec();
        }
        Ok(())
    }

    fn barrier(&self) -> Result<()> {
        self.all_gather(&[]).map(|_| ())
    }
}

impl Drop for ThreadsBootstrap {
    fn drop(&mut self) {
        self.lock().left[self.rank.index()] = true;
        self.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bootstrap::MAX_FRAME;

    fn run<T: Send>(nranks: u32, body: impl Fn(ThreadsBootstrap) -> T + Sync) -> Vec<T> {
        std::thread::scope(|scope| {
            let body = &body;
            let threads: Vec<_> = ThreadsBootstrap::group(nranks)
                .into_iter()
                .map(|member| scope.spawn(move || body(member)))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        })
    }

    #[test]
    fn many_rounds_of_every_kind() {
        for nranks in [1, 2, 3, 8] {
            run(nranks, |member| {
                let rank = member.rank().0;
                for round in 0..200u32 {
                    let mine = vec![rank as u8; ((round + rank) % 7) as usize];
                    let all = member.all_gather(&mine).unwrap();
                    for (other, part) in (0..).zip(all.iter()) {
                        assert_eq!(*part, vec![other as u8; ((round + other) % 7) as usize]);
                    }
                    let root = Rank(round % nranks);
                    let mut data = vec![rank as u8, round as u8];
                    member.broadcast(root, &mut data).unwrap();
                    assert_eq!(data, [root.0 as u8, round as u8]);
                    member.barrier().unwrap();
                }
            });
        }
    }

    #[test]
    fn a_dropped_member_is_named_by_all() {
        let results = run(4, |member| {
            member.barrier().unwrap();
            match member.rank() {
                Rank(2) => Ok(()),
                _ => member.barrier().and(member.barrier()),
            }
        });
        for (rank, result) in (0..).zip(results) {
            if rank != 2 {
                let error = result.unwrap_err();
                assert_eq!((error.peer, error.rank), (Some(Rank(2)), Some(Rank(rank))));
            }
        }
    }

    #[test]
    fn different_calls_are_an_error_for_all() {
        let results = run(3, |member| match member.rank() {
            Rank(1) => member.broadcast(Rank(0), &mut vec![1]),
            _ => member.barrier(),
        });
        assert!(results.iter().all(Result::is_err));
        let results = run(3, |member| member.broadcast(Rank(3), &mut Vec::new()));
        assert!(
            results
                .into_iter()
                .all(|result| result.unwrap_err().what.contains("root 3"))
        );
    }

    #[test]
    fn too_long_is_an_error_for_all() {
        let long = vec![0; MAX_FRAME + 1];
        let results = run(2, |member| match member.rank() {
            Rank(0) => member.all_gather(&long).map(|_| ()),
            _ => member.barrier(),
        });
        assert!(
            results
                .into_iter()
                .all(|result| result.unwrap_err().what.contains("too many"))
        );
    }

    #[test]
    fn a_late_rank_is_named_in_a_warning() {
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let sink = Arc::clone(&said);
        let warn: Warn = Arc::new(move |text| sink.lock().unwrap().push(text.into()));
        let mut group = ThreadsBootstrap::group_with(2, warn, Duration::from_millis(20));
        let late = group.pop().unwrap();
        std::thread::scope(|scope| {
            let prompt = &group[0];
            let waiting = scope.spawn(|| prompt.barrier());
            while said.lock().unwrap().is_empty() {
                std::thread::sleep(Duration::from_millis(5));
            }
            late.barrier().unwrap();
            waiting.join().unwrap().unwrap();
        });
        assert_eq!(*said.lock().unwrap(), ["kolo: rank 0 waits for ranks: 1"]);
    }
}
