//! The engine over real sockets: what it did, in which order, and what its tokens carried.

mod closing;
mod keeping;
mod proxied;
mod steps;
mod wishes;

use super::trace::{Event, Phase};
use super::{Links, Open, SPARE_BYTES, Setup, Taking, Through, live};
use crate::base::Rank;
use crate::plan::Direction;
use crate::proxy::progress::Pass;
use crate::transport::lasting::LastingMemory;
use crate::transport::net::Net;
use crate::transport::net::socket::{SocketNet, SocketOptions};
use crate::transport::node::NodeMemory;
use crate::wire::Source;
use crate::wire::carrier::{CarriedSlots, Carrier};
use crate::wire::layout::Layout;
use crate::wire::pair::{PairReceiver, PairSender};
use std::sync::Arc;

const SLOT_BYTES: usize = 4096;

/// Slots of channel 0 that go to a peer.
fn sent(peer: u32, slots: u64) -> CarriedSlots {
    CarriedSlots {
        peer,
        channel: 0,
        is_send: true,
        slots,
        wished: false,
    }
}

/// Slots of channel 0 that come from a peer.
fn received(peer: u32, slots: u64) -> CarriedSlots {
    CarriedSlots {
        is_send: false,
        ..sent(peer, slots)
    }
}

/// No memory of the program stays where it is.
struct Nothing;

impl LastingMemory for Nothing {
    fn around(&self, _: *const u8, _: usize) -> Option<std::ops::Range<usize>> {
        None
    }
}

/// The memory of a node of its own for each of two ranks.
fn node(me: usize) -> NodeMemory {
    let layout = Layout {
        ranks: 2,
        channels: 1,
        slot_bytes: SLOT_BYTES + SPARE_BYTES,
        eager_bytes: 4096,
    };
    let pages: Arc<Vec<Page>> = Arc::new(vec![Page([0; 4096]); layout.total().div_ceil(4096)]);
    let base = pages.as_ptr().cast_mut().cast();
    // SAFETY: zeroed pages, enough of them, that live as long as their `Arc`.
    unsafe { NodeMemory::new(base, layout, me, pages) }
}

#[derive(Clone, Copy)]
#[repr(C, align(4096))]
struct Page([u8; 4096]);

// SAFETY: the memory of a node is shared by construction, and `wire` decides who touches what.
unsafe impl Sync for Page {}

fn loopback() -> SocketNet {
    let net = SocketNet::new(SocketOptions {
        ifname: Some("=lo".into()),
        ..SocketOptions::default()
    });
    net.expect("the loopback is there")
}

fn setup(net: &Arc<dyn Net>, node: &NodeMemory, me: usize, slice: u32) -> Setup {
    Setup {
        net: net.clone(),
        source: Box::new(node.clone()),
        stages: None,
        bell: Box::new(node.clone()),
        me: Rank(me as u32),
        channels: 1,
        nonce: 77,
        is_remote: vec![me != 0, me != 1],
        slot_bytes: SLOT_BYTES + SPARE_BYTES,
        slice,
        taking: Taking::default(),
        lasting: Arc::new(Nothing),
    }
}

/// Two ranks on two nodes: engines, and the ends that their executors use from rank 0 to rank 1.
fn two(slice: u32) -> (Links, Links, PairSender, PairReceiver) {
    two_over(Arc::new(loopback()), slice)
}

fn two_over(net: Arc<dyn Net>, slice: u32) -> (Links, Links, PairSender, PairReceiver) {
    two_with(net, slice, Taking::default())
}

fn two_taking(slice: u32, taking: Taking) -> (Links, Links, PairSender, PairReceiver) {
    two_with(Arc::new(loopback()), slice, taking)
}

