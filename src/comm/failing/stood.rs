//! Standstill: for how long it has been seen as it is now.

use crate::base::clock::{self, Moment};

/// The count of a rank, and since when it has been seen.
#[derive(Default)]
pub(in crate::comm) struct Stood(Option<((u32, u64), Moment)>);

impl Stood {
    /// Since when `rank` has had this count; nothing when it is seen for the first time.
    pub fn since(&mut self, rank: u32, count: u64) -> Option<Moment> {
        match &self.0 {
            Some((known, since)) if *known == (rank, count) => Some(*since),
            _ => {
                self.0 = Some(((rank, count), clock::now()));
                None
            }
        }
    }

    /// Nothing is seen.
    pub fn forget(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use super::Stood;

    #[test]
    fn any_change_begins_anew() {
        let mut stood = Stood::default();
        for (rank, count) in [(1, 0), (1, 1), (2, 1), (1, 1)] {
            assert!(stood.since(rank, count).is_none());
            assert!(stood.since(rank, count).is_some());
        }
        stood.forget();
        assert!(stood.since(1, 1).is_none());
    }
}
