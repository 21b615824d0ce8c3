//! Hands the parts of a call to the engine, and moves what is in flight.

use super::direct::Card;
use super::op::{CardStage, Next, Op, Step, Then};
use super::order;
use crate::base::Result;
use crate::comm::calling::call::Call;
use crate::comm::calling::checked::Checked;
use crate::comm::calling::parts::{Deed, Part};
use crate::comm::owned::Exec;
use crate::comm::queue::Queue;
use crate::exec::combine::Combine;
use crate::exec::order::LaunchOrder;
use crate::exec::pushed;
use crate::exec::{Progress, Stop};
use crate::plan::{Algorithm, Collective};
use crate::transport::memory;
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
    order::begin(exec, &mut op.flight, order)
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
    order::begin(exec, &mut op.flight, order)
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
    order::begin(exec, &mut op.flight, order)
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
    let to_show =
        |next: &mut Next| matches!(next, Next::Direct(then) if then.cards != CardStage::Shown);
    if let Some(Next::Direct(then)) = op.then.take_if(to_show) {
        ask(queue, op, exec, then)?;
    }
    let watchers = &mut op.watchers;
    let ended = |lane: usize| {
        // Thousands of messages may be watched one by one.
        if let Ok(at) = watchers.binary_search_by_key(&lane, |(watched, _)| *watched)
            && let Some(watcher) = watchers[at].1.take()
        {
            watcher.finish(Ok(()));
        }
    };
    // SAFETY: the buffers belong to the call until it completes, and the owner lock makes us
    // the only driver.
    match unsafe { exec.engine.pass(&mut op.flight, ended)? } {
        Progress::Done => Ok(go_on(queue, op, exec)?),
        going => Ok(going.into()),
    }
}

/// The first pass of such a call: the cards, unless the last ones were in vain.
fn ask(queue: &Queue, op: &mut Op, exec: &mut Exec, mut then: Box<Then>) -> Result<()> {
    if then.cards == CardStage::Undecided && !exec.direct.asks(then.order.bytes()) {
        op.cards_said = Some(Cards::NotShown);
        settle(queue, exec, then.number, Cards::NotShown);
        return order::begin(exec, &mut op.flight, then.order);
    }
    then.cards = CardStage::Shown;
    let ranks = exec.members.nranks as usize;
    op.cards.clear();
    op.cards.resize(ranks + 1, Card::default());
    (op.cards[ranks], op.copies) = exec.direct.card(&then.order)?;
    op.exposed = pushed::exposed(&then.order, memory::page_bytes());
    let (all, own) = op.cards.split_at_mut(ranks);
    let order = order::card_order(exec, &then.order, all, &own[0]);
    order::begin(exec, &mut op.flight, order)?;
    op.then = Some(Next::Direct(then));
    Ok(())
}

/// Tells those who tell of calls what the cards of a collective have said.
pub(in crate::comm) fn settle(queue: &Queue, exec: &mut Exec, number: u64, cards: Cards) {
    exec.cards = Some((number, cards));
    if let Some(here) = &queue.whereabouts {
        here.settle(number, cards);
    }
}

/// The launches so far have ended: what follows, if anything does.
fn go_on(queue: &Queue, op: &mut Op, exec: &mut Exec) -> Result<Step> {
    let Some(next) = op.then.take() else {
        return Ok(Step::Done);
    };
    op.flight.clear();
    match next {
        Next::Direct(then) => begin_direct(queue, op, exec, *then)?,
        Next::Exact(mut exact) => {
            // SAFETY: the buffers belong to the call until it completes, and no launch is left.
            let Some(checked) = (unsafe { exact.next(&mut exec.scratch.exact) }) else {
                return Ok(Step::Done);
            };
            let choice = Route::launch(checked.call.collective, checked.bytes, &exec.table);
            collective(op, exec, &checked, checked.combine(), choice)?;
            op.then = Some(Next::Exact(exact));
        }
    }
    Ok(Step::Moved)
}

/// All cards are there: the call itself.
fn begin_direct(queue: &Queue, op: &mut Op, exec: &mut Exec, then: Then) -> Result<()> {
    let cards = &op.cards[..exec.members.nranks as usize];
    let copies = std::mem::take(&mut op.copies);
    let reached = exec.direct.reached(cards, &then.order, copies)?;
    let said = match reached {
        Some(_) => Cards::Readable,
        None => Cards::Private,
    };
    op.cards_said = Some(said);
    settle(queue, exec, then.number, said);
    let Some(reached) = reached else {
        op.exposed = None;
        return order::begin(exec, &mut op.flight, then.order);
    };
    let order = order::direct_order(then.order, reached);
    order::begin(exec, &mut op.flight, order)
}

/// Whether arrived blocks are folded in the order of ranks. Only the first 64 sources of a fold can
/// be scaled: with more ranks the own one, which is, comes first.
fn fold_keeps_order(combine: &Combine, nranks: u32) -> bool {
    !combine.is_pre_scaled() || nranks <= 64
}
