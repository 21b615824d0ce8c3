//! Who calls: a rank among ranks, and the root.

/// Who calls.
#[derive(Clone, Copy, Debug)]
pub struct Seat {
    /// This rank.
    pub rank: u32,
    /// Ranks.
    pub nranks: u32,
    /// The root, where there is one.
    pub root: u32,
}

impl Seat {
    /// Ranks, as a number of blocks.
    pub fn n(&self) -> usize {
        self.nranks as usize
    }

    /// Whether this is the root.
    pub fn is_root(&self) -> bool {
        self.rank == self.root
    }
}
