//! The board: what each rank is doing, in memory that all ranks of the node can read.
//!
//! **Problem.** On the fast path a rank stores words on a line of its own: how many collectives it
//! has begun, and the signature of the last. A rank that waits for long reads the others' boards
//! and can say who is late, and who called something else. A reader that sees one word of the new
//! call and one of the old would accuse a healthy job.
//!
//! **Idea.** A sequence lock (Boehm, "Can seqlocks get along with programming language memory
//! models?", 2012, doi 10.1145/2247684.2247688). The sequence is twice the number of calls begun,
//! and odd while the words of the next one are written: so it is count and lock in one word, and a
//! writer pays one store more than without. Every word is an atomic; the writer's release fence
//! stands behind the odd sequence, the reader's acquire fence before its second look at it.
//!
//! **Bound.** A reader tries a few times and then knows nothing: a writer may have been stopped
//! between its two stores, and to know nothing of a rank is what readers expect anyway.

use crate::base::sync::{AtomicU64, MODEL, Ordering, fence, spin_loop};
use std::time::Duration;

/// How many of a rank's last calls its board remembers.
const HISTORY: usize = if MODEL { 2 } else { 12 };

/// Words of a board, as it is told to other nodes.
pub const BOARD_WORDS: usize = 4 + HISTORY;
/// Behind the signatures.
const WAITED: usize = 2 + HISTORY;
const SENDS: usize = 3 + HISTORY;

/// Looks at a board that is being written, before a reader gives up.
const TRIES: usize = if MODEL { 2 } else { 64 };

const LEFT: u64 = 1;
const PANICKED: u64 = 2;
const ENDED: u64 = 4;
const GONE: u64 = 8;

/// The message for whose receive a rank waits in a call that only sends, in one word: to whom it
/// goes, and its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendNote(u64);

impl SendNote {
    /// No message.
    pub const NOTHING: SendNote = SendNote(0);
    /// Bits of the bytes; above them is the rank, counted from 1.
    const BYTES_BITS: u32 = 40;

    /// So many bytes to this rank. A terabyte stands for more, too.
    pub fn message(to: u32, bytes: usize) -> SendNote {
        let most = (1 << Self::BYTES_BITS) - 1;
        SendNote((u64::from(to) + 1) << Self::BYTES_BITS | (bytes as u64).min(most))
    }

    /// To whom it goes and its bytes, if there is one.
    pub fn get(self) -> Option<(u32, u64)> {
        let to = (self.0 >> Self::BYTES_BITS).checked_sub(1)?;
        Some((to as u32, self.0 & ((1 << Self::BYTES_BITS) - 1)))
    }
}

/// One rank's part of the board.
#[repr(C, align(128))]
pub struct Board {
    /// Twice the calls begun; odd while call number (sequence + 1) / 2 is written.
    sequence: AtomicU64,
    left: AtomicU64,
    signatures: [AtomicU64; HISTORY],
    /// Twice the microseconds that the rank's process has been in calls that block, plus one; 0
    /// where they are not counted.
    waited: AtomicU64,
    /// For which of its messages the rank waits, see [`SendNote`].
    sends: AtomicU64,
}

const _: () = assert!(MODEL || size_of::<Board>() == 128);

impl Default for Board {
    fn default() -> Self {
        Self::new()
    }
}

impl Board {
    /// A board in ordinary memory, for tests.
    pub fn new() -> Board {
        Board {
            sequence: AtomicU64::new(0),
            left: AtomicU64::new(0),
            signatures: std::array::from_fn(|_| AtomicU64::new(0)),
            waited: AtomicU64::new(0),
            sends: AtomicU64::new(0),
        }
    }

    /// Begins collective number `calls` (1-based) with this signature. One thread at a time.
    #[inline(always)]
    pub fn begin(&self, calls: u64, signature: u64) {
        self.open(calls);
        self.signatures[calls as usize % HISTORY].store(signature, Ordering::Relaxed);
        self.close(calls);
    }

    /// From here on words are written, up to those of call number `calls`.
    #[inline(always)]
    fn open(&self, calls: u64) {
        self.sequence.store(2 * calls - 1, Ordering::Relaxed);
        // Whoever sees a word that is stored below also sees that the sequence was odd.
        fence(Ordering::Release);
    }

