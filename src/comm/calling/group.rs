//! Groups: calls between `start` and the outermost `end` begin together and progress together.
//!
//! Point-to-point calls of one communicator become one bundle, so that no message waits for
//! another or for a collective of the group: within a group calls have no order. Several ranks
//! (communicators) may be driven by one thread. Initialisations inside a group run in parallel,
//! because each one waits for the others.

use super::begin;
use super::call::Collective;
use super::checked::Checked;
use super::device;
use super::member::Member;
use super::messages;
use super::notes::{Note, Pending};
use super::ops;
use super::waiting_call::WaitingCall;
use super::{tally, traced};
use crate::base::clock;
use crate::base::lasting::Lasting;
use crate::base::{Error, Result};
use crate::comm::flight::completion::Completion;
use crate::comm::flight::drive;
use crate::comm::flight::moving;
use crate::comm::flight::op::Op;
use crate::comm::flight::stream::Stream;
use crate::comm::flight::wait::Waiter;
use crate::comm::owned::Exec;
use crate::comm::queue::{InCall, Queue};
use crate::comm::start::together::{self, Init};
use crate::exec::Waiting;
use crate::proxy::progress::{Engine, Pass, Work};
use crate::tune::{CallForm, Called};
use std::sync::Arc;

/// Begins a communicator without blocking, at the end of the group. What it returns tells the
/// program; dropped instead, it takes all back.
pub type Begin = Box<dyn FnOnce() -> Result<Box<dyn FnOnce()>>>;

#[derive(Default)]
struct Group {
    depth: u32,
    members: Vec<Member>,
    inits: Vec<(Option<usize>, Init)>,
    begins: Vec<Begin>,
    /// A call of the group failed its checks: nothing of the group runs.
    failed: Option<Error>,
}