fn two_with(
    net: Arc<dyn Net>,
    slice: u32,
    taking: Taking,
) -> (Links, Links, PairSender, PairReceiver) {
    let nodes = [node(0), node(1)];
    let open = |me: usize| {
        let setup = setup(&net, &nodes[me], me, slice);
        Open::new(Setup { taking, ..setup }).expect("listens")
    };
    let (first, second) = (open(0), open(1));
    let handles = vec![first.handles().clone(), second.handles().clone()];
    let handles: Arc<[_]> = handles.into();
    let links = |open: Open| Links::opened(open, Arc::clone(&handles), Through::default());
    let links = (links(first), links(second));
    let writer = PairSender::new(nodes[0].pair(0, 1, 0).unwrap());
    let reader = PairReceiver::new(nodes[1].pair(0, 1, 0).unwrap());
    (links.0, links.1, writer, reader)
}

/// Passes of both engines until neither moves any more for a while.
fn settle(engines: [&Links; 2]) {
    let mut still = 0;
    while still < 200 {
        let moved = engines.map(|links| links.pass() == Pass::Moved);
        assert!(engines.iter().all(|links| !links.failed()), "no failure");
        still = if moved.contains(&true) { 0 } else { still + 1 };
        std::thread::sleep(std::time::Duration::from_micros(100));
    }
}

/// Bytes of a token: small ones in lines and small places, and full slots.
fn bytes(token: u64) -> usize {
    [3, 40, 41, 512, 513, SLOT_BYTES][token as usize % 6]
}

fn content(token: u64, at: usize) -> u8 {
    (token * 31 + at as u64 * 7) as u8
}

/// Writes tokens from `from` on as far as there is room; the next one.
fn write(writer: &mut PairSender, slice: u32, from: u64, to: u64) -> u64 {
    let mut token = from;
    while token < to && writer.ready(slice) {
        let (bytes, place) = (bytes(token), writer.place(bytes(token)));
        // SAFETY: ready: the place is the writer's.
        (0..bytes).for_each(|at| unsafe { *place.add(at) = content(token, at) });
        writer.publish(slice, bytes, token ^ 0xabcd);
        token += 1;
    }
    token
}

/// Reads and checks all tokens that are there; the next one.
fn read(reader: &mut PairReceiver, slice: u32, from: u64) -> u64 {
    let mut token = from;
    while reader.ready(0) {
        let arrival = reader.arrival(0);
        assert_eq!(arrival.signature, token ^ 0xabcd);
        assert_eq!(arrival.ack as usize, bytes(token));
        let place = reader.place(bytes(token), 0);
        // SAFETY: the token is there, with so many bytes.
        let found = unsafe { std::slice::from_raw_parts(place, bytes(token)) };
        assert!(
            (0..)
                .zip(found)
                .all(|(at, &byte)| byte == content(token, at))
        );
        reader.release(slice);
        token += 1;
    }
    token
}

fn of(events: &[Event], phase: Phase) -> Vec<u64> {
    let of = events.iter().filter(|event| event.phase == phase);
    of.map(|event| event.count).collect()
}

/// The conditions of the phases, at every event, for slots that move `slice` at a time.
fn check_conditions(events: &[Event], slice: u64) {
    let (mut posted, mut received, mut transmitted, mut done) = (0, 0, 0, 0);
    for event in events {
        let count = match event.phase {
            Phase::Appended | Phase::Flushed | Phase::Straight => continue,
            Phase::Posted => &mut posted,
            Phase::Received => &mut received,
            Phase::Transmitted => &mut transmitted,
            Phase::Done => &mut done,
        };
        assert!(
            event.count > *count && event.count % slice == 0,
            "{event:?}"
        );
        *count = event.count;
        assert!(done <= transmitted && transmitted <= posted, "{event:?}");
        assert!(posted <= done + 8, "8 slots: {event:?}");
        if event.direction == Direction::Recv {
            assert!(transmitted <= received && received <= posted, "{event:?}");
        }
    }
}

