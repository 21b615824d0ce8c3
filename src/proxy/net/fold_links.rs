//! The engine where the network folds: which tokens, and how.

use super::active::Sub;
use super::ends::Ends;
use super::fold::{FoldLink, Foldings};
use super::trace::Trace;
use crate::base::{Error, Result};
use crate::plan::Direction;
use std::sync::{Mutex, PoisonError};

/// Which of so many groups folds what passes on a channel.
pub(super) fn fold_of(ends: &Ends, folds: usize, channel: u16) -> Option<usize> {
    let channel = usize::from(channel);
    let is_of_host = channel < ends.on_host;
    channel
        .checked_sub(ends.on_host - folds)
        .filter(|_| is_of_host)
}

/// A sub whose tokens the network folds, and the link of its group.
pub(super) struct FoldedSub<'a> {
    pub ends: &'a Ends,
    pub foldings: &'a Mutex<Foldings>,
    pub link: &'a mut FoldLink,
    pub sub: &'a Sub,
    pub launch: u64,
    pub direction: Direction,
}

/// One look at what is folded for a sub: whether anything moved, and how far it is.
pub(super) fn fold(of: FoldedSub, trace: &mut Trace) -> Result<(bool, u64)> {
    let foldings = of.foldings.lock().unwrap_or_else(PoisonError::into_inner);
    let folding = foldings
        .of(of.launch)
        .ok_or_else(|| Error::internal("a launch has not said how its data are folded"))?;
    let moved = of.link.progress(of.ends, (of.sub, folding), trace)?;
    Ok((moved, of.link.counts(of.direction).done))
}
