//! Where things lie in the memory that the ranks of a node share: positions by formula, so that a
//! connection needs no handshake. Pages appear when they are first touched; what is never used
//! costs address space only.
//!
//! | part | how many | bytes each |
//! |---|---|---|
//! | abort record | 1 | 4,096 |
//! | board (doorbell, call) | ranks | 256 |
//! | fan headers | ranks | 18,560 |
//! | pair headers | ranks x ranks x channels | 18,560 |
//! | cast headers | ranks x channels | 640 |
//! | cast tails | ranks x channels x ranks | 64 |
//! | fan slots | ranks | 8 x eager bytes |
//! | pair slots | ranks x ranks x channels | 8 x slot bytes |
//! | cast slots | ranks x channels | 8 x slot bytes |
//! | credits of LL and LL128 | 2 x ranks x ranks x channels | 64 |
//! | words of LL and LL128 | 2 x ranks x ranks x channels | 8 x 16,384 |

use super::cast::CastHeader;
use super::fan::FanHeader;
use super::line::{Credit, LINES, PairHeader};
use super::ll::SLOT_WORDS;

/// Bytes of the abort record.
pub const ABORT_BYTES: usize = 4096;
/// Bytes of one rank's board.
pub const BOARD_BYTES: usize = 256;
const PAGE: usize = 4096;
/// Encodings of flagged lines, each with memory of its own.
pub const ENCODINGS: usize = 2;
const LINES_BYTES: usize = LINES * SLOT_WORDS * 8;

/// Sizes that fix all positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Ranks of the node.
    pub ranks: usize,
    /// Channels.
    pub channels: usize,
    /// Bytes of a pair or cast slot, a multiple of 4,096.
    pub slot_bytes: usize,
    /// Bytes of a fan slot, a multiple of 4,096.
    pub eager_bytes: usize,
}

impl Layout {
    const fn page(bytes: usize) -> usize {
        bytes.div_ceil(PAGE) * PAGE
    }

    fn pairs(&self) -> usize {
        self.ranks * self.ranks * self.channels
    }

    fn pair(&self, writer: usize, reader: usize, channel: usize) -> usize {
        debug_assert!(writer < self.ranks && reader < self.ranks && channel < self.channels);
        (writer * self.ranks + reader) * self.channels + channel
    }

    fn casts(&self) -> usize {
        self.ranks * self.channels
    }

    fn cast(&self, writer: usize, channel: usize) -> usize {
        debug_assert!(writer < self.ranks && channel < self.channels);
        writer * self.channels + channel
    }

    fn fan_headers(&self) -> usize {
        ABORT_BYTES + Self::page(self.ranks * BOARD_BYTES)
    }

    fn pair_headers(&self) -> usize {
        self.fan_headers() + Self::page(self.ranks * size_of::<FanHeader>())
    }

    fn cast_headers(&self) -> usize {
        self.pair_headers() + Self::page(self.pairs() * size_of::<PairHeader>())
    }

    fn cast_tails(&self) -> usize {
        self.cast_headers() + Self::page(self.casts() * size_of::<CastHeader>())
    }

    fn fan_slots(&self) -> usize {
        self.cast_tails() + Self::page(self.casts() * self.ranks * size_of::<Credit>())
    }

    fn pair_slots(&self) -> usize {
        self.fan_slots() + self.ranks * LINES * self.eager_bytes
    }

    fn cast_slots(&self) -> usize {
        self.pair_slots() + self.pairs() * LINES * self.slot_bytes
    }

    fn lines_credits(&self) -> usize {
        self.cast_slots() + self.casts() * LINES * self.slot_bytes
    }

    fn lines_words(&self) -> usize {
        self.lines_credits() + Self::page(ENCODINGS * self.pairs() * size_of::<Credit>())
    }

    /// Bytes of everything.
    pub fn total(&self) -> usize {
        self.lines_words() + ENCODINGS * self.pairs() * LINES_BYTES
    }

    /// Offset of a rank's board.
    pub fn board(&self, rank: usize) -> usize {
        ABORT_BYTES + rank * BOARD_BYTES
    }

    /// Offset of a fan's header.
    pub fn fan_header(&self, writer: usize) -> usize {
        self.fan_headers() + writer * size_of::<FanHeader>()
    }

    /// Offset of a fan's slots.
    pub fn fan_data(&self, writer: usize) -> usize {
        self.fan_slots() + writer * LINES * self.eager_bytes
    }

    /// Offset of a pair's header.
    pub fn pair_header(&self, writer: usize, reader: usize, channel: usize) -> usize {
        self.pair_headers() + self.pair(writer, reader, channel) * size_of::<PairHeader>()
    }

    /// Offset of a pair's slots.
    pub fn pair_data(&self, writer: usize, reader: usize, channel: usize) -> usize {
        self.pair_slots() + self.pair(writer, reader, channel) * LINES * self.slot_bytes
    }

    /// Offset of the credit of a pair's flagged lines.
    pub fn lines_credit(
        &self,
        (writer, reader): (usize, usize),
        channel: usize,
        encoding: usize,
    ) -> usize {
        let number = self.pair(writer, reader, channel) * ENCODINGS + encoding;
        self.lines_credits() + number * size_of::<Credit>()
    }

    /// Offset of the words of a pair's flagged lines.
    pub fn lines_data(
        &self,
        (writer, reader): (usize, usize),
        channel: usize,
        encoding: usize,
    ) -> usize {
        let number = self.pair(writer, reader, channel) * ENCODINGS + encoding;
        self.lines_words() + number * LINES_BYTES
    }

    /// Offset of a cast's header.
    pub fn cast_header(&self, writer: usize, channel: usize) -> usize {
        self.cast_headers() + self.cast(writer, channel) * size_of::<CastHeader>()
    }

    /// Offset of the tails of a cast, one for each rank.
    pub fn cast_tail(&self, writer: usize, channel: usize) -> usize {
        self.cast_tails() + self.cast(writer, channel) * self.ranks * size_of::<Credit>()
    }

    /// Offset of a cast's slots.
    pub fn cast_data(&self, writer: usize, channel: usize) -> usize {
        self.cast_slots() + self.cast(writer, channel) * LINES * self.slot_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_overlap() {
        let l = Layout {
            ranks: 3,
            channels: 2,
            slot_bytes: 8192,
            eager_bytes: 4096,
        };
        let mut parts = vec![(0, ABORT_BYTES)];
        for w in 0..3 {
            parts.push((l.board(w), BOARD_BYTES));
            parts.push((l.fan_header(w), size_of::<FanHeader>()));
            parts.push((l.fan_data(w), LINES * l.eager_bytes));
            for c in 0..2 {
                parts.push((l.cast_header(w, c), size_of::<CastHeader>()));
                parts.push((l.cast_tail(w, c), 3 * size_of::<Credit>()));
                parts.push((l.cast_data(w, c), LINES * l.slot_bytes));
            }
            for r in 0..3 {
                for c in 0..2 {
                    parts.push((l.pair_header(w, r, c), size_of::<PairHeader>()));
                    parts.push((l.pair_data(w, r, c), LINES * l.slot_bytes));
                    for e in 0..ENCODINGS {
                        parts.push((l.lines_credit((w, r), c, e), size_of::<Credit>()));
                        parts.push((l.lines_data((w, r), c, e), LINES_BYTES));
                    }
                }
            }
        }
        parts.sort_unstable();
        for pair in parts.windows(2) {
            assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{pair:?}");
        }
        let last = parts.last().unwrap();
        assert_eq!(last.0 + last.1, l.total());
    }
}
