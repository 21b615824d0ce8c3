//! Parts of a call that stay in the last-level caches, and so cost no memory.
//!
//! The ranks of a cache share it. A token that goes from one of them to another is still there when
//! it is read, as long as a connection of each of them fits: ranks hand over through few
//! connections at a time. Their own buffers are there as long as those of all of them fit, which
//! the caller has just written, or reads next.

use super::costs::Costs;

/// Parts of a call that stay in the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cached {
    /// Tokens between the ranks of a cache.
    pub tokens: bool,
    /// Buffers of a rank.
    pub buffers: bool,
}

impl Cached {
    /// Asks whether they fit: so many ranks of a cache, each with buffers of `buffer_bytes`, over
    /// connections of `connection_bytes`.
    pub fn of(costs: &Costs, of_cache: f64, buffer_bytes: f64, connection_bytes: f64) -> Cached {
        let fits = |bytes: f64| of_cache * bytes <= costs.cache_bytes;
        Cached {
            tokens: fits(buffer_bytes.min(connection_bytes)),
            buffers: fits(buffer_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_hold_so_many_buffers() {
        let costs = Costs {
            cache_bytes: 32e6,
            ..Costs::default()
        };
        let cached = |ranks, buffer_bytes| Cached::of(&costs, ranks, buffer_bytes, 1e6);
        let is = |tokens, buffers| Cached { tokens, buffers };
        assert_eq!(cached(8.0, 4e6), is(true, true));
        assert_eq!(cached(8.0, 5e6), is(true, false));
        assert_eq!(cached(4.0, 5e6), is(true, true));
        assert_eq!(cached(64.0, 5e6), is(false, false));
        assert_eq!(cached(64.0, 1e3), is(true, true));
    }
}
