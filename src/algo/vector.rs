//! Collectives along the edges of a graph: which messages a rank exchanges. Those among all ranks
//! are in [`mod@crate::base::exchange`].
//!
//! Each message is a one-connection lane of a bundle ([`super::bundle`]) with the rounds of its own
//! size, so no pair of ranks waits for another, and nobody moves more than it must. Empty messages
//! pass a token too: ranks that disagree about a size notice.

use crate::base::exchange::Transfer::{self, Own, Recv, Send};

/// The neighbours of one rank on a graph. Several edges between the same two ranks are told apart
/// by their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Neighbours {
    /// Whom the rank sends to; `None` for a block that nobody gets.
    pub outs: Vec<Option<u32>>,
    /// Whom it receives from; `None` for a block that is left alone.
    pub ins: Vec<Option<u32>>,
    /// The blocks of `ins` in the order in which their senders send: the k-th edge from one rank
    /// to another one is the k-th of these from that rank.
    pub arrivals: Vec<usize>,
}

impl Neighbours {
    /// Neighbours whose blocks arrive in the order of `ins`.
    pub fn new(ins: Vec<Option<u32>>, outs: Vec<Option<u32>>) -> Neighbours {
        let arrivals = (0..ins.len()).collect();
        Neighbours {
            outs,
            ins,
            arrivals,
        }
    }

    /// The neighbours of `rank` on a Cartesian grid: for each dimension the one below and the one
    /// above, as far as there are. Ranks are numbered row by row, the last dimension fastest.
    pub fn cartesian(rank: u32, dims: &[u32], periodic: &[bool]) -> Neighbours {
        let mut blocks = Vec::with_capacity(2 * dims.len());
        let mut arrivals = Vec::with_capacity(2 * dims.len());
        let mut stride: u32 = dims.iter().product();
        for (&length, &wraps) in dims.iter().zip(periodic) {
            stride /= length;
            let place = rank / stride % length;
            let origin = rank - place * stride;
            let at = |place: u32| Some(origin + place * stride);
            let below = if place > 0 {
                at(place - 1)
            } else {
                at(length - 1).filter(|_| wraps)
            };
            let above = if place + 1 < length {
                at(place + 1)
            } else {
                at(0).filter(|_| wraps)
            };
            // What a rank sends down arrives from above: where both are one rank (a ring of one
            // or two) the first to arrive is the one from above.
            arrivals.extend([blocks.len() + 1, blocks.len()]);
            blocks.extend([below, above]);
        }
        Neighbours {
            outs: blocks.clone(),
            ins: blocks,
            arrivals,
        }
    }

    /// The messages of `rank`; `same` if all neighbours get block 0 (all-gather).
    pub fn messages(&self, rank: u32, same: bool) -> Vec<Transfer> {
        let block = |slot: usize| if same { 0 } else { slot };
        let mut own = Vec::new();
        let mut messages = Vec::with_capacity(self.outs.len() + self.ins.len());
        for (slot, to) in self.outs.iter().enumerate() {
            match *to {
                Some(to) if to == rank => own.push(block(slot)),
                Some(to) => messages.push(Send {
                    to,
                    block: block(slot),
                }),
                None => {}
            }
        }
        let mut own = own.into_iter();
        for &slot in &self.arrivals {
            match self.ins[slot] {
                Some(from) if from == rank => {
                    messages.extend(own.next().map(|from| Own { from, to: slot }));
                }
                Some(from) => messages.push(Recv { from, block: slot }),
                None => {}
            }
        }
        messages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_knows_its_edges_and_wraps() {
        let grid = Neighbours::cartesian(0, &[2, 3], &[false, true]);
        assert_eq!(grid.outs, [None, Some(3), Some(2), Some(1)]);
        let grid = Neighbours::cartesian(5, &[2, 3], &[false, true]);
        assert_eq!(grid.ins, [Some(2), None, Some(4), Some(3)]);
    }

    #[test]
    fn on_a_ring_of_two_what_goes_down_comes_from_above() {
        let of = |rank| Neighbours::cartesian(rank, &[2], &[true]).messages(rank, false);
        let sends = [Send { to: 1, block: 0 }, Send { to: 1, block: 1 }];
        assert_eq!(of(0)[..2], sends);
        // The first message is what rank 0 sent down, and it is what rank 1 has above it.
        let receives = [Recv { from: 0, block: 1 }, Recv { from: 0, block: 0 }];
        assert_eq!(of(1)[2..], receives);
        let alone = Neighbours::cartesian(0, &[1], &[true]).messages(0, false);
        assert_eq!(alone, [Own { from: 0, to: 1 }, Own { from: 1, to: 0 }]);
    }
}
