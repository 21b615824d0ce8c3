//! Answers of this process to whoever asks from outside ([`crate::ras`]): the notes of its ranks,
//! the boards, and what is being made.
//!
//! The notes are read, and the locks in which they lie are held for a moment only; no communicator
//! is touched, so nobody who asks holds one up, ends one, or calls the program's MPI.

use super::fault;
use super::gone::gone;
use super::kept;
use super::whereabouts::{Noting, Wait, Whereabouts, lock};
use crate::base::birth::Birth;
use crate::base::{Error, Rank};
use crate::bootstrap::launch;
use crate::comm::calling::call::describe;
use crate::proxy::lookout::Lookout;
use crate::proxy::service;
use crate::ras::gather::name_of;
use crate::ras::seen::{BoardSeen, FaultSeen, ProcessSeen, RankSeen, StartSeen, WaitSeen};
use crate::ras::{serve, threads};
use crate::topo::{host_of, short_host_name};
use crate::transport::fork;
use crate::transport::segment::Nonce;
use crate::wire::signature::Signature;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// The notes of all ranks of this process.
static RANKS: Mutex<Vec<Weak<Whereabouts>>> = Mutex::new(Vec::new());

/// From now on this rank is told of.
pub(in crate::comm) fn show(notes: &Arc<Whereabouts>) {
    if fork::in_child_of_user() {
        return;
    }
    serve::begin(&ThisProcess);
    name_job();
    kept::keep(&RANKS, notes);
}

/// From now on this start is told of, though the others may not have come yet.
pub(super) fn show_start(birth: &Birth) {
    if birth.nranks() == 1 {
        return;
    }
    serve::begin(&ThisProcess);
    name_job();
    // Where it cannot be, the start says so itself.
    let _ = service::get();
}

/// The job as its launcher calls it. The environment is read on a thread of the program.
static JOB: OnceLock<Option<String>> = OnceLock::new();

fn name_job() {
    JOB.get_or_init(launch::job);
}

/// This process.
struct ThisProcess;

impl serve::Insight for ThisProcess {
    fn own(&self) -> ProcessSeen {
        let threads = threads::own();
        let starts = kept::starts();
        let ranks = kept::alive(&RANKS);
        let program = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
        ProcessSeen {
            host: short_host_name(),
            pid: std::process::id(),
            program: program.trim_end().to_owned(),
            job: JOB.get().cloned().flatten(),
            threads,
            starts: starts.iter().map(|birth| start(birth)).collect(),
            ranks: ranks.iter().filter_map(|notes| rank(notes)).collect(),
            silent: false,
        }
    }

    fn boards(&self, nonce: Nonce) -> Vec<BoardSeen> {
        let ranks = kept::alive(&RANKS);
        let notes = ranks.iter().find(|notes| notes.of.nonce == nonce);
        notes.map_or_else(Vec::new, |notes| boards(&notes.of))
    }

    fn lookout(&self, nonce: Nonce) -> Option<Arc<Lookout>> {
        let ranks = kept::alive(&RANKS);
        let mut of_it = ranks.iter().filter(|notes| notes.of.nonce == nonce);
        of_it.find_map(|notes| notes.of.lookout.upgrade())
    }
}

fn start(birth: &Birth) -> StartSeen {
    StartSeen {
        rank: birth.rank().0,
        nranks: birth.nranks(),
        phase: birth.phase().name().to_owned(),
        seconds: birth.begun_at().elapsed().as_secs_f64(),
    }
}

/// Tells what a rank does; nothing of one that has let go.
fn rank(notes: &Whereabouts) -> Option<RankSeen> {
    let of = &notes.of;
    let board = of.node.board(of.rank.index());
    if board.has_left() {
        return None;
    }
    let calls = board.calls();
    let nodes: BTreeSet<&str> = of.places.iter().map(|place| host_of(place)).collect();
    let route = lock(&notes.call).as_ref().map(|under| under.told.words());
    let mut waits: Vec<WaitSeen> = {
        let noted = lock(&notes.waits);
        noted.iter().filter(|it| it.is_now()).map(wait).collect()
    };
    waits.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let all = (0..of.places.len()).map(|rank| of.node.board(rank).calls());
    let odd = fault::compare_recent(&of.into(), all.max().unwrap_or(0)).err();
    Some(RankSeen {
        comm: name_of(of.nonce),
        name: of.name.clone(),
        rank: of.rank.0,
        nranks: of.places.len() as u32,
        nodes: nodes.len() as u32,
        calls,
        last: last(of, of.rank),
        route,
        waits,
        stopped: of.node.abort_reason().map(fault_seen),
        odd: odd.map(fault_seen),
        is_lookout: of.lookout.strong_count() > 0,
    })
}

fn fault_seen(error: Error) -> FaultSeen {
    FaultSeen {
        what: error.what.clone(),
        remedy: error.remedy.to_string(),
    }
}

fn wait(wait: &Wait) -> WaitSeen {
    WaitSeen {
        call: wait.call.name.to_owned(),
        number: wait.collective(),
        peer: wait.peer.map(|peer| peer as u32),
        seconds: wait.since.elapsed().as_secs_f64(),
        thread: wait.thread,
        sends: wait.call.sends.get(),
    }
}

fn boards(of: &Noting) -> Vec<BoardSeen> {
    let seen = |(rank, place): (usize, &String)| {
        let board = of.node.board(rank);
        let is_over = board.has_left() || board.has_ended();
        BoardSeen {
            rank: rank as u32,
            place: place.clone(),
            calls: board.calls(),
            last: last(of, Rank(rank as u32)),
            over: is_over.then(|| gone(board).0.to_owned()),
        }
    };
    of.places.iter().enumerate().map(seen).collect()
}

/// The last collective that a rank has begun.
fn last(of: &Noting, rank: Rank) -> Option<String> {
    let board = of.node.board(rank.index());
    let calls = board.calls();
    let signature = board.signature(calls).filter(|_| calls > 0)?;
    Some(describe(Signature(signature)))
}
