//! Groups: calls between `start` and the outermost `end` begin together and progress together.
//!
//! Point-to-point calls of one communicator become one bundle, so that no message waits for
//! another; several ranks (communicators) may be driven by one thread. Initialisations inside a
//! group run in parallel, because each one waits for the others.

use super::Communicator;
use super::call::Checked;
use super::enqueue::MAX_IN_FLIGHT;
use super::op::{Completion, Op};
use super::state::Inner;
use super::stream::Stream;
use super::wait::Waiter;
use crate::base::{Error, Result};
use crate::exec::Waiting;
use crate::proxy::progress::{Engine, Pass, Work};
use std::cell::RefCell;
use std::sync::Arc;

/// An initialisation that waits for the end of the group.
pub type Init = Box<dyn FnOnce() -> Result<()> + Send>;

struct Member {
    comm: Communicator,
    checked: Checked,
    stream: Option<Stream>,
}

#[derive(Default)]
struct Group {
    depth: u32,
    members: Vec<Member>,
    inits: Vec<Init>,
    /// A call of the group failed its checks: nothing of the group runs.
    failed: Option<Error>,
}

thread_local! {
    static GROUP: RefCell<Group> = RefCell::default();
    static DEPTH: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// Whether this thread is inside a group.
#[inline(always)]
pub fn active() -> bool {
    DEPTH.get() > 0
}

/// Begins a group on this thread; groups nest.
pub fn start() {
    GROUP.with_borrow_mut(|group| group.depth += 1);
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
    let group = GROUP.with_borrow_mut(|group| {
        group.depth -= 1;
        (group.depth == 0).then(|| std::mem::take(group))
    });
    let Some(group) = group else { return Ok(()) };
    if let Some(error) = group.failed {
        return Err(error);
    }
    run_inits(group.inits)?;
    let mut members = group.members;
    let result = match run_bundle(&members) {
        Some(result) => result,
        None => run_calls(&members),
    };
    // The next group of this thread finds the memory of this one.
    members.clear();
    GROUP.with_borrow_mut(|group| {
        if group.members.capacity() == 0 {
            group.members = members;
        }
    });
    result
}

/// A group of blocking messages on one communicator where nothing else is in flight, such as a
/// halo exchange: runs them all at once, without the queue. None for any other group.
fn run_bundle(members: &[Member]) -> Option<Result<()>> {
    let inner = &members.first()?.comm.inner;
    let message = |member: &Member| {
        Arc::ptr_eq(&member.comm.inner, inner)
            && member.stream.is_none()
            && member.checked.call.collective.is_point_to_point()
    };
    if !members.iter().all(message) {
        return None;
    }
    let mut exec = match inner.user() {
        Ok(exec) => exec,
        Err(error) => return Some(Err(error)),
    };
    if !exec.queue.is_empty() {
        return None;
    }
    let mut op = exec.spare_op(members[0].checked.call.collective);
    for member in members {
        inner.begin(&mut exec, &member.checked);
        if member.checked.bytes == 0 {
            continue;
        }
        let kernel = exec.kernels.get(member.checked.call.dtype, None).clone();
        if let Err(error) = op.message(&mut exec, &member.checked, kernel) {
            return Some(Err(error));
        }
    }
    Some(inner.run_alone(&mut exec, op, None))
}

/// Runs `init` at the outermost end, in parallel with the others of the group.
pub fn defer_init(init: Init) {
    GROUP.with_borrow_mut(|group| group.inits.push(init));
}

/// Takes a call down for the end of the group.
pub(super) fn push(comm: &Communicator, checked: Checked, stream: Option<&Stream>) -> Result<()> {
    let member = Member {
        comm: comm.clone(),
        checked,
        stream: stream.cloned(),
    };
    GROUP.with_borrow_mut(|group| group.members.push(member));
    Ok(())
}

/// Remembers that a call of the group was refused: the end of the group reports it and runs
/// nothing, because the other ranks' matching calls could not end.
pub fn refuse(error: &Error) {
    if active() {
        GROUP.with_borrow_mut(|group| {
            group.failed.get_or_insert_with(|| error.clone());
        });
    }
}

fn run_inits(inits: Vec<Init>) -> Result<()> {
    if inits.is_empty() {
        return Ok(());
    }
    let threads: Vec<_> = inits.into_iter().map(std::thread::spawn).collect();
    let mut first = Ok(());
    for thread in threads {
        let result = thread
            .join()
            .unwrap_or_else(|_| Err(Error::internal("initialising a communicator panicked")));
        first = first.and(result);
    }
    first
}

/// What is in flight after the group was issued.
struct Issued {
    comm: Communicator,
    last: Arc<Completion>,
    name: &'static str,
}

fn run_calls(members: &[Member]) -> Result<()> {
    let mut comms: Vec<Communicator> = Vec::new();
    for member in members {
        if !comms
            .iter()
            .any(|known| Arc::ptr_eq(&known.inner, &member.comm.inner))
        {
            comms.push(member.comm.clone());
        }
    }
    let mut issued = Vec::new();
    let alone = comms.len() == 1;
    for comm in comms {
        let mine = members
            .iter()
            .filter(|m| Arc::ptr_eq(&m.comm.inner, &comm.inner));
        let (ops, blocking) = ops_of(&comm.inner, mine)?;
        let name = ops
            .last()
            .map_or("GroupEnd", |(op, _)| op.collective.name());
        let mut last = None;
        let mut exec = comm.inner.user()?;
        for (op, stream) in ops {
            match stream {
                Some(stream) => comm.inner.put_on_stream(&mut exec, vec![op], &stream),
                None => {
                    last = Some(Arc::clone(&op.completion));
                    exec.queue.push_back(op);
                }
            }
        }
        if alone
            && blocking
            && let Some(last) = &last
        {
            return comm.inner.drive_until(&mut exec, last, (name, None));
        }
        drop(exec);
        comm.inner.set_off();
        if let Some(last) = last {
            issued.push(Issued { comm, last, name });
        }
    }
    wait_for(&issued)
}

/// An op, and the stream it goes to.
type Placed = (Op, Option<Stream>);

/// The ops of one communicator's calls in order, neighbouring messages bundled, each with its
/// stream; and whether all are blocking.
fn ops_of<'a>(
    inner: &Arc<Inner>,
    members: impl Iterator<Item = &'a Member>,
) -> Result<(Vec<Placed>, bool)> {
    let mut exec = inner.user()?;
    let exec = &mut *exec;
    let mut ops: Vec<Placed> = Vec::new();
    let mut blocking = true;
    for member in members {
        let checked = &member.checked;
        let call = &checked.call;
        blocking &= member.stream.is_none();
        inner.begin(exec, checked);
        if !call.collective.is_point_to_point() {
            let made = inner.ops_of(exec, checked)?;
            ops.extend(made.into_iter().map(|op| (op, member.stream.clone())));
            continue;
        }
        if checked.bytes == 0 {
            continue;
        }
        let kernel = exec.kernels.get(call.dtype, None).clone();
        let joins = ops.last().is_some_and(|(op, stream)| {
            op.collective.is_point_to_point() && Stream::same(stream, &member.stream)
        });
        if !joins {
            ops.push((Op::new(call.collective), member.stream.clone()));
        }
        let (bundle, _) = ops.last_mut().expect("just pushed");
        bundle.message(exec, checked, kernel)?;
    }
    if ops.len() > MAX_IN_FLIGHT {
        return Err(Error::usage(
            format!(
                "{} calls on one communicator in one group, where {MAX_IN_FLIGHT} can be in flight",
                ops.len()
            ),
            "end the group earlier (neighbouring Send and Recv count as one call)",
        ));
    }
    Ok((ops, blocking))
}

fn wait_for(issued: &[Issued]) -> Result<()> {
    let Some(first) = issued.first() else {
        return Ok(());
    };
    let mut waiter = Waiter::new(&first.comm.inner, (first.name, None));
    let mut result = Ok(());
    loop {
        let mut moved = false;
        let mut pending = None;
        for one in issued.iter().filter(|one| one.last.result().is_none()) {
            moved |= one.comm.inner.pass() == Pass::Moved;
            pending = Some(one);
        }
        if pending.is_none() {
            break;
        }
        if moved || Engine::global().drive() {
            waiter.moved();
        } else if let Err(error) = waiter.pause(first.comm.inner.rank as usize) {
            result = Err(error);
            break;
        }
    }
    for one in issued {
        result = result.and(one.last.result().unwrap_or(Ok(())));
    }
    result
}
