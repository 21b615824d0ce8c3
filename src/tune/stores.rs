//! Which kind of store writes slots: a pure function of what was measured on this machine.
//!
//! The kind changes neither a value nor an order, so ranks may differ in it without harm, and no
//! choice of an algorithm, of channels or of chunks may ask for it.

/// The kinds of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stores {
    /// In the ordinary way: what is written stays in a cache.
    Cached,
    /// Slices that are large enough go past the cache.
    Streamed,
}

/// Times that were measured between ranks of one class, and how many pairs of ranks are of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Pairs of ranks.
    pub pairs: u64,
    /// Time of a hand-over that was written in the ordinary way.
    pub cached: u64,
    /// Time of one that was written past the cache.
    pub streamed: u64,
}

/// The kind for ranks that are in these classes of pairs: past the cache, unless the ordinary way
/// takes at most nine tenths of that, all pairs counted together. So nearly equal times of two
/// runs give the same kind.
pub fn stores(classes: &[Measured]) -> Stores {
    let sum = |time: fn(&Measured) -> u64| -> u128 {
        let terms = classes.iter();
        terms
            .map(|class| u128::from(class.pairs) * u128::from(time(class)))
            .sum()
    };
    let (cached, streamed) = (sum(|class| class.cached), sum(|class| class.streamed));
    match streamed > 0 && cached * 10 <= streamed * 9 {
        true => Stores::Cached,
        false => Stores::Streamed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(pairs: u64, cached: u64, streamed: u64) -> Measured {
        Measured {
            pairs,
            cached,
            streamed,
        }
    }

    #[test]
    fn the_usual_kind_stays_unless_the_other_is_clearly_better() {
        assert_eq!(stores(&[]), Stores::Streamed);
        assert_eq!(stores(&[class(1, 0, 0)]), Stores::Streamed);
        assert_eq!(stores(&[class(1, 870, 1170)]), Stores::Cached);
        assert_eq!(stores(&[class(1, 900, 1000)]), Stores::Cached);
        assert_eq!(stores(&[class(1, 901, 1000)]), Stores::Streamed);
        assert_eq!(stores(&[class(1, 4000, 1000)]), Stores::Streamed);
    }

    #[test]
    fn classes_count_by_their_pairs() {
        let near = class(1, 500, 1000);
        let far = class(1, 4000, 1000);
        assert_eq!(stores(&[near, far]), Stores::Streamed);
        let many = Measured { pairs: 10, ..near };
        assert_eq!(stores(&[many, far]), Stores::Cached);
    }
}
