//! Hands the parts of a call to the engine, and moves what is in flight.

use super::op::{Op, Step};
use super::order;
use crate::base::Result;
use crate::comm::calling::call::Call;
use crate::comm::calling::checked::Checked;
use crate::comm::calling::parts::{Deed, Part};
use crate::comm::owned::Exec;
use crate::comm::queue::Queue;
use crate::exec::combine::Combine;
use crate::exec::order::LaunchOrder;
use crate::exec::{Progress, Stop};
use crate::plan::{Algorithm, Collective};
use crate::tune::{Cards, Choice, Route};

/// Adds a collective (or its check) whose lanes all run at once.
pub(in crate::comm) fn collective(
    op: &mut Op,
    exec: &mut Exec,
    checked: &Checked,
    combine: Combine,
    choice: Choice,
) -> Result<()> {
    let order = order::order(exec, checked, combine, choice);
    exec.engine.add(&mut op.flight, order)
}

/// Adds one message of a point-to-point bundle; messages with the same end follow each other.
pub(in crate::comm) fn message(op: &mut Op, exec: &mut Exec, checked: &Checked) -> Result<()> {
    following(op, exec, checked, Combine::copy(checked.call.dtype), true)
}

/// Adds a message that is folded by `combine`, for a sender may scale it.
fn following(
    op: &mut Op,
    exec: &mut Exec,
    checked: &Checked,
    combine: Combine,
    meets: bool,
) -> Result<()> {
    let choice = Choice::plain(op.collective, Algorithm::Bundle, 1);
    let order = LaunchOrder {
        blocks: (1, 1),
        follows: true,
        meets,
        ..order::order(exec, checked, combine, choice)
    };
    exec.engine.add(&mut op.flight, order)
}

/// Adds one part of a call of blocks of different sizes.
pub(in crate::comm) fn part(
    op: &mut Op,
    exec: &mut Exec,
    whole: &Checked,
    combine: &Combine,
    part: &Part,
) -> Result<()> {
    let collective = match part.deed {
        Deed::Send => Collective::Send,
        Deed::Recv => Collective::Recv,
        Deed::Copy => Collective::AllGather,
        Deed::Fold => Collective::ReduceScatterV,
    };
    let checked = Checked {
        call: Call {
            collective,
            send: part.send,
            recv: part.recv,
            count: part.count,
            peer: part.peer,
            ..whole.call
        },
        bytes: part.count * combine.element_bytes(),
        signature: part.signature ^ whole.past,
        past: whole.past,
        number: whole.number,
        op: whole.op,
        made: whole.made.clone(),
        parts: None,
    };
    let algorithm = match part.deed {
        Deed::Send | Deed::Recv => {
            return following(op, exec, &checked, combine.clone(), false);
        }
        Deed::Copy => Algorithm::Local,
        Deed::Fold if fold_keeps_order(combine, exec.members.nranks) => Algorithm::Ordered,
        Deed::Fold => Algorithm::Bundle,
    };
    let choice = Choice::plain(whole.call.collective, algorithm, 1);
    let order = LaunchOrder {
        blocks: (1, 1),
        ..order::order(exec, &checked, combine.clone(), choice)
    };
    exec.engine.add(&mut op.flight, order)
}

/// Moves what can move.
///
/// # Errors
/// A rank that called something else, or memory of a peer that cannot be mapped.
pub(in crate::comm) fn pass(
    queue: &Queue,
    op: &mut Op,
    exec: &mut Exec,
) -> std::result::Result<Step, Stop> {
    exec.may_panic("pass");
    let watchers = &mut op.watchers;
    let ended = |lane: usize| {
        // Thousands of messages may be watched one by one.
        if let Ok(at) = watchers.binary_search_by_key(&lane, |(watched, _)| *watched)
            && let Some(watcher) = watchers[at].1.take()
        {
            watcher.finish(Ok(()));
        }
    };
    let had_said = op.flight.said().is_some();
    // SAFETY: the buffers belong to the call until it completes, and the owner lock makes us
    // the only driver.
    let passed = unsafe { exec.engine.pass(&mut op.flight, ended) };
    if let (Some(number), Some(cards)) = (op.number, op.flight.said())
        && !had_said
    {
        settle(queue, exec, number, cards);
    }
    match passed? {
        Progress::Done => Ok(go_on(op, exec)?),
        going => Ok(going.into()),
    }
}

/// Tells those who tell of calls what the cards of a collective have said.
pub(in crate::comm) fn settle(queue: &Queue, exec: &mut Exec, number: u64, cards: Cards) {
    exec.cards = Some((number, cards));
    queue.whereabouts.settle(number, cards);
}

/// The launches so far have ended: what follows, if anything does.
fn go_on(op: &mut Op, exec: &mut Exec) -> Result<Step> {
    let Some(mut exact) = op.exact.take() else {
        return Ok(Step::Done);
    };
    op.flight.clear();
    // SAFETY: the buffers belong to the call until it completes, and no launch is left.
    let Some(checked) = (unsafe { exact.next(&mut exec.scratch.exact) }) else {
        return Ok(Step::Done);
    };
    let choice = Route::launch(checked.call.collective, checked.bytes, &exec.table);
    collective(op, exec, &checked, checked.combine(), choice)?;
    op.exact = Some(exact);
    Ok(Step::Moved)
}

/// Whether arrived blocks are folded in the order of ranks. With a factor and more than 64 ranks,
/// the own one, which alone is scaled, comes first.
fn fold_keeps_order(combine: &Combine, nranks: u32) -> bool {
    !combine.is_pre_scaled() || nranks <= 64
}
