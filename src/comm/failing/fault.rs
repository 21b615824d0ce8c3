//! Saying what went wrong between ranks: who called something else, who is late.

use super::circle::{REMEDY, circle};
use super::disagreement::{both, reason};
use crate::base::clock;
use crate::base::turns;
use crate::base::{Code, Error, Rank, Result};
use crate::comm::calling::call::{Collective, describe};
use crate::comm::calling::waiting_call::WaitingCall;
use crate::comm::owned::Exec;
use crate::comm::state::Inner;
use crate::config::{Origin, Settings};
use crate::dtype::DataType;
use crate::exec::stop::Mismatch;
use crate::proxy::service::Alarm;
use crate::transport::node::NodeMemory;
use crate::wire::board::Board;
use crate::wire::signature::Signature;
use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;
use std::time::Duration;

/// The setting that ends a wait, as whoever has set it knows it.
pub(in crate::comm) fn limit(settings: &Settings, timeout: Duration) -> String {
    let seconds = timeout.as_secs_f64();
    match settings.entry("timeout").map(|it| &it.source.origin) {
        Some(Origin::Variable(name)) => format!("{name}={seconds}"),
        Some(origin) => format!("timeout = {seconds} ({origin})"),
        None => format!("KOLO_TIMEOUT={seconds}"),
    }
}

/// How long the reason of a failed connection is waited for.
const NEWS: Duration = Duration::from_millis(500);
/// How many of a rank's last collectives are compared: at most as many as its board remembers.
const REMEMBERED: u64 = 12;

/// The error for a token that carries another signature than this rank's call.
pub(in crate::comm) fn mismatch(
    inner: &Inner,
    exec: &Exec,
    found: Mismatch,
    call: Option<u64>,
) -> Error {
    let number = call.unwrap_or(exec.counts.calls);
    if let Err(error) = compare_with(inner, number, found.peer) {
        return error;
    }
    let peer = found.peer as u32;
    let place = inner.place(peer);
    let pasts = pasts(inner, exec);
    let mine = match call {
        Some(number) => pasts
            .get((exec.counts.calls - number) as usize + 1)
            .copied(),
        None => Some(0),
    };
    let mine = mine.map(|past| Signature(found.mine.0 ^ past));
    // A token of a message has no past, and one that is left over an older one than this call's.
    let known = std::iter::once(0).chain(pasts.iter().copied());
    let theirs = known.map(|past| Signature(found.theirs.0 ^ past));
    let theirs = { theirs }.find(|it| is_possible(*it, inner.nranks));
    let (what, remedy) = match (theirs, mine) {
        (Some(theirs), _) if found.is_stale => (
            format!(
                "ranks disagree: in an earlier call rank {peer} on {place} called {} and handed \
                 out data that rank {} did not take, so that call's results are wrong",
                describe(theirs),
                inner.rank
            ),
            "make all ranks name the same root, and call the same operations in the same order; \
             KOLO_CHECK=1 finds it in the call itself",
        ),
        (Some(theirs), Some(mine)) => {
            let (why, remedy) = reason((inner.rank, mine), (peer, theirs));
            let [mine, theirs] = both(mine, theirs);
            let what = format!(
                "ranks disagree: rank {} called {mine}, but rank {peer} on {place} called \
                 {theirs}{why}",
                inner.rank,
            );
            (what, remedy)
        }
        _ => (
            format!(
                "ranks disagree: rank {peer} on {place} has called something else than rank {} in \
                 an earlier collective of communicator {}",
                inner.rank, inner.name
            ),
            "make all ranks call the same operations with the same arguments in the same order; \
             KOLO_CHECK=1 finds the call",
        ),
    };
    Error::new(Code::InvalidUsage, what, remedy).with_peer(Rank(peer))
}

/// The pasts of this rank's last collectives, the latest first, as far as its board remembers
/// them: that of the next one, of the last one, and so on.
fn pasts(inner: &Inner, exec: &Exec) -> Vec<u64> {
    let board = inner.node.board(inner.rank as usize);
    let mut past = exec.past;
    let mut found = vec![past.now()];
    for call in (1..=exec.counts.calls).rev().take(REMEMBERED as usize) {
        let Some(signature) = board.signature(call) else {
            break;
        };
        past = past.without(signature);
        found.push(past.now());
    }
    found
}

