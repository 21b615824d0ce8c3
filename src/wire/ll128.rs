//! LL128: lines of 128 bytes, 120 of payload and a flag of 8; see [`super::ll`].
//!
//! What is guaranteed: words of 8 bytes are stored and loaded at once, and a store with release
//! makes all stores before it visible to whoever loads it with acquire. So the flag of a line says
//! that its 15 words of payload are there, whatever the hardware did with the line on its way: it
//! need not move as one. (GPUs get there by storing the line as one; hosts cannot.) A reader takes
//! the first lines while the writer is still at the last.

use super::ll::{Encoding, SLOT_WORDS, Taken};
use crate::base::sync::{AtomicU64, Ordering};

/// Flags are whole words and are never used twice.
pub struct Ll128;

/// Words of a line; the last one is the flag.
const LINE_WORDS: usize = 16;
const PAYLOAD_WORDS: usize = LINE_WORDS - 1;

impl Encoding for Ll128 {
    const CAPACITY: usize = (SLOT_WORDS / LINE_WORDS * PAYLOAD_WORDS * 8 - 8) / 64 * 64;
    const WIPE_EVERY: u64 = 0;

    #[inline]
    fn write(words: &[AtomicU64], payload: &[u64], signature: u64, position: u64) -> usize {
        let token = [signature];
        let mut rest = payload;
        let mut head = &token[..];
        let mut lines = 0;
        for line in words.chunks_exact(LINE_WORDS) {
            let (now, later) = rest.split_at(rest.len().min(PAYLOAD_WORDS - head.len()));
            for (word, &value) in line.iter().zip(head.iter().chain(now)) {
                word.store(value, Ordering::Relaxed);
            }
            // Release: whoever sees the flag sees the payload of its line.
            line[PAYLOAD_WORDS].store(position + 1, Ordering::Release);
            lines += 1;
            (rest, head) = (later, &[]);
            if rest.is_empty() {
                break;
            }
        }
        lines * LINE_WORDS
    }

    fn words(bytes: usize) -> usize {
        (1 + bytes.div_ceil(8)).div_ceil(PAYLOAD_WORDS) * LINE_WORDS
    }

    fn payload(words: usize) -> usize {
        (words / LINE_WORDS * PAYLOAD_WORDS).saturating_sub(1) * 8
    }

    #[inline]
    fn read(words: &[AtomicU64], payload: &mut [u64], position: u64, taken: &mut Taken) {
        let lines = (1 + payload.len()).div_ceil(PAYLOAD_WORDS);
        let rest = words.chunks_exact(LINE_WORDS).take(lines).skip(taken.parts);
        for line in rest {
            // Acquire: pairs with the release of the flag.
            if line[PAYLOAD_WORDS].load(Ordering::Acquire) != position + 1 {
                return;
            }
            let mut from = line[..PAYLOAD_WORDS].iter();
            let first = match taken.parts {
                0 => {
                    taken.signature = from.next().map_or(0, |word| word.load(Ordering::Relaxed));
                    taken.has_signature = true;
                    0
                }
                part => part * PAYLOAD_WORDS - 1,
            };
            for (to, word) in payload[first..].iter_mut().zip(from) {
                *to = word.load(Ordering::Relaxed);
            }
            taken.parts += 1;
        }
        taken.is_whole = true;
    }
}

#[cfg(test)]
mod tests {
    use super::super::ll::{LinesMemory, LinesReceiver, LinesSender, Ll};
    use super::*;
    use crate::wire::line::{Credit, LINES};

    /// Memory of a connection that lives as long as the test.
    fn memory() -> (LinesMemory, &'static [AtomicU64]) {
        let words = (0..LINES * SLOT_WORDS).map(|_| AtomicU64::new(0));
        let words: &'static [AtomicU64] = Vec::leak(words.collect());
        let credit: &'static Credit = Box::leak(Box::new(Credit::new()));
        // SAFETY: both live for ever.
        (unsafe { LinesMemory::new(credit, words.as_ptr()) }, words)
    }

    fn send<E: Encoding>(sender: &mut LinesSender<E>, slots: u32, payload: &[u8]) {
        let place = sender.place(payload.len());
        // SAFETY: the place holds the payload.
        unsafe { place.copy_from_nonoverlapping(payload.as_ptr(), payload.len()) };
        sender.publish(slots, payload.len(), 7);
    }

