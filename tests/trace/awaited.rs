//! Messages that are moved as they are waited for: their tokens are those of the plans.

use super::{
    COUNT, ROOT, SLOT_BYTES, Traced, Yielding, all, input, kernel, many, order, same_tokens, sized,
};
use kolo::algo;
use kolo::exec::host::exchange::{self, RootedExchange};
use kolo::exec::host::oneshot::SmallCall;
use kolo::exec::host::scratch::Sources;
use kolo::exec::host::{Bound, LaneRun, Launch, Wires};
use kolo::exec::order::MessageOrder;
use kolo::exec::trace::Event;
use kolo::exec::{Progress, Waiting};
use kolo::plan::{Algorithm, Collective, Direction, Geometry, Nodes, Protocol, Shape};
use std::sync::Arc;

/// Elements of a whole token.
const SLOT_COUNT: usize = SLOT_BYTES / 8;
/// Whole tokens are written past the cache.
const STREAM_BYTES: usize = SLOT_BYTES / 2;

/// One rank, by messages that are moved as they are waited for.
fn awaited(collective: Collective, wires: &mut Wires) -> Traced {
    let send = input(wires.me(), wires.ranks());
    let mut recv = vec![-1; COUNT * wires.ranks()];
    let call = SmallCall {
        order: &order(collective, &send, &mut recv, COUNT),
        kernel: &kernel(),
    };
    let exchange = RootedExchange {
        call,
        to_all: false,
        slice_bytes: SLOT_BYTES,
    };
    let (mut sources, mut yielding) = (Sources::default(), Yielding::default());
    // SAFETY: the buffers hold a block for every rank and live until the call has returned.
    let steps = unsafe { exchange.wait(wires, &mut sources, &mut yielding) };
    assert_eq!(steps, Ok(wires.steps_executed));
    (yielding.0, recv, wires.steps_executed)
}

#[test]
fn messages_that_are_awaited_are_those_of_the_plan() {
    for ranks in (2..=6).chain([11]) {
        for (collective, algorithm) in [
            (Collective::Gather, Algorithm::Bundle),
            (Collective::Reduce, Algorithm::OneShot),
        ] {
            same_tokens(ranks, (collective, algorithm), awaited);
        }
    }
}

/// A message of rank 0 to rank 1, of one token or many: each end by its plan, or as it is waited
/// for.
#[test]
fn the_tokens_of_a_message_are_those_of_its_plan() {
    let ways = [[false, false], [true, false], [false, true], [true, true]];
    for count in [1, SLOT_COUNT, SLOT_COUNT + 1, 10 * SLOT_COUNT - 100] {
        let traced = ways.map(|awaited| {
            all(2, |wires| {
                let me = wires.me();
                match awaited[me] {
                    true => message_awaited((count, false), wires, &mut Yielding::default()),
                    false => message_by_plan(count, wires),
                }
            })
        });
        assert_eq!(traced[0][1].1, (0..count as i64).collect::<Vec<_>>());
        assert_eq!(traced[0][0].2, count.div_ceil(SLOT_COUNT) as u64, "steps");
        for one in &traced[1..] {
            assert_eq!(one, &traced[0], "{count} elements");
        }
    }
}

/// Events while it was waited for.
pub trait Events {
    fn events(&mut self) -> Vec<Event>;
}

impl Events for Yielding {
    fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.0)
    }
}

pub fn data_of_message(me: usize, count: usize) -> Vec<i64> {
    match me {
        0 => (0..count as i64).collect(),
        _ => vec![-1; count],
    }
}

pub fn message_awaited(
    (count, to_all): (usize, bool),
    wires: &mut Wires,
    waiting: &mut (impl Waiting + Events),
) -> Traced {
    let me = wires.me();
    let mut data = data_of_message(me, count);
    let order = MessageOrder {
        peer: if to_all { 0 } else { 1 - me },
        to_all,
        direction: [Direction::Send, Direction::Recv][me],
        place: data.as_mut_ptr().cast(),
        bytes: 8 * count,
        slice_bytes: SLOT_BYTES,
        signature: 5,
    };
    assert_eq!(order.tokens(), count.div_ceil(SLOT_COUNT) as u64);
    wires.stream_bytes = STREAM_BYTES;
    // SAFETY: the data live until the message has gone.
    unsafe { exchange::message(&order, wires, waiting) }.unwrap();
    (waiting.events(), data, wires.steps_executed)
}

fn message_by_plan(count: usize, wires: &mut Wires) -> Traced {
    let me = wires.me();
    let mut data = data_of_message(me, count);
    let shape = Shape {
        collective: [Collective::Send, Collective::Recv][me],
        algorithm: Algorithm::Bundle,
        rank: me as u32,
        nranks: 2,
        root: 1 - me as u32,
        channels: 1,
    };
    let plan = algo::plan(&shape, &Nodes::one(2)).unwrap();
    let place = data.as_mut_ptr().cast::<u8>();
    let bound = Arc::new(Bound::new(plan, Protocol::Simple, wires).unwrap());
    let buffers = (place.cast_const(), place);
    let launch = Launch::new(
        bound,
        buffers,
        kernel(),
        5,
        Geometry::bundle(8 * SLOT_BYTES),
    )
    .unwrap();
    let mut lane = LaneRun::new(0, launch.window(0, count, (1, 1)));
    let mut events = Vec::new();
    // SAFETY: the data live until the lane is done.
    while unsafe { lane.progress(&launch, wires, &mut events) } != Ok(Progress::Done) {
        std::thread::yield_now();
    }
    (events, data, wires.steps_executed)
}

