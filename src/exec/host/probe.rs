//! Measures how long it takes to hand data over on this machine, by either kind of store.
//!
//! **Problem.** A slot that its writer leaves in a cache is cheap to read where reader and writer
//! share that cache, and dear where they do not: then it is better written past the cache. Which
//! holds depends on the processor, and no table of processors is complete.
//!
//! **Idea.** Two threads hand tokens over as two ranks would: the same copies, eight slots in turn,
//! one token on its way. Passes with either kind of store take turns, and the first of each turn
//! is not counted: there the slots still are where the other kind has left them. Of all times one
//! of the lowest counts (at an eighth), so that being interrupted often changes nothing.

use crate::base::own_thread;
use crate::base::sync::{AtomicBool, AtomicU64, Ordering};
use crate::base::{Result, clock};
use crate::dtype::{self, FoldParams};
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

/// The longest that a probe takes, but for the wait of its threads for a core: what does not come
/// about by then is not known.
pub const LIMIT: Duration = Duration::from_millis(5);

/// Slots of the area, each of the largest size.
const SLOTS: usize = 8;
/// Bytes of a slot.
const SLOT_BYTES: usize = 128 << 10;
/// Sizes that are handed over: bytes of a token, tokens of a pass.
const SIZES: [(usize, usize); 2] = [(32 << 10, SLOTS), (SLOT_BYTES, SLOTS / 2)];
/// How often both kinds have their turn.
const TURNS: usize = 3;

/// Puts one of the two threads, 0 or 1, where it shall run.
pub type Place = Arc<dyn Fn(usize) -> Result<()> + Send + Sync>;

/// Nanoseconds that 256 KiB take from buffer to buffer, half of them in small tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandOver {
    /// Written in the ordinary way.
    pub cached: u64,
    /// Written past the cache.
    pub streamed: u64,
}

/// One token of the schedule that both threads follow.
#[derive(Clone, Copy)]
struct Token {
    bytes: usize,
    size: usize,
    slot: usize,
    streamed: bool,
    counted: bool,
}

fn schedule() -> impl Iterator<Item = Token> {
    (0..SIZES.len()).flat_map(|size| {
        let passes = (0..TURNS * 4).map(|pass| (pass % 4 >= 2, pass % 2 == 1));
        passes.flat_map(move |(streamed, counted)| {
            let (bytes, tokens) = SIZES[size];
            (0..tokens).map(move |slot| Token {
                bytes,
                size,
                slot,
                streamed,
                counted,
            })
        })
    })
}

/// A count on cache lines of its own: neighbours of a line are fetched with it.
#[repr(align(128))]
#[derive(Default)]
struct Count(AtomicU64);

/// Memory that the two threads share.
struct ProbeSlots {
    /// Atomic, because both threads have it; they take turns with its bytes.
    slots: Vec<AtomicU64>,
    written: Count,
    taken: Count,
    given_up: AtomicBool,
    started: clock::Moment,
    limit: Duration,
}

impl ProbeSlots {
    fn slot(&self, token: Token) -> *mut u8 {
        let start = self.slots.as_ptr().cast::<u8>().cast_mut();
        start.wrapping_add(token.slot * SLOT_BYTES)
    }

    /// Waits until `count` has come to `wanted`; whether it has, in time.
    fn wait(&self, count: &Count, wanted: u64) -> bool {
        /// Polls between looks at the clock.
        const POLLS: u32 = 256;
        loop {
            for _ in 0..POLLS {
                if count.0.load(Ordering::Acquire) >= wanted {
                    return true;
                }
                std::hint::spin_loop();
            }
            if self.given_up.load(Ordering::Relaxed) || self.started.past(self.limit) {
                self.given_up.store(true, Ordering::Relaxed);
                return false;
            }
        }
    }

    /// Copies between a buffer and a slot.
    ///
    /// # Safety
    /// Both have the token's bytes, and nobody else touches the destination.
    unsafe fn copy(from: *const u8, to: *mut u8, token: Token, streamed: bool) {
        let params = FoldParams {
            stream_mask: u64::from(streamed),
            ..FoldParams::default()
        };
        // SAFETY: our caller's promise; buffer and slot are different memory.
        unsafe { dtype::copy()(&[from], &[to], token.bytes, &params) };
    }

