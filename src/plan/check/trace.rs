//! Traces that an executor must produce, derived from the plan alone: tests of executors compare
//! with them.

use crate::plan::{Direction, Link, ListId, Operand, Plan};

/// One token handed over by one end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenEvent {
    /// Round of the window, from 0.
    pub round: u32,
    /// Step of the lane.
    pub step: usize,
    /// Repetition of the step.
    pub repetition: u16,
    /// Slice of the chunk.
    pub slice: u32,
    /// The connection.
    pub link: Link,
    /// [`Direction::Send`]: the token is published. [`Direction::Recv`]: it is released.
    pub direction: Direction,
}

/// Tokens that pass each connection in one launch: `touches x rounds x slices`, in the order of
/// [`Plan::connections`].
pub fn expected_tokens(plan: &Plan, rounds: u64, slices: u32) -> Vec<(Link, Direction, u64)> {
    let uses = plan.connections.iter().enumerate();
    uses.map(|(index, used)| {
        let tokens = plan.touches(index) * rounds * u64::from(slices);
        (used.link, used.direction, tokens)
    })
    .collect()
}

/// The tokens of each lane in the order in which its executor hands them over: for each slice of a
/// step, sources are released and destinations published, each in the order of its list. Within
/// one slice an executor may do either first.
pub fn expected_trace(plan: &Plan, rounds: u32, slices: u32) -> Vec<Vec<TokenEvent>> {
    (0..plan.lanes.len())
        .map(|lane| {
            let mut events = Vec::new();
            for round in 0..rounds {
                lane_round(plan, lane, round, slices, &mut events);
            }
            events
        })
        .collect()
}

fn lane_round(plan: &Plan, lane: usize, round: u32, slices: u32, events: &mut Vec<TokenEvent>) {
    for (number, step) in plan.lane_steps(lane).iter().enumerate() {
        for repetition in 0..step.tokens() {
            for slice in 0..slices {
                let mut hand_over = |list: ListId, is_source: bool| {
                    let operands = plan.lists.get(list).iter();
                    let moved = operands.filter(|operand| !(is_source && operand.keep));
                    events.extend(moved.filter_map(Operand::as_connection).map(|index| {
                        let used = &plan.connections[index];
                        TokenEvent {
                            round,
                            step: number,
                            repetition,
                            slice,
                            link: used.link,
                            direction: used.direction,
                        }
                    }));
                };
                hand_over(step.srcs, true);
                hand_over(step.dsts, false);
            }
        }
    }
}
