//! One table of a job: communicators by ranks.

use super::gather::JobSeen;
use super::seen::{BoardSeen, FaultSeen, ProcessSeen, RankSeen, WaitSeen};
use crate::topo::place_name;
use serde::Serialize;
use std::collections::BTreeMap;

/// A job: each of its communicators, and its processes.
#[derive(Clone, Debug, Default, Serialize)]
pub struct JobTable {
    /// The one with the most ranks first.
    pub comms: Vec<CommTable>,
    pub processes: Vec<ProcessSeen>,
    /// Processes that speak for their nodes, and did not answer: `host (pid)`.
    pub silent: Vec<String>,
}

/// A communicator.
#[derive(Clone, Debug, Serialize)]
pub struct CommTable {
    /// Its number.
    pub comm: String,
    pub name: String,
    pub nranks: u32,
    /// Its ranks, as far as something is known of them, in order.
    pub rows: Vec<RankRow>,
    /// Why it works no more.
    pub stopped: Option<FaultSeen>,
    /// That ranks have called different things.
    pub odd: Option<FaultSeen>,
}

/// A rank of a communicator.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RankRow {
    pub rank: u32,
    /// Where it runs: `host (pid)`.
    pub place: String,
    /// Collectives that it has begun.
    pub calls: u64,
    /// The last of them.
    pub last: Option<String>,
    pub route: Option<String>,
    pub waits: Vec<WaitSeen>,
    /// It has let go of the communicator, or its process has ended.
    pub over: Option<String>,
    /// Number of its process in the table, if the process is known.
    pub process: Option<usize>,
}

impl JobTable {
    /// Puts together what was seen: what a process says of its own ranks counts more than what
    /// boards say of them.
    pub fn of(job: JobSeen) -> JobTable {
        let mut comms: BTreeMap<String, CommTable> = BTreeMap::new();
        let mut rows: BTreeMap<(String, u32), RankRow> = BTreeMap::new();
        let places: BTreeMap<String, usize> = job
            .processes
            .iter()
            .enumerate()
            .map(|(at, process)| (place_name(&process.host, process.pid), at))
            .collect();
        for (at, process) in job.processes.iter().enumerate() {
            for seen in &process.ranks {
                let comm = comms
                    .entry(seen.comm.clone())
                    .or_insert_with(|| empty(seen));
                comm.stopped = comm.stopped.take().or_else(|| seen.stopped.clone());
                comm.odd = comm.odd.take().or_else(|| seen.odd.clone());
                rows.insert((seen.comm.clone(), seen.rank), own_row(process, at, seen));
            }
        }
        for (comm, boards) in &job.boards {
            for board in boards {
                let row = rows.entry((comm.clone(), board.rank));
                row.or_insert_with(|| told_row(board, places.get(&board.place).copied()));
            }
        }
        for ((comm, _), row) in rows {
            if let Some(comm) = comms.get_mut(&comm) {
                comm.rows.push(row);
            }
        }
        let mut comms: Vec<CommTable> = comms.into_values().collect();
        comms.sort_by_key(|comm| std::cmp::Reverse(comm.nranks));
        JobTable {
            comms,
            processes: job.processes,
            silent: job.silent,
        }
    }

    /// The process of a row, if it is known.
    pub fn process(&self, row: &RankRow) -> Option<&ProcessSeen> {
        self.processes.get(row.process?)
    }
}

fn empty(seen: &RankSeen) -> CommTable {
    CommTable {
        comm: seen.comm.clone(),
        name: seen.name.clone(),
        nranks: seen.nranks,
        rows: Vec::new(),
        stopped: None,
        odd: None,
    }
}

fn own_row(process: &ProcessSeen, at: usize, seen: &RankSeen) -> RankRow {
    RankRow {
        rank: seen.rank,
        place: place_name(&process.host, process.pid),
        calls: seen.calls,
        last: seen.last.clone(),
        route: seen.route.clone(),
        waits: seen.waits.clone(),
        over: None,
        process: Some(at),
    }
}

fn told_row(board: &BoardSeen, process: Option<usize>) -> RankRow {
    RankRow {
        rank: board.rank,
        place: board.place.clone(),
        calls: board.calls,
        last: board.last.clone(),
        over: board.over.clone(),
        process,
        ..RankRow::default()
    }
}
