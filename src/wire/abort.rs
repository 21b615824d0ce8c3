//! Why a communicator stopped: the first rank that fails tells all others.
//!
//! **Problem.** Words of a reason take a moment to write, and the process that writes them may be
//! killed or stopped meanwhile, or several ranks may fail at once. The others must learn of an
//! abort nevertheless, whole and for good.
//!
//! **Idea.** A rank that has a reason claims a place, writes its words there, and then makes the
//! record point to the place, if no other rank was first. If a writer dies in between, only its
//! place is lost. If it was stopped and goes on later, it finds that another reason counts. When no
//! place is left, the record itself says which rank stopped, without words, until a rank that has a
//! place brings some.

use crate::base::sync::{AtomicU32, AtomicU64, MODEL, Ordering};

/// Longest message in an abort record, in bytes.
const TEXT_BYTES: usize = if MODEL { 8 } else { 2048 };
/// Places for reasons.
const PLACES: usize = if MODEL { 2 } else { 7 };

/// Nobody has aborted. Every other value of the low byte is the number of a place plus 1, or
/// [`BARE`].
const EMPTY: u64 = 0;
/// An abort without words: the rest of the state is code and rank.
const BARE: u64 = 0xff;
const KIND_BITS: u32 = 8;
const RANK_BITS: u32 = 32;

/// The words of one rank.
#[repr(C)]
struct Words {
    code: AtomicU32,
    rank: AtomicU32,
    /// Rank it concerns plus 1, 0 for none.
    peer: AtomicU32,
    length: AtomicU32,
    text: [AtomicU64; TEXT_BYTES / 8],
}

/// Why the communicator stopped: written once, by the first rank that fails.
#[repr(C, align(64))]
pub struct AbortRecord {
    state: AtomicU64,
    /// Places that were claimed, or more.
    claims: AtomicU32,
    places: [Words; PLACES],
}

const _: () = assert!(MODEL || size_of::<AbortRecord>() <= super::layout::ARMED_OFFSET);

/// Contents of an abort record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abort {
    /// Result code.
    pub code: u32,
    /// The rank that set it.
    pub rank: u32,
    /// The rank it concerns.
    pub peer: Option<u32>,
    /// Sentence for a person that says what happened.
    pub text: String,
}

/// A place for the words of an abort. If it is dropped, nobody hears them.
pub struct Claim<'a> {
    record: &'a AbortRecord,
    place: Option<usize>,
}

impl Default for AbortRecord {
    fn default() -> Self {
        Self::new()
    }
}

impl AbortRecord {
    /// A record in ordinary memory, for tests.
    pub fn new() -> AbortRecord {
        let words = |_| Words {
            code: AtomicU32::new(0),
            rank: AtomicU32::new(0),
            peer: AtomicU32::new(0),
            length: AtomicU32::new(0),
            text: std::array::from_fn(|_| AtomicU64::new(0)),
        };
        AbortRecord {
            state: AtomicU64::new(EMPTY),
            claims: AtomicU32::new(0),
            places: std::array::from_fn(words),
        }
    }

    /// Whether somebody has aborted: one load, cheap enough for every pass of a waiting loop.
    #[inline(always)]
    pub fn is_set(&self) -> bool {
        self.state.load(Ordering::Acquire) != EMPTY
    }

    /// Sets the record unless another rank was first; says whether this one was. Afterwards it is
    /// set in any case.
    pub fn set(&self, abort: &Abort) -> bool {
        !self.is_set() && self.claim().publish(abort)
    }

    /// A place for words, if one is left.
    pub fn claim(&self) -> Claim<'_> {
        let number = self.claims.fetch_add(1, Ordering::Relaxed) as usize;
        // Claims may be as many as ranks that fail at once: the count does not come around.
        let place = (number < PLACES).then_some(number);
        Claim {
            record: self,
            place,
        }
    }

    /// Makes the state `wanted` if it is one of those that give way; whether it was.
    fn replace(&self, wanted: u64, gives_way: impl Fn(u64) -> bool) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        while gives_way(state) {
            // Release: the words were written before. A failure needs no order, as nothing is read.
            let (old, new) = (Ordering::Release, Ordering::Relaxed);
            match self.state.compare_exchange(state, wanted, old, new) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    /// Returns the contents, once the record is set.
    pub fn get(&self) -> Option<Abort> {
        let state = self.state.load(Ordering::Acquire);
        let kind = state & ((1 << KIND_BITS) - 1);
        if state == EMPTY {
            return None;
        }
        match self.places.get((kind as usize).wrapping_sub(1)) {
            Some(words) => Some(words.read()),
            None => Some(Abort {
                code: (state >> (KIND_BITS + RANK_BITS)) as u32,
                rank: (state >> KIND_BITS) as u32,
                peer: None,
                text: "it had no time to say why".into(),
            }),
        }
    }
}

