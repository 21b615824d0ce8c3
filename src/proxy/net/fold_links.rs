//! The engine where the network folds: which tokens, and how.

use super::active::Sub;
use super::fold::{Fold, FoldLink};
use super::links::Links;
use super::trace::Trace;
use crate::base::{Error, Result};
use crate::plan::Direction;
use std::sync::PoisonError;

impl Links {
    /// From now on tokens on the last channels, as many as there are groups, are folded; at most
    /// `launches` are in flight.
    pub fn fold_by(&self, groups: Vec<Fold>, launches: usize) {
        let mut state = self.lock();
        state.folds = groups.into_iter().map(FoldLink::new).collect();
        drop(state);
        let mut foldings = self.foldings.lock().unwrap_or_else(PoisonError::into_inner);
        foldings.most = launches;
    }

    /// Which of so many groups folds what passes on a channel.
    pub(super) fn fold_of(&self, folds: usize, channel: u16) -> Option<usize> {
        let channel = usize::from(channel);
        let is_of_host = channel < self.ends.on_host;
        channel
            .checked_sub(self.ends.on_host - folds)
            .filter(|_| is_of_host)
    }

    /// One look at what is folded for a sub.
    pub(super) fn fold(
        &self,
        link: &mut FoldLink,
        (sub, launch, direction): (&Sub, u64, Direction),
        trace: &mut Trace,
    ) -> Result<(bool, u64)> {
        let foldings = self.foldings.lock().unwrap_or_else(PoisonError::into_inner);
        let folding = foldings
            .of(launch)
            .ok_or_else(|| Error::internal("a launch has not said how its data are folded"))?;
        let moved = link.progress(&self.ends, (sub, folding), trace)?;
        if moved {
            self.bell.ring(self.me);
        }
        Ok((moved, link.counts(direction).done))
    }
}
