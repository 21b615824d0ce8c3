//! Wishes of readers about tokens from other nodes: a lane that only stores says where several of
//! them go, any other one says it of the next alone.

use super::{SLOT_BYTES, kernel, many, wires};
use kolo::algo;
use kolo::exec::Progress;
use kolo::exec::host::carried::Carried;
use kolo::exec::host::{Bound, LaneRun, Launch, Wires};
use kolo::plan::{Algorithm, Collective, Geometry, Nodes, Protocol, Shape};
use kolo::wire::carrier::{CarriedSlots, Carrier};
use kolo::wire::line::LINES;
use std::sync::{Arc, Mutex};

/// Elements of a slot.
const SLOT: usize = SLOT_BYTES / 8;

/// Two ranks, each on a node of its own, whose tokens stay in the memory that they have in common.
#[derive(Default)]
struct Apart {
    me: usize,
    /// Position, place and bytes of each wish.
    wishes: Mutex<Vec<(u64, usize, usize)>>,
}

impl Carrier for Apart {
    fn is_remote(&self, rank: usize) -> bool {
        rank != self.me
    }

    fn expect(&self, _: u64, _: CarriedSlots) {}

    fn is_proxied(&self, _: usize) -> bool {
        false
    }

    fn takes_parts(&self) -> bool {
        true
    }

    fn announce(&self, _: u64, _: i32, _: i32, _: usize) {}

    fn want(&self, _: usize, _: usize, position: u64, place: *mut u8, bytes: usize) {
        let wish = (position, place.addr(), bytes);
        self.wishes.lock().unwrap().push(wish);
    }
}

/// A rank of a call that has one lane.
struct Caller {
    wires: Wires,
    apart: Arc<Apart>,
    launch: Launch,
    lane: LaneRun,
}

impl Caller {
    fn new(collective: Collective, mut wires: Wires, send: &[i64], recv: &mut [i64]) -> Caller {
        let me = wires.me();
        let apart = Arc::new(Apart {
            me,
            ..Apart::default()
        });
        wires.carried = Carried::by(apart.clone());
        let shape = Shape {
            collective,
            algorithm: Algorithm::Ring,
            rank: me as u32,
            nranks: 2,
            root: 0,
            channels: 1,
        };
        let plan = algo::plan(&shape, &Nodes::uniform(2, 1)).unwrap();
        let bound = Arc::new(Bound::new(plan, Protocol::Simple, &mut wires).unwrap());
        let buffers = (send.as_ptr().cast(), recv.as_mut_ptr().cast());
        let geometry = Geometry::bundle(8 * SLOT_BYTES);
        let launch = Launch::new(bound, buffers, kernel(), 5, geometry).unwrap();
        let blocks = (collective.input_blocks(2), collective.output_blocks(2));
        let count = send.len() / blocks.0 as usize;
        let lane = LaneRun::new(0, launch.window(0, count, blocks));
        assert_eq!(launch.plan.lanes().len(), 1);
        Caller {
            wires,
            apart,
            launch,
            lane,
        }
    }

    /// Goes on as far as it can; whether it is done.
    fn go_on(&mut self) -> bool {
        let mut events = Vec::new();
        // SAFETY: the buffers hold what the window says, and live until the test ends.
        let progress = unsafe {
            let (launch, wires) = (&self.launch, &mut self.wires);
            self.lane.progress(launch, wires, &mut events)
        };
        progress.expect("both call the same") == Progress::Done
    }

    fn wishes(&self) -> Vec<(u64, usize, usize)> {
        self.apart.wishes.lock().unwrap().clone()
    }
}

/// Drives both until they are done.
fn finish(callers: &mut [Caller; 2]) {
    let mut done = [false; 2];
    for _ in 0..1000 {
        for (caller, done) in callers.iter_mut().zip(&mut done) {
            *done = *done || caller.go_on();
        }
        if done == [true; 2] {
            return;
        }
    }
    panic!("they do not end");
}

#[test]
fn a_lane_that_only_stores_says_where_several_tokens_go() {
    let count = 20 * SLOT + 100;
    let (send, mut recv) = (many(0, 1, count), [vec![-1; count], vec![-1; count]]);
    let mut callers = wires(2).into_iter().zip(&mut recv);
    let mut callers: [Caller; 2] = std::array::from_fn(|_| {
        let (wires, recv) = callers.next().unwrap();
        Caller::new(Collective::Broadcast, wires, &send, recv)
    });
    let start = callers[1].launch.recv.addr();
    let wish = |position: u64| (position, start + position as usize * SLOT_BYTES, SLOT_BYTES);
    let first: Vec<_> = (0..LINES as u64).map(wish).collect();
    for _ in 0..3 {
        assert!(!callers[1].go_on());
        assert_eq!(callers[1].wishes(), first, "each is said once");
    }
    finish(&mut callers);
    // The last token is too small to go elsewhere than to its slot.
    let all: Vec<_> = (0..20).map(wish).chain([(20, 0, 0)]).collect();
    assert_eq!(callers[1].wishes(), all);
    assert_eq!(callers[0].wishes(), []);
    drop(callers);
    assert!(recv[1] == send);
}

#[test]
fn a_lane_that_does_more_says_it_of_the_next_token_alone() {
    let count = 3 * SLOT;
    let send = [0, 1].map(|rank| many(rank, 1, count));
    let mut recv = [vec![-1; 2 * count], vec![-1; 2 * count]];
    let mut callers = wires(2).into_iter().zip(send.iter().zip(&mut recv));
    let mut callers: [Caller; 2] = std::array::from_fn(|_| {
        let (wires, (send, recv)) = callers.next().unwrap();
        Caller::new(Collective::AllGather, wires, send, recv)
    });
    let start = callers[1].launch.recv.addr();
    assert!(!callers[1].go_on());
    assert_eq!(callers[1].wishes(), [(0, start, SLOT_BYTES)]);
    finish(&mut callers);
    drop(callers);
    for recv in &recv {
        assert!(recv[..count] == send[0] && recv[count..] == send[1]);
    }
}
