//! The table of a job as text: the culprit first, then each communicator, ranks that do the same
//! in one line.

use super::culprit::JobVerdict;
use super::doing::is_stopped;
use super::figures::{count, time};
use super::table::{CommTable, JobTable, RankRow};
use crate::topo::{host_of, place_name};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The verdict, and what to do.
pub fn first(verdict: &JobVerdict) -> String {
    let mut text = format!("{}\n", verdict.sentence);
    if let Some(advice) = &verdict.advice {
        let _ = writeln!(text, "  what to do: {advice}");
    }
    text
}

/// The whole: `all` has a line for each rank.
pub fn whole(table: &JobTable, verdict: &JobVerdict, all: bool) -> String {
    let mut text = first(verdict);
    for place in &table.silent {
        let _ = writeln!(
            text,
            "note: {place} speaks for its node, and did not answer"
        );
    }
    let waiting = waiting(table);
    for comm in &table.comms {
        text.push('\n');
        text.push_str(&of_comm(table, comm, &waiting, all));
    }
    let starts = table.processes.iter().flat_map(|process| {
        let place = place_name(&process.host, process.pid);
        process
            .starts
            .iter()
            .map(move |start| (place.clone(), start))
    });
    for (at, (place, start)) in starts.enumerate() {
        if at == 0 {
            text.push_str("\nbeing made\n");
        }
        let _ = writeln!(
            text,
            "  rank {} of {}, on {place}: phase `{}`, for {}",
            start.rank,
            start.nranks,
            start.phase,
            time(start.seconds)
        );
    }
    text
}

/// Communicators in which a process waits, by its number in the table.
type WaitsOf<'a> = BTreeMap<usize, BTreeSet<&'a str>>;

fn waiting(table: &JobTable) -> WaitsOf<'_> {
    let mut waiting = WaitsOf::new();
    for comm in &table.comms {
        for row in comm.rows.iter().filter(|row| !row.waits.is_empty()) {
            if let Some(process) = row.process {
                waiting.entry(process).or_default().insert(&comm.name);
            }
        }
    }
    waiting
}

fn of_comm(table: &JobTable, comm: &CommTable, waiting: &WaitsOf, all: bool) -> String {
    let hosts = comm.rows.iter().map(|row| host_of(&row.place));
    let hosts: BTreeSet<_> = hosts.collect();
    let (ranks, nodes) = (count(u64::from(comm.nranks)), hosts.len());
    let mut text = format!(
        "communicator {} ({ranks} ranks on {nodes} nodes)\n",
        comm.name
    );
    // Ranks that do the same: how long each waits, by what it does.
    let mut groups: BTreeMap<(u64, String), Vec<&RankRow>> = BTreeMap::new();
    let mut lines: Vec<[String; 3]> = vec![["ranks", "calls", "doing"].map(str::to_owned)];
    for row in &comm.rows {
        let doing = doing(table, row, waiting);
        if !all {
            groups.entry((row.calls, doing)).or_default().push(row);
            continue;
        }
        lines.push([
            row.rank.to_string(),
            count(row.calls),
            format!("{doing}{}  [{}]", longest(&[row]), row.place),
        ]);
    }
    // Who has made the fewest calls stands first.
    for ((calls, doing), rows) in groups {
        let place = match rows.as_slice() {
            [one] => format!("  [{}]", one.place),
            _ => String::new(),
        };
        let ranks: Vec<u32> = rows.iter().map(|row| row.rank).collect();
        let doing = format!("{doing}{}{place}", longest(&rows));
        lines.push([runs(&ranks), count(calls), doing]);
    }
    let widths = [0, 1].map(|at| lines.iter().map(|line| line[at].len()).max().unwrap_or(0));
    for [ranks, calls, doing] in lines {
        let _ = writeln!(
            text,
            "  {ranks:<0$}  {calls:>1$}  {doing}",
            widths[0], widths[1]
        );
    }
    let known = comm.rows.len() as u64;
    if known < u64::from(comm.nranks) {
        let missing = count(u64::from(comm.nranks) - known);
        let _ = writeln!(text, "  nothing is known of {missing} ranks");
    }
    text
}

/// Tells what a rank does, in words that are the same for ranks that do the same.
fn doing(table: &JobTable, row: &RankRow, waiting: &WaitsOf) -> String {
    if let Some(over) = &row.over {
        return over.clone();
    }
    if let Some(wait) = row.waits.first() {
        let call = match (wait.number, &row.last) {
            (Some(number), Some(last)) if number == row.calls => last.clone(),
            (Some(number), _) => format!("{} (call {})", wait.call, count(number)),
            (None, _) => match (wait.sends, wait.peer) {
                (Some((to, bytes)), _) => format!("{}, {} bytes to {to}", wait.call, count(bytes)),
                (None, Some(peer)) => format!("{} for rank {peer}", wait.call),
                (None, None) => wait.call.clone(),
            },
        };
        let route = row.route.as_ref();
        let route = route.map(|it| format!(", route {it}")).unwrap_or_default();
        return format!("waits in {call}{route}");
    }
    // Where a process has several ranks, who of them waits elsewhere is not known.
    if let Some(comms) = row.process.and_then(|process| waiting.get(&process)) {
        let comms: Vec<&str> = comms.iter().copied().collect();
        return format!("its process waits in communicator {}", comms.join(", "));
    }
    let process = table.process(row);
    let thread = process.and_then(|process| process.threads.first());
    let state = match (process, thread) {
        (None, _) => "nothing is heard from its process".to_owned(),
        (_, Some(thread)) if is_stopped(thread) => "its process is stopped".into(),
        (Some(process), _) if process.silent => "its process does not answer".into(),
        (_, Some(thread)) if thread.busy => "running".into(),
        (_, Some(thread)) => match &thread.within {
            Some(within) => within.clone(),
            None => format!("state {}", thread.state),
        },
        (_, None) => "?".into(),
    };
    format!("outside of kolo: {state}")
}

/// How long these ranks wait, if they do.
fn longest(rows: &[&RankRow]) -> String {
    let waits = rows.iter().filter_map(|row| row.waits.first());
    let seconds: Vec<f64> = waits.map(|wait| wait.seconds).collect();
    let most = seconds.iter().copied().fold(0.0, f64::max);
    let least = seconds.iter().copied().fold(f64::MAX, f64::min);
    let (least, most) = (time(least), time(most));
    match seconds.len() {
        0 => String::new(),
        _ if least == most => format!(", for {most}"),
        _ => format!(", for {least} to {most}"),
    }
}

/// Numbers in order as runs: `0-3,5,7-9`.
pub fn runs(numbers: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let text = runs.iter().map(|&(first, last)| match last - first {
        0 => first.to_string(),
        _ => format!("{first}-{last}"),
    });
    text.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(runs(&[]), "");
        assert_eq!(runs(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(runs(&[u32::MAX]), u32::MAX.to_string());
        let counts = [0, 999, 1000, 4211, 1_234_567].map(count);
        assert_eq!(counts, ["0", "999", "1,000", "4,211", "1,234,567"]);
        assert_eq!(
            [0.34, 9.96, 312.7, 5000.0].map(time),
            ["0.3 s", "10.0 s", "312 s", "5,000 s"]
        );
    }
}
