//! The hand-over of lines and slots under every interleaving and every weak
//! ordering that loom knows. The package in this folder builds `base` and `wire` with loom's
//! atomics.
//!
//! Loom reports a data race when payload is read or written while the other side may touch it, so
//! a stale flag, an early credit or a missing release is an error here even on x86.

use kolo_loom::base::sync::{AtomicU64, Ordering, Shared};
use kolo_loom::wire::cast::{CastHeader, CastMemory, CastReceiver, CastSender};
use kolo_loom::wire::fan::{FanHeader, FanMemory, Fans};
use kolo_loom::wire::line::{Credit, INLINE_BYTES, PairHeader};
use kolo_loom::wire::ll::{Encoding, LinesMemory, LinesReceiver, LinesSender, Ll, SLOT_WORDS};
use kolo_loom::wire::ll128::Ll128;
use kolo_loom::wire::pair::{PairMemory, PairReceiver, PairSender};
use loom::sync::Arc;
use loom::thread;

/// Slots of four bytes each, tracked by loom: the payload that the lines publish.
struct Slots([Shared<u32>; 8]);

impl Slots {
    fn new() -> Slots {
        Slots(std::array::from_fn(|_| Shared::new(0)))
    }

    fn write(&self, index: u64, value: u32) {
        // SAFETY: the writer holds the credit of this slot; loom checks that nobody else looks.
        self.0[index as usize % 8].write(|place| unsafe { *place = value });
    }

    fn read(&self, index: u64) -> u32 {
        // SAFETY: the token of this slot has arrived; loom checks that nobody writes.
        self.0[index as usize % 8].read(|place| unsafe { *place })
    }
}

struct Pair {
    header: PairHeader,
    slots: Slots,
}

fn pair_memory(pair: &Pair) -> PairMemory {
    // SAFETY: the header lives in an `Arc` that both threads hold; payload goes through `Slots`.
    unsafe { PairMemory::new(&raw const pair.header, std::ptr::null_mut(), 0) }
}

/// Passes `tokens` tokens of `slots` slots through a pair connection.
fn pass(tokens: u32, slots: u32) {
    let pair = Arc::new(Pair {
        header: PairHeader::new(),
        slots: Slots::new(),
    });
    let writer = {
        let pair = Arc::clone(&pair);
        thread::spawn(move || {
            let mut sender = PairSender::new(pair_memory(&pair));
            for token in 0..tokens {
                while !sender.ready(slots) {
                    thread::yield_now();
                }
                pair.slots.write(sender.position(), 100 + token);
                sender.publish(slots, 4096 + token as usize, u64::from(token));
            }
        })
    };
    let mut receiver = PairReceiver::new(pair_memory(&pair));
    for token in 0..tokens {
        while !receiver.ready(0) {
            thread::yield_now();
        }
        let arrival = receiver.arrival(0);
        assert_eq!(arrival.signature, u64::from(token));
        assert_eq!(
            arrival.ack,
            4096 + u64::from(token),
            "a slot says how many bytes it holds"
        );
        assert_eq!(pair.slots.read(receiver.position()), 100 + token);
        receiver.release(slots);
    }
    writer.join().unwrap();
}

fn model(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(body);
}

#[test]
fn pair_hands_over_and_takes_back() {
    // Three tokens of four slots: the third one needs the credit of the first.
    model(|| pass(3, 4));
}

#[test]
fn pair_of_single_slots() {
    model(|| pass(2, 1));
}