/// 32 slots of slices of two: posted to 8, handed over to 8; then two are done, and two posted.
#[test]
fn phases_follow_each_other_over_eight_slots() {
    let (first, second, mut writer, mut reader) = two(2);
    live::record(&first);
    live::record(&second);
    first.expect(0, sent(1, 32));
    second.expect(0, received(0, 32));
    let mut written = write(&mut writer, 2, 0, 16);
    assert_eq!(written, 4, "four slices of two slots have room");
    settle([&first, &second]);
    let sent = live::recorded(&first);
    let got = live::recorded(&second);
    // Nobody reads: eight slots are on the other node, and here the writer has eight again.
    assert_eq!(of(&sent, Phase::Appended), [32]);
    assert_eq!(of(&sent, Phase::Posted), [2, 4, 6, 8, 10, 12, 14, 16]);
    assert_eq!(of(&sent, Phase::Transmitted), [2, 4, 6, 8]);
    assert_eq!(of(&sent, Phase::Done), [2, 4, 6, 8]);
    let first_done = sent.iter().position(|event| event.phase == Phase::Done);
    assert_eq!(
        of(&sent[..first_done.unwrap()], Phase::Posted),
        [2, 4, 6, 8]
    );
    assert_eq!(of(&got, Phase::Posted), [2, 4, 6, 8]);
    assert_eq!(of(&got, Phase::Received), [2, 4, 6, 8]);
    assert_eq!(of(&got, Phase::Flushed), [2, 4, 6, 8]);
    assert_eq!(of(&got, Phase::Transmitted), [2, 4, 6, 8]);
    // Back pressure: what is written now is not handed over, because nothing is posted for it.
    written = write(&mut writer, 2, written, 16);
    assert_eq!(written, 8);
    settle([&first, &second]);
    assert!(of(&live::recorded(&first), Phase::Transmitted).is_empty());
    let mut taken = 0;
    let mut events = (sent, got);
    while taken < 16 {
        taken = read(&mut reader, 2, taken);
        settle([&first, &second]);
        written = write(&mut writer, 2, written, 16);
        settle([&first, &second]);
        events.0.extend(live::recorded(&first));
        events.1.extend(live::recorded(&second));
    }
    assert_eq!((written, taken), (16, 16));
    for events in [&events.0, &events.1] {
        check_conditions(events, 2);
        let all: Vec<u64> = (1..=16).map(|slice| 2 * slice).collect();
        assert_eq!(of(events, Phase::Transmitted), all);
        assert_eq!(of(events, Phase::Done), all);
    }
    assert!(
        !first.is_busy() && !second.is_busy(),
        "nothing is left to do"
    );
    assert_eq!(first.pass(), Pass::Idle);
}

/// Many ops on one connection, more than are taken over at once, with a reader that lags.
#[test]
fn tokens_of_many_ops_arrive_in_order_and_unchanged() {
    let (first, second, mut writer, mut reader) = two(1);
    live::record(&first);
    live::record(&second);
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut written, mut taken, mut expected, mut launch) = (0, 0, 0, 0);
    while taken < 1000 {
        while expected < 1000 && random.bool() {
            let slots = random.u64(1..=20).min(1000 - expected);
            first.expect(launch, sent(1, slots));
            second.expect(launch, received(0, slots));
            (launch, expected) = (launch + 1, expected + slots);
        }
        written = write(&mut writer, 1, written, expected);
        if random.u8(..4) > 0 {
            taken = read(&mut reader, 1, taken);
        }
        first.pass();
        second.pass();
        assert!(!first.failed() && !second.failed(), "seed {seed}");
    }
    settle([&first, &second]);
    assert_eq!((written, taken), (1000, 1000), "seed {seed}");
    check_conditions(&live::recorded(&first), 1);
    check_conditions(&live::recorded(&second), 1);
    assert!(!first.is_busy() && !second.is_busy(), "seed {seed}");
    assert_eq!(live::connections(&first), (1, 0));
    assert_eq!(live::connections(&second), (0, 1));
    first.close(false);
    second.close(false);
}