    /// The writer's part: the nanoseconds of each counted token, by size and kind.
    fn write(&self) -> Option<[[Vec<u64>; 2]; 2]> {
        let mine = vec![1u64; SLOT_BYTES / 8];
        let mut times: [[Vec<u64>; 2]; 2] = Default::default();
        for (token, number) in schedule().zip(1..) {
            let start = clock::now();
            // SAFETY: both hold `SLOT_BYTES`; the reader has taken all tokens before this one.
            unsafe {
                ProbeSlots::copy(
                    mine.as_ptr().cast(),
                    self.slot(token),
                    token,
                    token.streamed,
                )
            };
            self.written.0.store(number, Ordering::Release);
            if !self.wait(&self.taken, number) {
                return None;
            }
            if token.counted {
                let passed = u64::try_from(start.elapsed().as_nanos()).ok()?;
                times[token.size][usize::from(token.streamed)].push(passed);
            }
        }
        Some(times)
    }

    /// The reader's part.
    fn read(&self) {
        let mut mine = vec![0u64; SLOT_BYTES / 8];
        for (token, number) in schedule().zip(1..) {
            if !self.wait(&self.written, number) {
                return;
            }
            // SAFETY: both hold `SLOT_BYTES`, and the writer waits until the token is taken.
            unsafe { ProbeSlots::copy(self.slot(token), mine.as_mut_ptr().cast(), token, false) };
            self.taken.0.store(number, Ordering::Release);
        }
    }
}

/// Measures between two threads that `place` puts to their places, within `limit`; `None` where
/// that was not long enough, or the threads cannot be put there.
pub fn measure(place: &Place, limit: Duration) -> Option<HandOver> {
    let link = Arc::new(ProbeSlots {
        slots: std::iter::repeat_with(|| AtomicU64::new(0))
            .take(SLOTS * SLOT_BYTES / 8)
            .collect(),
        written: Count::default(),
        taken: Count::default(),
        given_up: AtomicBool::new(false),
        started: clock::now(),
        limit,
    });
    let start = |side: usize| {
        let (mine, place) = (Arc::clone(&link), Arc::clone(place));
        let builder = Builder::new().name("kolo-probe".into());
        let run = move || match (place(side), side) {
            (Ok(()), 0) => mine.write(),
            (Ok(()), _) => {
                mine.read();
                None
            }
            (Err(_), _) => {
                mine.given_up.store(true, Ordering::Relaxed);
                None
            }
        };
        let started = own_thread::start(builder, run);
        if started.is_err() {
            link.given_up.store(true, Ordering::Relaxed);
        }
        started
    };
    // Whoever makes a communicator finds none of its threads afterwards.
    let threads = [0, 1].map(start);
    let [times, _] = threads.map(|thread| thread.ok()?.join().ok());
    summary(times??)
}

/// Adds up the times that count: of each size, one of the lowest.
fn summary(times: [[Vec<u64>; 2]; 2]) -> Option<HandOver> {
    let mut sums = [0; 2];
    for (mut of_size, (bytes, _)) in times.into_iter().zip(SIZES) {
        for (times, sum) in of_size.iter_mut().zip(&mut sums) {
            times.sort_unstable();
            *sum += times.get(times.len() / 8)? * (SLOT_BYTES / bytes) as u64;
        }
    }
    let [cached, streamed] = sums;
    Some(HandOver { cached, streamed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Error;

    #[test]
    fn times_are_measured_and_limits_kept() {
        let anywhere: Place = Arc::new(|_| Ok(()));
        let long = Duration::from_secs(60);
        let found = measure(&anywhere, long).expect("a minute is enough");
        assert!(found.cached > 0 && found.streamed > 0, "{found:?}");
        assert_eq!(measure(&anywhere, Duration::ZERO), None);
        let nowhere: Place = Arc::new(|side| match side {
            0 => Ok(()),
            _ => Err(Error::internal("no such processor")),
        });
        assert_eq!(measure(&nowhere, long), None);
    }

    #[test]
    fn both_kinds_are_counted_alike() {
        let mut counted = [[0; 2]; 2];
        for token in schedule().filter(|token| token.counted) {
            counted[token.size][usize::from(token.streamed)] += 1;
        }
        let of = |tokens| [TURNS * tokens; 2];
        assert_eq!(counted, SIZES.map(|(_, tokens)| of(tokens)));
    }

    #[test]
    fn interruptions_do_not_count() {
        let small = vec![10, 9_000, 10, 10, 11];
        let large = vec![35, 30, 70_000, 31];
        let times = [
            [small.clone(), small.iter().map(|time| 2 * time).collect()],
            [large.clone(), large.iter().map(|time| 2 * time).collect()],
        ];
        let HandOver { cached, streamed } = summary(times).unwrap();
        assert_eq!((cached, streamed), (4 * 10 + 30, 2 * (4 * 10 + 30)));
    }
}