thread_local! {
    static GROUP: Lasting<Group> = const { Lasting::new() };
    static DEPTH: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// The calls of the group of this thread; works in exit handlers, too.
fn with_group<T>(with: impl FnOnce(&mut Group) -> T) -> T {
    let empty = || {
        // What a group has that nobody ended will not run.
        DEPTH.set(0);
        GROUP.with(Lasting::empty);
    };
    GROUP.with(|group| group.with_mut(empty, with))
}

/// Whether this thread is inside a group.
#[inline(always)]
pub fn active() -> bool {
    DEPTH.get() > 0
}

/// Begins a group on this thread; groups nest.
pub fn start() {
    with_group(|group| group.depth += 1);
    DEPTH.set(DEPTH.get() + 1);
}

/// Ends a group. The outermost end runs everything: it returns when all calls without a stream
/// have their results in place, and all calls on streams have begun.
///
/// # Errors
/// The first error of a call or an initialisation; `InvalidUsage` without a matching `start`.
pub fn end() -> Result<()> {
    if !active() {
        return Err(Error::usage(
            "GroupEnd without GroupStart",
            "call GroupStart first",
        ));
    }
    DEPTH.set(DEPTH.get() - 1);
    let group = with_group(|group| {
        group.depth -= 1;
        (group.depth == 0).then(|| std::mem::take(group))
    });
    let Some(group) = group else { return Ok(()) };
    let _timed = tally::waiting("GroupEnd");
    if let Some(error) = group.failed {
        return Err(error);
    }
    // All of them begin, or none. They go first, for those that block may wait for them.
    let begun = group.begins.into_iter().map(|begin| begin());
    let begun: Vec<_> = begun.collect::<Result<_>>()?;
    begun.into_iter().for_each(|tell| tell());
    together::run(group.inits)?;
    let mut members = group.members;
    let count = members.len();
    let on_devices = device::take(&mut members);
    let result = if members.iter().any(|member| member.queue.seen.at_all) {
        observed(&members, &on_devices, count)
    } else {
        device::run(&on_devices, count).and_then(|()| run_on_host(&members, &mut []))
    };
    // The next group of this thread finds the memory of this one.
    members.clear();
    with_group(|group| {
        if group.members.capacity() == 0 {
            group.members = members;
        }
    });
    result
}

/// Runs the calls of a group. `notes` has the note of each call, or is empty.
fn run_on_host(members: &[Member], notes: &mut [Option<Note>]) -> Result<()> {
    match together(members) {
        None => run_calls(members, notes),
        Some(exec) => run_bundle(members, exec?),
    }
}

/// Runs a group, with a line about each of its calls on the host: a collective is told of when its
/// op has ended, and what has no op of its own when the group has.
#[cold]
fn observed(members: &[Member], on_devices: &[Member], count: usize) -> Result<()> {
    let begun = clock::now();
    let on_devices = device::run(on_devices, count);
    // The owner's part is taken only for a bundle that runs: whoever tells of others takes it anew.
    let exec = on_devices.is_ok().then(|| together(members)).flatten();
    let (notes, result) = if let Some(Ok(exec)) = exec {
        let called = called_together(members, &exec);
        let notes = traced::of_group(members, count, Some(&exec), called, begun);
        (notes, run_bundle(members, exec))
    } else {
        let mut notes = traced::of_group(members, count, None, Called::Queued, begun);
        let result = on_devices.and_then(|()| run_on_host(members, &mut notes));
        (notes, result)
    };
    for note in notes.into_iter().flatten() {
        note.ended(&result);
    }
    result
}

/// Refuses to end a communicator whose calls the open group of this thread has not begun: nobody
/// would hear that they never ran.
///
/// # Errors
/// `InvalidUsage` with their number.
pub(in crate::comm) fn none_waits(queue: &Arc<Queue>) -> Result<()> {
    let waiting = with_group(|group| match group.failed {
        // They will not run, and the program was told why.
        Some(_) => 0,
        None => of_part(queue, &group.members).count(),
    });
    let calls = match waiting {
        0 => return Ok(()),
        1 => "1 call waits".to_owned(),
        more => format!("{more} calls wait"),
    };
    Err(Error::usage(
        format!("{calls} in a group that was not closed"),
        "call GroupEnd, which runs what the group has, and then this",
    ))
}

/// The owner's part of the communicator for a group of blocking messages on it, such as a halo
/// exchange, where nothing else is in flight. None for any other group.
fn together(members: &[Member]) -> Option<Result<InCall<'_>>> {
    let queue = &members.first()?.queue;
    let message = |member: &Member| {
        Arc::ptr_eq(&member.queue, queue)
            && member.stream.is_none()
            && member.checked.call.collective.is_point_to_point()
    };
    if !members.iter().all(message) {
        return None;
    }
    match queue.user() {
        Ok(exec) if !exec.in_flight.is_empty() => None,
        exec => Some(exec),
    }
}

/// How the messages of such a group are made: as a bundle, where that is the form of each of them.
/// One to the own rank waits for its other half, and makes all of them queued.
fn called_together(members: &[Member], exec: &Exec) -> Called {
    let is_bundle = |member: &Member| {
        let checked = &member.checked;
        let route = exec.route(&checked.asked().made(Called::Together));
        matches!(route.form(), CallForm::Bundle | CallForm::Nothing)
            && checked.call.peer != exec.members.rank
    };
    if members.iter().all(is_bundle) {
        Called::Together
    } else {
        Called::Queued
    }
}

/// Runs the messages of such a group all at once, without the queue.
fn run_bundle(members: &[Member], mut exec: InCall<'_>) -> Result<()> {
    let queue = &members[0].queue;
    let collective = members[0].checked.call.collective;
    if called_together(members, &exec) == Called::Together {
        let messages = members.iter().map(|member| &member.checked);
        return run_small(queue, &mut exec, messages, collective);
    }
    let mut op = exec.spare_op(collective);
    for member in members {
        begin::flip_if_due(&mut exec);
        if member.checked.bytes == 0 {
            continue;
        }
        if let Err(error) = moving::message(&mut op, &mut exec, &member.checked) {
            return Err(queue.fail(&mut exec, error));
        }
    }
    let call = match members {
        [one] => WaitingCall::of(&one.checked, None),
        _ => (collective.name(), None).into(),
    };
    drive::run_alone(queue, &mut exec, op, call)
}

