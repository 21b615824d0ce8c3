//! Lines of calls at `KOLO_DEBUG=trace`: arguments, algorithm, protocol and time of each call, in
//! one line.
//!
//! Where nobody asks it costs nothing: whether somebody does is part of a test that every call has
//! anyway (`at_all` of [`CallsSeen`](crate::comm::identity::CallsSeen)).

use super::call::{Collective, NO_RANK};
use super::checked::Checked;
use super::member::Member;
use super::notes::{Note, Pending};
use super::tally;
use crate::base::Result;
use crate::base::clock::{self, Moment};
use crate::comm::owned::Exec;
use crate::comm::queue::Queue;
use crate::dtype::ReduceOp;
use crate::tune::{Called, ToldRoute};
use std::fmt::Write;

/// Counts a call, where calls are, and gives its note, where they are counted or traced. `way` says
/// how it was made.
#[cold]
pub(in crate::comm) fn note(
    queue: &Queue,
    checked: &Checked,
    number: Option<u64>,
    way: &str,
    told: ToldRoute,
) -> Option<Note> {
    noted(queue, checked, number, way, told, clock::now())
}

fn noted(
    queue: &Queue,
    checked: &Checked,
    number: Option<u64>,
    way: &str,
    told: ToldRoute,
    begun: Moment,
) -> Option<Note> {
    let seen = &queue.seen;
    let row = seen.tallied.then(|| tally::count(checked, told));
    let call = seen.traced.then(|| arguments(queue, checked, number) + way);
    let is_noted = row.is_some() || call.is_some();
    is_noted.then_some(Note {
        call,
        told,
        row: row.flatten(),
        begun,
    })
}

/// Counts and tells of a call that has begun then and has come to this; `told` says what ran,
/// `way` how it was called.
#[cold]
pub(super) fn told(
    queue: &Queue,
    checked: &Checked,
    number: Option<u64>,
    (way, told): (&str, ToldRoute),
    (begun, result): (Moment, &Result<()>),
) {
    if let Some(note) = noted(queue, checked, number, way, told, begun) {
        note.ended(result);
    }
}

/// The note of a call that goes on after it has returned.
#[cold]
pub(in crate::comm) fn pending(
    queue: &Queue,
    checked: &Checked,
    number: Option<u64>,
    told: ToldRoute,
) -> Option<Box<Pending>> {
    let note = note(queue, checked, number, " on a stream", told);
    note.map(Pending::of)
}

/// Which call it is, and with what.
fn arguments(queue: &Queue, checked: &Checked, number: Option<u64>) -> String {
    let call = &checked.call;
    let mut text = call.collective.name().to_owned();
    if let Some(number) = number {
        let _ = write!(text, " #{number}");
    }
    let _ = write!(
        text,
        " of rank {} of {} in {}",
        queue.rank, queue.nranks, queue.name
    );
    if call.collective == Collective::Barrier {
        return text;
    }
    let count = match &checked.parts {
        Some(parts) => parts.iter().map(|part| part.count).sum(),
        None => call.count,
    };
    let _ = write!(text, ": {count} x {}", call.dtype.name());
    if call.collective.reduces() {
        let op = match (checked.op, call.is_exact()) {
            (_, true) => "exact sum",
            (Some(op), _) => ReduceOp::name(op),
            (None, _) => "an operation of the program",
        };
        let _ = write!(text, ", {op}");
    }
    if call.collective.has_root() {
        let _ = write!(text, ", root {}", call.peer);
    }
    if call.collective.is_point_to_point() {
        let _ = match call.peer {
            NO_RANK => write!(text, ", no peer"),
            peer => write!(text, ", peer {peer}"),
        };
    }
    let _ = write!(text, ", send {:p}, recv {:p}", call.send, call.recv);
    text
}

/// How a call of a group of so many is told of.
pub(super) fn in_group(count: usize) -> String {
    match count {
        1 => " in a group".to_owned(),
        _ => format!(" in a group of {count}"),
    }
}

/// The note of each of these calls on the host, where it is noted: calls of a group of `count`
/// which began then. All are messages of the owner of `exec`, or none is given, and each has its
/// own.
#[cold]
pub(in crate::comm) fn of_group(
    members: &[Member],
    count: usize,
    exec: Option<&Exec>,
    called: Called,
    begun: Moment,
) -> Vec<Option<Note>> {
    let way = in_group(count);
    let note = |member: &Member| {
        let (queue, checked) = (&member.queue, &member.checked);
        let told = match exec {
            Some(exec) => exec.told(checked, called),
            None => queue.user().ok()?.told(checked, called),
        };
        noted(queue, checked, None, &way, told, begun)
    };
    members.iter().map(note).collect()
}