/// Whether a rank can have signed so: a number at random hardly ever looks like it.
fn is_possible(signature: Signature, nranks: u32) -> bool {
    let fields = signature.unpack();
    let collective = Collective::ALL
        .iter()
        .find(|it| **it as u8 == fields.collective);
    let has_root = collective.is_some_and(|it| it.has_root());
    let roots = if has_root { nranks } else { 1 };
    collective.is_some()
        && fields.root < roots
        && DataType::from_index(usize::from(fields.dtype)).is_some()
}

/// Compares the last calls of all ranks up to collective number `call`; what the rank `peer` of
/// another node has called is waited for a moment.
fn compare_with(inner: &Inner, call: u64, peer: usize) -> Result<()> {
    let start = clock::now();
    loop {
        compare_recent(inner, call)?;
        let is_known = inner.is_mate(peer as u32) || inner.node.board(peer).calls() >= call;
        if is_known || start.past(NEWS) {
            return Ok(());
        }
        inner.alarm(Alarm::Ask);
        turns::sleep(NEWS / 50);
    }
}

/// Compares the boards of the last calls up to this one: the first that differs counts.
///
/// # Errors
/// As [`compare_boards`].
pub(in crate::comm) fn compare_recent(inner: &Inner, call: u64) -> Result<()> {
    let first = call.saturating_sub(REMEMBERED - 1).max(1);
    (first..=call).try_for_each(|call| compare_boards(inner, call))
}

/// Compares how often the ranks of this node have called, where this one is about to leave after
/// `calls` collectives.
///
/// # Errors
/// When another one is in a call that this rank has not made, or has left without a call of this
/// rank.
pub(in crate::comm) fn compare_counts(inner: &Inner, calls: u64) -> Result<()> {
    for rank in (0..inner.nranks).filter(|rank| inner.is_mate(*rank)) {
        let board = inner.node.board(rank as usize);
        let has_left = board.has_left() || board.has_ended();
        let theirs = board.calls();
        let (caller, leaver) = match theirs.cmp(&calls) {
            Ordering::Greater => (rank, inner.rank),
            Ordering::Less if has_left => (inner.rank, rank),
            _ => continue,
        };
        let number = calls.min(theirs) + 1;
        // Who reads the sentence has the rank that says it before it.
        let who = |rank: u32| match rank == inner.rank {
            true => "this rank".to_owned(),
            false => format!("rank {rank} on {}", inner.place(rank)),
        };
        let signature = inner.node.board(caller as usize).signature(number);
        let call = signature.map_or("a call".into(), |it| describe(Signature(it)));
        return Err(Error::remote(
            Rank(rank),
            format!(
                "ranks disagree: {} called {call} as collective {number} of communicator {}, but \
                 {} {} without it",
                who(caller),
                inner.name,
                who(leaver),
                gone(inner.node.board(leaver as usize)).0,
            ),
            "make all ranks call the same operations before they let go of the communicator",
        ));
    }
    Ok(())
}

/// Compares what all ranks called as their collective number `call`, as far as the boards tell.
///
/// # Errors
/// When they differ: names the rank that deviates from the majority, and both calls.
fn compare_boards(inner: &Inner, call: u64) -> Result<()> {
    let seen = (0..inner.nranks).filter_map(|rank| {
        let signature = inner.node.board(rank as usize).signature(call)?;
        Some((rank, signature))
    });
    let Some(Vote {
        usual: (usual_rank, usual),
        other: (rank, other),
        rest,
    }) = vote(seen)
    else {
        return Ok(());
    };
    let more = if rest > 0 {
        format!(" ({rest} more ranks differ)")
    } else {
        String::new()
    };
    let (why, remedy) = reason((rank, Signature(other)), (usual_rank, Signature(usual)));
    Err(Error::new(
        Code::InvalidUsage,
        format!(
            "ranks disagree in collective {call} of communicator {}: rank {rank} on {} called {}, \
             but rank {usual_rank} on {} called {}{more}{why}",
            inner.name,
            inner.place(rank),
            describe(Signature(other)),
            inner.place(usual_rank),
            describe(Signature(usual)),
        ),
        remedy,
    )
    .with_peer(Rank(rank)))
}

/// That ranks differ: the lowest rank of the majority, the lowest one that deviates from it, what
/// both have called, and how many more deviate.
#[derive(Debug, PartialEq, Eq)]
struct Vote {
    usual: (u32, u64),
    other: (u32, u64),
    rest: usize,
}

