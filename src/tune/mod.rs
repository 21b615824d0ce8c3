//! Which plan for which size: the choice is a pure function of inputs that all ranks share.
//!
//! Local facts (pointers, alignment) never enter: every rank must come to the same answer. The
//! limits are bound per communicator at init, so a call only compares its size.

use crate::algo::{self, Entry};
use crate::plan::{Algorithm, Collective};

/// What the choice depends on, equal on all ranks of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inputs {
    /// Ranks of the communicator.
    pub nranks: u32,
    /// Whether ranks outnumber the cores of any node.
    pub oversubscribed: bool,
    /// Most bytes that one eager token carries.
    pub eager_bytes: usize,
    /// Limit for the one-shot path set by the user; `None` for the built-in one.
    pub eager_limit: Option<usize>,
    /// Algorithm forced by the user, where it computes the collective.
    pub forced: Option<Algorithm>,
    /// Least and most channels.
    pub channels: (u16, u16),
    /// Whether buffers may be read where they lie.
    pub direct: bool,
}

/// What to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Its channels.
    pub channels: u16,
}

/// The bound choices of one communicator: a limit per collective.
#[derive(Clone, Debug)]
pub struct Table {
    inputs: Inputs,
    /// Most bytes (of a rank's contribution) for one-shot, by number of the collective.
    oneshot_limit: [usize; Collective::NUMBERS],
    /// What the user forced, where it computes the collective; one-shot keeps its limit.
    forced: [Option<&'static Entry>; Collective::NUMBERS],
}

/// A one-shot call makes every rank read n - 1 contributions; beyond this many bytes read, the
/// ring's smaller traffic wins.
const READ_BYTES: usize = 32 << 10;
/// Where ranks outnumber cores, a hand-over costs a context switch, and fewer hand-overs win for
/// longer.
const READ_BYTES_OVERSUBSCRIBED: usize = 256 << 10;
/// Beyond this many bytes a scan by recursive doubling, which moves everything in every step, loses
/// to the chain.
const DOUBLING_BYTES: usize = 32 << 10;
/// From this size on, asking where buffers lie costs little beside what it may save.
const DIRECT_BYTES: usize = 64 << 10;
/// Most ranks that read each other directly: each needs a connection with every other.
const DIRECT_RANKS: u32 = 128;
/// A second channel pays when each has this much to move.
const CHANNEL_BYTES: usize = 4 << 20;

impl Table {
    /// Binds the limits.
    pub fn new(inputs: Inputs) -> Table {
        let mut oneshot_limit = [0; Collective::NUMBERS];
        let mut forced = [None; Collective::NUMBERS];
        for collective in Collective::ALL {
            oneshot_limit[collective as usize] = inputs.oneshot_limit(collective);
            forced[collective as usize] = inputs.forced_entry(collective);
        }
        Table {
            inputs,
            oneshot_limit,
            forced,
        }
    }

    /// Most bytes for which the one-shot path is taken, `None` where it never is.
    #[inline(always)]
    pub fn is_oneshot(&self, collective: Collective, bytes: usize) -> bool {
        bytes < self.oneshot_limit[collective as usize]
    }

    /// Whether a call of this size asks where the buffers of all ranks lie. Two-shot is what runs
    /// if they can be read there.
    pub fn may_be_direct(&self, collective: Collective, bytes: usize) -> bool {
        let forced = self.inputs.forced;
        self.inputs.direct
            && (2..=DIRECT_RANKS).contains(&self.inputs.nranks)
            && bytes >= DIRECT_BYTES
            && (forced.is_none() || forced == Some(Algorithm::TwoShot))
            && matches!(
                collective,
                Collective::AllReduce
                    | Collective::ReduceScatter
                    | Collective::AllGather
                    | Collective::Broadcast
            )
    }

