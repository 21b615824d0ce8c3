//! Where things lie in the memory that the ranks of a node share: positions by formula, so that a
//! connection needs no handshake.
//!
//! The *head* is what all ranks have mapped from the beginning. It grows with the ranks. Behind it
//! each connection has a *part* of its own, which a rank maps when it first uses the connection; so
//! address space grows with the connections that are used, though positions do with the square of
//! the ranks. Pages appear when they are first touched.
//!
//! | the head | how many | bytes each |
//! |---|---|---|
//! | abort record, and the count of armed bells in the last lines | 1 | 16,384 |
//! | board (call, doorbell, mark of a reader) | ranks | 256 |
//! | fan header | ranks | 18,560 |
//! | fan slots | ranks | 8 x eager bytes |
//!
//! | part of | how many | what |
//! |---|---|---|
//! | pair | ranks x ranks x channels | header of 18,560, 8 slots |
//! | cast | ranks x channels x 4 | header of 640, a credit of 64 for each rank, 8 slots |
//! | LL, LL128 | 2 x ranks x ranks x channels | credit of 64, 8 x 16,384 bytes of words |
//!
//! Parts begin at pages. Their first cache lines would all meet in the same sets of the processor's
//! caches: so the words of part k begin k lines later, as far as the page has room.

use super::cast::CastHeader;
use super::fan::FanHeader;
use super::line::{Credit, LINES, PairHeader};
use super::ll::SLOT_WORDS;
use crate::base::sync::MODEL;
use std::mem::offset_of;

/// Bytes of the abort record and of the count behind it.
pub const ABORT_BYTES: usize = 16 << 10;
/// Where the count of armed bells lies; two lines, as the next one is fetched too.
pub const ARMED_OFFSET: usize = ABORT_BYTES - 2 * LINE;
/// Bytes of one rank's board.
pub const BOARD_BYTES: usize = 256;
const PAGE: usize = 4096;
/// Casts of a rank on a channel: one that all ranks read, and one for each level of the node.
pub const CASTS: usize = 4;
/// Encodings of flagged lines, each with memory of its own.
pub const ENCODINGS: usize = 2;
/// The number of that of LL.
pub const LL_LINES: usize = 0;
/// The number of that of LL128.
pub const LL128_LINES: usize = 1;
const LINES_BYTES: usize = LINES * SLOT_WORDS * 8;
const LINE: usize = 64;
/// Bytes of a part that are there as long as its connection is: what counts lies in them.
pub const FIRST_BYTES: usize = PAGE;
/// Bytes of small places behind them in the part of a pair.
pub const SMALL_AREA_BYTES: usize = Layout::PAIR_HEADER_BYTES - FIRST_BYTES;

// Wherever a header begins, its lines and its credit are on the first page.
const _: () = assert!(
    MODEL || (Layout::HEADER_PLACES - 1) * LINE + offset_of!(PairHeader, small) <= FIRST_BYTES
);

