//! Who holds up a communicator that is being made.

use super::culprit::JobVerdict;
use super::doing::process_words;
use super::figures::time;
use super::table::{JobTable, place};
use crate::base::birth::StartPhase;

/// Communicators that are being made, where nobody waits in a call.
pub(super) fn starting(table: &JobTable) -> Option<JobVerdict> {
    let starts = table.processes.iter();
    let mut starts: Vec<_> = starts
        .flat_map(|process| process.starts.iter().map(move |start| (process, start)))
        .collect();
    starts.sort_by(|a, b| (b.1.seconds).total_cmp(&a.1.seconds));
    let nranks = starts.first()?.1.nranks;
    let same: Vec<_> = starts.iter().filter(|it| it.1.nranks == nranks).collect();
    let missing: Vec<u32> = (0..nranks)
        .filter(|rank| same.iter().all(|(_, start)| start.rank != *rank))
        .collect();
    let (first, seconds) = (same[0].1, time(same[0].1.seconds));
    let begin = format!("a communicator of {nranks} ranks is being made, for {seconds}");
    let sentence = match missing.as_slice() {
        [] => {
            let slowest = same.iter().min_by_key(|(_, start)| phase(&start.phase));
            let (process, start) = slowest?;
            format!(
                "{begin}: rank {} on {} is the farthest back, in phase `{}`",
                start.rank,
                place(&process.host, process.pid),
                start.phase
            )
        }
        missing => {
            const SHOWN: usize = 8;
            let shown: Vec<String> = missing.iter().take(SHOWN).map(u32::to_string).collect();
            let more = if missing.len() > SHOWN { ", ..." } else { "" };
            let (ranks, have) = match missing.len() {
                1 => ("rank", "has"),
                _ => ("ranks", "have"),
            };
            let free = table.processes.iter().filter(|it| it.starts.is_empty());
            let free: Vec<String> = free.take(SHOWN).map(process_words).collect();
            let mut free = free.join("; ");
            if !free.is_empty() {
                free.insert_str(0, "; these processes make none: ");
            }
            format!(
                "{begin}: {ranks} {}{more} {have} not come, the others are in phase `{}`{free}",
                shown.join(", "),
                first.phase
            )
        }
    };
    Some(JobVerdict {
        sentence,
        advice: None,
        ranks: missing
            .into_iter()
            .map(|rank| (String::new(), rank))
            .collect(),
    })
}

/// Order of the phases of a start.
fn phase(name: &str) -> usize {
    let all = StartPhase::ALL.iter();
    { all }.position(|phase| phase.name() == name).unwrap_or(0)
}
