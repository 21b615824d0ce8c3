//! The usual choices, where the site has measured nothing: they were measured by hand.
//!
//! Up to [`MEASURED_RANKS`] ranks of one node the choices were taken from measurements (two cores,
//! 2, 4 and 8 ranks; `benches/results/algorithms.md`), and estimates do not overrule them.
//! Elsewhere an estimate does that is much better.

use crate::plan::{Algorithm, Collective};

/// A one-shot call makes every rank read n - 1 contributions; beyond this many bytes read, smaller
/// traffic wins.
const READ_BYTES: usize = 32 << 10;
/// Where ranks outnumber cores, a hand-over costs a context switch, and fewer hand-overs win for
/// longer.
const READ_BYTES_OVERSUBSCRIBED: usize = 256 << 10;
/// Up to this many bytes a rank publishes the blocks of all at once, and each reader takes its own.
const BLOCKS_BYTES: usize = 8 << 10;
/// Limit that replaces [`BLOCKS_BYTES`] where a reduction takes several hand-overs, each of them a
/// context switch.
const BLOCKS_BYTES_OVERSUBSCRIBED: usize = 32 << 10;
/// Most ranks of a node whose choices were measured.
const MEASURED_RANKS: u32 = 16;
/// Beyond this many bytes a scan by recursive doubling, which moves everything in every step, loses
/// to the chain.
const DOUBLING_BYTES: usize = 32 << 10;
/// Up to this many bytes of all blocks halving wins, which sends little to few.
const HALVING_BYTES: usize = 128 << 10;
/// Up to this size a reduce gains more from few hand-overs in a row than from a full pipeline.
const TREE_BYTES: usize = 32 << 10;

/// Up to this size two ranks gain more from steps that write to one place than from few steps: what
/// goes to the other rank is on its way before the own copy is made.
const PAIR_BYTES: usize = 128 << 10;

/// Up to this size an all-reduce between nodes gains more from few messages than from few bytes.
const MESSAGES_BYTES: usize = 64 << 10;

/// Where a choice is to be made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usual {
    /// Ranks.
    pub nranks: u32,
    /// They all share memory.
    pub one_node: bool,
    /// They outnumber the cores of their node.
    pub oversubscribed: bool,
}

/// Whether a one-shot token of this collective holds the blocks of all ranks.
fn publishes_all(collective: Collective) -> bool {
    crate::algo::find(collective, Algorithm::OneShot).is_some_and(|entry| entry.all_blocks)
}

impl Usual {
    /// Whether the choice was measured.
    pub fn is_measured(&self, collective: Collective) -> bool {
        let few = self.one_node && self.nranks <= MEASURED_RANKS;
        few && matches!(
            collective,
            Collective::AllReduce
                | Collective::Broadcast
                | Collective::Reduce
                | Collective::AllGather
                | Collective::ReduceScatter
                | Collective::Barrier
        )
    }

    /// Whether estimates do not overrule `algorithm`.
    pub fn is_by_hand(&self, collective: Collective, algorithm: Algorithm) -> bool {
        let few = self.one_node && self.nranks <= MEASURED_RANKS;
        let small = algorithm == Algorithm::OneShot && publishes_all(collective);
        self.is_measured(collective) || few && small
    }

    /// The choice for a rank's contribution of `bytes`, with one-shot up to `oneshot_limit`.
    pub fn algorithm(
        &self,
        collective: Collective,
        bytes: usize,
        oneshot_limit: usize,
    ) -> Algorithm {
        let one_shot = crate::algo::find(collective, Algorithm::OneShot);
        if one_shot.is_some() && bytes <= oneshot_limit {
            return Algorithm::OneShot;
        }
        let several = self.nranks > 2 && self.is_measured(collective);
        match collective {
            // Two hand-overs, whatever the number of ranks, and no more bytes than the ring. The
            // order of folding is that of one-shot and of direct reads: for 3 and 4 ranks the ring
            // is up to 15 % faster with large data, but then bits would depend on where data lie.
            Collective::AllReduce if several => Algorithm::TwoShot,
            // Over the links between nodes go the fewest messages, or the fewest bytes.
            Collective::AllReduce if !self.one_node && bytes <= MESSAGES_BYTES => {
                Algorithm::RecursiveDoubling
            }
            Collective::AllReduce if !self.one_node => Algorithm::Hierarchical,
            Collective::AllReduce if self.is_pair() && bytes <= PAIR_BYTES => {
                Algorithm::HalvingDoubling
            }
            Collective::AllGather if self.is_pair() && bytes <= PAIR_BYTES / 2 => Algorithm::Bruck,
            // Each byte is written once, and read by all.
            Collective::Broadcast | Collective::AllGather if several => Algorithm::Nvls,
            Collective::Reduce if several && bytes <= TREE_BYTES => Algorithm::Tree,
            Collective::ReduceScatter if several => self.reduce_scatter(bytes),
            Collective::AllReduce
            | Collective::Broadcast
            | Collective::Reduce
            | Collective::AllGather
            | Collective::ReduceScatter => Algorithm::Ring,
            Collective::Barrier => Algorithm::OneShot,
            Collective::Scan | Collective::Exscan => self.scan(bytes),
            _ => Algorithm::Bundle,
        }
    }

    /// Two ranks of one node.
    fn is_pair(&self) -> bool {
        self.nranks == 2 && self.one_node
    }

    /// Blocks of `bytes` on one node.
    fn reduce_scatter(&self, bytes: usize) -> Algorithm {
        let small = bytes.saturating_mul(self.nranks as usize) <= HALVING_BYTES;
        match small {
            true if self.nranks.is_power_of_two() => Algorithm::HalvingDoubling,
            _ => Algorithm::TwoShot,
        }
    }

    /// A scan that is too large for one line: few steps while latency counts, then the chain, which
    /// moves the data once.
    pub fn scan(&self, bytes: usize) -> Algorithm {
        match self.nranks > 4 && bytes <= DOUBLING_BYTES {
            true => Algorithm::RecursiveDoubling,
            false => Algorithm::Chain,
        }
    }

    /// Most bytes for which one-shot is the choice.
    pub fn oneshot_limit(&self, collective: Collective) -> usize {
        let read = match self.oversubscribed {
            true => READ_BYTES_OVERSUBSCRIBED,
            false => READ_BYTES,
        };
        let readers = (self.nranks as usize).saturating_sub(1).max(1);
        if publishes_all(collective) {
            let few = self.one_node && self.nranks <= MEASURED_RANKS;
            let most = match self.oversubscribed && collective.reduces() {
                true => BLOCKS_BYTES_OVERSUBSCRIBED,
                false => BLOCKS_BYTES,
            };
            return if few { most / self.nranks as usize } else { 0 };
        }
        // Where two-shot and a shared segment take over.
        let most = match collective {
            Collective::AllReduce => 24 << 10,
            Collective::Broadcast => 6 << 10,
            Collective::AllGather => 12 << 10,
            Collective::Reduce => 4 << 10,
            _ => usize::MAX,
        };
        match collective {
            Collective::Broadcast => most.min(read / 2),
            Collective::AllReduce if self.nranks <= 2 => read / readers,
            _ => most.min(read / readers),
        }
    }
}
