//! Work of a rank for ranks of its node that send through it, and the calls for this.

use crate::base::Rank;
use crate::proxy::net::Op;
use crate::transport::segment::Nonce;
use std::sync::Arc;

/// Work of a rank for ranks of its node that send through it. No call may wait.
pub trait ProxyRank: Send + Sync {
    /// A launch of rank `from` sends over a connection.
    fn start(&self, from: Rank, op: Op);

    /// Rank `from` sends nothing more: whether all that it sent has arrived, or never will.
    fn is_done(&self, from: Rank) -> bool;

    /// The process of these ranks has ended, or is about to.
    fn gone(&self, ranks: &[Rank]);

    /// Who may still send through this rank, which has left itself.
    fn left_open(&self) -> Vec<Rank>;
}

/// Who sends through whom: rank `from` of this process through rank `to` of its node.
#[derive(Clone, Copy)]
pub struct ByProxy {
    pub nonce: Nonce,
    pub from: Rank,
    pub to: Rank,
}

/// Something that a rank of this process is to send for another one.
pub struct Started {
    pub proxy: Arc<dyn ProxyRank>,
    pub from: Rank,
    pub op: Op,
}

/// A call that has no answer yet.
#[derive(Clone)]
pub struct Unfinished {
    /// The link that it came by; `None` from this process.
    pub(super) link: Option<u64>,
    pub(super) operation: u64,
    pub proxy: Arc<dyn ProxyRank>,
    pub from: Rank,
}

/// Fate of a wish to send.
pub enum Start {
    /// The other process has it.
    Posted,
    /// It will have it when the service thread has had a turn, or its socket has room again.
    Queued,
    /// Too much waits for the other process: to be asked again.
    NotYet,
    /// There is no such process any more; of that others tell.
    Gone,
}