/// A bundle of small messages to and from others.
fn run_small<'a>(
    queue: &Queue,
    exec: &mut Exec,
    messages: impl Iterator<Item = &'a Checked>,
    collective: Collective,
) -> Result<()> {
    exec.engine.clear_messages();
    for checked in messages {
        begin::flip_if_due(exec);
        if checked.bytes > 0 {
            let added = messages::add_message(exec, checked);
            added.map_err(|error| queue.fail(exec, error))?;
        }
    }
    messages::run_messages(queue, exec, (collective.name(), None).into())
}

/// Runs `init` at the outermost end, in parallel with the others of the group; those that use the
/// same parent (any number that names it) one after the other, in the order of the calls.
pub fn defer_init(parent: Option<usize>, init: Init) {
    with_group(|group| group.inits.push((parent, init)));
}

/// Runs `begin` at the outermost end.
pub fn defer_begin(begin: Begin) {
    with_group(|group| group.begins.push(begin));
}

/// Takes a call down for the end of the group.
pub(in crate::comm) fn push(
    queue: &Arc<Queue>,
    checked: Checked,
    stream: Option<&Stream>,
) -> Result<()> {
    let member = Member {
        queue: Arc::clone(queue),
        checked,
        stream: stream.cloned(),
    };
    with_group(|group| group.members.push(member));
    Ok(())
}

/// Remembers that a call of the group was refused: the end of the group reports it and runs
/// nothing, because the other ranks' matching calls could not end.
pub fn refuse(error: &Error) {
    if active() {
        with_group(|group| {
            group.failed.get_or_insert_with(|| error.clone());
        });
    }
}

/// A call that the group has issued, in flight.
struct Issued {
    queue: Arc<Queue>,
    last: Arc<Completion>,
    name: &'static str,
}

/// An op, the streams it goes to, and whether somebody waits for it here.
struct Placed {
    op: Op,
    streams: Vec<Stream>,
    blocking: bool,
    /// The place in the group of the collective that ends with it.
    ends: Option<usize>,
}

/// The calls of one communicator, while nobody else can use it.
struct Part<'a> {
    queue: &'a Arc<Queue>,
    exec: InCall<'a>,
    ops: Vec<Placed>,
}

fn run_calls(members: &[Member], notes: &mut [Option<Note>]) -> Result<()> {
    let mut parts: Vec<Part> = Vec::new();
    for member in members {
        let queue = &member.queue;
        if !parts.iter().any(|part| Arc::ptr_eq(part.queue, queue)) {
            let exec = queue.user()?;
            parts.push(Part {
                queue,
                exec,
                ops: Vec::new(),
            });
        }
    }
    // A group runs whole or not at all: everything is made before anything is queued.
    parts.iter().try_for_each(|part| fits(part, members))?;
    make_all(&mut parts, members)?;
    let alone = parts.len() == 1 && parts[0].ops.iter().all(|placed| placed.blocking);
    let mut issued = Vec::new();
    for mut part in parts {
        let mut last = None;
        for Placed {
            mut op,
            streams,
            blocking,
            ends,
        } in part.ops
        {
            let note = ends.and_then(|at| notes.get_mut(at)?.take());
            op.note = note.map(Pending::of);
            for stream in &streams {
                stream.follow(part.queue, &mut op);
            }
            if blocking {
                last = Some((Arc::clone(&op.completion), op.collective.name()));
            }
            drive::keep_caller(part.queue, &mut op);
            part.exec.in_flight.push_back(op);
        }
        let queue = part.queue;
        if alone && let Some((last, name)) = &last {
            return drive::drive_until(queue, &mut part.exec, last, (*name, None));
        }
        drop(part.exec);
        drive::set_off(queue);
        if let Some((last, name)) = last {
            let queue = Arc::clone(queue);
            issued.push(Issued { queue, last, name });
        }
    }
    wait_for(&issued)
}

/// The calls of a group that go to one communicator, with their places in the group.
fn of_part<'a>(
    queue: &'a Arc<Queue>,
    members: &'a [Member],
) -> impl Iterator<Item = (usize, &'a Member)> {
    let all = members.iter().enumerate();
    all.filter(move |(_, member)| Arc::ptr_eq(&member.queue, queue))
}