/// Who differs, if anybody does. Among equally many the lowest rank counts.
fn vote(mut seen: impl Iterator<Item = (u32, u64)> + Clone) -> Option<Vote> {
    let all = seen.clone();
    let first = seen.next()?;
    // This is asked in every long wait, of all ranks.
    if seen.all(|(_, signature)| signature == first.1) {
        return None;
    }
    let mut votes: HashMap<u64, (usize, Reverse<u32>)> = HashMap::new();
    // The boards go on meanwhile: they are read once.
    let all: Vec<(u32, u64)> = all.collect();
    for &(rank, signature) in &all {
        votes.entry(signature).or_insert((0, Reverse(rank))).0 += 1;
    }
    let most = votes.iter().max_by_key(|(_, votes)| **votes)?;
    let usual = (most.1.1.0, *most.0);
    let mut others = all.iter().filter(|(_, signature)| *signature != usual.1);
    let other = *others.next()?;
    let rest = others.count();
    Some(Vote { usual, other, rest })
}

/// Whether the rank that is waited for will never come.
///
/// # Errors
/// If it has destroyed the communicator without entering the call.
pub(in crate::comm) fn check_left(inner: &Inner, call: &WaitingCall, peer: usize) -> Result<()> {
    let board = inner.node.board(peer);
    let entered = call.number.is_some_and(|number| board.calls() >= number);
    if peer as u32 == inner.rank || entered || !board.has_left() {
        return Ok(());
    }
    let peer = Rank(peer as u32);
    Err(left(
        (peer, inner.place(peer.0), board),
        (Rank(inner.rank), call.name),
    ))
}

/// Why a connection may have ended.
pub(in crate::comm) enum News {
    /// The communicator was stopped, as its abort record says.
    Aborted,
    /// The rank at the other end has left.
    Left(Rank),
    None,
}

/// A connection that ends is often the consequence of something else, of which the lookouts tell in
/// a moment, if they are asked.
pub(in crate::comm) fn news(node: &NodeMemory, peer: Option<Rank>, ask: impl Fn()) -> News {
    let start = clock::now();
    let mut asked = 0;
    while !start.past(NEWS) {
        if node.aborted() {
            return News::Aborted;
        }
        if let Some(peer) = peer
            && (node.board(peer.index()).has_left() || node.board(peer.index()).has_ended())
        {
            return News::Left(peer);
        }
        // A rank that leaves says so before it closes, but the answer to one question may be older.
        if start.past(NEWS / 10 * asked) {
            asked += 1;
            ask();
        }
        turns::sleep(NEWS / 500);
    }
    News::None
}

/// Returns the error to report for a network that failed. `None` if it failed because of an abort.
pub(in crate::comm) fn of_network(inner: &Inner, mut error: Error) -> Option<Error> {
    let peer = error.peer.filter(|peer| peer.0 < inner.nranks);
    match news(&inner.node, peer, || inner.alarm(Alarm::Ask)) {
        News::Aborted => return None,
        News::Left(peer) => {
            let waiting = error.rank.unwrap_or(Rank(inner.rank));
            let gone = (peer, inner.place(peer.0), inner.node.board(peer.index()));
            return Some(left(gone, (waiting, "a call")));
        }
        News::None => {}
    }
    if let Some(peer) = peer {
        let place = inner.place(peer.0);
        let what = &error.what;
        error.what = format!("no data pass to or from rank {peer} on {place}: {what}");
    }
    Some(error)
}

/// The error for a rank that has left while another one waits for it.
pub(in crate::comm) fn left(
    (peer, place, board): (Rank, &str, &Board),
    (waiting, call): (Rank, &str),
) -> Error {
    let (has_gone, remedy) = gone(board);
    let has_gone = match board.has_left() {
        true => has_gone,
        false => "has ended with status 0 without taking part in this call",
    };
    let what =
        format!("rank {peer} on {place} {has_gone}, but rank {waiting} waits for it in {call}");
    Error::remote(peer, what, remedy)
}

/// How a rank has let go of the communicator, and what to do about it.
fn gone(board: &Board) -> (&'static str, &'static str) {
    if !board.has_left() {
        return (
            "has ended with status 0",
            "see why its program ended before this one: let all ranks make the same calls, and \
             call CommDestroy before they end",
        );
    }
    match board.has_panicked() {
        true => (
            "panicked and let go of the communicator",
            "see the message of its panic",
        ),
        false => (
            "has let go of the communicator (destroyed or dropped it)",
            "make all ranks call the same operations before they let go of the communicator",
        ),
    }
}

