//! The exchanges in which ranks hear of each other's ways.

use super::job::JobWays;
use super::said::RankWays;
use super::tried;
use kolo::base::{Error, Result};
use kolo::bootstrap::Bootstrap;
use kolo::transport::cma::Mark;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Hears what the others say and tries, after this rank has looked; others read its mark
/// meanwhile. Every rank calls it.
///
/// # Errors
/// A rank that has ended, or says what cannot be read.
pub fn gather(ranks: &dyn Bootstrap, mine: &RankWays, _mark: &Mark) -> Result<JobWays> {
    let all: Vec<RankWays> = told(ranks, mine)?;
    let mut job = JobWays {
        ranks: all,
        tried: Vec::new(),
    };
    let nodes = job.nodes();
    let tried = nodes.map(|nodes| tried::of(ranks.rank(), &nodes, &job.ranks));
    job.tried = told(ranks, &tried.unwrap_or_default())?;
    Ok(job)
}

/// The words of each rank.
fn told<T: Serialize + DeserializeOwned>(ranks: &dyn Bootstrap, mine: &T) -> Result<Vec<T>> {
    let text = serde_json::to_vec(mine);
    let text = text.map_err(|error| Error::internal(format!("facts cannot be sent: {error}")))?;
    let read = |(rank, bytes): (usize, &Vec<u8>)| {
        serde_json::from_slice(bytes).map_err(|error| {
            Error::usage(
                format!("what rank {rank} says of its ways cannot be read: {error}"),
                "let all ranks use the same version of kolo",
            )
        })
    };
    ranks
        .all_gather(&text)?
        .iter()
        .enumerate()
        .map(read)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::made_up;
    use super::super::said::opened;
    use super::*;
    use kolo::base::Rank;
    use kolo::config::Settings;

    /// Ranks that are threads tell each other, and each reads the mark of its mates.
    #[test]
    fn all_ranks_hear_of_all() {
        let group = kolo::bootstrap::ThreadsBootstrap::group(3);
        let layer = [("net", "socket"), ("socket_ifname", "=lo"), ("cma", "on")];
        let layer = layer.map(|(key, value)| (key.to_string(), value.to_string()));
        let settings = Settings::load(&layer).unwrap();
        let jobs: Vec<JobWays> = std::thread::scope(|scope| {
            let start = |rank| {
                let settings = &settings;
                scope.spawn(move || {
                    let rank: &kolo::bootstrap::ThreadsBootstrap = rank;
                    let (mine, mark) = RankWays::look(rank.rank(), Some(settings), opened);
                    gather(rank, &mine, &mark).unwrap()
                })
            };
            let threads: Vec<_> = group.iter().map(start).collect();
            threads.into_iter().map(|it| it.join().unwrap()).collect()
        });
        assert!(jobs.iter().all(|job| *job == jobs[0]));
        let nodes = jobs[0].nodes().expect("all have told");
        assert_eq!(nodes.ranks, [[Rank(0), Rank(1), Rank(2)]]);
        assert_eq!((jobs[0].tried.len(), jobs[0].problem()), (3, None));
        let groups = jobs[0].groups();
        assert_eq!(groups[0].pairs, 3, "{groups:?}");
    }

    #[test]
    fn a_rank_that_cannot_tell_is_named() {
        let mut job = made_up::job(2, 1);
        job.ranks[1] = RankWays {
            problem: "a setting is wrong".into(),
            ..RankWays::default()
        };
        let problem = "rank 1 cannot tell: a setting is wrong";
        assert_eq!(job.problem().as_deref(), Some(problem));
        assert!(job.groups().is_empty());
    }
}