/// Bytes from an offset on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where they begin.
    pub offset: usize,
    /// How many.
    pub bytes: usize,
    /// How many of them are there before the slots.
    pub header_bytes: usize,
}

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

    fn number(&self, writer: usize, reader: usize, channel: usize) -> usize {
        debug_assert!(writer < self.ranks && reader < self.ranks && channel < self.channels);
        (writer * self.ranks + reader) * self.channels + channel
    }

    fn fan_headers(&self) -> usize {
        ABORT_BYTES + Self::page(self.ranks * BOARD_BYTES)
    }

    fn fan_slots(&self) -> usize {
        self.fan_headers() + Self::page(self.ranks * size_of::<FanHeader>())
    }

    /// Bytes of the head.
    pub fn head(&self) -> usize {
        self.fan_slots() + self.ranks * LINES * self.eager_bytes
    }

    const PAIR_HEADER_BYTES: usize = Self::page(size_of::<PairHeader>());
    const LINES_PART_BYTES: usize = PAGE + LINES_BYTES;

    fn pair_part_bytes(&self) -> usize {
        Self::PAIR_HEADER_BYTES + LINES * self.slot_bytes
    }

    fn cast_header_bytes(&self) -> usize {
        Self::page(size_of::<CastHeader>() + self.ranks * size_of::<Credit>())
    }

    fn cast_part_bytes(&self) -> usize {
        self.cast_header_bytes() + LINES * self.slot_bytes
    }

    /// Memory of so many pairs that a rank writes: what they keep, and what they have for small
    /// places and slots when calls whose tokens have up to `token_bytes` bytes have used all of
    /// them.
    pub fn written(&self, pairs: usize, token_bytes: usize) -> (usize, usize) {
        let slot = Self::page(token_bytes).min(self.slot_bytes);
        let given_back = SMALL_AREA_BYTES + LINES * slot;
        (pairs * FIRST_BYTES, pairs * given_back)
    }

    fn lines_parts(&self) -> usize {
        self.head() + self.pairs() * self.pair_part_bytes()
    }

    fn cast_parts(&self) -> usize {
        self.lines_parts() + ENCODINGS * self.pairs() * Self::LINES_PART_BYTES
    }

    /// Bytes of everything.
    pub fn total(&self) -> usize {
        self.cast_parts() + self.ranks * self.channels * CASTS * self.cast_part_bytes()
    }

    /// The part of a pair.
    pub fn pair(&self, writer: usize, reader: usize, channel: usize) -> Part {
        let number = self.number(writer, reader, channel);
        Part {
            offset: self.head() + number * self.pair_part_bytes(),
            bytes: self.pair_part_bytes(),
            header_bytes: Self::PAIR_HEADER_BYTES,
        }
    }

    /// Where the header of a pair may begin in its part.
    const HEADER_PLACES: usize = (Self::PAIR_HEADER_BYTES - size_of::<PairHeader>()) / LINE + 1;

    /// Where in its part the header of a pair begins.
    pub fn pair_header(&self, writer: usize, reader: usize, channel: usize) -> usize {
        self.number(writer, reader, channel) % Self::HEADER_PLACES * LINE
    }

    /// The part of a pair's flagged lines. Behind its header lie the words.
    pub fn lines(&self, (writer, reader): (usize, usize), channel: usize, encoding: usize) -> Part {
        let number = self.number(writer, reader, channel) * ENCODINGS + encoding;
        Part {
            offset: self.lines_parts() + number * Self::LINES_PART_BYTES,
            bytes: Self::LINES_PART_BYTES,
            header_bytes: PAGE,
        }
    }

    /// Where in its part the credit of a pair's flagged lines is.
    pub fn lines_credit(&self, (writer, reader): (usize, usize), channel: usize) -> usize {
        self.number(writer, reader, channel) % (PAGE / LINE) * LINE
    }

    /// The part of a cast of a writer, by its number. It begins with the header, and with the
    /// credits behind that.
    pub fn cast(&self, writer: usize, channel: usize, cast: usize) -> Part {
        debug_assert!(writer < self.ranks && channel < self.channels && cast < CASTS);
        let number = (writer * self.channels + channel) * CASTS + cast;
        Part {
            offset: self.cast_parts() + number * self.cast_part_bytes(),
            bytes: self.cast_part_bytes(),
            header_bytes: self.cast_header_bytes(),
        }
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_grows_with_the_ranks_and_not_with_their_square() {
        let head = |ranks| {
            let l = Layout {
                ranks,
                channels: 4,
                slot_bytes: 1 << 19,
                eager_bytes: 1 << 15,
            };
            l.head()
        };
        assert!(head(128) < 9 * head(16), "{} {}", head(128), head(16));
        assert!(head(16) < 8 << 20, "{}", head(16));
    }

    #[test]
    fn parts_do_not_overlap() {
        let l = Layout {
            ranks: 3,
            channels: 2,
            slot_bytes: 8192,
            eager_bytes: 4096,
        };
        let mut parts = vec![(0, ABORT_BYTES)];
        let mut behind = Vec::new();
        for w in 0..3 {
            parts.push((l.board(w), BOARD_BYTES));
            parts.push((l.fan_header(w), size_of::<FanHeader>()));
            parts.push((l.fan_data(w), LINES * l.eager_bytes));
            for c in 0..2 {
                for k in 0..CASTS {
                    let header = size_of::<CastHeader>() + 3 * 64;
                    behind.push((l.cast(w, c, k), header, LINES * 8192));
                }
                for r in 0..3 {
                    let header = l.pair_header(w, r, c) + size_of::<PairHeader>();
                    behind.push((l.pair(w, r, c), header, LINES * 8192));
                    for e in 0..ENCODINGS {
                        let credit = l.lines_credit((w, r), c) + size_of::<Credit>();
                        behind.push((l.lines((w, r), c, e), credit, LINES_BYTES));
                    }
                }
            }
        }
        assert!(
            parts
                .iter()
                .all(|(offset, bytes)| offset + bytes <= l.head())
        );
        for (part, header, slots) in behind {
            assert!(header <= part.header_bytes, "{part:?}");
            assert_eq!(part.header_bytes + slots, part.bytes, "{part:?}");
            assert!(
                part.offset >= l.head() && part.offset % 4096 == 0,
                "{part:?}"
            );
            parts.push((part.offset, part.bytes));
        }
        parts.sort_unstable();
        for pair in parts.windows(2) {
            assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{pair:?}");
        }
        let last = parts.last().unwrap();
        assert_eq!(last.0 + last.1, l.total());
    }
}
