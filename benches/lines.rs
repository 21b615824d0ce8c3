//! One-way hand-over of a token between two ranks, by protocol: `cargo bench --bench lines`.
//!
//! Two threads send a token back and forth; half a round trip is one hand-over, with the copy of
//! the payload into the token on one side and out of it on the other. Simple is the slot with its
//! line (payload of up to 40 bytes inside the line), LL and LL128 are the flagged lines.

use kolo::base::clock;
use kolo::transport::node::NodeMemory;
use kolo::transport::segment::Segment;
use kolo::wire::Source;
use kolo::wire::layout::Layout;
use kolo::wire::ll::{Encoding, LinesReceiver, LinesSender, Ll};
use kolo::wire::ll128::Ll128;
use kolo::wire::pair::{PairReceiver, PairSender};
use std::sync::Arc;

const SAMPLES: usize = 7;
/// Polls before a thread gives its core away.
const POLLS: u32 = 2000;

/// Both ends of a rank: to send and to receive.
trait Ends: Send {
    fn new(node: &NodeMemory, me: usize) -> Self;
    fn try_send(&mut self, payload: &[u8]) -> bool;
    fn try_recv(&mut self, payload: &mut [u8]) -> bool;
}

fn node_pair() -> [NodeMemory; 2] {
    let layout = Layout {
        ranks: 2,
        channels: 1,
        slot_bytes: 1 << 16,
        eager_bytes: 4096,
    };
    let segment = Arc::new(Segment::anonymous(layout.total()).expect("memory"));
    [0, 1].map(|me| {
        let owner = Arc::clone(&segment);
        // SAFETY: an anonymous segment of this size is zero and page-aligned.
        unsafe { NodeMemory::new(segment.as_ptr(), layout, me, owner) }
    })
}

struct Slots(PairSender, PairReceiver);

impl Ends for Slots {
    fn new(node: &NodeMemory, me: usize) -> Slots {
        let memory = |writer| node.pair(writer, 1 - writer, 0).expect("both are here");
        Slots(
            PairSender::new(memory(me)),
            PairReceiver::new(memory(1 - me)),
        )
    }

    fn try_send(&mut self, payload: &[u8]) -> bool {
        if !self.0.ready(1) {
            return false;
        }
        let place = self.0.place(payload.len());
        // SAFETY: the slot holds the payload.
        unsafe { place.copy_from_nonoverlapping(payload.as_ptr(), payload.len()) };
        self.0.publish(1, payload.len(), 1);
        true
    }

    fn try_recv(&mut self, payload: &mut [u8]) -> bool {
        if !self.1.ready(0) {
            return false;
        }
        let place = self.1.place(payload.len(), 0);
        // SAFETY: the token is there.
        unsafe { place.copy_to_nonoverlapping(payload.as_mut_ptr(), payload.len()) };
        self.1.release(1);
        true
    }
}

struct Lines<E>(LinesSender<E>, LinesReceiver<E>);

trait Number {
    const NUMBER: usize;
}
impl Number for Ll {
    const NUMBER: usize = 0;
}
impl Number for Ll128 {
    const NUMBER: usize = 1;
}

impl<E: Encoding + Number> Ends for Lines<E> {
    fn new(node: &NodeMemory, me: usize) -> Lines<E> {
        let memory = |writer| {
            let memory = node.lines(writer, 1 - writer, 0, E::NUMBER);
            memory.expect("both are here")
        };
        Lines(
            LinesSender::new(memory(me)),
            LinesReceiver::new(memory(1 - me)),
        )
    }

    fn try_send(&mut self, payload: &[u8]) -> bool {
        if !self.0.ready(1) {
            return false;
        }
        let place = self.0.place(payload.len());
        // SAFETY: the place holds the payload.
        unsafe { place.copy_from_nonoverlapping(payload.as_ptr(), payload.len()) };
        self.0.publish(1, payload.len(), 1);
        true
    }

    fn try_recv(&mut self, payload: &mut [u8]) -> bool {
        if !self.1.ready(payload.len(), 1, 0) {
            return false;
        }
        // SAFETY: the token is there.
        unsafe {
            self.1
                .place(0)
                .copy_to_nonoverlapping(payload.as_mut_ptr(), payload.len());
        }
        self.1.release(1);
        true
    }
}

fn until(mut done: impl FnMut() -> bool) {
    let mut polls = 0u32;
    while !done() {
        polls += 1;
        match polls % POLLS {
            0 => std::thread::yield_now(),
            _ => std::hint::spin_loop(),
        }
    }
}

/// Microseconds one way of a token of `bytes`.
fn one_way<E: Ends>(bytes: usize, trips: u32) -> f64 {
    let nodes = node_pair();
    let [mut first, mut second] = [0, 1].map(|me| E::new(&nodes[me], me));
    let mut least = f64::INFINITY;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut data = vec![1u8; bytes];
            for _ in 0..trips * SAMPLES as u32 {
                until(|| second.try_recv(&mut data));
                until(|| second.try_send(&data));
            }
        });
        let mut data = vec![1u8; bytes];
        for _ in 0..SAMPLES {
            let start = clock::now();
            for _ in 0..trips {
                until(|| first.try_send(&data));
                until(|| first.try_recv(&mut data));
            }
            least = least.min(start.elapsed().as_secs_f64() * 1e6 / f64::from(2 * trips));
        }
    });
    least
}

fn main() {
    println!(
        "{:>9} {:>9} {:>9} {:>9}  us one way",
        "bytes", "simple", "ll", "ll128"
    );
    for bytes in [8, 40, 64, 120, 256, 512, 1024, 2048, 4096, 8128] {
        let simple = one_way::<Slots>(bytes, 3000);
        let ll = one_way::<Lines<Ll>>(bytes, 3000);
        let ll128 = one_way::<Lines<Ll128>>(bytes, 3000);
        println!("{bytes:>9} {simple:>9.3} {ll:>9.3} {ll128:>9.3}");
    }
}
