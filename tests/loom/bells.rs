//! The doorbell under every interleaving and every weak ordering that loom knows: no wake-up is
//! lost, whoever sees to the publisher's fence.

use kolo_loom::base::sync::{AtomicU32, Ordering, Shared, fence};
use kolo_loom::wire::doorbell::{ArmedBells, Doorbell, Fencing, Futex, OwnBell};
use kolo_loom::wire::line::PairHeader;
use kolo_loom::wire::pair::{PairMemory, PairReceiver, PairSender};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use std::time::Duration;

/// A pair, and the payload of its only token, which loom sees.
struct Pair {
    header: PairHeader,
    payload: Shared<u32>,
}

fn pair_memory(pair: &Pair) -> PairMemory {
    // SAFETY: the header lives in an `Arc` that both threads hold; there is no payload in slots.
    unsafe { PairMemory::new(&raw const pair.header, std::ptr::null_mut(), 0) }
}

fn model(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(body);
}

/// A futex that loom can see. A wait that nobody ends is a deadlock, which loom reports: that is
/// how a lost wake-up shows.
///
/// It has one publisher, on whose thread [`Futex::fence_all`] passes a fence. Where that is, the
/// system decides: so the publisher has a point between any two of its steps at which it looks
/// whether a fence is asked for ([`ModelFutex::point`]), and one behind its last step
/// ([`ModelFutex::stops`]), because a thread that does not run has passed one. What asks and what
/// answers are relaxed words, so they order nothing by themselves: all order comes from fences.
struct ModelFutex {
    lock: Mutex<()>,
    wake: Condvar,
    asked: AtomicU32,
    answered: AtomicU32,
}

impl ModelFutex {
    fn new() -> ModelFutex {
        ModelFutex {
            lock: Mutex::new(()),
            wake: Condvar::new(),
            asked: AtomicU32::new(0),
            answered: AtomicU32::new(0),
        }
    }

    /// The publisher is interrupted here, if it is.
    fn point(&self) {
        let asked = self.asked.load(Ordering::Relaxed);
        if asked != self.answered.load(Ordering::Relaxed) {
            fence(Ordering::SeqCst);
            self.answered.store(asked, Ordering::Relaxed);
        }
    }

    /// The publisher has ended.
    fn stops(&self) {
        fence(Ordering::SeqCst);
        self.answered.store(u32::MAX, Ordering::Relaxed);
    }
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

    fn fence_all(&self) {
        let number = self.asked.load(Ordering::Relaxed) + 1;
        fence(Ordering::SeqCst);
        self.asked.store(number, Ordering::Relaxed);
        while self.answered.load(Ordering::Relaxed) < number {
            thread::yield_now();
        }
        fence(Ordering::SeqCst);
    }
}

/// A rank sleeps until another one has published, which rings its bell, or the bells of all.
fn a_bell_wakes(fencing: Fencing, for_all: bool) {
    model(move || {
        let bell = Arc::new((Doorbell::new(), ArmedBells::default()));
        let futex = Arc::new(ModelFutex::new());
        let pair = Arc::new(Pair {
            header: PairHeader::new(),
            payload: Shared::new(0),
        });
        let writer = {
            let (bell, futex, pair) = (Arc::clone(&bell), Arc::clone(&futex), Arc::clone(&pair));
            thread::spawn(move || {
                let mut sender = PairSender::new(pair_memory(&pair));
                futex.point();
                // SAFETY: nobody reads before the token is there; loom checks it.
                pair.payload.write(|place| unsafe { *place = 1 });
                sender.publish(1, 4096, 0);
                futex.point();
                // What a node does for one rank, and for all.
                match for_all {
                    false => bell.0.ring(fencing, &*futex),
                    true => {
                        fencing.published();
                        let any = bell.1.any();
                        futex.point();
                        if any {
                            bell.0.ring_fenced(&*futex);
                        }
                    }
                }
                futex.stops();
            })
        };
        let receiver = PairReceiver::new(pair_memory(&pair));
        let own = OwnBell {
            bell: &bell.0,
            count: Some(&bell.1),
            fencing,
        };
        let mut ticket = None;
        while !receiver.ready(0) {
            match ticket {
                None => ticket = Some(own.arm(&*futex)),
                Some(armed) => {
                    own.sleep(armed, Duration::MAX, &*futex);
                    ticket = Some(own.again());
                }
            }
        }
        // SAFETY: the token is there, and nobody writes; loom checks it.
        assert_eq!(pair.payload.read(|place| unsafe { *place }), 1);
        writer.join().unwrap();
    });
}

