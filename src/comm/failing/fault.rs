//! Saying what went wrong between ranks: who called something else, who is late.

use super::circle::{REMEDY, circle};
use super::disagreement::{both, reason};
use super::gone::{NEWS, gone, left};
use super::whereabouts::Noting;
use crate::base::clock;
use crate::base::turns;
use crate::base::{Code, Error, Rank, Result};
use crate::comm::calling::call::{Collective, describe};
use crate::comm::calling::waiting_call::WaitingCall;
use crate::comm::health::Health;
use crate::comm::owned::Exec;
use crate::config::{Origin, Settings};
use crate::dtype::DataType;
use crate::exec::stop::Mismatch;
use crate::proxy::service::Alarm;
use crate::transport::node::NodeMemory;
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

/// How many of a rank's last collectives are compared: at most as many as its board remembers.
const REMEMBERED: u64 = 12;

/// The error for a token that carries another signature than this rank's call.
pub(in crate::comm) fn mismatch(
    health: &Health,
    exec: &Exec,
    found: Mismatch,
    call: Option<u64>,
) -> Error {
    let number = call.unwrap_or(exec.counts.calls);
    if let Err(error) = compare_with(health, number, found.peer) {
        return error;
    }
    let peer = found.peer as u32;
    let place = health.place(peer);
    let pasts = pasts(health, exec);
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
    let theirs = { theirs }.find(|it| is_possible(*it, health.nranks));
    let (what, remedy) = match (theirs, mine) {
        (Some(theirs), _) if found.is_stale => (
            format!(
                "ranks disagree: in an earlier call rank {peer} on {place} called {} and handed \
                 out data that rank {} did not take, so that call's results are wrong",
                describe(theirs),
                health.rank
            ),
            "make all ranks name the same root, and call the same operations in the same order; \
             KOLO_CHECK=1 finds it in the call itself",
        ),
        (Some(theirs), Some(mine)) => {
            let (why, remedy) = reason((health.rank, mine), (peer, theirs));
            let [mine, theirs] = both(mine, theirs);
            let what = format!(
                "ranks disagree: rank {} called {mine}, but rank {peer} on {place} called \
                 {theirs}{why}",
                health.rank,
            );
            (what, remedy)
        }
        _ => (
            format!(
                "ranks disagree: rank {peer} on {place} has called something else than rank {} in \
                 an earlier collective of communicator {}",
                health.rank, health.name
            ),
            "make all ranks call the same operations with the same arguments in the same order; \
             KOLO_CHECK=1 finds the call",
        ),
    };
    Error::new(Code::InvalidUsage, what, remedy).with_peer(Rank(peer))
}

/// The pasts of this rank's last collectives, the latest first, as far as its board remembers
/// them: that of the next one, of the last one, and so on.
fn pasts(health: &Health, exec: &Exec) -> Vec<u64> {
    let board = health.node.board(health.rank as usize);
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
fn compare_with(health: &Health, call: u64, peer: usize) -> Result<()> {
    let start = clock::now();
    loop {
        compare_recent(&health.into(), call)?;
        let is_known = health.is_mate(peer as u32) || health.node.board(peer).calls() >= call;
        if is_known || start.past(NEWS) {
            return Ok(());
        }
        health.alarm(Alarm::Ask);
        turns::sleep(NEWS / 50);
    }
}

/// Boards of a communicator, and whose they are.
pub(in crate::comm) struct Boards<'a> {
    pub node: &'a NodeMemory,
    /// The communicator's name.
    pub name: &'a str,
    /// Where each rank runs.
    pub places: &'a [String],
}

impl<'a> From<&'a Health> for Boards<'a> {
    fn from(health: &'a Health) -> Boards<'a> {
        Boards {
            node: &health.node,
            name: &health.name,
            places: &health.places,
        }
    }
}

impl<'a> From<&'a Noting> for Boards<'a> {
    fn from(of: &'a Noting) -> Boards<'a> {
        Boards {
            node: &of.node,
            name: &of.name,
            places: &of.places,
        }
    }
}

/// Compares the boards of the last calls up to this one: the first that differs counts.
///
/// # Errors
/// As [`compare_boards`].
pub(in crate::comm) fn compare_recent(boards: &Boards, call: u64) -> Result<()> {
    let first = call.saturating_sub(REMEMBERED - 1).max(1);
    (first..=call).try_for_each(|call| compare_boards(boards, call))
}

