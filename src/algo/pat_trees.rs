//! The numbering behind PAT: distances, the trees that are walked at once, and where partial sums
//! lie. See `pat` for the words.

use crate::plan::Operand;

/// Most blocks in one token.
pub const MOST: u32 = 32;

/// How the distances 0..n are walked: `count` trees of `width` distances each.
pub struct Trees {
    /// Ranks.
    pub n: i64,
    /// Distances of a tree, a power of two.
    pub width: i64,
    /// Trees that are walked at once.
    pub count: i64,
}

impl Trees {
    /// As few trees of as many distances as [`MOST`] asks for.
    pub fn of(n: u32) -> Trees {
        let width = n.div_ceil(MOST).next_power_of_two();
        Trees {
            n: i64::from(n),
            width: i64::from(width),
            count: i64::from(n.div_ceil(width)),
        }
    }

    /// The bits of the tops of the trees, in distances.
    pub fn tops(&self) -> impl DoubleEndedIterator<Item = i64> + use<> {
        let (width, end) = (self.width, self.count * self.width);
        (0..6)
            .map(move |k| width << k)
            .filter(move |&bit| bit < end)
    }

    /// Distances that hand on over `bit` at the tops.
    pub fn of_top(&self, bit: i64) -> Vec<i64> {
        let all = (bit..self.n).step_by(2 * bit as usize);
        all.filter(|distance| distance % self.width == 0).collect()
    }

    /// The distances at `within` of every tree.
    pub fn at(&self, within: i64) -> Vec<i64> {
        (within..self.n).step_by(self.width as usize).collect()
    }

    /// The bit over which distances at `within` hand on.
    pub fn bit(within: i64) -> i64 {
        within & -within
    }

    /// Levels of partial sums: one for each bit of a tree that may have children, one for its top.
    pub fn levels(&self) -> i64 {
        self.width.ilog2().max(1).into()
    }

    /// Chunks of scratch. Scratch is counted by chunk numbers, which fall by `width` from tree to
    /// tree: modulo an odd number, steps of `width` never meet.
    pub fn sums(&self) -> i64 {
        (self.count * self.levels()) | 1
    }

    /// Where the partial sums at `within` of all trees lie, at member `me`: level j has `count`
    /// steps of `width` from the j * count-th on.
    pub fn sum(&self, me: i64, within: i64) -> Operand {
        let level = match within {
            0 => self.levels(),
            _ => i64::from(within.trailing_zeros()),
        };
        let first_chunk = me - within + self.n;
        let wanted = level * self.count * self.width;
        Operand::SCRATCH.at((wanted - first_chunk).rem_euclid(self.sums()) as i32)
    }
}
