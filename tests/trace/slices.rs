//! Slices of several slots in jobs on several nodes: inside a node a slice is one token, and
//! between nodes each of its slots is one.

use super::{SLOT_BYTES, all, kernel, many};
use kolo::algo;
use kolo::exec::Progress;
use kolo::exec::host::carried::Carried;
use kolo::exec::host::launch::between_nodes;
use kolo::exec::host::{Bound, LaneRun, Launch, Wires};
use kolo::exec::trace::Event;
use kolo::plan::{Algorithm, Collective, Geometry, Link, Nodes, Protocol, Shape};
use kolo::wire::carrier::{CarriedSlots, Carrier};
use std::sync::{Arc, Mutex};

/// Ranks of a node.
const MATES: u32 = 2;
const RANKS: u32 = 2 * MATES;
/// Rounds of full chunks, and a short one.
const COUNT: usize = (4 * SLOT_BYTES / 8) * 2 * RANKS as usize + 12_345;

fn is_remote(one: u32, other: u32) -> bool {
    one / MATES != other / MATES
}

/// Leaves all tokens in the memory that the ranks have in common, and hears how many there are.
struct Apart {
    me: u32,
    expected: Mutex<Vec<CarriedSlots>>,
}

impl Carrier for Apart {
    fn is_remote(&self, rank: usize) -> bool {
        is_remote(self.me, rank as u32)
    }

    fn expect(&self, _: u64, slots: CarriedSlots) {
        self.expected.lock().unwrap().push(slots);
    }

    fn is_proxied(&self, _: usize) -> bool {
        false
    }

    fn takes_parts(&self) -> bool {
        false
    }

    fn announce(&self, _: u64, _: i32, _: i32, _: usize) {}

    fn want(&self, _: usize, _: usize, _: u64, _: *mut u8, _: usize) {}
}

/// A call of sums or copies: what is sent, what is received, elements of a block.
struct Call {
    shape: Shape,
    geometry: Geometry,
    protocol: Protocol,
    send: Vec<i64>,
    recv: Vec<i64>,
    count: usize,
}

impl Call {
    fn run(&mut self, wires: &mut Wires) -> Vec<Event> {
        let nodes = Nodes::uniform(RANKS / MATES, MATES);
        let plan = algo::plan(&self.shape, &nodes).unwrap();
        let bound = Arc::new(Bound::new(plan, self.protocol, wires).unwrap());
        let geometry = between_nodes(self.geometry, bound.pieces(), 8);
        let buffers = (self.send.as_ptr().cast(), self.recv.as_mut_ptr().cast());
        let launch = Launch::new(bound, buffers, kernel(), 5, geometry).unwrap();
        let collective = self.shape.collective;
        let blocks = (
            collective.input_blocks(RANKS),
            collective.output_blocks(RANKS),
        );
        let window = |lane| launch.window(lane, self.count, blocks);
        let lanes = 0..launch.plan.lanes().len();
        let mut lanes: Vec<LaneRun> = lanes.map(|it| LaneRun::new(it, window(it))).collect();
        let mut events = Vec::new();
        while !lanes.is_empty() {
            lanes.retain_mut(|lane| {
                // SAFETY: the buffers hold what the windows say, and live until the lanes end.
                let progress = unsafe { lane.progress(&launch, wires, &mut events) };
                progress.expect("all call the same") != Progress::Done
            });
            std::thread::yield_now();
        }
        events
    }
}

fn shape(collective: Collective, rank: u32) -> Shape {
    Shape {
        collective,
        algorithm: Algorithm::Ring,
        rank,
        nranks: RANKS,
        root: 0,
        channels: 1,
    }
}

/// A broadcast of three slots: what follows it begins in the middle of the slots of a chunk.
fn misplace(wires: &mut Wires) {
    let (rank, count) = (wires.me() as u32, 3 * SLOT_BYTES / 8);
    let mut call = Call {
        shape: shape(Collective::Broadcast, rank),
        geometry: Geometry::bundle(8 * SLOT_BYTES),
        protocol: Protocol::Simple,
        send: many(rank as usize, 1, count),
        recv: vec![-1; count],
        count,
    };
    call.run(wires);
    assert!(call.recv == many(0, 1, count));
}

/// Tokens that a rank wrote, inside its node and to others, by their bytes.
fn tokens(events: &[Event]) -> [Vec<usize>; 2] {
    let mut tokens = [Vec::new(), Vec::new()];
    for event in events {
        if let &Event::Publish { link, bytes } = event
            && let Link::Pair { writer, reader, .. } = link
        {
            tokens[usize::from(is_remote(writer, reader))].push(bytes);
        }
    }
    tokens
}

fn ring(collective: Collective, protocol: Protocol, wires: &mut Wires) -> [Vec<usize>; 2] {
    let rank = wires.me() as u32;
    let apart = Arc::new(Apart {
        me: rank,
        expected: Mutex::default(),
    });
    wires.carried = Carried::by(apart.clone());
    misplace(wires);
    let blocks = (
        collective.input_blocks(RANKS),
        collective.output_blocks(RANKS),
    );
    let count = COUNT / blocks.0.max(blocks.1) as usize;
    let input = |rank: u32| many(rank as usize, blocks.0 as usize, count);
    let mut call = Call {
        shape: shape(collective, rank),
        geometry: Geometry::ring(8 * SLOT_BYTES),
        protocol,
        send: input(rank),
        recv: vec![-1; count * blocks.1 as usize],
        count,
    };
    apart.expected.lock().unwrap().clear();
    let tokens = tokens(&call.run(wires));
    let inputs: Vec<Vec<i64>> = (0..RANKS).map(input).collect();
    let sum = |at: usize| inputs.iter().map(|input| input[at]).sum::<i64>();
    let right = |(at, &found): (usize, &i64)| {
        let wanted = match collective {
            Collective::AllReduce => sum(at),
            Collective::ReduceScatter => sum(rank as usize * count + at),
            _ => inputs[at / count][at % count],
        };
        found == wanted
    };
    let first = call.recv.iter().enumerate().position(|it| !right(it));
    assert_eq!(first, None, "{collective:?}, {protocol:?}, rank {rank}");
    let expected = apart.expected.lock().unwrap();
    let sent = expected.iter().filter(|of| of.is_send).map(|of| of.slots);
    assert_eq!(
        sent.sum::<u64>(),
        tokens[1].len() as u64,
        "the carrier knows"
    );
    tokens
}

#[test]
fn rings_keep_their_slices_inside_nodes() {
    for collective in [
        Collective::AllReduce,
        Collective::AllGather,
        Collective::ReduceScatter,
    ] {
        for protocol in [Protocol::Simple, Protocol::Ll] {
            let moved = Mutex::new(Vec::new());
            all(RANKS as usize, |wires| {
                let tokens = ring(collective, protocol, wires);
                moved.lock().unwrap().push(tokens);
                (Vec::new(), Vec::new(), 0)
            });
            let moved = moved.into_inner().unwrap();
            let what = format!("{collective:?}, {protocol:?}");
            let [near, far] = [0, 1].map(|of| moved.iter().map(|it| it[of].len()).sum::<usize>());
            // The ring leaves each node once: every second rank writes all it has to its mate.
            assert!(
                near > 0 && far == 2 * near,
                "{what}: {near} and {far} tokens"
            );
            let slot = SLOT_BYTES.min(protocol.slot_bytes());
            let most = |of: usize| moved.iter().flat_map(|it| &it[of]).max().copied();
            assert_eq!(most(0), Some(2 * slot), "{what}: slices of two slots");
            assert_eq!(most(1), Some(slot), "{what}: a slot is a message");
        }
    }
}
