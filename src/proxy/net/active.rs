//! The operations that the engine works on.
//!
//! A launch posts one *op* for each connection of a lane: how many slots will pass. Ops of one call
//! and direction are grouped as the *subs* of one *args*; a pass walks all args from the oldest to
//! the youngest and looks at each sub once. The slots that an op covers follow those of the op
//! before it on the same connection, so counts are cumulative and nothing is ever reset.

use super::counts::SLOTS;
use super::profile::{Step, Steps};
use super::trace::{Phase, Trace};
use crate::base::Rank;
use crate::plan::Direction;
use std::collections::VecDeque;

/// How ops that were posted are taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taking {
    /// Passes between two looks at what was posted, while there is other work.
    pub every: u32,
    /// Ops that are taken over at once.
    pub batch: usize,
}

impl Default for Taking {
    fn default() -> Taking {
        Taking {
            every: 8,
            batch: 16,
        }
    }
}

/// Subs of one args at most: those of a launch with more connections are several args.
pub(super) const MAX_SUBS: usize = 64;
/// Lists of subs that are kept for their memory.
const SPARE_LISTS: usize = 16;

/// Slots that the connections of a launch share, as far as there are so many connections.
const SHARED_SLOTS: usize = 2 * SLOTS as usize;

/// Tokens that one launch passes through one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// Number of the launch: ops that go together have the same.
    pub launch: u64,
    /// Which way.
    pub direction: Direction,
    /// The other rank.
    pub peer: Rank,
    /// The channel.
    pub channel: u16,
    /// Slots that will pass.
    pub slots: u64,
    /// Whether the reader says of each large token where it wants it.
    pub wished: bool,
}

/// One op on its connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sub {
    /// The connection.
    pub link: usize,
    pub peer: Rank,
    pub channel: u16,
    /// Slots of the connection before its first one.
    pub start: u64,
    /// Slots of the connection up to its last one.
    pub end: u64,
    /// See [`Op::wished`].
    pub wished: bool,
    pub done: bool,
    /// Steps, as a profiler hears of them.
    pub steps: Steps,
}

impl Sub {
    /// Its first step, for a profiler.
    pub fn first_step(&self, launch: u64, direction: Direction) -> Step {
        Step {
            launch,
            direction,
            peer: self.peer,
            channel: self.channel,
            slot: 0,
            slots: self.end - self.start,
        }
    }
}

/// The ops of one launch in one direction.
#[derive(Debug)]
pub(super) struct Args {
    pub launch: u64,
    pub direction: Direction,
    pub subs: Vec<Sub>,
    /// Subs that are done.
    pub done: usize,
}

impl Args {
    /// How many slots of each connection may be on their way: all, or a share where there are many
    /// connections. So one launch does not fill the queues of the network for all others.
    pub fn depth(&self) -> u64 {
        let under_way = self.subs.len() - self.done;
        (SHARED_SLOTS / under_way.max(1)).clamp(1, SLOTS as usize) as u64
    }
}

/// All args, oldest first.
#[derive(Debug, Default)]
pub(super) struct Active {
    pub list: VecDeque<Args>,
    /// Kept for their memory.
    spare: Vec<Vec<Sub>>,
    /// Slots that ops have covered so far, by direction and connection.
    covered: [Vec<u64>; 2],
    /// Ops that were taken over so far, by direction.
    pub taken: [u64; 2],
}

impl Active {
    /// For so many connections in each direction.
    pub fn new(links: usize) -> Active {
        Active {
            covered: [vec![0; links], vec![0; links]],
            ..Active::default()
        }
    }

    /// Takes an op over.
    pub fn append(&mut self, op: &Op, link: usize, trace: &mut Trace) {
        let covered = &mut self.covered[op.direction as usize][link];
        let start = *covered;
        *covered += op.slots;
        self.taken[op.direction as usize] += 1;
        let sub = Sub {
            link,
            peer: op.peer,
            channel: op.channel,
            start,
            end: *covered,
            wished: op.wished,
            done: false,
            steps: Steps::from(start),
        };
        trace.note(op.direction, op.peer, Phase::Appended, op.slots);
        let of_launch = |args: &&mut Args| args.launch == op.launch;
        let takes = |args: &&mut Args| args.direction == op.direction && args.subs.len() < MAX_SUBS;
        let mut latest = self.list.iter_mut().rev().take_while(of_launch);
        if let Some(args) = latest.find(takes) {
            args.subs.push(sub);
            return;
        }
        let mut subs = self.spare.pop().unwrap_or_default();
        subs.push(sub);
        self.list.push_back(Args {
            launch: op.launch,
            direction: op.direction,
            subs,
            done: 0,
        });
    }

    /// Removes args whose subs are all done.
    pub fn sweep(&mut self) {
        let Active { list, spare, .. } = self;
        list.retain_mut(|args| {
            let is_done = args.done == args.subs.len();
            if is_done && spare.len() < SPARE_LISTS {
                args.subs.clear();
                spare.push(std::mem::take(&mut args.subs));
            }
            !is_done
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_share_the_depth() {
        let mut active = Active::new(40);
        let mut depths = Vec::new();
        for peer in 0..40 {
            let op = Op {
                launch: 1,
                direction: Direction::Send,
                peer: Rank(peer),
                channel: 0,
                slots: 20,
                wished: false,
            };
            active.append(&op, peer as usize, &mut Trace::default());
            depths.push(active.list[0].depth());
        }
        assert_eq!(depths[..6], [8, 8, 5, 4, 3, 2]);
        assert_eq!((depths[7], depths[8], depths[39]), (2, 1, 1));
        // Those that are done leave theirs to the others.
        active.list[0].done = 36;
        assert_eq!(active.list[0].depth(), 4);
    }

    /// A launch with 200 connections each way, whose ops come in turns.
    #[test]
    fn the_subs_of_an_operation_are_bounded() {
        let mut active = Active::new(200);
        for peer in 0..200 {
            for direction in [Direction::Send, Direction::Recv] {
                let op = Op {
                    launch: 7,
                    direction,
                    peer: Rank(peer),
                    channel: 0,
                    slots: 3,
                    wished: false,
                };
                active.append(&op, peer as usize, &mut Trace::default());
            }
        }
        let of = |direction| {
            let args = active
                .list
                .iter()
                .filter(|args| args.direction == direction);
            args.map(|args| args.subs.len()).collect::<Vec<_>>()
        };
        assert_eq!(of(Direction::Send), [MAX_SUBS, MAX_SUBS, MAX_SUBS, 8]);
        assert_eq!(of(Direction::Recv), [MAX_SUBS, MAX_SUBS, MAX_SUBS, 8]);
        let mut peers: Vec<u32> = Vec::new();
        for args in &active.list {
            let of_sub = args.subs.iter().map(|sub| sub.peer.0);
            peers.extend(of_sub.filter(|_| args.direction == Direction::Send));
        }
        assert!(peers.into_iter().eq(0..200), "in order, each once");
        assert_eq!(active.taken, [200, 200]);
        // The ops of another launch are not theirs.
        let other = Op {
            launch: 8,
            direction: Direction::Send,
            peer: Rank(0),
            channel: 0,
            slots: 3,
            wished: false,
        };
        active.append(&other, 0, &mut Trace::default());
        let last = active.list.back().unwrap();
        assert_eq!(
            (last.launch, last.subs.len(), last.subs[0].start),
            (8, 1, 3)
        );
    }
}