    /// The words of `calls` calls are there.
    #[inline(always)]
    fn close(&self, calls: u64) {
        self.sequence.store(2 * calls, Ordering::Release);
    }

    /// Notes that this rank has let go of the communicator; `panicked`: as its thread panicked.
    pub fn leave(&self, panicked: bool) {
        let how = if panicked { LEFT | PANICKED } else { LEFT };
        self.left.fetch_or(how, Ordering::AcqRel);
    }

    /// Notes that the process of this rank exits with status 0 while nothing of it is in flight.
    pub fn end(&self) {
        self.left.fetch_or(ENDED, Ordering::AcqRel);
    }

    /// Whether the process of this rank exits, or has exited, with status 0 and nothing in flight.
    pub fn has_ended(&self) -> bool {
        self.left.load(Ordering::Acquire) & ENDED != 0
    }

    /// Notes that there is no process of this rank any more, which has ended so.
    pub fn vanish(&self) {
        self.left.fetch_or(GONE, Ordering::AcqRel);
    }

    /// Whether there is no process of this rank any more, which has ended so.
    pub fn has_vanished(&self) -> bool {
        self.left.load(Ordering::Acquire) & GONE != 0
    }

    /// Whether this rank has let go of the communicator in a panic.
    pub fn has_panicked(&self) -> bool {
        self.left.load(Ordering::Acquire) & PANICKED != 0
    }

    /// Whether this rank has let go of the communicator: destroyed or dropped it.
    pub fn has_left(&self) -> bool {
        self.left.load(Ordering::Acquire) & LEFT != 0
    }

    /// Calls `look` with the number of calls begun while nobody writes.
    fn undisturbed<T>(&self, mut look: impl FnMut(u64) -> T) -> Option<(T, u64)> {
        for _ in 0..TRIES {
            let before = self.sequence.load(Ordering::Acquire);
            if before.is_multiple_of(2) {
                let seen = look(before / 2);
                fence(Ordering::Acquire);
                let after = self.sequence.load(Ordering::Relaxed);
                if after == before {
                    return Some((seen, before / 2));
                }
            }
            spin_loop();
        }
        None
    }

    /// Copies the board, to be told to other nodes: all words are of one moment. The copy of a
    /// board that cannot be read says only whether its rank has left.
    pub fn copy(&self) -> [u64; BOARD_WORDS] {
        let look = |calls| {
            let mut words = [0; BOARD_WORDS];
            words[0] = calls;
            for (word, signature) in words[2..].iter_mut().zip(&self.signatures) {
                *word = signature.load(Ordering::Relaxed);
            }
            words
        };
        let (mut words, _) = self.undisturbed(look).unwrap_or(([0; BOARD_WORDS], 0));
        words[1] = self.left.load(Ordering::Acquire);
        words[WAITED] = self.waited.load(Ordering::Relaxed);
        words[SENDS] = self.sends.load(Ordering::Relaxed);
        words
    }

    /// Writes what the board of a rank of another node says, unless it says no more than is known.
    /// One thread at a time.
    pub fn put(&self, words: &[u64; BOARD_WORDS]) {
        let calls = words[0];
        if calls > self.calls() {
            self.open(calls);
            for (signature, word) in self.signatures.iter().zip(&words[2..]) {
                signature.store(*word, Ordering::Relaxed);
            }
            self.close(calls);
        }
        // Before it is told that the rank has left: then this is the last word.
        self.waited.fetch_max(words[WAITED], Ordering::Relaxed);
        self.sends.store(words[SENDS], Ordering::Relaxed);
        self.left.fetch_or(words[1], Ordering::AcqRel);
    }

    /// Notes how long the process of this rank has been in calls that block, so far.
    pub fn count_waited(&self, time: Duration) {
        let twice = (time.as_micros() as u64).saturating_mul(2);
        self.waited
            .store(twice.saturating_add(1), Ordering::Relaxed);
    }

    /// How long the process of this rank has been in calls that block, where that is counted.
    pub fn waited(&self) -> Option<Duration> {
        let word = self.waited.load(Ordering::Relaxed);
        (word != 0).then(|| Duration::from_micros(word / 2))
    }