impl Claim<'_> {
    /// Says why, unless another rank was first; whether this one was.
    pub fn publish(self, abort: &Abort) -> bool {
        let Some(place) = self.place else {
            let code = u64::from(abort.code) << (KIND_BITS + RANK_BITS);
            let bare = BARE | u64::from(abort.rank) << KIND_BITS | code;
            return self.record.replace(bare, |state| state == EMPTY);
        };
        self.record.places[place].write(abort);
        let gives_way = |state| state == EMPTY || state & BARE == BARE;
        self.record.replace(place as u64 + 1, gives_way)
    }
}

impl Words {
    fn write(&self, abort: &Abort) {
        let mut end = abort.text.len().min(TEXT_BYTES);
        while !abort.text.is_char_boundary(end) {
            end -= 1;
        }
        for (word, bytes) in self.text.iter().zip(abort.text.as_bytes()[..end].chunks(8)) {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_le_bytes(padded), Ordering::Relaxed);
        }
        let peer = abort.peer.map_or(0, |peer| peer + 1);
        self.code.store(abort.code, Ordering::Relaxed);
        self.rank.store(abort.rank, Ordering::Relaxed);
        self.peer.store(peer, Ordering::Relaxed);
        self.length.store(end as u32, Ordering::Relaxed);
    }

    fn read(&self) -> Abort {
        let length = (self.length.load(Ordering::Relaxed) as usize).min(TEXT_BYTES);
        let words = self.text.iter().take(length.div_ceil(8));
        let mut bytes: Vec<u8> = words
            .flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes())
            .collect();
        bytes.truncate(length);
        Abort {
            code: self.code.load(Ordering::Relaxed),
            rank: self.rank.load(Ordering::Relaxed),
            peer: self.peer.load(Ordering::Relaxed).checked_sub(1),
            text: String::from_utf8_lossy(&bytes).into_owned(),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn abort(rank: u32, text: &str) -> Abort {
        Abort {
            code: 6,
            rank,
            peer: Some(0),
            text: text.into(),
        }
    }

    #[test]
    fn the_first_abort_wins_and_is_read_whole() {
        let record = AbortRecord::new();
        assert_eq!(record.get(), None);
        assert!(record.set(&abort(3, &"é".repeat(2000))));
        assert!(!record.set(&abort(4, "later")));
        let read = record.get().unwrap();
        assert_eq!((read.code, read.rank, read.peer), (6, 3, Some(0)));
        assert_eq!(read.text, "é".repeat(1024), "cut at a character");
    }

    #[test]
    fn a_writer_that_was_killed_or_stopped_keeps_nobody_from_aborting() {
        let record = AbortRecord::new();
        let stopped = record.claim();
        record.places[0].write(&abort(1, "half a rea"));
        assert_eq!(record.get(), None);
        assert!(record.set(&abort(2, "rank 1 died")));
        assert_eq!(record.get(), Some(abort(2, "rank 1 died")));
        assert!(
            !stopped.publish(&abort(1, "half a reason")),
            "it comes back late"
        );
        assert_eq!(record.get(), Some(abort(2, "rank 1 died")));
    }

    #[test]
    fn more_stopped_writers_than_places_still_leave_word_of_the_abort() {
        let record = AbortRecord::new();
        let mut stopped: Vec<Claim<'_>> = (0..PLACES).map(|_| record.claim()).collect();
        assert!(record.set(&abort(70_000, "lost")));
        let read = record.get().unwrap();
        assert_eq!((read.code, read.rank, read.peer), (6, 70_000, None));
        assert!(!record.set(&abort(5, "lost")));
        assert!(
            stopped.remove(3).publish(&abort(3, "words")),
            "words replace none"
        );
        assert!(!stopped.remove(3).publish(&abort(4, "other words")));
        assert_eq!(record.get(), Some(abort(3, "words")));
    }
}
