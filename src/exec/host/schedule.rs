//! Work that moves as soon as it can, piece by piece: the lanes of calls, and small messages.

use crate::exec::stop::Progress;
use crate::wire::ports::PortId;

/// Pieces that are on their way together, each behind at most one other. The memory of finished
/// ones is kept for the next bundle.
pub struct Schedule<T> {
    /// The pieces of this bundle, and behind them some of earlier ones.
    pieces: Vec<Scheduled<T>>,
    count: usize,
    pending: usize,
    /// All pieces before this one are done.
    first: usize,
}

struct Scheduled<T> {
    work: T,
    /// The piece that must end first.
    after: Option<usize>,
    done: bool,
}

/// Result of one pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Something moved.
    pub moved: bool,
    /// The first rank whose token or credit is missing.
    pub missing: Option<usize>,
}

impl<T> Default for Schedule<T> {
    fn default() -> Self {
        Schedule {
            pieces: Vec::new(),
            count: 0,
            pending: 0,
            first: 0,
        }
    }
}

impl<T> Schedule<T> {
    /// Forgets the pieces, but keeps the memory of at most `spare`.
    pub fn clear(&mut self, spare: usize) {
        self.pieces.truncate(spare);
        (self.count, self.pending, self.first) = (0, 0, 0);
    }

    /// Pieces of this bundle.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Pieces that have not ended.
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// Adds a piece behind the others; an old one is made to it by `again`, if one is left.
    #[inline]
    pub fn push(
        &mut self,
        after: Option<usize>,
        new: impl FnOnce() -> T,
        again: impl FnOnce(&mut T),
    ) {
        match self.pieces.get_mut(self.count) {
            Some(old) => {
                again(&mut old.work);
                (old.after, old.done) = (after, false);
            }
            None => self.pieces.push(Scheduled {
                work: new(),
                after,
                done: false,
            }),
        }
        self.count += 1;
        self.pending += 1;
    }

    /// Lets each piece move that may, in order; `step` is told its number and moves it.
    ///
    /// # Errors
    /// That of a step; the pieces behind it have not moved.
    #[inline]
    pub fn pass<E>(
        &mut self,
        mut step: impl FnMut(usize, &mut T) -> Result<Progress, E>,
    ) -> Result<Passed, E> {
        let mut passed = Passed::default();
        let pieces = &mut self.pieces[..self.count];
        while pieces.get(self.first).is_some_and(|piece| piece.done) {
            self.first += 1;
        }
        for index in self.first..pieces.len() {
            let (before, rest) = pieces.split_at_mut(index);
            let piece = &mut rest[0];
            if piece.done || piece.after.is_some_and(|after| !before[after].done) {
                continue;
            }
            match step(index, &mut piece.work)? {
                Progress::Done => {
                    passed.moved = true;
                    piece.done = true;
                    self.pending -= 1;
                }
                Progress::Moved(_) => passed.moved = true,
                Progress::Blocked(peer) => {
                    passed.missing.get_or_insert(peer);
                }
            }
        }
        Ok(passed)
    }
}

/// Which piece of a bundle was the last on each end, without a search per message.
#[derive(Default)]
pub struct Latest {
    stamp: u64,
    pieces: Vec<(u64, usize)>,
}

impl Latest {
    /// A stamp for another bundle.
    pub fn next(&mut self) -> u64 {
        self.stamp += 1;
        self.stamp
    }

    /// The stamp of the bundle that is being made.
    pub fn stamp(&self) -> u64 {
        self.stamp
    }

    /// Notes that `piece` of the bundle `stamp` is the last on `end`; the one before, if there is
    /// one.
    pub fn replace(&mut self, stamp: u64, end: PortId, piece: usize) -> Option<usize> {
        let place = end.0 as usize;
        if place >= self.pieces.len() {
            self.pieces.resize(place + 1, (u64::MAX, 0));
        }
        let before = std::mem::replace(&mut self.pieces[place], (stamp, piece));
        (before.0 == stamp).then_some(before.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_moves_when_the_one_before_it_has_ended_and_memory_is_kept() {
        let mut schedule = Schedule::<u32>::default();
        for round in 0..3 {
            schedule.clear(2);
            for (number, after) in [None, Some(0), None].into_iter().enumerate() {
                let work = 10 * round + number as u32;
                schedule.push(after, || 1000 + work, |old| *old = work);
            }
            assert_eq!((schedule.len(), schedule.pending()), (3, 3));
            let mut seen = Vec::new();
            let passed = schedule.pass(|number, work| {
                seen.push((number, *work % 1000 - 10 * round, *work >= 1000));
                match number {
                    0 => Ok::<_, ()>(Progress::Blocked(7)),
                    _ => Ok(Progress::Done),
                }
            });
            let missing = Some(7);
            let moved = true;
            assert_eq!(passed, Ok(Passed { moved, missing }));
            // Two are made of old ones, from the second round on.
            assert_eq!(seen, [(0, 0, round == 0), (2, 2, true)]);
            assert_eq!(
                schedule.pass(|_, _| Ok::<_, ()>(Progress::Done)),
                Ok(Passed {
                    moved,
                    missing: None
                })
            );
            assert_eq!(schedule.pending(), 0);
            let failed = schedule.pass(|_, _| Err(()));
            assert_eq!(failed, Ok(Passed::default()), "nothing is left to fail");
        }
    }

    #[test]
    fn messages_on_one_end_follow_each_other_within_a_bundle() {
        let mut latest = Latest::default();
        let (first, second) = (latest.next(), latest.next());
        assert_eq!(latest.replace(first, PortId(3), 0), None);
        assert_eq!(latest.replace(first, PortId(4), 1), None);
        assert_eq!(latest.replace(first, PortId(3), 4), Some(0));
        assert_eq!(latest.replace(second, PortId(3), 2), None);
        assert_eq!(latest.replace(second, PortId(3), 3), Some(2));
    }
}
