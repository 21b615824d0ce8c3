//! Who holds the job up: the rank at which all waits end, in a sentence.
//!
//! A wait leads to ranks: to those that have not made the call yet, or else to the one whose data
//! are missing. Such a rank may wait itself, in this communicator or another one of its process,
//! and so it goes on. It ends at a rank that does not wait in kolo, which is the culprit, or comes
//! back to a rank where it was: then those on the way wait for each other.

use super::culprit::JobVerdict;
use super::doing::{is_stopped, thread_words};
use super::figures::{count, time};
use super::seen::{ThreadSeen, WaitSeen};
use super::starting::starting;
use super::table::{CommTable, JobTable, RankRow};
use crate::topo::host_of;

/// A row of a table: its communicator, and its place there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct At(usize, usize);

/// A wait on the way.
struct WayStop<'a> {
    at: At,
    wait: &'a WaitSeen,
}

/// Reasons to stop at a rank, the plainest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RankStands {
    Stopped,
    Over,
    Outside,
    /// Nothing is heard from it: it may be as slow as its node.
    Silent,
    /// It waits itself.
    GoesOn,
}

const NOBODY: &str = "no rank waits in kolo: all are outside, or their calls go on";

/// Seconds that a wait must last before it means something: processes are not seen at one moment.
const LEAST: f64 = 1.0;

/// Finds who holds the job up.
pub fn verdict(table: &JobTable) -> JobVerdict {
    let judge = Judge { table };
    let first = judge.longest();
    let waits = |first: &WayStop| judge.comm(first.at).stopped.is_none();
    let stopped = table.comms.iter().find(|comm| comm.stopped.is_some());
    // One that a program has given up, and goes on without, holds nobody up.
    if let Some(comm) = stopped
        && let Some(fault) = &comm.stopped
        && !first.as_ref().is_some_and(waits)
    {
        return JobVerdict {
            sentence: format!("communicator {} works no more: {}", comm.name, fault.what),
            advice: Some(fault.remedy.clone()),
            ranks: Vec::new(),
        };
    }
    if let Some(odd) = table.comms.iter().find_map(|comm| comm.odd.as_ref()) {
        return JobVerdict {
            sentence: odd.what.clone(),
            advice: Some(odd.remedy.clone()),
            ranks: Vec::new(),
        };
    }
    if let Some(stop) = &first
        && stop.wait.seconds < LEAST
    {
        let longest = time(stop.wait.seconds);
        return JobVerdict {
            sentence: format!("the job goes on: the longest wait is {longest}"),
            ..JobVerdict::default()
        };
    }
    let found = first.map(|first| judge.follow(first));
    let found = found.or_else(|| starting(table));
    found.unwrap_or_else(|| JobVerdict {
        sentence: NOBODY.into(),
        ..JobVerdict::default()
    })
}

/// The table, and questions about it.
struct Judge<'a> {
    table: &'a JobTable,
}