/// Tokens whose payload lies in the small place beside its line: the third one needs the place of
/// the first again. Loom sees each place when it is asked for.
fn pass_small(ready: fn(&mut PairSender) -> bool) {
    const BYTES: usize = INLINE_BYTES + 1;
    let pair = Arc::new(Pair {
        header: PairHeader::new(),
        slots: Slots::new(),
    });
    let writer = {
        let pair = Arc::clone(&pair);
        thread::spawn(move || {
            let mut sender = PairSender::new(pair_memory(&pair));
            for token in 0..3 {
                sender.begin(4);
                while !ready(&mut sender) {
                    thread::yield_now();
                }
                // SAFETY: the place holds so many bytes, and its credit is here.
                unsafe { sender.place(BYTES).write_bytes(token, BYTES) };
                sender.publish(1, BYTES, 7);
            }
        })
    };
    let mut receiver = PairReceiver::new(pair_memory(&pair));
    for token in 0..3 {
        receiver.begin(4);
        while !receiver.ready(0) {
            thread::yield_now();
        }
        // SAFETY: the token is there with so many bytes.
        let payload = unsafe { std::slice::from_raw_parts(receiver.place(BYTES, 0), BYTES) };
        assert!(payload.iter().all(|&byte| byte == token), "{payload:?}");
        receiver.release(1);
    }
    writer.join().unwrap();
}

#[test]
fn small_places_change_hands_with_their_lines() {
    model(|| pass_small(PairSender::ready_small));
    model(|| pass_small(|sender| sender.ready(1)));
}

/// Bytes of each of the two parts in which a token grows.
const PART: usize = 16;

/// Takes a token that grows, one part after the other, as each is there.
fn take_parts(slots: &Slots, written: impl Fn() -> usize) {
    for part in 0..2 {
        while written() < (part + 1) * PART {
            thread::yield_now();
        }
        assert_eq!(slots.read(part as u64), 100 + part as u32);
    }
}

/// Writes one, and says after each part that it is there.
fn write_parts(slots: &Slots, mut publish: impl FnMut(std::ops::Range<usize>)) {
    for part in 0..2 {
        slots.write(part as u64, 100 + part as u32);
        publish(part * PART..(part + 1) * PART);
    }
}

#[test]
fn parts_of_a_token_are_read_while_it_grows() {
    model(|| {
        let pair = Arc::new(Pair {
            header: PairHeader::new(),
            slots: Slots::new(),
        });
        let writer = {
            let pair = Arc::clone(&pair);
            thread::spawn(move || {
                let mut sender = PairSender::new(pair_memory(&pair));
                write_parts(&pair.slots, |part| sender.publish_part(part, 2 * PART, 7));
            })
        };
        let mut receiver = PairReceiver::new(pair_memory(&pair));
        take_parts(&pair.slots, || receiver.written());
        assert!(receiver.ready(0), "the last part makes it whole");
        let arrival = receiver.arrival(0);
        assert_eq!((arrival.signature, arrival.ack), (7, 2 * PART as u64));
        receiver.release(1);
        writer.join().unwrap();
    });
}

#[test]
fn who_looks_at_no_parts_waits_until_a_token_is_whole() {
    model(|| {
        let cast = Cast::new();
        let reader = read_by_two(&cast, |slots, receivers| {
            // This one takes it at once.
            while !receivers[1].ready(0) {
                thread::yield_now();
            }
            assert_eq!([0, 1].map(|part| slots.read(part)), [100, 101]);
            take_parts(slots, || receivers[0].written());
            for receiver in receivers {
                receiver.release(1);
            }
        });
        let mut sender = CastSender::new(cast.memory(), 0, 1);
        assert!(sender.read_by(0..3));
        assert!(sender.ready(1));
        write_parts(&cast.slots, |part| sender.publish_part(part, 2 * PART, 7));
        reader.join().unwrap();
        assert!(sender.drained());
    });
}

struct Cast {
    header: CastHeader,
    /// Those of three ranks, and of one that is in no group with them.
    credits: [Credit; 4],
    slots: Slots,
}

impl Cast {
    fn new() -> Arc<Cast> {
        Arc::new(Cast {
            header: CastHeader::new(),
            credits: std::array::from_fn(|_| Credit::new()),
            slots: Slots::new(),
        })
    }

    fn memory(&self) -> CastMemory {
        let credits = (self.credits.as_ptr(), self.credits.len());
        // SAFETY: all of it lives in an `Arc` that all threads hold; payload goes through `Slots`.
        unsafe { CastMemory::new(&raw const self.header, credits, std::ptr::null_mut(), 0) }
    }
}