    /// Notes for which of its messages this rank waits now. Relaxed: the word is all that is told.
    pub fn note_sends(&self, sends: SendNote) {
        self.sends.store(sends.0, Ordering::Relaxed);
    }

    /// For which of its messages this rank waits; of a rank of another node as it was last told.
    pub fn sends(&self) -> SendNote {
        SendNote(self.sends.load(Ordering::Relaxed))
    }

    /// How many collectives this rank has begun.
    pub fn calls(&self) -> u64 {
        self.sequence.load(Ordering::Acquire) / 2
    }

    /// The signature of this rank's collective number `call`, if it has begun it and has not gone
    /// on so far that it is forgotten.
    pub fn signature(&self, call: u64) -> Option<u64> {
        let entry = &self.signatures[call as usize % HISTORY];
        let (signature, calls) = self.undisturbed(|_| entry.load(Ordering::Relaxed))?;
        (calls >= call && calls < call + HISTORY as u64).then_some(signature)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_board_remembers_the_last_calls() {
        let board = Board::new();
        assert_eq!(board.signature(1), None);
        for call in 1..=40 {
            board.begin(call, call * 10);
            assert_eq!(board.signature(call), Some(call * 10));
            assert_eq!(board.signature(call + 1), None);
        }
        let oldest = 41 - HISTORY as u64;
        assert_eq!(board.signature(oldest), Some(oldest * 10));
        assert_eq!(board.signature(oldest - 1), None, "forgotten");
    }

    #[test]
    fn what_a_process_has_waited_is_told_to_other_nodes() {
        let (board, other) = (Board::new(), Board::new());
        assert_eq!(board.waited(), None);
        for micros in [0, 7, 900] {
            board.count_waited(Duration::from_micros(micros));
            other.put(&board.copy());
            assert_eq!(other.waited(), Some(Duration::from_micros(micros)));
        }
    }

    #[test]
    fn a_message_that_waits_is_told_and_taken_back() {
        let (board, other) = (Board::new(), Board::new());
        assert_eq!(board.sends().get(), None);
        let told = [
            (SendNote::message(0, 0), Some((0, 0))),
            (SendNote::message(3, 3_200_000), Some((3, 3_200_000))),
            (SendNote::NOTHING, None),
            (SendNote::message(1 << 20, 8), Some((1 << 20, 8))),
            (SendNote::message(5, usize::MAX), Some((5, (1 << 40) - 1))),
        ];
        for (sends, wanted) in told {
            board.note_sends(sends);
            other.put(&board.copy());
            assert_eq!([&board, &other].map(|it| it.sends().get()), [wanted; 2]);
        }
    }

    #[test]
    fn a_board_that_is_being_written_says_nothing_of_the_call() {
        let (board, other) = (Board::new(), Board::new());
        board.begin(1, 10);
        board.open(2);
        assert!(!board.has_panicked());
        board.leave(true);
        assert_eq!(board.calls(), 1, "a call counts when it is there");
        assert_eq!((board.signature(1), board.signature(2)), (None, None));
        other.begin(1, 10);
        other.put(&board.copy());
        assert!(other.has_left() && other.has_panicked());
        assert_eq!(other.signature(1), Some(10), "what was known stays known");
        board.signatures[2].store(20, Ordering::Relaxed);
        board.close(2);
        other.put(&board.copy());
        assert_eq!(
            (other.signature(1), other.signature(2)),
            (Some(10), Some(20))
        );
    }

    #[test]
    fn an_end_is_told_and_is_no_leave() {
        let (board, other) = (Board::new(), Board::new());
        board.end();
        other.put(&board.copy());
        assert!(other.has_ended() && !other.has_left() && !other.has_vanished());
        board.vanish();
        other.put(&board.copy());
        assert!(other.has_ended() && other.has_vanished());
    }

    #[test]
    fn what_is_told_may_skip_any_number_of_calls() {
        let (board, other) = (Board::new(), Board::new());
        for call in 1..=100 {
            board.begin(call, call * 10);
            if call % 33 == 0 {
                other.put(&board.copy());
                let known = |call: u64| (call > 0).then_some(call * 10);
                let history = HISTORY as u64;
                for back in 0..history {
                    assert_eq!(other.signature(call - back), known(call - back));
                }
                assert_eq!(other.signature(call - history), None);
            }
        }
    }
}
