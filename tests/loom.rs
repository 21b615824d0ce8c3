//! The hand-over of lines and slots, and the doorbell, under every interleaving and every weak
//! ordering that loom knows. Runs only with `RUSTFLAGS="--cfg loom"`; `make test` does so.
//!
//! Loom reports a data race when payload is read or written while the other side may touch it, so
//! a stale flag, an early credit or a missing release is an error here even on x86.

#![cfg(loom)]

use kolo::base::sync::{AtomicU32, Shared};
use kolo::wire::doorbell::{Doorbell, Futex};
use kolo::wire::fan::{FanHeader, FanMemory, Fans};
use kolo::wire::line::PairHeader;
use kolo::wire::pair::{PairMemory, PairReceiver, PairSender};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use std::time::Duration;

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
        while !receiver.ready() {
            thread::yield_now();
        }
        let arrival = receiver.arrival();
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
    while !fans.may_publish() {
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
            while !fans.may_publish() {
                thread::yield_now();
            }
            shared.slots[0].write(fans.count(0), token);
            fans.publish(7);
            fans.complete();
        }
        reader.join().unwrap();
    });
}

/// A futex that loom can see. A wait that nobody ends is a deadlock, which loom reports: that is
/// how a lost wake-up shows.
struct ModelFutex {
    lock: Mutex<()>,
    wake: Condvar,
}

impl Futex for ModelFutex {
    fn wait(&self, word: &AtomicU32, value: u32, _: Duration) {
        let guard = self.lock.lock().unwrap();
        if word.load(loom::sync::atomic::Ordering::Relaxed) == value {
            drop(self.wake.wait(guard).unwrap());
        }
    }

    fn wake(&self, _: &AtomicU32) {
        let _guard = self.lock.lock().unwrap();
        self.wake.notify_all();
    }
}

#[test]
fn the_doorbell_loses_no_wake_up() {
    model(|| {
        let bell = Arc::new(Doorbell::new());
        let futex = Arc::new(ModelFutex {
            lock: Mutex::new(()),
            wake: Condvar::new(),
        });
        let pair = Arc::new(Pair {
            header: PairHeader::new(),
            slots: Slots::new(),
        });
        let writer = {
            let (bell, futex, pair) = (Arc::clone(&bell), Arc::clone(&futex), Arc::clone(&pair));
            thread::spawn(move || {
                let mut sender = PairSender::new(pair_memory(&pair));
                pair.slots.write(0, 1);
                sender.publish(1, 4096, 0);
                bell.ring(&*futex);
            })
        };
        let receiver = PairReceiver::new(pair_memory(&pair));
        while !receiver.ready() {
            let ticket = bell.arm();
            if !receiver.ready() {
                bell.sleep(ticket, Duration::MAX, &*futex);
            }
            bell.disarm();
        }
        assert_eq!(pair.slots.read(0), 1);
        writer.join().unwrap();
    });
}