/// Compares how often the ranks of this node have called, where this one is about to leave after
/// `calls` collectives.
///
/// # Errors
/// When another one is in a call that this rank has not made, or has left without a call of this
/// rank.
pub(in crate::comm) fn compare_counts(health: &Health, calls: u64) -> Result<()> {
    for rank in (0..health.nranks).filter(|rank| health.is_mate(*rank)) {
        let board = health.node.board(rank as usize);
        let has_left = board.has_left() || board.has_ended();
        let theirs = board.calls();
        let (caller, leaver) = match theirs.cmp(&calls) {
            Ordering::Greater => (rank, health.rank),
            Ordering::Less if has_left => (health.rank, rank),
            _ => continue,
        };
        let number = calls.min(theirs) + 1;
        // Who reads the sentence has the rank that says it before it.
        let who = |rank: u32| match rank == health.rank {
            true => "this rank".to_owned(),
            false => format!("rank {rank} on {}", health.place(rank)),
        };
        let signature = health.node.board(caller as usize).signature(number);
        let call = signature.map_or("a call".into(), |it| describe(Signature(it)));
        return Err(Error::remote(
            Rank(rank),
            format!(
                "ranks disagree: {} called {call} as collective {number} of communicator {}, but \
                 {} {} without it",
                who(caller),
                health.name,
                who(leaver),
                gone(health.node.board(leaver as usize)).0,
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
fn compare_boards(boards: &Boards, call: u64) -> Result<()> {
    let seen = (0..boards.places.len() as u32).filter_map(|rank| {
        let signature = boards.node.board(rank as usize).signature(call)?;
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
    let place = |rank: u32| boards.places.get(rank as usize).map_or("?", String::as_str);
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
            boards.name,
            place(rank),
            describe(Signature(other)),
            place(usual_rank),
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
pub(in crate::comm) fn check_left(health: &Health, call: &WaitingCall, peer: usize) -> Result<()> {
    let board = health.node.board(peer);
    let entered = call.number.is_some_and(|number| board.calls() >= number);
    if peer as u32 == health.rank || entered || !board.has_left() {
        return Ok(());
    }
    let peer = Rank(peer as u32);
    Err(left(
        (peer, health.place(peer.0), board),
        (Rank(health.rank), call.name),
    ))
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
pub(in crate::comm) fn late(health: &Health, call: &WaitingCall, peer: usize) -> LateRank {
    if let Some(who) = circle(health, call, peer) {
        let remedy = Some(REMEDY);
        return LateRank { who, remedy };
    }
    let proxies = match health.links() {
        Some(links) if links.is_remote(peer) => links.proxies(),
        _ => Default::default(),
    };
    let through: Vec<String> = proxies
        .iter()
        .map(|rank| format!("rank {rank} on {}", health.place(rank.0)))
        .collect();
    let who = late_rank(health, call, peer);
    LateRank {
        who: match through.is_empty() {
            true => who,
            false => format!("{who}; this rank sends through {}", through.join(", ")),
        },
        remedy: None,
    }
}

/// Advice on a rank of this process: one thread may wait for itself, or for a group of another one.
fn grouping(health: &Health, rank: u32) -> &'static str {
    match health.process_mates.contains(&rank) {
        true => {
            " (its rank is in this process: where this thread calls for it, put the calls into a \
             group; where another thread does, that one has not called, or not ended its group)"
        }
        false => "",
    }
}

fn late_rank(health: &Health, call: &WaitingCall, peer: usize) -> String {
    let Some(number) = call.number else {
        return format!(
            "rank {peer} on {}, which has not called the matching operation{}",
            health.place(peer as u32),
            grouping(health, peer as u32)
        );
    };
    let behind = |rank: &u32| health.node.board(*rank as usize).calls() < number;
    let late: Vec<u32> = (0..health.nranks).filter(behind).collect();
    match late.as_slice() {
        [] => format!(
            "rank {peer} on {}, which has entered the call",
            health.place(peer as u32)
        ),
        [one] => format!(
            "rank {one} on {}, which has not called yet{}",
            health.place(*one),
            grouping(health, *one)
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
