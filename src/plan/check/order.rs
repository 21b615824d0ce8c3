//! An order in which all events of one round can happen, for the proofs of memory and values.
//!
//! One round of one slice is enough there. Rounds and slices touch disjoint bytes of the same
//! chunks, and whatever orders two events for one slice (a lane, a token) orders every slice of
//! them: slice s of the first precedes slice s of the second. With unlimited credits nothing else
//! orders events, so what holds here holds at every capacity.

use super::net::{Block, Net};
use super::report::Counterexample;
use super::tokens::{Call, Release, Run};

/// The events of a block, grouped by component, each component in an order that can happen.
pub(super) struct Order {
    /// Event numbers.
    pub events: Vec<u32>,
    /// The component of each lane (from 0 for the first lane of the block). Lanes of different
    /// components are connected by no chain of connections: nothing orders them within a call.
    pub component: Vec<u32>,
    /// The position of each lane in its component.
    pub position: Vec<u32>,
    /// Lanes of each component.
    pub width: Vec<u32>,
}

impl Order {
    pub fn new(net: &Net, number: usize) -> Result<Order, Counterexample> {
        let block = &net.blocks[number];
        let longest = net
            .wires
            .iter()
            .enumerate()
            .map(|(wire, _)| block.sends.get(wire as u32).len() as u32);
        // A connection that holds all tokens of the round gives credit without limit.
        let capacity = longest.max().unwrap_or(0);
        let calls = [Call {
            block: number,
            rounds: 1,
            slices: 1,
            release: Release::CallEnd,
        }];
        let mut events = Vec::with_capacity(block.events.len());
        let mut run = Run::new(net, &calls, capacity);
        if !run.run(|event| events.push(event))? {
            return Err(run.deadlock());
        }
        let (component, position, width) = components(net, block);
        let mut order = Order {
            events,
            component,
            position,
            width,
        };
        if order.width.len() > 1 {
            let first = block.lanes.start;
            let component = &order.component;
            let key = |event: &u32| component[(net.events[*event as usize].lane - first) as usize];
            order.events.sort_by_key(key);
        }
        Ok(order)
    }
}

/// Union of all lanes that share a connection.
fn components(net: &Net, block: &Block) -> (Vec<u32>, Vec<u32>, Vec<u32>) {
    let first = block.lanes.start;
    let mut parent: Vec<u32> = (0..block.lanes.len() as u32).collect();
    fn root(parent: &mut [u32], mut lane: u32) -> u32 {
        while parent[lane as usize] != lane {
            parent[lane as usize] = parent[parent[lane as usize] as usize];
            lane = parent[lane as usize];
        }
        lane
    }
    let lane_of = |event: u32| net.events[event as usize].lane - first;
    for (number, wire) in net.wires.iter().enumerate() {
        let sends = block.sends.get(number as u32).iter();
        let readers = wire.first_reader..wire.first_reader + wire.readers;
        let receives = readers.flat_map(|reader| block.receives.get(reader));
        let mut last = None;
        for lane in sends.chain(receives).map(|&event| lane_of(event)) {
            if let Some(other) = last.replace(lane).filter(|&other| other != lane) {
                let (a, b) = (root(&mut parent, lane), root(&mut parent, other));
                parent[a.max(b) as usize] = a.min(b);
            }
        }
    }
    let mut width = Vec::new();
    let mut number = vec![0; parent.len()];
    let mut position = vec![0; parent.len()];
    let mut component = vec![0; parent.len()];
    for lane in 0..parent.len() as u32 {
        let top = root(&mut parent, lane);
        if top == lane {
            number[lane as usize] = width.len() as u32;
            width.push(0);
        }
        let own = number[top as usize];
        component[lane as usize] = own;
        position[lane as usize] = width[own as usize];
        width[own as usize] += 1;
    }
    (component, position, width)
}
