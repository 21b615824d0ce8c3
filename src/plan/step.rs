//! A step: one fold-and-copy of a chunk, 16 bytes.
//!
//! A step folds an ordered list of sources and writes the result to an ordered list of
//! destinations. It names chunks, never bytes: sizes bind at launch (see [`super::window`]).
//! `repeat` and `stride` keep a ring of 100,000 ranks small: the step runs `repeat` times, and each
//! time its chunk number grows by `stride`, modulo the plan's number of chunks.
//!
//! A *packed* step ([`PACKED`]) passes one token that holds many chunks, its *pieces*, one behind
//! the other: `repeat` runs of `chunks` consecutive chunk numbers, run k beginning at
//! `chunk + k * stride`. So an algorithm that halves or doubles what it exchanges in each step
//! (recursive doubling, Bruck, PAT) pays one hand-over for it, whatever the number of ranks.

use super::operand::ListId;

/// Operation of a step on its operands.
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
    /// [`PRE_SCALE`], [`POST_SCALE`] and [`PACKED`].
    pub flags: u8,
    /// Ordered sources.
    pub srcs: ListId,
    /// Ordered destinations.
    pub dsts: ListId,
    /// Chunks moved at once: 1, or 0 for a token without payload. Packed: the length of a run.
    pub chunks: u16,
    /// Chunk number of the first repetition, or of the first piece.
    pub chunk: u32,
    /// How often the step runs, at least 1. Packed: the number of runs in its only token.
    pub repeat: u16,
    /// Added to the chunk number from one repetition, or run, to the next.
    pub stride: i16,
}

/// The input operand is scaled as it is read (pre-multiplied sum).
pub const PRE_SCALE: u8 = 1;
/// The result is final: it is scaled before it is written (average).
pub const POST_SCALE: u8 = 2;
/// One token holds all chunks of the step, piece behind piece.
pub const PACKED: u8 = 4;

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

    /// Whether its only token holds all its chunks.
    #[inline]
    pub fn is_packed(&self) -> bool {
        self.flags & PACKED != 0
    }

    /// Tokens that each connection of the step passes in one round, for each slice.
    #[inline]
    pub fn tokens(&self) -> u16 {
        if self.is_packed() { 1 } else { self.repeat }
    }

    /// Chunks in each token; 0 for a token without payload.
    #[inline]
    pub fn pieces(&self) -> u32 {
        if self.is_packed() {
            u32::from(self.repeat) * u32::from(self.chunks)
        } else {
            u32::from(self.chunks)
        }
    }

    /// Chunk number of piece `piece` of token `token`, modulo `chunks` of the plan.
    #[inline]
    pub fn piece_at(&self, token: u16, piece: u32, chunks: u32) -> u32 {
        if !self.is_packed() {
            return self.chunk_at(token, chunks);
        }
        let length = u32::from(self.chunks.max(1));
        let (run, within) = (piece / length, piece % length);
        let shifted =
            i64::from(self.chunk) + i64::from(run) * i64::from(self.stride) + i64::from(within);
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
        assert_eq!((step.tokens(), step.pieces()), (4, 1));
    }

    #[test]
    fn pieces_run_and_wrap() {
        let step = Step {
            op: StepOp::Copy,
            flags: PACKED,
            srcs: ListId(0),
            dsts: ListId(0),
            chunks: 2,
            chunk: 5,
            repeat: 3,
            stride: 4,
        };
        assert_eq!((step.tokens(), step.pieces()), (1, 6));
        let pieces: Vec<u32> = (0..6).map(|p| step.piece_at(0, p, 12)).collect();
        assert_eq!(pieces, [5, 6, 9, 10, 1, 2]);
    }
}