    fn taken<E: Encoding>(receiver: &mut LinesReceiver<E>, bytes: usize, ahead: u32) -> Vec<u8> {
        assert!(receiver.ready(bytes, 7, ahead));
        // SAFETY: the token is there and holds `bytes`.
        unsafe { std::slice::from_raw_parts(receiver.place(ahead), bytes) }.to_vec()
    }

    fn sizes_pass<E: Encoding>(first: u64) {
        let (memory, _) = memory();
        let mut sender: LinesSender<E> = LinesSender::starting_at(memory, first);
        let mut receiver: LinesReceiver<E> = LinesReceiver::starting_at(memory, first);
        let most = 2 * E::CAPACITY;
        let sizes = [
            0,
            1,
            7,
            8,
            9,
            111,
            112,
            113,
            120,
            121,
            4000,
            E::CAPACITY,
            most,
            3,
        ];
        for (number, &bytes) in sizes.iter().cycle().take(3 * sizes.len()).enumerate() {
            sender.begin(2);
            receiver.begin(2);
            let payload: Vec<u8> = (0..bytes).map(|at| (at * 31 + number) as u8).collect();
            assert!(
                !receiver.ready(bytes, 7, 0),
                "{bytes} bytes before they were sent"
            );
            assert!(sender.ready(2), "everything was given back");
            send(&mut sender, 2, &payload);
            assert!(taken(&mut receiver, bytes, 0) == payload, "{bytes} bytes");
            receiver.release(2);
        }
    }

    #[test]
    fn every_size_passes() {
        sizes_pass::<Ll>(0);
        sizes_pass::<Ll128>(0);
    }

    /// Flags of LL begin anew after 2^32 - 1 slots, and are wiped out before.
    #[test]
    fn flags_that_begin_anew() {
        for first in [1 << 30, 2 << 30, u64::from(u32::MAX), 1 << 32, 7 << 40] {
            for before in [0, 2, 16] {
                sizes_pass::<Ll>(first / 8 * 8 - before);
                sizes_pass::<Ll128>(first / 8 * 8 - before);
            }
        }
    }

    #[test]
    fn what_an_old_token_left_is_wiped_out() {
        let (memory, words) = memory();
        let first = (1 << 30) - 8;
        let mut sender: LinesSender<Ll> = LinesSender::starting_at(memory, first);
        let mut receiver: LinesReceiver<Ll> = LinesReceiver::starting_at(memory, first);
        for _ in 0..8 {
            assert!(sender.ready(1));
            send(&mut sender, 1, &[1; 1000]);
        }
        for slot in 0..8 {
            assert!(!sender.ready(1), "the reader has taken {slot} tokens");
            taken(&mut receiver, 1000, 0);
            receiver.release(1);
        }
        assert!(sender.ready(1));
        assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == 0));
        send(&mut sender, 1, &[2; 100]);
        assert_eq!(taken(&mut receiver, 100, 0), [2; 100]);
    }

    #[test]
    fn tokens_ahead_are_kept() {
        let (memory, _) = memory();
        let mut sender: LinesSender<Ll128> = LinesSender::new(memory);
        let mut receiver: LinesReceiver<Ll128> = LinesReceiver::new(memory);
        send(&mut sender, 1, &[1; 500]);
        send(&mut sender, 1, &[2; 300]);
        assert!(sender.ready(6) && !sender.ready(7));
        for _ in 0..2 {
            assert_eq!(taken(&mut receiver, 300, 1), [2; 300]);
            assert_eq!(taken(&mut receiver, 500, 0), [1; 500]);
        }
        receiver.release(1);
        assert_eq!(taken(&mut receiver, 300, 0), [2; 300]);
    }

    /// A reader that waits for more than will ever come hears of it by the signature.
    #[test]
    fn another_call_shows_at_once() {
        let (memory, _) = memory();
        let mut sender: LinesSender<Ll> = LinesSender::new(memory);
        let mut receiver: LinesReceiver<Ll> = LinesReceiver::new(memory);
        send(&mut sender, 1, &[1; 8]);
        assert!(!receiver.ready(800, 7, 0));
        assert!(receiver.ready(800, 6, 0));
        assert_eq!(receiver.arrival(0).signature, 7);
    }
}
