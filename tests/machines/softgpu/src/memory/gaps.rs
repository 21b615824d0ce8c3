//! Which parts of a long stretch are in use: for addresses, and for offsets in a device's memory.

use std::collections::BTreeMap;

/// A stretch of numbers, and the parts of it that are taken.
pub struct Gaps {
    low: u64,
    high: u64,
    /// Beginning and length.
    taken: BTreeMap<u64, u64>,
    /// Where the last part ended that was taken: the search goes on behind it, so what is given
    /// back is taken again as late as possible.
    after: u64,
}

impl Gaps {
    pub fn new(low: u64, bytes: u64) -> Gaps {
        Gaps {
            low,
            high: low + bytes,
            taken: BTreeMap::new(),
            after: low,
        }
    }

    pub fn contains(&self, at: u64) -> bool {
        (self.low..self.high).contains(&at)
    }

    /// Takes `bytes` at a multiple of `alignment`; at `wish`, if that is free.
    pub fn take(&mut self, bytes: u64, alignment: u64, wish: u64) -> Option<u64> {
        let is_good = wish != 0 && wish.is_multiple_of(alignment) && self.is_free(wish, bytes);
        let at = match is_good {
            true => wish,
            false => self
                .find(self.after, self.high, bytes, alignment)
                .or_else(|| self.find(self.low, self.high, bytes, alignment))?,
        };
        self.taken.insert(at, bytes);
        self.after = at + bytes;
        Some(at)
    }

    /// Gives back what begins at `at`, and says how long it was.
    pub fn give(&mut self, at: u64) -> Option<u64> {
        self.taken.remove(&at)
    }

    fn is_free(&self, at: u64, bytes: u64) -> bool {
        let Some(end) = at.checked_add(bytes).filter(|end| *end <= self.high) else {
            return false;
        };
        let below = self.taken.range(..end).next_back();
        at >= self.low && below.is_none_or(|(low, length)| low + length <= at)
    }

    fn find(&self, from: u64, to: u64, bytes: u64, alignment: u64) -> Option<u64> {
        let up = |at: u64| at.checked_next_multiple_of(alignment);
        let below = self.taken.range(..=from).next_back();
        let mut at = up(below.map_or(from, |(low, length)| from.max(low + length)))?;
        for (&low, &length) in self.taken.range(from..) {
            if at.checked_add(bytes)? <= low {
                break;
            }
            at = up(at.max(low + length))?;
        }
        (at.checked_add(bytes)? <= to).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_is_taken_last() {
        let mut gaps = Gaps::new(4096, 4096);
        let taken: Vec<u64> = (0..4).filter_map(|_| gaps.take(1000, 256, 0)).collect();
        assert_eq!(taken, [4096, 5120, 6144, 7168]);
        assert_eq!(gaps.give(5120), Some(1000));
        assert_eq!(gaps.give(4096), Some(1000));
        assert_eq!(gaps.give(4096), None);
        assert_eq!(
            gaps.take(1000, 256, 0),
            Some(4096),
            "nothing is free behind"
        );
        assert_eq!(gaps.take(1025, 256, 0), None);
        assert_eq!(gaps.take(1024, 256, 0), Some(5120));
    }

    #[test]
    fn wishes_are_granted_where_it_is_free() {
        let mut gaps = Gaps::new(4096, 8192);
        assert_eq!(gaps.take(512, 512, 8192), Some(8192));
        assert_eq!(gaps.take(512, 512, 8192), Some(8704), "taken");
        assert_eq!(
            gaps.take(1024, 512, 7680),
            Some(9216),
            "would reach into what is taken"
        );
        assert_eq!(gaps.take(512, 512, 7680), Some(7680));
    }
}