/// A thread that reads a cast for two ranks, the later one first.
fn read_by_two(
    cast: &Arc<Cast>,
    read: impl FnOnce(&Slots, &mut [CastReceiver; 2]) + 'static,
) -> thread::JoinHandle<()> {
    let cast = Arc::clone(cast);
    thread::spawn(move || {
        let mut receivers = [2, 1].map(|me| CastReceiver::new(cast.memory(), me));
        read(&cast.slots, &mut receivers);
    })
}

/// Takes `tokens` tokens of four slots, if they are there.
fn take_if_there(cast: &Cast, me: usize, tokens: u32) {
    let mut receiver = CastReceiver::new(cast.memory(), me);
    for token in 0..tokens {
        if !receiver.ready(0) {
            return;
        }
        assert_eq!(receiver.arrival(0).signature, u64::from(token));
        assert_eq!(cast.slots.read(receiver.position()), 100 + token);
        receiver.release(4);
    }
}

#[test]
fn a_cast_waits_for_both_of_its_readers() {
    // The third token of four slots needs the credit of the first, from both readers. Nobody spins:
    // three threads that wait for each other would keep loom busy for ever.
    model(|| {
        let cast = Cast::new();
        let readers = [1, 2].map(|me| {
            let cast = Arc::clone(&cast);
            thread::spawn(move || take_if_there(&cast, me, 2))
        });
        let mut sender = CastSender::new(cast.memory(), 0, 1);
        assert!(sender.read_by(0..3));
        for token in 0..3 {
            if !sender.ready(4) {
                assert_eq!(token, 2, "two tokens always fit");
                break;
            }
            cast.slots.write(sender.position(), 100 + token);
            sender.publish(4, 4096, u64::from(token));
        }
        for reader in readers {
            reader.join().unwrap();
        }
    });
}

#[test]
fn a_cast_hands_over_and_takes_back() {
    model(|| {
        let cast = Cast::new();
        let reader = read_by_two(&cast, |slots, receivers| {
            for token in 0..3 {
                for receiver in &mut *receivers {
                    while !receiver.ready(0) {
                        thread::yield_now();
                    }
                    assert_eq!(slots.read(receiver.position()), 100 + token);
                    receiver.release(4);
                }
            }
        });
        let mut sender = CastSender::new(cast.memory(), 0, 1);
        assert!(sender.read_by(0..3));
        for token in 0..3 {
            while !sender.ready(4) {
                thread::yield_now();
            }
            cast.slots.write(sender.position(), 100 + token);
            sender.publish(4, 4096, u64::from(token));
        }
        reader.join().unwrap();
    });
}

struct Words {
    credit: Credit,
    words: Vec<AtomicU64>,
}

impl Words {
    fn new() -> Arc<Words> {
        Arc::new(Words {
            credit: Credit::new(),
            words: (0..8 * SLOT_WORDS).map(|_| AtomicU64::new(0)).collect(),
        })
    }

    fn memory(&self) -> LinesMemory {
        // SAFETY: both live in an `Arc` that both threads hold.
        unsafe { LinesMemory::new(&raw const self.credit, self.words.as_ptr()) }
    }

    /// As when the writer gives the memory back: in any order that the reader sees.
    fn become_zero<E: Encoding>(&self, sender: &mut LinesSender<E>, token: u8, bytes: usize) {
        while !sender.drained() {
            thread::yield_now();
        }
        let first = usize::from(token) * 4 % 8 * SLOT_WORDS;
        for word in &self.words[first..first + E::words(bytes)] {
            word.store(0, Ordering::Relaxed);
        }
        sender.forget_words();
    }
}

