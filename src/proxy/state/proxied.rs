//! Calls between the processes of ranks that send through other ranks of their node.
//!
//! A call is answered when it can be, which may take long: it is *unfinished* until then, and the
//! service thread looks at it again and again.

use super::super::frame::{Frame, ServiceKind};
use super::super::net::Op;
use super::proxy_rank::{ProxyRank, Start, Started, Unfinished};
use super::{Answer, Pending, State};
use crate::base::Rank;
use crate::plan::Direction;
use crate::transport::segment::Nonce;
use std::sync::Arc;

/// Messages that may wait for a process before its callers have to.
const PATIENT_COUNT: usize = 1024;

impl State {
    /// From now on a watcher's rank sends for others.
    pub fn serve(&mut self, nonce: Nonce, id: u64, proxy: Arc<dyn ProxyRank>) {
        let watchers = self.watchers.get_mut(&nonce).into_iter().flatten();
        for watcher in watchers.filter(|watcher| watcher.id == id) {
            watcher.proxy = Some(proxy.clone());
        }
    }

    /// Who may still send through ranks of this process that have left, and their processes.
    pub fn left_open(&self) -> Vec<(Rank, u32)> {
        let mut open = Vec::new();
        for (&nonce, watchers) in &self.watchers {
            let proxies = watchers.iter().filter_map(|it| it.proxy.as_ref());
            let ranks = proxies.flat_map(|proxy| proxy.left_open());
            open.extend(ranks.map(|rank| (rank, self.process_of(nonce, rank))));
        }
        open
    }

    /// The process of a rank: this one if there is no link to it.
    pub fn process_of(&self, nonce: Nonce, rank: Rank) -> u32 {
        let link = self.link_to(nonce, rank).and_then(|id| self.links.get(&id));
        link.map_or_else(std::process::id, |link| link.pid)
    }

    /// Ranks are gone: those who send for them hear of it, outside all locks.
    pub(super) fn tell_gone(&mut self, nonce: Nonce, ranks: &[Rank]) {
        let watchers = self.watchers.get(&nonce).into_iter().flatten();
        let proxies = watchers.filter_map(|watcher| watcher.proxy.as_ref());
        self.gone
            .extend(proxies.map(|proxy| (proxy.clone(), ranks.to_vec())));
    }

    fn proxy_of(&self, nonce: Nonce, rank: Rank) -> Option<Arc<dyn ProxyRank>> {
        let mut watchers = self.watchers.get(&nonce)?.iter();
        watchers.find(|watcher| watcher.rank == rank)?.proxy.clone()
    }

    /// The link to the process of a rank.
    fn link_to(&self, nonce: Nonce, rank: Rank) -> Option<u64> {
        let has = |ranks: &std::collections::BTreeSet<Rank>| ranks.contains(&rank);
        let mut links = self.links.iter();
        let found = links.find(|(_, link)| !link.closing && link.uses.get(&nonce).is_some_and(has));
        Some(*found?.0)
    }

    /// Rank `from` of this process sends through rank `to`.
    pub fn start(&mut self, nonce: Nonce, (from, to): (Rank, Rank), op: &Op) -> Start {
        if let Some(proxy) = self.proxy_of(nonce, to) {
            let op = *op;
            self.started.push(Started { proxy, from, op });
            return Start::Queued;
        }
        let link = self.link_to(nonce, to);
        let Some(link) = link.and_then(|id| self.links.get_mut(&id)) else {
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
        match link.out.is_empty() {
            true => Start::Posted,
            false => Start::Queued,
        }
    }

    /// Rank `from` of this process sends nothing more through rank `to`. The number returned is the
    /// operation whose `answer` to wait for.
    pub fn close(&mut self, nonce: Nonce, (from, to): (Rank, Rank)) -> u64 {
        let operation = self.number();
        let link = self.link_to(nonce, to);
        let mut pending = Pending {
            link: link.unwrap_or(0),
            nonce,
            ranks: Vec::new(),
            answer: None,
        };
        if let Some(proxy) = self.proxy_of(nonce, to) {
            self.unfinished.push(Unfinished {
                link: None,
                operation,
                proxy,
                from,
            });
        } else if let Some(link) = link.and_then(|id| self.links.get_mut(&id)) {
            let mut frame = Frame::new(ServiceKind::Close, operation, nonce.0);
            (frame.rank, frame.to) = (from.0, to.0);
            link.post(frame);
        } else {
            pending.answer = Some(Answer::Lost);
        }
        self.pending.insert(operation, pending);
        operation
    }

    /// Whether a rank of another process may ask for this. One that has left may have asked before
    /// it did.
    fn may_ask(&self, link: u64, frame: &Frame) -> bool {
        let uses = |nonce| self.links.get(&link)?.uses.get(nonce);
        let ranks = uses(&Nonce(frame.secret));
        ranks.is_some_and(|ranks| ranks.contains(&Rank(frame.rank)))
    }

    /// Another process wants something sent; dropped if nobody here would, as after a stop.
    pub(super) fn start_came(&mut self, link: u64, frame: &Frame) -> bool {
        let Ok(channel) = u16::try_from(frame.channel) else {
            return false;
        };
        if self.may_ask(link, frame)
            && let Some(proxy) = self.proxy_of(Nonce(frame.secret), Rank(frame.to))
        {
            let op = Op {
                launch: frame.operation,
                direction: Direction::Send,
                peer: Rank(frame.peer),
                channel,
                slots: frame.slots,
            };
            let from = Rank(frame.rank);
            self.started.push(Started { proxy, from, op });
        }
        true
    }

    /// A rank of another process sends nothing more.
    pub(super) fn close_came(&mut self, link: u64, frame: &Frame) {
        let proxy = self.proxy_of(Nonce(frame.secret), Rank(frame.to));
        match proxy.filter(|_| self.may_ask(link, frame)) {
            Some(proxy) => self.unfinished.push(Unfinished {
                link: Some(link),
                operation: frame.operation,
                proxy,
                from: Rank(frame.rank),
            }),
            None => self.closed(Some(link), frame.operation),
        }
    }

    /// Another process has sent all that a rank of this one wanted.
    pub(super) fn closed_came(&mut self, link: u64, operation: u64) {
        if let Some(pending) = self.pending.get_mut(&operation)
            && pending.link == link
        {
            pending.answer.get_or_insert(Answer::Welcome);
        }
    }

    fn closed(&mut self, link: Option<u64>, operation: u64) {
        match link {
            None => {
                if let Some(pending) = self.pending.get_mut(&operation) {
                    pending.answer = Some(Answer::Welcome);
                }
            }
            Some(id) => {
                if let Some(link) = self.links.get_mut(&id) {
                    link.post(Frame::new(ServiceKind::Closed, operation, 0));
                }
            }
        }
    }

    /// A call has come to its end.
    pub fn finish(&mut self, call: &Unfinished) {
        let same = |it: &Unfinished| it.operation == call.operation && it.link == call.link;
        self.unfinished.retain(|it| !same(it));
        self.closed(call.link, call.operation);
    }
}
