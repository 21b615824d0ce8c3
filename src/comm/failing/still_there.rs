//! Whether a rank that a call needs is still there: see [`super::ended`].

use super::gone;
use super::stood::Stood;
use crate::base::{Error, Rank, Result};
use crate::comm::calling::call::Call;
use crate::comm::health::Health;
use std::time::Duration;

/// For how long what an ended rank did before its end may still come.
const GRACE: Duration = Duration::from_millis(200);

/// That an ended rank is waited for.
pub(super) fn needed(health: &Health, call: &str, peer: usize) -> Error {
    let gone = (
        Rank(peer as u32),
        health.place(peer as u32),
        health.node.board(peer),
    );
    gone::left(gone, (Rank(health.rank), call))
}

/// A call waits for a rank: whether that has ended, and nothing comes from it any more.
///
/// # Errors
/// If so.
pub(in crate::comm) fn is_still_there(
    health: &Health,
    seen: &mut Stood,
    call: &str,
    peer: usize,
) -> Result<()> {
    if !health.node.board(peer).has_ended() || peer as u32 == health.rank {
        seen.forget();
        return Ok(());
    }
    // The first look may have come behind the last pass.
    let grace = grace(health, peer as u32);
    match seen.since(peer as u32, 0) {
        Some(since) if since.past(grace) => Err(needed(health, call, peer)),
        _ => Ok(()),
    }
}

/// How long something may still come of a rank that has ended: what it left on this node is
/// there.
pub(super) fn grace(health: &Health, rank: u32) -> Duration {
    match health.node.board(rank as usize).has_vanished() && health.is_mate(rank) {
        true => Duration::ZERO,
        false => GRACE,
    }
}

/// Refuses a call that a rank takes part in which has ended: all do but in messages.
///
/// # Errors
/// If one has.
pub(in crate::comm) fn all_are_there(health: &Health, call: &Call) -> Result<()> {
    let is_message = call.collective.is_point_to_point();
    let takes_part = |rank: &u32| *rank != health.rank && (!is_message || *rank == call.peer);
    let ended = |rank: &u32| health.node.board(*rank as usize).has_ended();
    let missing = (0..health.nranks).find(|rank| takes_part(rank) && ended(rank));
    missing.map_or(Ok(()), |rank| {
        Err(needed(health, call.collective.name(), rank as usize))
    })
}
