//! Tests of ranks that send through a rank of this process: every order of events on purpose.

use super::tests::{NONCE, bench};
use super::*;
use crate::plan::Direction;
use crate::proxy::net::Op;
use crate::proxy::socket::Received;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

#[derive(Default)]
struct Recorder {
    started: Mutex<Vec<(Rank, Op)>>,
    gone: Mutex<Vec<Rank>>,
    is_done: AtomicBool,
}

impl ProxyRank for Recorder {
    fn start(&self, from: Rank, op: Op) {
        self.started.lock().unwrap().push((from, op));
    }

    fn is_done(&self, _: Rank) -> bool {
        self.is_done.load(SeqCst)
    }

    fn gone(&self, ranks: &[Rank]) {
        self.gone.lock().unwrap().extend(ranks);
    }

    fn left_open(&self) -> Vec<Rank> {
        Vec::new()
    }
}

fn frame(kind: ServiceKind, rank: u32) -> Frame {
    let mut frame = Frame::new(kind, 9, NONCE.0);
    (frame.rank, frame.peer, frame.channel, frame.slots) = (rank, 7, 1, 11);
    frame
}

/// Does the work that the service thread does after a turn.
fn act(state: &mut State) {
    for started in std::mem::take(&mut state.started) {
        started.proxy.start(started.from, started.op);
    }
    for (proxy, ranks) in std::mem::take(&mut state.gone) {
        proxy.gone(&ranks);
    }
    for call in state.unfinished.clone() {
        if call.proxy.is_done(call.from) {
            proxied::finish(state, &call);
        }
    }
}

#[test]
fn what_a_known_rank_sends_is_handed_over() {
    let mut bench = bench();
    let recorder = Arc::new(Recorder::default());
    bench.state.serve(NONCE, bench.watch, recorder.clone());
    bench.send(ServiceKind::Hello, NONCE.0, 3);
    socket::send(&bench.far, &frame(ServiceKind::Start, 3), None).unwrap();
    bench.turn();
    act(&mut bench.state);
    let op = Op {
        launch: 9,
        direction: Direction::Send,
        peer: Rank(7),
        channel: 1,
        slots: 11,
        wished: false,
    };
    assert_eq!(*recorder.started.lock().unwrap(), [(Rank(3), op)]);
    // Not for a rank that is not on this link, nor for one that has left.
    socket::send(&bench.far, &frame(ServiceKind::Start, 4), None).unwrap();
    bench.send(ServiceKind::Bye, NONCE.0, 3);
    socket::send(&bench.far, &frame(ServiceKind::Start, 3), None).unwrap();
    bench.turn();
    act(&mut bench.state);
    assert_eq!(recorder.started.lock().unwrap().len(), 1);
    assert_eq!(*recorder.gone.lock().unwrap(), [Rank(3)]);
    assert_eq!(bench.state.links.len(), 1);
}

#[test]
fn a_call_is_answered_when_it_can_be() {
    let mut bench = bench();
    let recorder = Arc::new(Recorder::default());
    bench.state.serve(NONCE, bench.watch, recorder.clone());
    bench.send(ServiceKind::Hello, NONCE.0, 3);
    socket::send(&bench.far, &frame(ServiceKind::Close, 3), None).unwrap();
    bench.turn();
    let heard = |far: &Fd| match socket::receive(far, false) {
        Ok(Received::Frame(frame, _)) => Some((frame.kind, frame.operation)),
        _ => None,
    };
    assert_eq!(heard(&bench.far), Some((ServiceKind::Welcome, 5)));
    for _ in 0..3 {
        act(&mut bench.state);
        assert_eq!(heard(&bench.far), None);
    }
    recorder.is_done.store(true, SeqCst);
    act(&mut bench.state);
    assert_eq!(heard(&bench.far), Some((ServiceKind::Closed, 9)));
    assert!(bench.state.unfinished.is_empty());
    // Nothing is left to wait for where the rank has left.
    leaving::unwatch(&mut bench.state, NONCE, bench.watch);
    assert_eq!(heard(&bench.far), Some((ServiceKind::Bye, 0)));
    socket::send(&bench.far, &frame(ServiceKind::Close, 3), None).unwrap();
    bench.turn();
    assert_eq!(heard(&bench.far), Some((ServiceKind::Closed, 9)));
}

#[test]
fn calls_of_this_process_need_no_socket() {
    let mut state = State::default();
    let recorder = Arc::new(Recorder::default());
    let id = state.watch(NONCE, Rank(0), "node1", Arc::new(|_, _| {}));
    state.serve(NONCE, id, recorder.clone());
    let through = |to| ByProxy {
        nonce: NONCE,
        from: Rank(1),
        to: Rank(to),
    };
    let op = Op {
        launch: 1,
        direction: Direction::Send,
        peer: Rank(5),
        channel: 0,
        slots: 2,
        wished: false,
    };
    let started = proxied::start(&mut state, through(0), &op);
    // By the service thread, as the caller holds locks.
    assert!(matches!(started, Start::Queued));
    assert!(recorder.started.lock().unwrap().is_empty());
    act(&mut state);
    assert_eq!(*recorder.started.lock().unwrap(), [(Rank(1), op)]);
    assert!(matches!(
        proxied::start(&mut state, through(2), &op),
        Start::Gone
    ));
    let call = proxied::close(&mut state, through(0));
    act(&mut state);
    assert_eq!(state.answer(call), None);
    recorder.is_done.store(true, SeqCst);
    act(&mut state);
    assert_eq!(state.answer(call), Some(Answer::Welcome));
    let lost = proxied::close(&mut state, through(2));
    assert_eq!(state.answer(lost), Some(Answer::Lost));
}
