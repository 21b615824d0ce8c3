//! A message on its way out, cut into pieces.
//!
//! A *piece* has at most [`PIECE_BYTES`] and goes through one socket. The last one also has the
//! message's *tail*: a few bytes that do not lie behind the others in memory.

use super::super::MAX_TAIL;
use super::frame::{HEADER_BYTES, Header, HeaderKind};
use std::io::IoSlice;

/// A message of at most this length goes as one piece.
pub const WHOLE_BYTES: usize = 64 << 10;
/// The largest piece, without the tail.
pub const PIECE_BYTES: usize = 1 << 20;

/// A buffer that the receiver has posted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Credit {
    pub number: u64,
    pub capacity: u64,
    pub tag: u32,
}

/// Bytes behind the others.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tail {
    bytes: [u8; MAX_TAIL],
    length: usize,
}

impl Tail {
    /// A copy of at most [`MAX_TAIL`] bytes.
    pub fn new(bytes: &[u8]) -> Option<Tail> {
        let mut tail = Tail::default();
        tail.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        tail.length = bytes.len();
        Some(tail)
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// A message in flight.
pub struct Message {
    pub request: u64,
    pub credit: Credit,
    pub kind: HeaderKind,
    /// Pieces that a socket has taken but not finished.
    pub flying: usize,
    data: *const u8,
    /// Bytes at `data`.
    bytes: usize,
    tail: Tail,
    /// Length of every piece but the last.
    piece_bytes: usize,
    /// Whether the first piece has been taken.
    begun: bool,
    /// Where the next piece other than the first begins.
    next: usize,
}

impl Message {
    /// A message that has not begun, to be cut for so many sockets.
    pub fn new(
        request: u64,
        credit: Credit,
        (data, bytes, tail): (*const u8, usize, Tail),
        sockets: usize,
    ) -> Self {
        let share = bytes.div_ceil(sockets).next_multiple_of(4096);
        let piece_bytes = share.clamp(WHOLE_BYTES, PIECE_BYTES);
        Message {
            request,
            credit,
            kind: HeaderKind::Data,
            flying: 0,
            data,
            bytes,
            tail,
            piece_bytes,
            begun: false,
            next: piece_bytes,
        }
    }

    /// Its length, with the tail.
    pub fn length(&self) -> usize {
        self.bytes + self.tail.length
    }

    pub fn is_done(&self) -> bool {
        self.begun && self.next >= self.bytes && self.flying == 0
    }

    /// Whether there is a piece for a socket.
    pub fn has_piece(&self, first_socket: bool) -> bool {
        self.next < self.bytes || (first_socket && !self.begun)
    }

    /// The range of the next piece for a socket.
    fn take(&mut self, first_socket: bool) -> Option<(usize, usize)> {
        let range = if first_socket && !self.begun {
            self.begun = true;
            (0, self.piece_bytes.min(self.bytes))
        } else if self.next < self.bytes {
            let start = self.next;
            self.next = (start + self.piece_bytes).min(self.bytes);
            (start, self.next)
        } else {
            return None;
        };
        self.flying += 1;
        Some(range)
    }

    /// The next piece for a socket, as a frame of this connection.
    pub fn take_piece(&mut self, first_socket: bool, connection: u32) -> Option<Piece> {
        let (start, end) = self.take(first_socket)?;
        let tail = match end == self.bytes {
            true => self.tail,
            false => Tail::default(),
        };
        let mut piece = Piece {
            request: self.request,
            header: [0; HEADER_BYTES],
            data: self.data.wrapping_add(start),
            length: end - start,
            tail,
            sent: 0,
        };
        let header = Header {
            kind: self.kind,
            connection,
            number: self.credit.number,
            total: match self.kind {
                HeaderKind::Refusal => self.credit.capacity,
                _ => self.length() as u64,
            },
            offset: start as u64,
            length: (piece.length + tail.length) as u32,
            tag: self.credit.tag,
            payload_sum: match self.kind {
                HeaderKind::Checked => {
                    crc32c::crc32c_append(crc32c::crc32c(piece.payload(0)), piece.tail.bytes())
                }
                _ => 0,
            },
        };
        piece.header = header.encode();
        Some(piece)
    }
}

/// A piece on its way into a socket.
pub struct Piece {
    pub request: u64,
    header: [u8; HEADER_BYTES],
    data: *const u8,
    length: usize,
    tail: Tail,
    /// Of everything together.
    sent: usize,
}

impl Piece {
    fn payload(&self, from: usize) -> &[u8] {
        match self.length.saturating_sub(from) {
            0 => &[],
            // SAFETY: the range lies within the message, whose memory the caller of `isend` keeps
            // valid and unchanged until the message is done; so long the piece exists.
            left => unsafe { std::slice::from_raw_parts(self.data.add(from), left) },
        }
    }

    /// Returns the parts to send next, in order: all that is left, but at most `most` bytes of
    /// payload.
    pub fn parts(&self, most: usize) -> [IoSlice<'_>; 3] {
        let header = self.header.get(self.sent..).unwrap_or_default();
        let behind = self.sent.saturating_sub(HEADER_BYTES);
        let payload = self.payload(behind);
        let tail = match payload.len() > most {
            true => None,
            false => self.tail.bytes().get(behind.saturating_sub(self.length)..),
        };
        [
            IoSlice::new(header),
            IoSlice::new(&payload[..payload.len().min(most)]),
            IoSlice::new(tail.unwrap_or_default()),
        ]
    }

    /// Counts what a socket took; true when that was the rest.
    pub fn advance(&mut self, sent: usize) -> bool {
        self.sent += sent;
        self.sent == HEADER_BYTES + self.length + self.tail.length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sockets take pieces in any order: every byte once, and the first piece on socket 0, where
    /// the receiver waits for it.
    #[test]
    fn pieces_cover_a_message_and_begin_on_the_first_socket() {
        for seed in 0..500 {
            let mut random = fastrand::Rng::with_seed(seed);
            let bytes = random.usize(..if seed % 2 == 0 { 100_000 } else { 8 << 20 });
            let mut message = Message::new(
                0,
                Credit::default(),
                (std::ptr::null(), bytes, Tail::default()),
                4,
            );
            let mut ranges = Vec::new();
            while message.has_piece(true) {
                let first_socket = random.u8(..4) == 0;
                let has = message.has_piece(first_socket);
                let range = message.take(first_socket);
                assert_eq!(range.is_some(), has, "seed {seed}");
                assert!(
                    first_socket || range.is_none_or(|(start, _)| start > 0),
                    "seed {seed}"
                );
                ranges.extend(range);
                assert!(!message.is_done());
            }
            ranges.sort_unstable();
            let mut end = 0;
            for (start, stop) in &ranges {
                assert!(
                    *start == end && stop - start <= PIECE_BYTES,
                    "seed {seed}: {ranges:?}"
                );
                end = *stop;
            }
            assert_eq!(end, bytes, "seed {seed}");
            assert!(bytes > WHOLE_BYTES || ranges.len() == 1, "seed {seed}");
            message.flying = 0;
            assert!(message.is_done());
        }
    }

    /// However a socket takes a piece, all of it goes out in order: header, payload, tail.
    #[test]
    fn pieces_go_out_whole_in_any_portions() {
        let data: Vec<u8> = (0..200_000u32).map(|i| (i * 7 + i / 251) as u8).collect();
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let bytes = if seed % 3 == 0 {
                random.usize(..200_000)
            } else {
                random.usize(..100)
            };
            let words: Vec<u8> = (0..random.usize(..=MAX_TAIL))
                .map(|_| random.u8(..))
                .collect();
            let tail = Tail::new(&words).unwrap();
            let mut message = Message::new(3, Credit::default(), (data.as_ptr(), bytes, tail), 2);
            assert_eq!(message.length(), bytes + words.len());
            let mut out = vec![0; message.length()];
            while let Some(mut piece) = message.take_piece(true, 9) {
                let mut frame = Vec::new();
                loop {
                    let most = random.usize(1..=100_000);
                    let parts = piece.parts(most);
                    assert!(parts[1].len() <= most, "seed {seed}");
                    let left: Vec<u8> = parts.iter().flat_map(|part| part.to_vec()).collect();
                    let portion = random.usize(..=left.len());
                    frame.extend(&left[..portion]);
                    if piece.advance(portion) {
                        assert_eq!(portion, left.len());
                        break;
                    }
                }
                let (header, payload) = frame.split_at(HEADER_BYTES);
                let header = Header::decode(header.try_into().unwrap()).unwrap();
                assert_eq!(header.total as usize, out.len());
                assert_eq!(header.length as usize, payload.len());
                out[header.offset as usize..][..payload.len()].copy_from_slice(payload);
            }
            assert!(
                out[..bytes] == data[..bytes] && out[bytes..] == words,
                "seed {seed}"
            );
        }
        assert!(Tail::new(&[0; MAX_TAIL + 1]).is_none());
    }
}
