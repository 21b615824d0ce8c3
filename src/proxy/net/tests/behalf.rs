//! An engine in another rank's name.

use super::closing::{Known, Slow};
use super::*;
use crate::base::Error;
use crate::proxy::net::behalf::Concern;
use crate::proxy::net::{Behalf, Op};
use crate::proxy::progress::Engine;
use crate::proxy::service::ProxyRank;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

const TOKENS: u64 = 8;
const FROM: Rank = Rank(0);

struct Bench {
    known: Arc<Known>,
    behalf: Behalf,
    receiver: Links,
    writer: PairSender,
    reader: PairReceiver,
    /// Their memory outlives all that points to it.
    _nodes: [NodeMemory; 2],
}

fn op(peer: u32) -> Op {
    Op {
        launch: 1,
        direction: Direction::Send,
        peer: Rank(peer),
        channel: 0,
        slots: TOKENS,
    }
}

/// Rank 1 receives what another rank sends in the name of rank 0.
fn bench() -> Bench {
    let known = Arc::<Known>::default();
    let net: Arc<dyn Net> = Arc::new(Slow(loopback(), known.clone()));
    let nodes = [node(0), node(1)];
    let open = Open::new(setup(&net, &nodes[1], 1, 1)).expect("listens");
    let handles: Arc<[_]> = vec![Vec::new(), open.handles().clone()].into();
    let receiver = open.links(Arc::clone(&handles), Through::default());
    let engine = Mutex::new(Some(setup(&net, &nodes[0], 0, 1)));
    let make = move |rank: Rank| {
        assert_eq!(rank, FROM);
        let setup = engine.lock().unwrap().take()?;
        Some(Links::sending(setup, Arc::clone(&handles)))
    };
    Bench {
        known,
        behalf: Behalf::new([FROM].into(), Box::new(make)),
        receiver,
        writer: PairSender::new(nodes[0].pair(0, 1, 0).unwrap()),
        reader: PairReceiver::new(nodes[1].pair(0, 1, 0).unwrap()),
        _nodes: nodes,
    }
}

impl Bench {
    fn drive_until(&self, mut is_over: impl FnMut() -> bool) {
        while !is_over() {
            Engine::global().drive();
            self.receiver.pass();
            assert!(!self.receiver.failed(), "{:?}", self.receiver.failure());
            std::thread::yield_now();
        }
    }
}

#[test]
fn what_was_begun_for_another_rank_has_arrived_when_it_is_done() {
    let mut bench = bench();
    bench.receiver.expect(0, (0, 0), false, TOKENS);
    // Of no use to anybody: rank 0 does not send to itself, and there is no rank 7.
    bench.behalf.start(FROM, op(0));
    bench.behalf.start(FROM, op(7));
    bench.behalf.start(Rank(1), op(1));
    bench.behalf.start(FROM, op(1));
    assert_eq!(write(&mut bench.writer, 1, 0, TOKENS), TOKENS);
    let asked = || bench.known.asked.load(SeqCst);
    bench.drive_until(|| {
        assert!(!bench.behalf.is_done(FROM), "nothing was taken");
        asked() >= 3
    });
    assert_eq!(bench.behalf.connections(), 0, "they are being closed");
    let mut taken = 0;
    while taken < TOKENS {
        bench.receiver.pass();
        taken = read(&mut bench.reader, 1, taken);
    }
    assert!(!bench.behalf.is_done(FROM), "not known as taken");
    bench.known.taken.store(true, SeqCst);
    while !bench.behalf.is_done(FROM) {
        std::thread::yield_now();
    }
    // It has said that it sends nothing more.
    bench.behalf.start(FROM, op(1));
    assert!(bench.behalf.is_done(FROM));
    bench.receiver.close(false);
}

#[test]
fn whoever_is_gone_is_not_waited_for() {
    let mut bench = bench();
    bench.receiver.expect(0, (0, 0), false, TOKENS);
    bench.behalf.start(FROM, op(1));
    assert_eq!(write(&mut bench.writer, 1, 0, 1), 1);
    let behalf = &bench.behalf;
    bench.drive_until(|| behalf.connections() == 1);
    assert!(!behalf.is_done(FROM), "seven tokens are to come");
    behalf.gone(&[FROM]);
    assert!(behalf.is_done(FROM));
    assert_eq!(behalf.connections(), 0);
}

/// What the engines tell of a failure.
#[derive(Default)]
struct Heard {
    errors: Mutex<Vec<Error>>,
    stopped: AtomicBool,
}

impl Concern for Heard {
    fn is_stopped(&self) -> bool {
        self.stopped.load(SeqCst)
    }

    fn failed(&self, error: Error) {
        self.errors.lock().unwrap().push(error);
    }
}

#[test]
fn a_failed_connection_is_told_once_and_in_the_senders_name() {
    let mut bench = bench();
    let heard = Arc::new(Heard::default());
    bench.behalf.belong_to(heard.clone());
    bench.receiver.expect(0, (0, 0), false, TOKENS);
    bench.behalf.start(FROM, op(1));
    let behalf = &bench.behalf;
    bench.drive_until(|| behalf.connections() == 1);
    bench.receiver.close(true);
    bench.behalf.start(
        FROM,
        Op {
            slots: 1 << 40,
            ..op(1)
        },
    );
    // The first ones may still go out: that nobody is there any more is heard later.
    let mut written = 0;
    while heard.errors.lock().unwrap().is_empty() {
        written = write(&mut bench.writer, 1, written, written + TOKENS);
        Engine::global().drive();
        std::thread::yield_now();
    }
    assert!(bench.behalf.is_done(FROM), "nothing more will arrive");
    let errors = heard.errors.lock().unwrap();
    assert_eq!(errors.len(), 1);
    let (rank, peer) = (errors[0].rank, errors[0].peer);
    assert_eq!((rank, peer), (Some(FROM), Some(Rank(1))), "{}", errors[0]);
}

#[test]
fn nothing_moves_when_the_communicator_has_stopped() {
    let mut bench = bench();
    let heard = Arc::new(Heard::default());
    bench.behalf.belong_to(heard.clone());
    bench.receiver.expect(0, (0, 0), false, TOKENS);
    bench.behalf.start(FROM, op(1));
    assert_eq!(write(&mut bench.writer, 1, 0, 1), 1);
    let behalf = &bench.behalf;
    bench.drive_until(|| behalf.connections() == 1);
    heard.stopped.store(true, SeqCst);
    assert!(behalf.is_done(FROM), "whatever was sent");
}
