//! An engine in another rank's name.

use super::closing::{Known, Slow};
use super::*;
use crate::base::Error;
use crate::proxy::net::proxied::Owner;
use crate::proxy::net::{Op, ProxiedSenders};
use crate::proxy::progress::Engine;
use crate::proxy::service::ProxyRank;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

const TOKENS: u64 = 8;
/// Of a wait here.
const LIMIT: Duration = Duration::from_secs(30);
const FROM: Rank = Rank(0);

struct Bench {
    known: Arc<Known>,
    senders: ProxiedSenders,
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
        wished: false,
    }
}

/// Rank 1 receives what another rank sends in the name of rank 0.
fn bench() -> Bench {
    let known = Arc::<Known>::default();
    let net: Arc<dyn Net> = Arc::new(Slow(loopback(), known.clone()));
    let nodes = [node(0), node(1)];
    let open = Open::new(setup(&net, &nodes[1], 1, 1)).expect("listens");
    let handles: Arc<[_]> = vec![Vec::new(), open.handles().clone()].into();
    let receiver = Links::opened(open, Arc::clone(&handles), Through::default());
    let engine = Mutex::new(Some(setup(&net, &nodes[0], 0, 1)));
    let make = move |rank: Rank| {
        assert_eq!(rank, FROM);
        let setup = engine.lock().unwrap().take()?;
        Some(Links::sending(setup, Arc::clone(&handles)))
    };
    Bench {
        known,
        senders: ProxiedSenders::new([FROM].into(), Box::new(make)),
        receiver,
        writer: PairSender::new(nodes[0].pair(0, 1, 0).unwrap()),
        reader: PairReceiver::new(nodes[1].pair(0, 1, 0).unwrap()),
        _nodes: nodes,
    }
}

impl Bench {
    fn drive_until(&self, mut is_over: impl FnMut() -> bool) {
        let start = Instant::now();
        while !is_over() {
            assert!(start.elapsed() < LIMIT);
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
    bench.receiver.expect(0, received(0, TOKENS));
    // Of no use to anybody: rank 0 does not send to itself, and there is no rank 7.
    bench.senders.start(FROM, op(0));
    bench.senders.start(FROM, op(7));
    bench.senders.start(Rank(1), op(1));
    bench.senders.start(FROM, op(1));
    assert_eq!(write(&mut bench.writer, 1, 0, TOKENS), TOKENS);
    let asked = || bench.known.asked.load(SeqCst);
    bench.drive_until(|| {
        assert!(!bench.senders.is_done(FROM), "nothing was taken");
        asked() >= 3
    });
    assert_eq!(bench.senders.connections(), 0, "they are being closed");
    let (mut taken, start) = (0, Instant::now());
    while taken < TOKENS {
        assert!(start.elapsed() < LIMIT, "{taken}");
        bench.receiver.pass();
        taken = read(&mut bench.reader, 1, taken);
    }
    assert!(!bench.senders.is_done(FROM), "not known as taken");
    bench.known.taken.store(true, SeqCst);
    let start = Instant::now();
    while !bench.senders.is_done(FROM) {
        assert!(start.elapsed() < LIMIT);
        std::thread::yield_now();
    }
    // It has said that it sends nothing more.
    bench.senders.start(FROM, op(1));
    assert!(bench.senders.is_done(FROM));
    bench.receiver.close(false);
}

#[test]
fn whoever_is_gone_is_not_waited_for() {
    let mut bench = bench();
    bench.receiver.expect(0, received(0, TOKENS));
    bench.senders.start(FROM, op(1));
    assert_eq!(write(&mut bench.writer, 1, 0, 1), 1);
    let senders = &bench.senders;
    bench.drive_until(|| senders.connections() == 1);
    assert!(!senders.is_done(FROM), "seven tokens are to come");
    senders.gone(&[FROM]);
    assert!(senders.is_done(FROM));
    assert_eq!(senders.connections(), 0);
}

/// Failures that the engines have told.
#[derive(Default)]
struct Heard {
    errors: Mutex<Vec<Error>>,
    stopped: AtomicBool,
}

impl Owner for Heard {
    fn is_stopped(&self) -> bool {
        self.stopped.load(SeqCst)
    }

    fn failed(&self, error: Error) {
        self.errors.lock().unwrap().push(error);
    }
}

/// A bench whose owner is heard, and that has tokens to send.
fn begun() -> (Bench, Arc<Heard>) {
    let bench = bench();
    let heard = Arc::new(Heard::default());
    bench.senders.belong_to(heard.clone());
    bench.receiver.expect(0, received(0, TOKENS));
    bench.senders.start(FROM, op(1));
    (bench, heard)
}

#[test]
fn a_failed_connection_is_told_once_and_in_the_senders_name() {
    let (mut bench, heard) = begun();
    let senders = &bench.senders;
    bench.drive_until(|| senders.connections() == 1);
    bench.receiver.close(true);
    bench.senders.start(
        FROM,
        Op {
            slots: 1 << 40,
            ..op(1)
        },
    );
    // The first ones may still go out: that nobody is there any more is heard later.
    let (mut written, start) = (0, Instant::now());
    while heard.errors.lock().unwrap().is_empty() {
        assert!(start.elapsed() < LIMIT, "{written}");
        written = write(&mut bench.writer, 1, written, written + TOKENS);
        Engine::global().drive();
        std::thread::yield_now();
    }
    assert!(bench.senders.is_done(FROM), "nothing more will arrive");
    let errors = heard.errors.lock().unwrap();
    assert_eq!(errors.len(), 1);
    let (rank, peer) = (errors[0].rank, errors[0].peer);
    assert_eq!((rank, peer), (Some(FROM), Some(Rank(1))), "{}", errors[0]);
}

#[test]
fn nothing_moves_when_the_communicator_has_stopped() {
    let (mut bench, heard) = begun();
    assert_eq!(write(&mut bench.writer, 1, 0, 1), 1);
    let senders = &bench.senders;
    bench.drive_until(|| senders.connections() == 1);
    heard.stopped.store(true, SeqCst);
    assert!(senders.is_done(FROM), "whatever was sent");
}
