//! Which rule decided a cell of the table; `docs/tuning.md` states them.

use crate::plan::Algorithm;
use std::fmt;

/// Without a measurement, another algorithm must be predicted to be so much faster than what kolo
/// has always used.
pub(super) const MARGIN: f64 = 1.3;

/// The rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decided {
    /// The fastest of what was measured.
    Measured,
    /// The usual choice, which was measured by hand for such ranks or is asked for: no estimate
    /// displaces it.
    ByHand,
    /// The usual choice; what has the least estimate, so many times as fast, is not fast enough.
    Usual(f64),
    /// It is estimated to be so many times as fast as what would stand otherwise, which is this:
    /// the usual choice, or the fastest that was measured.
    Faster(f64, Algorithm),
    /// The least estimate, for the usual choice is not to be had.
    Least,
    /// The least estimate of what folds in the one order that the settings want.
    InOrder,
}

impl Decided {
    /// The rule where the usual choice is not to be had; `in_order`: as the settings want an order.
    pub(super) fn least(in_order: bool) -> Decided {
        if in_order {
            Decided::InOrder
        } else {
            Decided::Least
        }
    }
}

impl fmt::Display for Decided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Decided::Measured => f.write_str("measured here as the fastest"),
            Decided::ByHand => f.write_str(
                "kolo's usual choice, which was measured for so few ranks of one node: no estimate \
                 displaces it",
            ),
            Decided::Usual(ratio) if *ratio > 1.0 => write!(
                f,
                "kolo's usual choice: the least estimate is {ratio:.2} times as fast, and it takes \
                 {MARGIN} times to displace the usual choice"
            ),
            Decided::Usual(_) => f.write_str(
                "kolo's usual choice, and nothing that may be chosen is estimated to be faster",
            ),
            Decided::Faster(ratio, other) => write!(
                f,
                "estimated to be {ratio:.2} times as fast as {}, which would stand otherwise: \
                 {MARGIN} times is enough",
                other.name()
            ),
            Decided::Least => f.write_str("the least estimated time"),
            Decided::InOrder => f.write_str(
                "the least estimated time of what folds in the order of ranks, as `reproducible` \
                 wants",
            ),
        }
    }
}