#[test]
fn the_doorbell_loses_no_wake_up() {
    for for_all in [false, true] {
        a_bell_wakes(Fencing::Publisher, for_all);
        a_bell_wakes(Fencing::Sleeper, for_all);
    }
}

/// The model sees what is wrong: without the fence that the sleeper has others pass, a wake-up is
/// lost.
#[test]
#[should_panic(expected = "deadlock")]
fn the_model_of_the_fence_sees_a_lost_wake_up() {
    /// Fences on this thread only.
    struct Alone(ModelFutex);
    impl Futex for Alone {
        fn wait(&self, word: &AtomicU32, value: u32, limit: Duration) {
            self.0.wait(word, value, limit);
        }
        fn wake(&self, word: &AtomicU32) {
            self.0.wake(word);
        }
        fn fence_all(&self) {
            fence(Ordering::SeqCst);
        }
    }
    model(|| {
        let bell = Arc::new(Doorbell::new());
        let futex = Arc::new(Alone(ModelFutex::new()));
        let published = Arc::new(AtomicU32::new(0));
        let writer = {
            let (bell, futex, published) = (
                Arc::clone(&bell),
                Arc::clone(&futex),
                Arc::clone(&published),
            );
            thread::spawn(move || {
                published.store(1, Ordering::Release);
                bell.ring(Fencing::Sleeper, &*futex);
            })
        };
        let own = OwnBell {
            bell: &bell,
            count: None,
            fencing: Fencing::Sleeper,
        };
        let ticket = own.arm(&*futex);
        if published.load(Ordering::Acquire) == 0 {
            own.sleep(ticket, Duration::MAX, &*futex);
        }
        writer.join().unwrap();
    });
}

/// The progress thread arms the bell of new work, looks at what there is, and then sleeps on the
/// bell of that work alone: new work must wake it all the same, and so must a token.
#[test]
fn a_sleeper_on_one_bell_hears_the_other() {
    for (by_token, fencing) in [
        (false, Fencing::Publisher),
        (true, Fencing::Publisher),
        (false, Fencing::Sleeper),
        (true, Fencing::Sleeper),
    ] {
        model(move || {
            let bells = Arc::new([Doorbell::new(), Doorbell::new()]);
            let futex = Arc::new(ModelFutex::new());
            let published = Arc::new(AtomicU32::new(0));
            let other = {
                let (bells, futex) = (Arc::clone(&bells), Arc::clone(&futex));
                let published = Arc::clone(&published);
                thread::spawn(move || {
                    futex.point();
                    published.store(1, Ordering::Relaxed);
                    futex.point();
                    match by_token {
                        true => bells[1].ring(fencing, &*futex),
                        // Whoever brings new work fences: it is rare.
                        false => drop(bells[0].ring_with([&bells[1]].into_iter(), &*futex)),
                    }
                    futex.stops();
                })
            };
            let new = OwnBell::from(&bells[0]);
            let token = OwnBell {
                bell: &bells[1],
                count: None,
                fencing,
            };
            let mut is_there = false;
            while !is_there {
                let of_new = new.arm(&*futex);
                // New work is looked for once, before the bell of a token is armed.
                is_there = !by_token && published.load(Ordering::Relaxed) == 1;
                let of_token = token.arm(&*futex);
                is_there |= by_token && published.load(Ordering::Relaxed) == 1;
                if !is_there {
                    token.sleep_beside(of_token, (new.bell, of_new), Duration::MAX, &*futex);
                }
                token.disarm();
                new.disarm();
            }
            other.join().unwrap();
        });
    }
}