/// Words about a rank that is waited for.
pub(in crate::comm) struct LateRank {
    pub who: String,
    /// Remedy, where one is known.
    pub remedy: Option<&'static str>,
}

impl LateRank {
    /// The remedy as it follows a sentence.
    pub fn advice(&self) -> String {
        let advice = |remedy| format!(". Remedy: {remedy}");
        self.remedy.map(advice).unwrap_or_default()
    }
}

/// Words about whoever holds up a call that waits for `peer`.
pub(in crate::comm) fn late(inner: &Inner, call: &WaitingCall, peer: usize) -> LateRank {
    if let Some(who) = circle(inner, call, peer) {
        let remedy = Some(REMEDY);
        return LateRank { who, remedy };
    }
    let proxies = match inner.links() {
        Some(links) if links.is_remote(peer) => links.proxies(),
        _ => Default::default(),
    };
    let through: Vec<String> = proxies
        .iter()
        .map(|rank| format!("rank {rank} on {}", inner.place(rank.0)))
        .collect();
    let who = late_rank(inner, call, peer);
    LateRank {
        who: match through.is_empty() {
            true => who,
            false => format!("{who}; this rank sends through {}", through.join(", ")),
        },
        remedy: None,
    }
}

/// Advice on a rank of this process: one thread may wait for itself, or for a group of another one.
fn grouping(inner: &Inner, rank: u32) -> &'static str {
    match inner.process_mates.contains(&rank) {
        true => {
            " (its rank is in this process: where this thread calls for it, put the calls into a \
             group; where another thread does, that one has not called, or not ended its group)"
        }
        false => "",
    }
}

fn late_rank(inner: &Inner, call: &WaitingCall, peer: usize) -> String {
    let Some(number) = call.number else {
        return format!(
            "rank {peer} on {}, which has not called the matching operation{}",
            inner.place(peer as u32),
            grouping(inner, peer as u32)
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
            "rank {one} on {}, which has not called yet{}",
            inner.place(*one),
            grouping(inner, *one)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Sources;

    #[test]
    fn the_limit_of_a_wait_is_named_as_it_was_set() {
        let shown = |sources: &Sources| {
            let settings = Settings::load_from(sources).unwrap();
            limit(&settings, settings.timeout().unwrap())
        };
        let pair = |key: &str| (key.to_owned(), "2.5".to_owned());
        let by_variable = Sources {
            environment: [pair("KOLO_TIMEOUT")].into(),
            ..Sources::default()
        };
        assert_eq!(shown(&by_variable), "KOLO_TIMEOUT=2.5");
        let by_program = Sources {
            caller: vec![pair("timeout")],
            ..Sources::default()
        };
        assert_eq!(shown(&by_program), "timeout = 2.5 (the calling program)");
    }

    fn votes(signatures: &[u64]) -> Option<Vote> {
        vote((10..).zip(signatures.iter().copied()))
    }

    #[test]
    fn the_majority_counts_and_then_the_lowest_rank() {
        assert_eq!(votes(&[]), None);
        assert_eq!(votes(&[7; 5]), None);
        let differ = |usual, other, rest| Some(Vote { usual, other, rest });
        assert_eq!(votes(&[1, 2, 2]), differ((11, 2), (10, 1), 0));
        assert_eq!(votes(&[1, 2, 2, 1]), differ((10, 1), (11, 2), 1));
        assert_eq!(votes(&[3, 2, 1]), differ((10, 3), (11, 2), 1));
        assert_eq!(votes(&[5, 1, 2, 1, 2, 1]), differ((11, 1), (10, 5), 2));
    }

    /// Every signature is looked at so many times, however many there are.
    #[test]
    fn no_rank_is_compared_with_every_other() {
        for distinct in [1, 16_384] {
            let looks = std::cell::Cell::new(0);
            let seen = (0..16_384_u32).map(|rank| {
                looks.set(looks.get() + 1);
                (rank, u64::from(rank % distinct))
            });
            assert_eq!(vote(seen).is_some(), distinct > 1);
            assert!(looks.get() <= 2 * 16_384, "{} looks", looks.get());
        }
    }
}
