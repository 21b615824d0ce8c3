//! How long each process of a job has been in calls that block: for the table that rank 0 writes.
//!
//! **Problem.** The rank that all others wait for shows in no table of its own: it waits least. At
//! the end of a job, when the table is written, a rank may be dead, or gone long ago.
//!
//! **Idea.** Each process keeps its sum on the board of its lowest rank in the first communicator,
//! from call to call. Ranks of its node read it there at any time, whatever has become of the
//! process; lookouts tell it to other nodes with the rest of the board. Rank 0 gives the others a
//! moment to come to their end, asks nobody who cannot answer, and says whose sum may have grown
//! since.

use crate::base::Rank;
use crate::base::clock::{self, Moment};
use crate::base::turns;
use crate::proxy::service::{self, Alarm};
use crate::topo::RankPlace;
use crate::transport::node::NodeMemory;
use crate::transport::segment::Nonce;
use std::fmt::Write;
use std::time::Duration;

/// How long rank 0 waits for others that have not come to their end.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(2);
/// Between two questions to other nodes.
const ASK_EVERY: Duration = Duration::from_millis(50);
/// Most processes that are named as missing.
const MOST_NAMED: usize = 8;

/// The processes of the first communicator.
pub(in crate::comm) struct Processes {
    node: NodeMemory,
    nonce: Nonce,
    /// The lowest rank of each, and where it is.
    lowest: Vec<(Rank, String)>,
    /// That of this one.
    own: Rank,
    has_other_nodes: bool,
}

impl Processes {
    /// Those of a communicator that has been made.
    pub fn new(
        (rank, places): (Rank, &[RankPlace]),
        (node, nonce): (&NodeMemory, Nonce),
        has_other_nodes: bool,
    ) -> Processes {
        let first = |place: &RankPlace| {
            let mut mates = places.iter().filter(|other| other.shares_process(place));
            mates.next().map_or(place.rank, |first| first.rank)
        };
        let lowest = places.iter().filter(|place| first(place) == place.rank);
        Processes {
            node: node.clone(),
            nonce,
            lowest: lowest
                .map(|place| (place.rank, place.to_string()))
                .collect(),
            own: first(&places[rank.index()]),
            has_other_nodes,
        }
    }

    /// This process has been in calls that block for so long.
    pub fn tell(&self, time: Duration) {
        self.node.board(self.own.index()).count_waited(time);
    }

    /// Whether these are the processes of that communicator, and others of them on other nodes,
    /// whose boards this one sees no more when it has left.
    pub fn part_with(&self, nonce: Nonce) -> bool {
        self.has_other_nodes && self.nonce == nonce
    }

    /// Waits a moment for those that have not come to their end.
    pub fn settle(&self) {
        let start = clock::now();
        let mut asked: Option<Moment> = None;
        let others = || self.lowest.iter().filter(|(rank, _)| *rank != self.own);
        while others().any(|(rank, _)| !self.is_over(*rank)) {
            if self.node.aborted() || start.past(PATIENCE) {
                return;
            }
            if self.has_other_nodes && asked.is_none_or(|asked| asked.past(ASK_EVERY)) {
                asked = Some(clock::now());
                if let Ok(service) = service::get() {
                    service.alarm(self.nonce, Alarm::Ask);
                }
            }
            turns::sleep(PAUSE);
        }
    }

    fn is_over(&self, rank: Rank) -> bool {
        let board = self.node.board(rank.index());
        board.has_left() || board.has_ended()
    }

    /// Sentences about all of them, as far as they are known.
    pub fn words(&self) -> String {
        let known = self.lowest.iter().filter_map(|(rank, place)| {
            let time = self.node.board(rank.index()).waited()?;
            Some((time, format!("rank {rank} on {place}")))
        });
        let known: Vec<(Duration, String)> = known.collect();
        let missing = self
            .lowest
            .iter()
            .filter(|(rank, _)| *rank != self.own && !self.is_over(*rank));
        let missing: Vec<String> = { missing }
            .map(|(rank, place)| format!("rank {rank} on {place}"))
            .collect();
        spread(&known, self.lowest.len(), &missing)
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64())
}

/// The sentences of the table about all processes.
fn spread(known: &[(Duration, String)], processes: usize, missing: &[String]) -> String {
    let mut text = String::new();
    let (Some(least), Some(most)) = (
        known.iter().min_by_key(|(time, _)| *time),
        known.iter().max_by_key(|(time, _)| *time),
    ) else {
        return text;
    };
    if known.len() > 1 {
        let sum: Duration = known.iter().map(|(time, _)| *time).sum();
        let _ = writeln!(
            text,
            "  seconds in calls that block, over the {} ranks: \
             least {} ({}), mean {}, most {} ({})",
            known.len(),
            seconds(least.0),
            least.1,
            seconds(sum / known.len() as u32),
            seconds(most.0),
            most.1,
        );
        let _ = writeln!(
            text,
            "  {} waits least: it is mostly the one that comes late, and that the others wait for",
            least.1
        );
    }
    if known.len() < processes {
        let _ = writeln!(
            text,
            "  of {} processes nothing is known: KOLO_REPORT is not set there, or they have made \
             no call that blocks",
            processes - known.len()
        );
    }
    if !missing.is_empty() {
        let more = missing.len().saturating_sub(MOST_NAMED);
        let named = missing[..missing.len() - more].join(", ");
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        let _ = writeln!(
            text,
            "  had not ended when this was written: {named}{more}; their seconds may have grown"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_that_waits_least_is_named() {
        let known = [300, 4, 500].map(Duration::from_millis);
        let names = ["rank 0 on a (1)", "rank 2 on b (2)", "rank 3 on b (3)"];
        let known: Vec<_> = known.into_iter().zip(names.map(str::to_owned)).collect();
        let text = spread(&known, 3, &[]);
        assert_eq!(
            text.lines().next().unwrap().trim(),
            "seconds in calls that block, over the 3 ranks: least 0.004 (rank 2 on b (2)), mean \
             0.268, most 0.500 (rank 3 on b (3))"
        );
        assert!(text.contains("  rank 2 on b (2) waits least"), "{text}");
        assert_eq!(text.lines().count(), 2, "{text}");
        // One alone is compared with nobody.
        assert_eq!(spread(&known[..1], 1, &[]), "");
        let alone = spread(&known[..1], 2, &[]);
        assert!(!alone.contains("waits least"), "{alone}");
        assert!(spread(&known, 4, &[]).contains("of 1 processes nothing is known"));
        let missing: Vec<String> = (0..10).map(|rank| format!("rank {rank}")).collect();
        let text = spread(&known, 3, &missing);
        assert!(text.contains("rank 7 and 2 more; their"), "{text}");
    }
}