/// The rooted collectives of two ranks: each end by its plan, or as it is waited for.
#[test]
fn rooted_collectives_of_two_ranks_are_one_message() {
    let ways = [[false, false], [true, false], [false, true], [true, true]];
    for (collective, algorithm) in [
        (Collective::Broadcast, Algorithm::Ring),
        (Collective::Broadcast, Algorithm::Binomial),
        (Collective::Reduce, Algorithm::Ring),
        (Collective::Reduce, Algorithm::Binomial),
        (Collective::Gather, Algorithm::Bundle),
        (Collective::Gather, Algorithm::Binomial),
        (Collective::Scatter, Algorithm::Bundle),
        (Collective::Scatter, Algorithm::Binomial),
    ] {
        for count in [1, SLOT_COUNT, SLOT_COUNT + 1, 10 * SLOT_COUNT - 100] {
            let traced = ways.map(|awaited| {
                all(2, |wires| {
                    let mut traced = match awaited[wires.me()] {
                        true => rooted_awaited(collective, count, wires, &mut Yielding::default()),
                        false => sized((collective, algorithm), wires, count),
                    };
                    // The plan counts what a root moves itself as it likes.
                    traced.2 = 0;
                    traced
                })
            });
            assert_eq!(traced[0][0].0.len(), count.div_ceil(SLOT_COUNT), "tokens");
            for one in &traced[1..] {
                assert_eq!(one, &traced[0], "{collective:?} by {algorithm:?}, {count}");
            }
        }
    }
}

/// A broadcast whose root casts: each of three ranks by its plan, or as it is waited for.
#[test]
fn a_cast_that_is_awaited_is_that_of_its_plan() {
    let cast = (Collective::Broadcast, Algorithm::Nvls);
    // The last bytes of a line, and the first ones of a slot.
    let counts = [1, 5, 6, SLOT_COUNT, SLOT_COUNT + 1, 10 * SLOT_COUNT - 100];
    for count in counts {
        let traced: Vec<_> = (0..8)
            .map(|ways: usize| {
                all(3, |wires| match ways >> wires.me() & 1 {
                    0 => sized(cast, wires, count),
                    _ => rooted_awaited(cast.0, count, wires, &mut Yielding::default()),
                })
            })
            .collect();
        for (ways, one) in traced.iter().enumerate() {
            for (rank, ((events, data, _), (planned, right, _))) in
                one.iter().zip(&traced[0]).enumerate()
            {
                assert_eq!(events.len(), count.div_ceil(SLOT_COUNT), "tokens");
                assert_eq!(events, planned, "rank {rank}, {ways:03b}, {count}");
                assert_eq!(data, right, "rank {rank}, {ways:03b}, {count}");
            }
        }
        assert_eq!(traced[0][0].1[..count], many(ROOT, 3, count)[..count]);
    }
}

pub fn rooted_awaited(
    collective: Collective,
    count: usize,
    wires: &mut Wires,
    waiting: &mut (impl Waiting + Events),
) -> Traced {
    let (me, ranks) = (wires.me(), wires.ranks());
    let send = many(me, ranks, count);
    let mut recv = vec![-1; ranks * count];
    let call = SmallCall {
        order: &order(collective, &send, &mut recv, count),
        kernel: &kernel(),
    };
    let exchange = RootedExchange {
        call,
        to_all: ranks > 2,
        slice_bytes: SLOT_BYTES,
    };
    wires.stream_bytes = STREAM_BYTES;
    let mut sources = Sources::default();
    // SAFETY: the buffers hold a block for every rank and live until the call has returned.
    let steps = unsafe { exchange.wait(wires, &mut sources, waiting) };
    assert_eq!(steps, Ok(wires.steps_executed));
    (waiting.events(), recv, 0)
}

/// As many messages as an end can hold lie in both directions before the first exchange: each half
/// must move whatever the other waits for.
#[test]
fn the_halves_of_an_exchange_do_not_wait_for_each_other() {
    const AHEAD: i64 = 32;
    let traced = all(2, |wires| {
        let (me, peer) = (wires.me(), 1 - wires.me());
        let message = |direction, place: *mut i64| MessageOrder {
            peer,
            to_all: false,
            direction,
            place: place.cast(),
            bytes: 8,
            slice_bytes: SLOT_BYTES,
            signature: 5,
        };
        let mut yielding = Yielding::default();
        for number in 0..AHEAD {
            let mut value = 1000 * me as i64 + number;
            let send = message(Direction::Send, &raw mut value);
            // SAFETY: the value lives until the message has gone.
            unsafe { exchange::message(&send, wires, &mut yielding) }.unwrap();
        }
        let mut got = vec![-1; 2 * AHEAD as usize];
        for (number, got) in got.iter_mut().enumerate() {
            let mut value = 1000 * me as i64 + AHEAD + number as i64;
            let send = message(Direction::Send, &raw mut value);
            let recv = message(Direction::Recv, got);
            // SAFETY: both live until the exchange has ended.
            unsafe { exchange::both([&send, &recv], wires, &mut yielding) }.unwrap();
        }
        (yielding.0, got, wires.steps_executed)
    });
    for (me, (events, got, steps)) in traced.into_iter().enumerate() {
        let theirs = 1000 * (1 - me as i64);
        let wanted: Vec<i64> = (theirs..theirs + 2 * AHEAD).collect();
        assert_eq!(got, wanted, "rank {me}");
        assert_eq!(
            (events.len(), steps),
            (5 * AHEAD as usize, 5 * AHEAD as u64)
        );
    }
}