impl<'a> Judge<'a> {
    fn comm(&self, at: At) -> &'a CommTable {
        &self.table.comms[at.0]
    }

    fn row(&self, at: At) -> &'a RankRow {
        &self.comm(at).rows[at.1]
    }

    fn rows(&self) -> impl Iterator<Item = (At, &'a RankRow)> {
        let comms = self.table.comms.iter().enumerate();
        comms.flat_map(|(c, comm)| {
            let rows = comm.rows.iter().enumerate();
            rows.map(move |(r, row)| (At(c, r), row))
        })
    }

    /// The longest wait of all.
    fn longest(&self) -> Option<WayStop<'a>> {
        let waits = self.rows().filter_map(|(at, row)| {
            let wait = row.waits.first()?;
            Some(WayStop { at, wait })
        });
        waits.max_by(|a, b| a.wait.seconds.total_cmp(&b.wait.seconds))
    }

    /// Ranks for which this wait is: those that have not made the call, and whether they are such.
    fn targets(&self, stop: &WayStop) -> (Vec<At>, bool) {
        let rows = self.comm(stop.at).rows.iter().enumerate();
        if let Some(number) = stop.wait.number {
            let late = |(_, row): &(usize, &RankRow)| row.calls < number;
            let late: Vec<At> = { rows.clone().filter(late) }
                .map(|(r, _)| At(stop.at.0, r))
                .collect();
            if !late.is_empty() {
                return (late, true);
            }
        }
        let me = self.row(stop.at).rank;
        let is_peer = |row: &RankRow| Some(row.rank) == stop.wait.peer && row.rank != me;
        let peer = rows.filter(|(_, row)| is_peer(row));
        (peer.map(|(r, _)| At(stop.at.0, r)).collect(), false)
    }

    /// Whether the way ends at a rank, and else its own wait.
    fn ends(&self, at: At) -> (RankStands, Option<WayStop<'a>>) {
        let row = self.row(at);
        let process = self.table.process(row);
        let state = process.and_then(|it| it.threads.first());
        match (process, state) {
            (_, Some(thread)) if is_stopped(thread) => return (RankStands::Stopped, None),
            (Some(process), _) if process.silent => return (RankStands::Silent, None),
            (None, _) if row.over.is_none() => return (RankStands::Silent, None),
            _ => {}
        }
        if let Some(wait) = row.waits.first() {
            return (RankStands::GoesOn, Some(WayStop { at, wait }));
        }
        if row.over.is_some() {
            return (RankStands::Over, None);
        }
        match self.elsewhere(at) {
            Some(stop) => (RankStands::GoesOn, Some(stop)),
            None => (RankStands::Outside, None),
        }
    }

    /// A wait of the same process in another communicator, by a thread that does not wait in this
    /// one.
    fn elsewhere(&self, at: At) -> Option<WayStop<'a>> {
        let process = self.row(at).process?;
        let mates = self.comm(at).rows.iter();
        // Which of several ranks waits there is not known.
        if mates.filter(|row| row.process == Some(process)).count() > 1 {
            return None;
        }
        let of_process = |(_, row): &(At, &RankRow)| row.process == Some(process);
        let here: Vec<u32> = { self.rows().filter(of_process) }
            .filter(|(other, _)| other.0 == at.0)
            .flat_map(|(_, row)| row.waits.iter().map(|wait| wait.thread))
            .collect();
        let others = self
            .rows()
            .filter(of_process)
            .filter(|(other, _)| other.0 != at.0);
        let waits = others.flat_map(|(other, row)| {
            let waits = row.waits.iter();
            waits.map(move |wait| WayStop { at: other, wait })
        });
        let free = waits.filter(|stop| !here.contains(&stop.wait.thread));
        free.max_by(|a, b| a.wait.seconds.total_cmp(&b.wait.seconds))
    }

    fn follow(&self, first: WayStop<'a>) -> JobVerdict {
        let mut way = vec![first];
        loop {
            let stop = &way[way.len() - 1];
            let (targets, is_late) = self.targets(stop);
            let ends = targets.iter().map(|at| (*at, self.ends(*at)));
            let Some((at, (end, next))) = ends.min_by_key(|(at, (end, _))| (*end, at.1)) else {
                return self.nobody(stop);
            };
            let Some(next) = next else {
                if is_late {
                    return self.late(stop, &targets, at, end);
                }
                return self.within(stop, at, end);
            };
            if let Some(begin) = way.iter().position(|before| before.at == next.at) {
                return self.circle(&way[begin..]);
            }
            way.push(next);
        }
    }

    fn who(&self, at: At) -> String {
        let row = self.row(at);
        format!("rank {} on {}", row.rank, row.place)
    }

    /// The wait in words: "call 5 (AllReduce of 8 float64, sum) of communicator world".
    fn call(&self, stop: &WayStop) -> String {
        let (comm, row) = (self.comm(stop.at), self.row(stop.at));
        let what = match stop.wait.number {
            Some(number) if number == row.calls => {
                let call = row.last.as_deref().unwrap_or(&stop.wait.call);
                format!("call {} ({call})", count(number))
            }
            Some(number) => format!("call {} ({})", count(number), stop.wait.call),
            None => stop.wait.call.clone(),
        };
        format!("{what} of communicator {}", comm.name)
    }

    fn ranks(&self, all: &[At]) -> Vec<(String, u32)> {
        let rank = |at: &At| (self.comm(*at).name.clone(), self.row(*at).rank);
        all.iter().map(rank).collect()
    }

    /// Some ranks have not made the call that others wait in, and this one does not wait itself.
    fn late(&self, stop: &WayStop, late: &[At], at: At, end: RankStands) -> JobVerdict {
        let comm = self.comm(at);
        let number = stop.wait.number.unwrap_or_default();
        let inside = |row: &&RankRow| row.waits.iter().any(|wait| wait.number >= Some(number));
        let waiting = comm.rows.iter().filter(inside).count();
        let calls = count(self.row(at).calls);
        let (who, call) = (self.who(at), self.call(stop));
        let others = match late.len() {
            1 => String::new(),
            2 => " (and one more has not made it, either)".to_owned(),
            n => format!(
                " (and {} more have not made it, either)",
                count(n as u64 - 1)
            ),
        };
        let waits = match waiting {
            1 => "1 rank waits".to_owned(),
            n => format!("{} ranks wait", count(n as u64)),
        };
        let (doing, advice) = self.doing(at, end);
        JobVerdict {
            sentence: format!(
                "{who} has made {calls} calls, and {waits} for it in {call}, the longest for {}: \
                 {doing}{others}",
                time(stop.wait.seconds)
            ),
            advice,
            ranks: self.ranks(&[at]),
        }
    }

    /// All have made the call, or it is a message; this rank does not wait itself.
    fn within(&self, stop: &WayStop, at: At, end: RankStands) -> JobVerdict {
        let (who, waiter) = (self.who(at), self.who(stop.at));
        let has = match (stop.wait.number, end) {
            (Some(_), RankStands::Outside) => "has made the call, and does not wait in it",
            (Some(_), _) => "has made the call",
            (None, _) => "has not called the matching operation",
        };
        let (doing, advice) = match (stop.wait.number, end) {
            (Some(_), RankStands::Outside) => self.moving(at),
            _ => self.doing(at, end),
        };
        JobVerdict {
            sentence: format!(
                "{waiter} waits in {} for {}, for {who}, which {has}: {doing}",
                self.call(stop),
                time(stop.wait.seconds)
            ),
            advice,
            ranks: self.ranks(&[at]),
        }
    }

    /// Ranks that wait for each other.
    fn circle(&self, way: &[WayStop]) -> JobVerdict {
        let ranks: Vec<At> = way.iter().map(|stop| stop.at).collect();
        let is_send = |stop: &WayStop| stop.wait.sends.is_some();
        let first = &way[0];
        let is_one =
            |stop: &WayStop| stop.at.0 == first.at.0 && stop.wait.number == first.wait.number;
        let next = |at: usize| self.row(way[(at + 1) % way.len()].at).rank;
        let link = |at: usize| {
            let stop = &way[at];
            let (who, call) = (self.who(stop.at), self.call(stop));
            format!("{who} waits in {call} for rank {}", next(at))
        };
        const SHOWN: usize = 4;
        let mut links: Vec<String> = (0..way.len().min(SHOWN)).map(link).collect();
        if way.len() > SHOWN {
            links.push("...".into());
        }
        let links = links.join("; ");
        let longest = way.iter().map(|stop| stop.wait.seconds).fold(0.0, f64::max);
        let longest = time(longest);
        let (begin, advice) = if way.iter().all(is_send) {
            (
                "each of these ranks sends first and would receive afterwards",
                "put the Send and the Recv of each rank into one group, or make them one SendRecv",
            )
        } else if way.iter().all(is_one) && first.wait.number.is_some() {
            (
                "all ranks have made the call, and data do not arrive",
                "look at the network between these nodes, and at the lines of kolo's log with \
                 KOLO_DEBUG=info",
            )
        } else {
            (
                "these ranks wait for each other, in calls that they make in different order",
                "make all ranks use their communicators in the same order",
            )
        };
        JobVerdict {
            sentence: format!("{begin}, for {longest}: {links}"),
            advice: Some(advice.into()),
            ranks: self.ranks(&ranks),
        }
    }

    /// The wait is for no rank that is known.
    fn nobody(&self, stop: &WayStop) -> JobVerdict {
        let (who, call) = (self.who(stop.at), self.call(stop));
        let whom = match stop.wait.peer {
            Some(peer) if peer != self.row(stop.at).rank => {
                format!("rank {peer}, of which nothing is known")
            }
            _ => "its own data to move".into(),
        };
        let time = time(stop.wait.seconds);
        JobVerdict {
            sentence: format!("{who} waits in {call} for {time}, for {whom}"),
            advice: None,
            ranks: self.ranks(&[stop.at]),
        }
    }

    /// Inside a call without waiting.
    fn moving(&self, at: At) -> (String, Option<String>) {
        let doing = self.threads(at);
        let what = format!("it moves data or is in an operation of the program ({doing})");
        let row = self.row(at);
        let pid = self.table.process(row).map_or(0, |process| process.pid);
        let host = host_of(&row.place);
        let advice = format!("on {host}: gdb -p {pid} shows whether an operation does not end");
        (what, Some(advice))
    }

    /// Tells what a rank does that does not wait in kolo, and what to do about it.
    fn doing(&self, at: At, end: RankStands) -> (String, Option<String>) {
        let row = self.row(at);
        let process = self.table.process(row);
        let pid = process.map_or(0, |process| process.pid);
        let host = host_of(&row.place);
        match end {
            RankStands::Stopped => (
                "its process is stopped, by a signal or a debugger".into(),
                Some(format!(
                    "on {host}: kill -CONT {pid}, or let its debugger go on"
                )),
            ),
            RankStands::Silent => match process {
                Some(process) => {
                    let state = process.threads.first().map_or("?", |it| it.state.as_str());
                    let what = format!("its process does not answer (its state is {state})");
                    let advice = format!("ask again; on {host}: gdb -p {pid}, if it stays so");
                    (what, Some(advice))
                }
                None => {
                    let what = format!("nothing is heard from its process on {host}");
                    let advice = format!("see whether {host} and that process are alive");
                    (what, Some(advice))
                }
            },
            RankStands::Over => {
                let over = row.over.as_deref().unwrap_or_default();
                (over.to_owned(), None)
            }
            RankStands::Outside | RankStands::GoesOn => {
                let starts = process.and_then(|process| process.starts.first());
                if let Some(start) = starts {
                    let what = format!(
                        "it makes a communicator of {} ranks, for {}, in phase `{}`",
                        start.nranks,
                        time(start.seconds),
                        start.phase
                    );
                    return (what, None);
                }
                let doing = self.threads(at);
                let advice = format!("on {host}: gdb -p {pid} shows where its program is");
                (format!("it is outside of kolo, and {doing}"), Some(advice))
            }
        }
    }

    /// Tells what the threads of a rank do.
    fn threads(&self, at: At) -> String {
        let row = self.row(at);
        let Some(process) = self.table.process(row) else {
            return "its threads are not known".into();
        };
        let is_alone = || {
            let mates = self.comm(at).rows.iter();
            mates.filter(|it| it.process == row.process).count() == 1
        };
        let of_process = |it: &(At, &RankRow)| it.1.process == row.process;
        let waiting: Vec<u32> = { self.rows().filter(of_process) }
            .flat_map(|(_, row)| row.waits.iter().map(|wait| wait.thread))
            .collect();
        let free = process.threads.iter();
        let mut free: Vec<&ThreadSeen> = free.filter(|it| !waiting.contains(&it.id)).collect();
        if !is_alone() {
            // The first thread mostly waits for those that have the ranks.
            free.sort_by_key(|it| (!it.busy, it.id == process.pid));
        }
        match free.first() {
            Some(thread) => thread_words(process, thread),
            None => "none of its threads is free".into(),
        }
    }
}