    /// What to run for a rank's contribution of `bytes`.
    #[inline]
    pub fn choose(&self, collective: Collective, bytes: usize) -> Choice {
        if self.inputs.nranks == 1 {
            return Choice {
                algorithm: Algorithm::Local,
                channels: 1,
            };
        }
        if self.is_oneshot(collective, bytes) {
            return Choice {
                algorithm: Algorithm::OneShot,
                channels: 1,
            };
        }
        if collective.is_scan() {
            return self.scan(collective, bytes);
        }
        let (least, most) = self.inputs.channels;
        let wanted = (bytes / CHANNEL_BYTES).clamp(usize::from(least), usize::from(most)) as u16;
        if let Some(entry) = self.forced[collective as usize] {
            return Choice {
                algorithm: entry.algorithm,
                channels: wanted.next_multiple_of(entry.channels).min(most),
            };
        }
        let algorithm = match collective {
            Collective::AllReduce
            | Collective::Broadcast
            | Collective::Reduce
            | Collective::AllGather
            | Collective::ReduceScatter => Algorithm::Ring,
            Collective::Barrier => Algorithm::OneShot,
            _ => {
                return Choice {
                    algorithm: Algorithm::Bundle,
                    channels: 1,
                };
            }
        };
        Choice {
            algorithm,
            channels: wanted,
        }
    }

    /// A scan that is too large for one line: few steps while latency counts, then the chain, which
    /// moves the data once.
    fn scan(&self, collective: Collective, bytes: usize) -> Choice {
        let doubles = self.inputs.nranks > 4 && bytes <= DOUBLING_BYTES;
        let algorithm = match (self.forced[collective as usize], doubles) {
            (Some(entry), _) => entry.algorithm,
            (None, true) => Algorithm::RecursiveDoubling,
            (None, false) => Algorithm::Chain,
        };
        Choice {
            algorithm,
            channels: 1,
        }
    }

    /// What to run where contributions must be folded in the order of ranks: `tests/plans.rs` holds
    /// that these algorithms do, for every number of ranks.
    pub fn choose_ordered(&self, collective: Collective, bytes: usize) -> Choice {
        let choice = self.choose(collective, bytes);
        let keeps_order = matches!(choice.algorithm, Algorithm::OneShot | Algorithm::Local);
        if keeps_order || collective.is_scan() {
            return choice;
        }
        let shares = collective == Collective::AllReduce && self.inputs.nranks <= DIRECT_RANKS;
        Choice {
            algorithm: if shares {
                Algorithm::TwoShot
            } else {
                Algorithm::Ordered
            },
            channels: 1,
        }
    }

    /// What to run where a fold has few sources, whatever the number of ranks.
    pub fn choose_large(&self, collective: Collective, bytes: usize) -> Choice {
        match collective.is_scan() {
            true => self.scan(collective, bytes),
            false => Choice {
                algorithm: Algorithm::Ring,
                channels: 1,
            },
        }
    }

    /// The inputs it was made from.
    pub fn inputs(&self) -> &Inputs {
        &self.inputs
    }
}

impl Inputs {
    /// The forced algorithm, if it computes the collective at every size.
    fn forced_entry(&self, collective: Collective) -> Option<&'static Entry> {
        let entry = algo::find(collective, self.forced?)?;
        (entry.most_rounds == 0).then_some(entry)
    }

