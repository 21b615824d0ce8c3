//! The board: what each rank is doing, in memory that all ranks of the node can read.
//!
//! On the fast path a rank stores two words on lines of its own: how many collectives it has begun,
//! and the signature of the last. A rank that waits for long reads the others' boards and can say
//! who is late, and who called something else. The abort record lets the first rank that
//! fails tell all others why.

use crate::base::sync::{AtomicU32, AtomicU64, MODEL, Ordering};

/// How many of a rank's last calls its board remembers.
const HISTORY: usize = 14;

/// Words of a board, as it is told to other nodes.
pub const BOARD_WORDS: usize = 2 + HISTORY;

const LEFT: u64 = 1;
const LET_GO: u64 = 2;

/// One rank's part of the board.
#[repr(C, align(128))]
pub struct Board {
    calls: AtomicU64,
    left: AtomicU64,
    signatures: [AtomicU64; HISTORY],
}

const _: () = assert!(MODEL || size_of::<Board>() == 128);

impl Board {
    /// Begins collective number `calls` (1-based) with this signature.
    #[inline(always)]
    pub fn begin(&self, calls: u64, signature: u64) {
        self.signatures[calls as usize % HISTORY].store(signature, Ordering::Relaxed);
        self.calls.store(calls, Ordering::Release);
    }

    /// Notes that this rank has destroyed the communicator.
    pub fn leave(&self) {
        self.left.fetch_or(LEFT, Ordering::AcqRel);
    }

    /// Notes that after an abort this rank touches no buffer of another rank any more.
    pub fn let_go(&self) {
        self.left.fetch_or(LET_GO, Ordering::AcqRel);
    }

    /// Whether this rank touches no buffer of another rank any more.
    pub fn has_let_go(&self) -> bool {
        self.left.load(Ordering::Acquire) != 0
    }

    /// Whether this rank has destroyed the communicator.
    pub fn has_left(&self) -> bool {
        self.left.load(Ordering::Acquire) & LEFT != 0
    }

    /// What the board says, to be told to other nodes.
    pub fn copy(&self) -> [u64; BOARD_WORDS] {
        // The count first: what it covers was stored before it.
        let mut words = [0; BOARD_WORDS];
        words[0] = self.calls();
        words[1] = self.left.load(Ordering::Acquire);
        for (word, signature) in words[2..].iter_mut().zip(&self.signatures) {
            *word = signature.load(Ordering::Relaxed);
        }
        words
    }

    /// Writes what the board of a rank of another node says, unless it says less than is known.
    pub fn put(&self, words: &[u64; BOARD_WORDS]) {
        if words[0] >= self.calls() {
            for (signature, word) in self.signatures.iter().zip(&words[2..]) {
                signature.store(*word, Ordering::Relaxed);
            }
            self.calls.store(words[0], Ordering::Release);
        }
        self.left.fetch_or(words[1], Ordering::AcqRel);
    }

    /// How many collectives this rank has begun.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Acquire)
    }

    /// The signature of this rank's collective number `call`, if it has begun it and has not gone
    /// on so far that it is forgotten.
    pub fn signature(&self, call: u64) -> Option<u64> {
        if self.calls() < call {
            return None;
        }
        let signature = self.signatures[call as usize % HISTORY].load(Ordering::Acquire);
        // The next writer of this entry is call + HISTORY, stored before it is counted.
        (self.calls() + 1 < call + HISTORY as u64).then_some(signature)
    }
}

/// Longest message in an abort record, in bytes.
const TEXT_BYTES: usize = 2048;
const EMPTY: u32 = 0;
const WRITING: u32 = 1;
const SET: u32 = 2;

/// Why the communicator stopped: written once, by the first rank that fails.
#[repr(C, align(64))]
pub struct AbortRecord {
    state: AtomicU32,
    code: AtomicU32,
    rank: AtomicU32,
    /// Rank it concerns plus 1, 0 for none.
    peer: AtomicU32,
    length: AtomicU32,
    text: [AtomicU64; TEXT_BYTES / 8],
}

const _: () = assert!(MODEL || size_of::<AbortRecord>() <= super::layout::ABORT_BYTES);

/// What an abort record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abort {
    /// Result code.
    pub code: u32,
    /// The rank that set it.
    pub rank: u32,
    /// The rank it concerns.
    pub peer: Option<u32>,
    /// What happened, for a person.
    pub text: String,
}

impl AbortRecord {
    /// Whether somebody has aborted: one load, cheap enough for every pass of a waiting loop.
    #[inline(always)]
    pub fn is_set(&self) -> bool {
        self.state.load(Ordering::Acquire) == SET
    }

    /// Sets the record unless another rank was first; says whether this one was.
    pub fn set(&self, abort: &Abort) -> bool {
        let won = self
            .state
            .compare_exchange(EMPTY, WRITING, Ordering::AcqRel, Ordering::Acquire)
            .is_ok();
        if !won {
            return false;
        }
        let mut end = abort.text.len().min(TEXT_BYTES);
        while !abort.text.is_char_boundary(end) {
            end -= 1;
        }
        for (word, bytes) in self.text.iter().zip(abort.text.as_bytes()[..end].chunks(8)) {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_le_bytes(padded), Ordering::Relaxed);
        }
        self.code.store(abort.code, Ordering::Relaxed);
        self.rank.store(abort.rank, Ordering::Relaxed);
        self.peer
            .store(abort.peer.map_or(0, |peer| peer + 1), Ordering::Relaxed);
        self.length.store(end as u32, Ordering::Relaxed);
        self.state.store(SET, Ordering::Release);
        true
    }

    /// What it says, once it is set.
    pub fn get(&self) -> Option<Abort> {
        if !self.is_set() {
            return None;
        }
        let length = (self.length.load(Ordering::Relaxed) as usize).min(TEXT_BYTES);
        let words = self.text.iter().take(length.div_ceil(8));
        let mut bytes: Vec<u8> = words
            .flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes())
            .collect();
        bytes.truncate(length);
        Some(Abort {
            code: self.code.load(Ordering::Relaxed),
            rank: self.rank.load(Ordering::Relaxed),
            peer: self.peer.load(Ordering::Relaxed).checked_sub(1),
            text: String::from_utf8_lossy(&bytes).into_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_board_remembers_the_last_calls() {
        // SAFETY: zero is a valid value of every field (they are atomics).
        let board: Box<Board> = unsafe { Box::new(std::mem::zeroed()) };
        assert_eq!(board.signature(1), None);
        for call in 1..=40 {
            board.begin(call, call * 10);
            assert_eq!(board.signature(call), Some(call * 10));
            assert_eq!(board.signature(call + 1), None);
        }
        assert_eq!(board.signature(28), Some(280));
        assert_eq!(board.signature(26), None, "forgotten");
    }

    #[test]
    fn the_first_abort_wins_and_is_read_whole() {
        // SAFETY: zero is a valid value of every field (they are atomics).
        let record: Box<AbortRecord> = unsafe { Box::new(std::mem::zeroed()) };
        assert_eq!(record.get(), None);
        let first = Abort {
            code: 6,
            rank: 3,
            peer: Some(0),
            text: "é".repeat(2000),
        };
        assert!(record.set(&first));
        assert!(!record.set(&Abort {
            rank: 4,
            ..first.clone()
        }));
        let read = record.get().unwrap();
        assert_eq!((read.code, read.rank, read.peer), (6, 3, Some(0)));
        assert_eq!(read.text, "é".repeat(1024), "cut at a character");
    }
}
