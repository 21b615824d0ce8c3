//! A step: one fold-and-copy of a chunk, 16 bytes.
//!
//! A step folds an ordered list of sources and writes the result to an ordered list of
//! destinations. It names chunks, never bytes: sizes bind at launch (see [`super::window`]).
//! `repeat` and `stride` keep a ring of 100,000 ranks small: the step runs `repeat` times, and each
//! time its chunk number grows by `stride`, modulo the plan's number of chunks.

use super::operand::ListId;

/// What a step does with its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum StepOp {
    /// Writes the only source to every destination.
    Copy = 0,
    /// Folds the sources in list order with the reduction operation of the call.
    Fold = 1,
    /// Passes tokens without payload: waits for the sources, signals the destinations.
    Token = 2,
}

/// One entry of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Step {
    /// Copy, fold or token.
    pub op: StepOp,
    /// [`PRE_SCALE`] and [`POST_SCALE`].
    pub flags: u8,
    /// Ordered sources.
    pub srcs: ListId,
    /// Ordered destinations.
    pub dsts: ListId,
    /// Chunks moved at once: 1, or 0 for a token without payload.
    pub chunks: u16,
    /// Chunk number of the first repetition.
    pub chunk: u32,
    /// How often the step runs, at least 1.
    pub repeat: u16,
    /// Added to the chunk number from one repetition to the next.
    pub stride: i16,
}

/// The input operand is scaled as it is read (pre-multiplied sum).
pub const PRE_SCALE: u8 = 1;
/// The result is final: it is scaled before it is written (average).
pub const POST_SCALE: u8 = 2;

const _: () = assert!(
    size_of::<Step>() == 16,
    "a step is 16 bytes on every executor"
);

impl Step {
    /// Chunk number of repetition `k`, modulo `chunks` of the plan.
    #[inline]
    pub fn chunk_at(&self, k: u16, chunks: u32) -> u32 {
        let shifted = i64::from(self.chunk) + i64::from(k) * i64::from(self.stride);
        shifted.rem_euclid(i64::from(chunks.max(1))) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_numbers_wrap_both_ways() {
        let mut step = Step {
            op: StepOp::Copy,
            flags: 0,
            srcs: ListId(0),
            dsts: ListId(0),
            chunks: 1,
            chunk: 1,
            repeat: 4,
            stride: -1,
        };
        let down: Vec<u32> = (0..4).map(|k| step.chunk_at(k, 5)).collect();
        assert_eq!(down, [1, 0, 4, 3]);
        step.stride = 2;
        let up: Vec<u32> = (0..4).map(|k| step.chunk_at(k, 5)).collect();
        assert_eq!(up, [1, 3, 0, 2]);
    }
}