/// Passes tokens of four slots and `bytes` bytes through flagged lines: the third one needs the
/// credit of the first. Where the memory is given back, the words are zero after each one, while
/// the reader looks for the next.
fn pass_lines<E: Encoding>(bytes: usize, tokens: u8, gives_back: bool) {
    let shared = Words::new();
    let writer = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || {
            let mut sender: LinesSender<E> = LinesSender::new(shared.memory());
            for token in 0..tokens {
                while !sender.ready(4) {
                    thread::yield_now();
                }
                // SAFETY: the place holds `bytes`, and no other thread knows it.
                unsafe { sender.place(bytes).write_bytes(token + 1, bytes) };
                sender.publish(4, bytes, u64::from(token));
                if gives_back {
                    shared.become_zero(&mut sender, token, bytes);
                }
            }
        })
    };
    let mut receiver: LinesReceiver<E> = LinesReceiver::new(shared.memory());
    for token in 0..tokens {
        while !receiver.ready(bytes, u64::from(token), 0) {
            thread::yield_now();
        }
        assert_eq!(receiver.arrival(0).signature, u64::from(token));
        // SAFETY: the token is there and holds `bytes`.
        let payload = unsafe { std::slice::from_raw_parts(receiver.place(0), bytes) };
        assert!(payload.iter().all(|&byte| byte == token + 1), "{payload:?}");
        receiver.release(4);
    }
    writer.join().unwrap();
}

#[test]
fn ll_words_arrive_with_their_flags() {
    model(|| pass_lines::<Ll>(8, 3, false));
}

#[test]
fn ll128_lines_arrive_with_their_flags() {
    // Two lines, so that one may be there without the other.
    model(|| pass_lines::<Ll128>(120, 1, false));
    model(|| pass_lines::<Ll128>(8, 3, false));
}

#[test]
fn words_that_were_given_back_are_no_token() {
    model(|| pass_lines::<Ll>(8, 3, true));
    model(|| pass_lines::<Ll128>(8, 3, true));
}

struct FanPair {
    headers: [FanHeader; 2],
    slots: [Slots; 2],
}

fn fans(shared: &FanPair, me: usize) -> Fans {
    let memories = shared
        .headers
        .iter()
        // SAFETY: the headers live in an `Arc` that both threads hold.
        .map(|header| unsafe { FanMemory::new(header, std::ptr::null_mut(), 0) })
        .collect();
    Fans::new(me, memories)
}

/// One all-reduce-like exchange: publish, read the other's, complete.
fn exchange(shared: &FanPair, fans: &mut Fans, me: usize, call: u32) {
    while !fans.may_publish(usize::MAX) {
        thread::yield_now();
    }
    shared.slots[me].write(fans.count(me), call * 10 + me as u32);
    fans.publish(7);
    let other = 1 - me;
    while !fans.ready(other) {
        thread::yield_now();
    }
    assert_eq!(
        shared.slots[other].read(fans.count(other)),
        call * 10 + other as u32
    );
    fans.release(other);
    fans.complete();
}

#[test]
fn fans_exchange_both_ways() {
    model(|| {
        let shared = Arc::new(FanPair {
            headers: std::array::from_fn(|_| FanHeader::new()),
            slots: std::array::from_fn(|_| Slots::new()),
        });
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let mut fans = fans(&shared, 1);
                (0..2).for_each(|call| exchange(&shared, &mut fans, 1, call));
            })
        };
        let mut fans = fans(&shared, 0);
        (0..2).for_each(|call| exchange(&shared, &mut fans, 0, call));
        other.join().unwrap();
    });
}

#[test]
fn a_broadcasting_fan_waits_for_the_explicit_ack() {
    // The ninth token needs a slot of the first again: only the reader's ack frees it.
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.max_branches = 20_000;
    builder.check(|| {
        let shared = Arc::new(FanPair {
            headers: std::array::from_fn(|_| FanHeader::new()),
            slots: std::array::from_fn(|_| Slots::new()),
        });
        let reader = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let mut fans = fans(&shared, 1);
                for token in 0..9 {
                    while !fans.ready(0) {
                        thread::yield_now();
                    }
                    assert_eq!(shared.slots[0].read(fans.count(0)), token);
                    fans.release(0);
                    fans.complete();
                }
            })
        };
        let mut fans = fans(&shared, 0);
        for token in 0..9 {
            while !fans.may_publish(usize::MAX) {
                thread::yield_now();
            }
            shared.slots[0].write(fans.count(0), token);
            fans.publish(7);
            fans.complete();
        }
        reader.join().unwrap();
    });
}
