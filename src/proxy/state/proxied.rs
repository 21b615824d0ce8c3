//! Calls between the processes of ranks that send through other ranks of their node.
//!
//! A call is answered when it can be, which may take long: it is *unfinished* until then, and the
//! service thread looks at it again and again.

use super::super::frame::{Frame, ServiceKind};
use super::super::net::Op;
use super::proxy_rank::{ByProxy, ProxyRank, Start, Started, Unfinished};
use super::{Answer, Pending, State};
use crate::base::Rank;
use crate::plan::Direction;
use crate::transport::segment::Nonce;
use std::sync::Arc;

/// Messages that may wait for a process before its callers have to.
const PATIENT_COUNT: usize = 1024;

/// Who may still send through ranks of this process that have left, and their processes.
pub fn left_open(state: &State) -> Vec<(Rank, u32)> {
    let mut open = Vec::new();
    for (&nonce, watchers) in &state.watchers {
        let proxies = watchers.iter().filter_map(|it| it.proxy.as_ref());
        let ranks = proxies.flat_map(|proxy| proxy.left_open());
        open.extend(ranks.map(|rank| (rank, process_of(state, nonce, rank))));
    }
    open
}

/// The process of a rank: this one if there is no link to it.
pub fn process_of(state: &State, nonce: Nonce, rank: Rank) -> u32 {
    let link = link_to(state, nonce, rank).and_then(|id| state.links.get(&id));
    link.map_or_else(std::process::id, |link| link.pid)
}

fn proxy_of(state: &State, nonce: Nonce, rank: Rank) -> Option<Arc<dyn ProxyRank>> {
    let mut watchers = state.watchers.get(&nonce)?.iter();
    watchers.find(|watcher| watcher.rank == rank)?.proxy.clone()
}

/// The link to the process of a rank.
fn link_to(state: &State, nonce: Nonce, rank: Rank) -> Option<u64> {
    let has = |ranks: &std::collections::BTreeSet<Rank>| ranks.contains(&rank);
    let mut links = state.links.iter();
    let found = links.find(|(_, link)| !link.closing && link.uses.get(&nonce).is_some_and(has));
    Some(*found?.0)
}

/// A rank of this process sends `op` through another one.
pub fn start(state: &mut State, through: ByProxy, op: &Op) -> Start {
    let ByProxy { nonce, from, to } = through;
    if let Some(proxy) = proxy_of(state, nonce, to) {
        let op = *op;
        state.started.push(Started { proxy, from, op });
        return Start::Queued;
    }
    let link = link_to(state, nonce, to);
    let Some(link) = link.and_then(|id| state.links.get_mut(&id)) else {
        return Start::Gone;
    };
    if link.out.len() >= PATIENT_COUNT {
        return Start::NotYet;
    }
    let mut frame = Frame::new(ServiceKind::Start, op.launch, nonce.0);
    (frame.rank, frame.to) = (from.0, to.0);
    (frame.peer, frame.channel) = (op.peer.0, u32::from(op.channel));
    frame.slots = op.slots;
    link.post(frame);
    if link.out.is_empty() {
        Start::Posted
    } else {
        Start::Queued
    }
}

/// A rank of this process sends nothing more through another one. The number returned is the
/// operation whose `answer` to wait for.
pub fn close(state: &mut State, through: ByProxy) -> u64 {
    let ByProxy { nonce, from, to } = through;
    let operation = state.number();
    let link = link_to(state, nonce, to);
    let mut pending = Pending {
        link: link.unwrap_or(0),
        nonce,
        ranks: Vec::new(),
        answer: None,
    };
    if let Some(proxy) = proxy_of(state, nonce, to) {
        state.unfinished.push(Unfinished {
            link: None,
            operation,
            proxy,
            from,
        });
    } else if let Some(link) = link.and_then(|id| state.links.get_mut(&id)) {
        let mut frame = Frame::new(ServiceKind::Close, operation, nonce.0);
        (frame.rank, frame.to) = (from.0, to.0);
        link.post(frame);
    } else {
        pending.answer = Some(Answer::Lost);
    }
    state.pending.insert(operation, pending);
    operation
}

/// Whether a rank of another process may ask for this. One that has left may have asked before
/// it did.
fn may_ask(state: &State, link: u64, frame: &Frame) -> bool {
    let uses = |nonce| state.links.get(&link)?.uses.get(nonce);
    let ranks = uses(&Nonce(frame.secret));
    ranks.is_some_and(|ranks| ranks.contains(&Rank(frame.rank)))
}

/// Another process wants something sent; dropped if nobody here would, as after a stop.
pub fn start_came(state: &mut State, link: u64, frame: &Frame) -> bool {
    let Ok(channel) = u16::try_from(frame.channel) else {
        return false;
    };
    if may_ask(state, link, frame)
        && let Some(proxy) = proxy_of(state, Nonce(frame.secret), Rank(frame.to))
    {
        let op = Op {
            launch: frame.operation,
            direction: Direction::Send,
            peer: Rank(frame.peer),
            channel,
            slots: frame.slots,
            wished: false,
        };
        let from = Rank(frame.rank);
        state.started.push(Started { proxy, from, op });
    }
    true
}

/// A rank of another process sends nothing more.
pub fn close_came(state: &mut State, link: u64, frame: &Frame) {
    let proxy = proxy_of(state, Nonce(frame.secret), Rank(frame.to));
    match proxy.filter(|_| may_ask(state, link, frame)) {
        Some(proxy) => state.unfinished.push(Unfinished {
            link: Some(link),
            operation: frame.operation,
            proxy,
            from: Rank(frame.rank),
        }),
        None => closed(state, Some(link), frame.operation),
    }
}

/// Another process has sent all that a rank of this one wanted.
pub fn closed_came(state: &mut State, link: u64, operation: u64) {
    if let Some(pending) = state.pending.get_mut(&operation)
        && pending.link == link
    {
        pending.answer.get_or_insert(Answer::Welcome);
    }
}

fn closed(state: &mut State, link: Option<u64>, operation: u64) {
    match link {
        None => {
            if let Some(pending) = state.pending.get_mut(&operation) {
                pending.answer = Some(Answer::Welcome);
            }
        }
        Some(id) => {
            if let Some(link) = state.links.get_mut(&id) {
                link.post(Frame::new(ServiceKind::Closed, operation, 0));
            }
        }
    }
}

/// A call has come to its end.
pub fn finish(state: &mut State, call: &Unfinished) {
    let same = |it: &Unfinished| it.operation == call.operation && it.link == call.link;
    state.unfinished.retain(|it| !same(it));
    closed(state, call.link, call.operation);
}