/// Checks, before any of them begins, that so many calls can be in flight.
fn fits(part: &Part, members: &[Member]) -> Result<()> {
    let queue = part.queue;
    let checks = usize::from(queue.seen.compared && queue.nranks > 1);
    let (mut calls, mut messages) = (0, 0);
    for (_, member) in of_part(part.queue, members) {
        let moves = usize::from(!member.checked.is_empty());
        match member.checked.call.collective.is_point_to_point() {
            true => messages |= moves,
            false => calls += moves + checks,
        }
    }
    calls += messages;
    let most = queue.settings.calls_in_flight() as usize;
    if calls <= most {
        return Ok(());
    }
    Err(Error::usage(
        format!("{calls} calls on one communicator in one group, where {most} can be in flight"),
        "end the group earlier (all Send and Recv of a group count as one call), or raise \
         KOLO_CALLS_IN_FLIGHT",
    ))
}

/// Makes the ops of all parts. Where that fails, those that have begun are stopped: the others
/// count on their calls.
fn make_all(parts: &mut [Part], members: &[Member]) -> Result<()> {
    for at in 0..parts.len() {
        let part = &mut parts[at];
        let mine = of_part(part.queue, members);
        match ops_of(part.queue, &mut part.exec, mine) {
            Ok(ops) => part.ops = ops,
            Err(error) => {
                for begun in &mut parts[..=at] {
                    begun.queue.fail(&mut begun.exec, error.clone());
                }
                return Err(error);
            }
        }
    }
    Ok(())
}

/// The ops of one communicator's calls: all of its messages as one bundle, which goes first, so
/// that no message waits for a collective or for another stream; then the collectives in order.
fn ops_of<'a>(
    queue: &Queue,
    exec: &mut Exec,
    members: impl Iterator<Item = (usize, &'a Member)>,
) -> Result<Vec<Placed>> {
    let mut bundle: Option<Placed> = None;
    let mut rest = Vec::new();
    for (place, member) in members {
        let checked = &member.checked;
        let call = &checked.call;
        if !call.collective.is_point_to_point() {
            let mut begun = checked.clone();
            let number = begin::begin(queue, exec, &mut begun);
            let made = ops::ops_of(queue, exec, &begun, number)?;
            let last = made.len().checked_sub(1);
            rest.extend(made.into_iter().enumerate().map(|(at, op)| Placed {
                op,
                streams: member.stream.iter().cloned().collect(),
                blocking: member.stream.is_none(),
                ends: (Some(at) == last).then_some(place),
            }));
            continue;
        }
        begin::flip_if_due(exec);
        if checked.bytes == 0 {
            continue;
        }
        let bundle = bundle.get_or_insert_with(|| Placed {
            op: Op::new(call.collective),
            streams: Vec::new(),
            blocking: false,
            ends: None,
        });
        moving::message(&mut bundle.op, exec, checked)?;
        bundle.blocking |= member.stream.is_none();
        if let Some(stream) = &member.stream
            && !bundle.streams.iter().any(|known| known.is_same(stream))
        {
            bundle.streams.push(stream.clone());
        }
    }
    Ok(bundle.into_iter().chain(rest).collect())
}

fn wait_for(issued: &[Issued]) -> Result<()> {
    let Some(first) = issued.first() else {
        return Ok(());
    };
    let _inside = Engine::global().enter();
    let mut waiter = Waiter::new(&first.queue, (first.name, None));
    let mut failed = None;
    loop {
        let mut moved = false;
        let mut pending = None;
        for one in issued.iter().filter(|one| one.last.result().is_none()) {
            moved |= one.queue.pass() == Pass::Moved;
            pending = Some(one);
        }
        let Some(pending) = pending else { break };
        if moved || Engine::global().drive() {
            waiter.moved();
        } else if let Err(error) = waiter.pause(pending.queue.blocked_on()) {
            // Nothing of the group may touch a buffer after this returns.
            for one in issued {
                one.queue.stop(&error);
                one.queue.let_go();
            }
            failed.get_or_insert(error);
        }
    }
    let mut result = failed.map_or(Ok(()), Err);
    for one in issued {
        result = result.and(one.last.result().unwrap_or(Ok(())));
    }
    result
}
