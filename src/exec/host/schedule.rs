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
        step: impl FnMut(usize, &mut T) -> Result<Progress, E>,
    ) -> Result<Passed, E> {
        self.pass_with(step, |_| false)
    }

    /// Lets each piece move that may, in order. Those that are `urgent` may again after each other
    /// one that moved: what they hand over travels while the core works on the others. For few
    /// pieces: each is asked for each.
    ///
    /// # Errors
    /// That of a step.
    #[inline]
    pub fn pass_with<E>(
        &mut self,
        mut step: impl FnMut(usize, &mut T) -> Result<Progress, E>,
        urgent: impl Fn(&T) -> bool,
    ) -> Result<Passed, E> {
        let mut passed = Passed::default();
        while self.pieces[..self.count]
            .get(self.first)
            .is_some_and(|piece| piece.done)
        {
            self.first += 1;
        }
        for index in self.first..self.count {
            let can_wait = !urgent(&self.pieces[index].work);
            if !self.let_move(index, &mut step, &mut passed)? || !can_wait {
                continue;
            }
            for other in self.first..self.count {
                if other != index && urgent(&self.pieces[other].work) {
                    self.let_move(other, &mut step, &mut passed)?;
                }
            }
        }
        Ok(passed)
    }

    /// Whether a piece has moved.
    #[inline]
    fn let_move<E>(
        &mut self,
        index: usize,
        step: &mut impl FnMut(usize, &mut T) -> Result<Progress, E>,
        passed: &mut Passed,
    ) -> Result<bool, E> {
        let (before, rest) = self.pieces.split_at_mut(index);
        let piece = &mut rest[0];
        if piece.done || piece.after.is_some_and(|after| !before[after].done) {
            return Ok(false);
        }
        match step(index, &mut piece.work)? {
            Progress::Done => {
                piece.done = true;
                self.pending -= 1;
            }
            Progress::Moved(_) => {}
            Progress::Blocked(peer) => {
                passed.missing.get_or_insert(peer);
                return Ok(false);
            }
        }
        passed.moved = true;
        Ok(true)
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
    fn urgent_pieces_move_after_each_other_one() {
        let mut schedule = Schedule::<u32>::default();
        for work in [0, 1, 2, 3, 4] {
            schedule.push(None, || work, |_| {});
        }
        let mut seen = Vec::new();
        // 1 and 3 are urgent; 2 has to wait; 4 ends.
        let step = |number, _: &mut u32| {
            seen.push(number);
            Ok::<_, ()>(match number {
                2 => Progress::Blocked(5),
                4 => Progress::Done,
                _ => Progress::Moved(0),
            })
        };
        let passed = schedule.pass_with(step, |work| work % 2 == 1);
        let missing = Some(5);
        assert_eq!(
            passed,
            Ok(Passed {
                moved: true,
                missing
            })
        );
        assert_eq!(seen, [0, 1, 3, 1, 2, 3, 4, 1, 3]);
        assert_eq!(schedule.pending(), 4);
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