    /// The first size that one-shot does not take; 0 for never.
    fn oneshot_limit(&self, collective: Collective) -> usize {
        let possible = match collective {
            Collective::AllReduce
            | Collective::Broadcast
            | Collective::Reduce
            | Collective::AllGather
            | Collective::Scan
            | Collective::Exscan
            | Collective::Barrier => self.nranks > 1 && self.forced_entry(collective).is_none(),
            _ => false,
        };
        if !possible {
            return 0;
        }
        if collective == Collective::Barrier || self.forced == Some(Algorithm::OneShot) {
            return self.eager_bytes + 1;
        }
        let read = if self.oversubscribed {
            READ_BYTES_OVERSUBSCRIBED
        } else {
            READ_BYTES
        };
        let readers = (self.nranks as usize - 1).max(1);
        let built_in = match collective {
            Collective::Broadcast => read / 2,
            _ => read / readers,
        };
        self.eager_limit.unwrap_or(built_in).min(self.eager_bytes) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(nranks: u32) -> Inputs {
        Inputs {
            nranks,
            oversubscribed: false,
            eager_bytes: 16 << 10,
            eager_limit: None,
            forced: None,
            channels: (1, 2),
            direct: true,
        }
    }

    #[test]
    fn small_is_one_shot_and_large_is_ring() {
        let table = Table::new(inputs(4));
        assert_eq!(
            table.choose(Collective::AllReduce, 8).algorithm,
            Algorithm::OneShot
        );
        assert_eq!(
            table.choose(Collective::AllReduce, 1 << 20).algorithm,
            Algorithm::Ring
        );
        assert_eq!(
            table.choose(Collective::Barrier, 0).algorithm,
            Algorithm::OneShot
        );
        assert_eq!(
            table.choose(Collective::AllToAll, 8).algorithm,
            Algorithm::Bundle
        );
        assert_eq!(
            table.choose(Collective::ReduceScatter, 8).algorithm,
            Algorithm::Ring
        );
    }

    #[test]
    fn one_shot_never_exceeds_what_a_token_carries() {
        for nranks in 2..70 {
            for forced in [None, Some(Algorithm::OneShot)] {
                let oversubscribed = nranks % 2 == 0;
                let eager_limit = (nranks % 3 == 0).then_some(1 << 30);
                let set = Inputs {
                    oversubscribed,
                    eager_limit,
                    forced,
                    ..inputs(nranks)
                };
                let table = Table::new(set);
                for collective in Collective::ALL {
                    assert!(!table.is_oneshot(collective, (16 << 10) + 1));
                }
            }
        }
    }

    #[test]
    fn forced_ring_leaves_the_barrier_alone() {
        let table = Table::new(Inputs {
            forced: Some(Algorithm::Ring),
            ..inputs(3)
        });
        assert_eq!(
            table.choose(Collective::AllReduce, 8).algorithm,
            Algorithm::Ring
        );
        assert_eq!(
            table.choose(Collective::Barrier, 0).algorithm,
            Algorithm::OneShot
        );
    }

    #[test]
    fn order_of_ranks_is_kept_where_it_must_be() {
        let table = Table::new(inputs(5));
        let algorithm = |collective, bytes| table.choose_ordered(collective, bytes).algorithm;
        assert_eq!(algorithm(Collective::AllReduce, 8), Algorithm::OneShot);
        assert_eq!(
            algorithm(Collective::AllReduce, 1 << 20),
            Algorithm::TwoShot
        );
        let many = Table::new(inputs(129)).choose_ordered(Collective::AllReduce, 1 << 20);
        assert_eq!(many.algorithm, Algorithm::Ordered);
        assert_eq!(algorithm(Collective::Reduce, 1 << 20), Algorithm::Ordered);
        assert_eq!(algorithm(Collective::ReduceScatter, 8), Algorithm::Ordered);
        assert_eq!(
            algorithm(Collective::Scan, 20_000),
            Algorithm::RecursiveDoubling
        );
        assert_eq!(algorithm(Collective::Exscan, 1 << 20), Algorithm::Chain);
        let alone = Table::new(inputs(1));
        let choice = alone.choose_ordered(Collective::ReduceScatter, 8);
        assert_eq!(choice.algorithm, Algorithm::Local);
    }

    #[test]
    fn channels_stay_in_their_bounds() {
        let table = Table::new(inputs(2));
        assert_eq!(table.choose(Collective::AllReduce, 100_000).channels, 1);
        assert_eq!(table.choose(Collective::AllReduce, 1 << 30).channels, 2);
    }
}
