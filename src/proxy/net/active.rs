//! The operations that the engine works on.
//!
//! A launch posts one *op* for each connection of a lane: how many slots will pass. Ops of one call
//! and direction are grouped as the *subs* of one *args*; a pass walks all args from the oldest to
//! the youngest and looks at each sub once. The slots that an op covers follow those of the op
//! before it on the same connection, so counts are cumulative and nothing is ever reset.

use super::link::SLOTS;
use super::trace::{Phase, Trace};
use crate::base::Rank;
use crate::plan::Direction;
use std::collections::VecDeque;

/// Ops that are taken over at once.
pub(super) const APPEND_BATCH: usize = 16;
/// Passes between two looks at what was posted, while there is other work.
pub(super) const APPEND_EVERY: u32 = 8;

/// Slots that the connections of a launch share, as far as there are so many connections.
const SHARED_SLOTS: usize = 2 * SLOTS as usize;

/// What one launch expects of one connection.
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
}

/// One op on its connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sub {
    /// The connection.
    pub link: usize,
    pub peer: Rank,
    pub channel: u16,
    /// Slots of the connection up to its last one.
    pub end: u64,
    pub done: bool,
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
        *covered += op.slots;
        let sub = Sub {
            link,
            peer: op.peer,
            channel: op.channel,
            end: *covered,
            done: false,
        };
        trace.note(op.direction, op.peer, Phase::Appended, op.slots);
        let same = |args: &&mut Args| args.launch == op.launch && args.direction == op.direction;
        if let Some(args) = self.list.iter_mut().rev().take(2).find(same) {
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
            if is_done && spare.len() < APPEND_BATCH {
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
}
