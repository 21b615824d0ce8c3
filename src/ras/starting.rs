//! Who holds up a communicator that is being made.

use super::culprit::JobVerdict;
use super::doing::process_words;
use super::figures::time;
use super::table::JobTable;
use crate::base::birth::StartPhase;
use crate::topo::place_name;
use std::collections::BTreeSet;

/// Names shown of a list, at most.
const SHOWN: usize = 8;

/// Communicators that are being made, where nobody waits in a call. Nothing is known of other nodes
/// until a first communicator is there, so ranks that are not seen are blamed only where as many
/// processes of this node make none.
pub(super) fn starting(table: &JobTable) -> Option<JobVerdict> {
    let starts = table.processes.iter();
    let mut starts: Vec<_> = starts
        .flat_map(|process| process.starts.iter().map(move |start| (process, start)))
        .collect();
    starts.sort_by(|a, b| (b.1.seconds).total_cmp(&a.1.seconds));
    let first = starts.first()?.1;
    let nranks = first.nranks;
    let same: Vec<_> = starts.iter().filter(|it| it.1.nranks == nranks).collect();
    let here: BTreeSet<u32> = same.iter().map(|(_, start)| start.rank).collect();
    let seconds = time(first.seconds);
    let mut verdict = JobVerdict::default();
    if here.len() < same.len() {
        verdict.sentence = format!(
            "several communicators of {nranks} ranks are being made, the first for {seconds}, in \
             phase `{}`",
            first.phase
        );
        return Some(verdict);
    }
    let begin = format!("a communicator of {nranks} ranks is being made, for {seconds}");
    let missing: Vec<u32> = (0..nranks).filter(|rank| !here.contains(rank)).collect();
    if missing.is_empty() {
        let slowest = same.iter().min_by_key(|(_, start)| phase(&start.phase));
        let (process, start) = slowest?;
        verdict.sentence = format!(
            "{begin}: rank {} on {} is the farthest back, in phase `{}`",
            start.rank,
            place_name(&process.host, process.pid),
            start.phase
        );
        verdict.ranks = vec![(String::new(), start.rank)];
        return Some(verdict);
    }
    let free = table.processes.iter().filter(|it| it.starts.is_empty());
    let free: Vec<_> = free.filter(|it| !it.ranks.is_empty()).collect();
    let ranks = ranks_words(&missing);
    let have = if missing.len() == 1 { "has" } else { "have" };
    let are_here = free.len() == missing.len();
    let mut words = format!("{ranks} {have} not come");
    if !are_here {
        words = format!("{ranks} {have} not come, or {have} begun it on other nodes");
    }
    let shown: Vec<String> = { free.iter() }
        .take(SHOWN)
        .map(|it| process_words(it))
        .collect();
    let mut none = shown.join("; ");
    if !none.is_empty() {
        none.insert_str(0, "; these processes make none: ");
    }
    verdict.sentence = format!(
        "{begin}: {words}, the others are in phase `{}`{none}",
        first.phase
    );
    verdict.advice = Some("see why these processes do not come to the same call".into());
    if !are_here {
        verdict.advice = Some("type kolo ras on the other nodes, too".into());
    }
    if are_here {
        let of_start = missing.into_iter().map(|rank| (String::new(), rank));
        verdict.ranks = of_start.collect();
    }
    Some(verdict)
}

fn ranks_words(ranks: &[u32]) -> String {
    if let [one] = ranks {
        return format!("rank {one}");
    }
    let shown: Vec<String> = ranks.iter().take(SHOWN).map(u32::to_string).collect();
    let more = if ranks.len() > SHOWN { ", ..." } else { "" };
    format!("ranks {}{more}", shown.join(", "))
}

/// Order of the phases of a start.
fn phase(name: &str) -> usize {
    let all = StartPhase::ALL.iter();
    { all }.position(|phase| phase.name() == name).unwrap_or(0)
}
