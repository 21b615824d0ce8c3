//! Steps as they are: what one costs its core, by the tokens that it reads and writes, and what
//! memory and links take meanwhile.

use super::call::Call;
use crate::price::cluster::Level;

/// A step: tokens of `bytes` that it reads and publishes at a level each, and own buffers.
#[derive(Clone, Debug, Default)]
pub(super) struct StepWork {
    /// Tokens read, with their level.
    pub reads: Vec<(f64, Level)>,
    /// Publications, with the level of the farthest reader.
    pub sends: Vec<(f64, Level)>,
    /// Own buffers that are read and written.
    pub locals: f64,
    pub writes: f64,
    /// Whether what is read is folded.
    pub folds: bool,
}

impl StepWork {
    /// Time of the core for tokens of `bytes`.
    pub fn core(&self, call: &Call, bytes: f64) -> f64 {
        let costs = &call.site.costs;
        let (mut token_ns, mut byte_ns) = (costs.step_ns, 0.0);
        let mut sources = self.locals;
        for &(count, level) in &self.reads {
            let cost = costs.level(level);
            token_ns += count * cost.overhead_ns;
            byte_ns += count * cost.fetch_ns(costs.read_ns);
            sources += count;
        }
        for &(count, level) in &self.sends {
            let cost = costs.level(level);
            token_ns += count * cost.overhead_ns;
            byte_ns += count * (costs.write_ns + cost.carry_ns);
        }
        byte_ns += self.locals * costs.read_ns + self.writes * costs.write_ns;
        if self.folds {
            byte_ns += (sources - 1.0).max(0.0) * costs.fold_ns;
        }
        token_ns + bytes * byte_ns
    }
}
