//! Saying what went wrong between ranks: who called something else, who is late.

use super::call::describe;
use super::state::Inner;
use crate::base::clock;
use crate::base::{Code, Error, Rank, Result};
use crate::exec::wires::Mismatch;
use crate::proxy::service::Alarm;
use crate::transport::node::NodeMemory;
use crate::wire::signature::Signature;
use std::time::Duration;

/// How long the reason of a failed connection is waited for.
const NEWS: Duration = Duration::from_millis(500);

/// The error for a token that carries another signature than this rank's call.
pub(super) fn mismatch(inner: &Inner, mismatch: Mismatch, call: Option<u64>) -> Error {
    if let Some(call) = call
        && let Err(error) = compare_boards(inner, call)
    {
        return error;
    }
    let peer = mismatch.peer as u32;
    if mismatch.is_stale {
        return Error::new(
            Code::InvalidUsage,
            format!(
                "ranks disagree: in an earlier call rank {peer} on {} called {} and handed out \
                 data that rank {} did not take, so that call's results are wrong",
                inner.place(peer),
                describe(mismatch.theirs),
                inner.rank
            ),
            "make all ranks name the same root, and call the same operations in the same order; \
             KOLO_CHECK=1 finds it in the call itself",
        )
        .with_peer(Rank(peer));
    }
    Error::new(
        Code::InvalidUsage,
        format!(
            "ranks disagree: rank {} called {}, but rank {peer} on {} called {}",
            inner.rank,
            describe(mismatch.mine),
            inner.place(peer),
            describe(mismatch.theirs),
        ),
        "make all ranks call the same operations with the same arguments in the same order",
    )
    .with_peer(Rank(peer))
}

/// Compares what all ranks called as their collective number `call`, as far as the boards tell.
///
/// # Errors
/// When they differ: names the rank that deviates from the majority, and both calls.
pub(super) fn compare_boards(inner: &Inner, call: u64) -> Result<()> {
    let seen: Vec<(u32, Signature)> = (0..inner.nranks)
        .filter_map(|rank| {
            let signature = inner.node.board(rank as usize).signature(call)?;
            Some((rank, Signature(signature)))
        })
        .collect();
    let votes = |s: Signature| seen.iter().filter(|(_, other)| *other == s).count();
    let Some(&(usual_rank, usual)) = seen
        .iter()
        .max_by_key(|(rank, s)| (votes(*s), std::cmp::Reverse(*rank)))
    else {
        return Ok(());
    };
    let Some(&(rank, other)) = seen.iter().find(|(_, s)| *s != usual) else {
        return Ok(());
    };
    let rest = seen.iter().filter(|(_, s)| *s != usual).count() - 1;
    let more = if rest > 0 {
        format!(" ({rest} more ranks differ)")
    } else {
        String::new()
    };
    Err(Error::new(
        Code::InvalidUsage,
        format!(
            "ranks disagree in collective {call} of communicator {}: rank {rank} on {} called {}, \
             but rank {usual_rank} on {} called {}{more}",
            inner.name,
            inner.place(rank),
            describe(other),
            inner.place(usual_rank),
            describe(usual),
        ),
        "make all ranks call the same operations with the same arguments in the same order",
    )
    .with_peer(Rank(rank)))
}

/// Whether the rank that is waited for will never come.
///
/// # Errors
/// If it has destroyed the communicator without entering the call.
pub(super) fn check_left(
    inner: &Inner,
    call: (&'static str, Option<u64>),
    peer: usize,
) -> Result<()> {
    let board = inner.node.board(peer);
    let entered = call.1.is_some_and(|number| board.calls() >= number);
    if peer as u32 == inner.rank || entered || !board.has_left() {
        return Ok(());
    }
    let peer = Rank(peer as u32);
    Err(left(
        (peer, inner.place(peer.0)),
        (Rank(inner.rank), call.0),
    ))
}

/// Why a connection may have ended.
pub(super) enum News {
    /// The communicator was stopped, as its abort record says.
    Aborted,
    /// The rank at the other end has left.
    Left(Rank),
    None,
}

/// A connection that ends is often the consequence of something else, of which the lookouts tell in
/// a moment, if they are asked.
pub(super) fn news(node: &NodeMemory, peer: Option<Rank>, ask: impl Fn()) -> News {
    let start = clock::now();
    let mut asked = 0;
    while start.elapsed() < NEWS {
        if node.aborted() {
            return News::Aborted;
        }
        if let Some(peer) = peer
            && node.board(peer.index()).has_left()
        {
            return News::Left(peer);
        }
        // A rank that leaves says so before it closes, but the answer to one question may be older.
        if start.elapsed() >= NEWS / 10 * asked {
            asked += 1;
            ask();
        }
        std::thread::sleep(NEWS / 500);
    }
    News::None
}

/// What to say of a network that failed. `None` if that is the consequence of an abort.
pub(super) fn of_network(inner: &Inner, error: Error) -> Option<Error> {
    let peer = error.peer.filter(|peer| peer.0 < inner.nranks);
    match news(&inner.node, peer, || inner.alarm(Alarm::Ask)) {
        News::Aborted => return None,
        News::Left(peer) => {
            let waiting = error.rank.unwrap_or(Rank(inner.rank));
            return Some(left((peer, inner.place(peer.0)), (waiting, "a call")));
        }
        News::None => {}
    }
    let what = |peer: Rank| {
        let place = inner.place(peer.0);
        format!(
            "no data pass to or from rank {peer} on {place}: {}",
            error.what
        )
    };
    Some(Error {
        what: peer.map_or_else(|| error.what.clone(), what),
        ..error
    })
}

/// The error for a rank that has left while another one waits for it.
pub(super) fn left((peer, place): (Rank, &str), (waiting, call): (Rank, &str)) -> Error {
    Error::remote(
        peer,
        format!(
            "rank {peer} on {place} has destroyed the communicator, but rank {waiting} waits for \
             it in {call}"
        ),
        "make all ranks call the same operations before they destroy the communicator",
    )
}

/// Who is waited for, in words.
pub(super) fn late(inner: &Inner, call: (&'static str, Option<u64>), peer: usize) -> String {
    let proxies = match inner.links() {
        Some(links) if links.is_remote(peer) => links.proxies(),
        _ => Default::default(),
    };
    let through: Vec<String> = proxies
        .iter()
        .map(|rank| format!("rank {rank} on {}", inner.place(rank.0)))
        .collect();
    let who = late_rank(inner, call, peer);
    match through.is_empty() {
        true => who,
        false => format!("{who}; this rank sends through {}", through.join(", ")),
    }
}

fn late_rank(inner: &Inner, call: (&'static str, Option<u64>), peer: usize) -> String {
    let Some(number) = call.1 else {
        return format!(
            "rank {peer} on {}, which has not called the matching operation",
            inner.place(peer as u32)
        );
    };
    let behind = |rank: &u32| inner.node.board(*rank as usize).calls() < number;
    let late: Vec<u32> = (0..inner.nranks).filter(behind).collect();
    match late.as_slice() {
        [] => format!(
            "rank {peer} on {}, which has entered the call",
            inner.place(peer as u32)
        ),
        [one] => format!(
            "rank {one} on {}, which has not called yet",
            inner.place(*one)
        ),
        many => {
            let shown: Vec<String> = many.iter().take(8).map(u32::to_string).collect();
            let more = if many.len() > 8 { ", ..." } else { "" };
            format!(
                "{} ranks that have not called yet: {}{more}",
                many.len(),
                shown.join(", ")
            )
        }
    }
}
