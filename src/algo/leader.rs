//! One leader a part: for data so small that messages are counted, not bytes.
//!
//! Partners of `rd` all send at once, so each exchange costs a node, or the way between two
//! sockets, as many messages as it has ranks. Here the ranks of a cache hand what they have to its
//! first rank, the leaders of the caches of a socket to the first of them, and so on: one message a
//! part and level. The leaders at the top exchange theirs, and the result goes the same way down,
//! inside one node as a cast of each leader to its group. A leader folds what is near while
//! what is far is on its way.
//!
//! A large group is taken in two ([`run_of`]): runs, whose first members hand on.
//!
//! Reference: the leaders of M. Bayatpour et al., "Scalable reduction collectives with data
//! partitioning-based multi-leader design", SC 2017, doi:10.1145/3126908.3126954; levels inside a
//! node as in G. Katevenis, M. Ploumidis, M. Marazakis, "A framework for hierarchical single-copy
//! MPI collectives on multicore nodes", IEEE CLUSTER 2022.

use super::binomial::Place;
use super::group::{Group, Pieces, flat};
use super::ladder::Ladder;
use super::rd;
use crate::plan::emit::Connection;
use crate::plan::parts::{FEW_TOPS, run_of};
use crate::plan::{
    Emitter, Layout, Nodes, Operand, POST_SCALE, PRE_SCALE, Plan, Readers, Shape, StepOp,
};

/// A group in which results go down.
struct Descent {
    /// Its leader, who casts.
    leader: u32,
    /// Who reads the cast; none where results go by pairs.
    readers: Option<Readers>,
    /// The members below this one, by pairs.
    children: Vec<u32>,
}

/// A rank's place in the tree of leaders.
struct LeaderPlace {
    me: u32,
    /// Who folds what this rank has; none at the top.
    parent: Option<u32>,
    /// Whose contributions it folds, level by level.
    children: Vec<Vec<u32>>,
    /// The leaders at the top.
    tops: Vec<u32>,
    /// The groups that it leads or hands on in, the farthest first.
    below: Vec<Descent>,
    /// The cast by which its results come; else they come from the parent.
    cast: Option<(u32, Readers)>,
}

impl LeaderPlace {
    fn of(nodes: &Nodes, me: u32) -> LeaderPlace {
        let ladder = Ladder::of(nodes);
        let top = ladder.height() - 1;
        // One node without parts has one leader; of nodes with a rank each, all are.
        let one_node = nodes.count() == 1;
        let (levels, tops) = match top {
            0 if one_node => (1, vec![0]),
            _ => (top, ladder.group(top, me)),
        };
        let mut place = LeaderPlace {
            me,
            parent: None,
            children: Vec::new(),
            tops,
            below: Vec::new(),
            cast: None,
        };
        for level in 0..levels {
            place.climb(level, &ladder.group(level, me), one_node);
            if place.parent.is_some() {
                break;
            }
        }
        place.below.reverse();
        place
    }

    /// Joins a group.
    fn climb(&mut self, level: usize, group: &[u32], one_memory: bool) {
        let mine = group.iter().position(|&rank| rank == self.me);
        let mine = mine.expect("a leader is of its group");
        let (parent, children) = related(mine, group.len());
        let children: Vec<u32> = children.into_iter().map(|child| group[child]).collect();
        self.parent = parent.map(|parent| group[parent]);
        if !children.is_empty() {
            self.children.push(children.clone());
        }
        // One reader is reached by a pair.
        let readers = if one_memory && group.len() > 2 {
            Readers::group(level, group)
        } else {
            None
        };
        if mine > 0 {
            self.cast = readers.map(|readers| (group[0], readers));
        }
        let leads = mine == 0 && group.len() > 1;
        if leads || (readers.is_none() && !children.is_empty()) {
            self.below.push(Descent {
                leader: group[0],
                readers,
                children,
            });
        }
    }

    fn is_top(&self) -> bool {
        self.parent.is_none()
    }

    /// The leaders at the top but this rank.
    fn other_tops(&self) -> Vec<u32> {
        let tops = self.tops.iter().copied();
        tops.filter(|&top| top != self.me).collect()
    }

    /// Where contributions go.
    fn up(&self, e: &mut Emitter) -> Option<Operand> {
        self.parent.map(|parent| e.to(parent).operand())
    }

    /// Folds the own contribution and those of the children, in their order, into `kept`, but for
    /// the last level. Returns what is left to fold, and the flags of that step.
    fn gathered(&self, e: &mut Emitter, kept: Operand) -> (Vec<Operand>, u8) {
        let (mut own, mut flags) = (Operand::INPUT, PRE_SCALE);
        let mut srcs = vec![own];
        for (level, children) in self.children.iter().enumerate() {
            if level > 0 {
                pass(e, flags, &srcs, &[kept]);
                (own, flags) = (kept, 0);
            }
            srcs = vec![own];
            srcs.extend(children.iter().map(|&child| e.from(child).operand()));
        }
        (srcs, flags)
    }

    /// Waits for signals of the children, but for those of the last level, which are returned.
    fn signalled(&self, e: &mut Emitter) -> Vec<Operand> {
        let mut srcs = Vec::new();
        for children in &self.children {
            answer(e, &srcs, &[]);
            srcs = children
                .iter()
                .map(|&child| e.from(child).operand())
                .collect();
        }
        srcs
    }

    /// Where results come from.
    fn above(&self, e: &mut Emitter) -> Option<Connection> {
        let parent = self.parent?;
        Some(match self.cast {
            Some((leader, readers)) => e.cast_to(leader, readers),
            None => e.from(parent),
        })
    }

    /// Where results go, but for a rank that has them.
    fn down(&self, e: &mut Emitter, but: Option<u32>) -> Vec<Operand> {
        let mut dsts = Vec::new();
        for group in &self.below {
            match group.readers {
                Some(readers) => dsts.push(e.cast_to(group.leader, readers).operand()),
                None => {
                    let children = group.children.iter().filter(|&&child| Some(child) != but);
                    dsts.extend(children.map(|&child| e.to(child).operand()));
                }
            }
        }
        dsts
    }
}

/// Parent and children of a member of a group, by their positions.
fn related(mine: usize, count: usize) -> (Option<usize>, Vec<usize>) {
    let run = run_of(count);
    let first = mine / run * run;
    if mine != first {
        return (Some(first), Vec::new());
    }
    let mut children: Vec<usize> = (first + 1..count.min(first + run)).collect();
    if mine == 0 {
        children.extend((run..count).step_by(run));
        return (None, children);
    }
    (Some(0), children)
}

/// One step, where it has sources and destinations.
fn pass(e: &mut Emitter, flags: u8, srcs: &[Operand], dsts: &[Operand]) {
    let op = if srcs.len() > 1 {
        StepOp::Fold
    } else {
        StepOp::Copy
    };
    e.step(op, flags, srcs, dsts, 0);
}

/// Waits for signals, and signals; nothing where there is nobody.
fn answer(e: &mut Emitter, srcs: &[Operand], dsts: &[Operand]) {
    if !srcs.is_empty() || !dsts.is_empty() {
        e.step(StepOp::Token, 0, srcs, dsts, 0);
    }
}

/// Contributions up to the leaders, who exchange them; results down.
pub fn all_reduce(shape: &Shape, nodes: &Nodes) -> Plan {
    let place = LeaderPlace::of(nodes, shape.rank);
    flat(shape, 1, Layout::Split, |g| {
        let (srcs, flags) = place.gathered(g.e, Operand::OUTPUT);
        if let (Some(up), Some(above)) = (place.up(g.e), place.above(g.e)) {
            pass(g.e, flags, &srcs, &[up]);
            let mut dsts = vec![Operand::OUTPUT];
            dsts.extend(place.down(g.e, None));
            return pass(g.e, 0, &[above.operand()], &dsts);
        }
        let down = place.down(g.e, None);
        let with_result = |mut down: Vec<Operand>| {
            down.insert(0, Operand::OUTPUT);
            down
        };
        match place.tops.len() {
            1 => pass(g.e, flags | POST_SCALE, &srcs, &with_result(down)),
            2..=FEW_TOPS => {
                let others = place.other_tops();
                let out = others.iter().map(|&top| g.e.to(top).operand()).collect();
                pass(g.e, flags, &srcs, &with_result(out));
                let tops: Vec<Operand> = (place.tops.iter())
                    .map(|&top| {
                        if top == place.me {
                            Operand::OUTPUT
                        } else {
                            g.e.from(top).operand()
                        }
                    })
                    .collect();
                pass(g.e, POST_SCALE, &tops, &with_result(down));
            }
            _ => {
                if srcs != [Operand::OUTPUT] {
                    pass(g.e, flags, &srcs, &[Operand::OUTPUT]);
                }
                rd::all_reduce_in(&mut among_tops(g, &place.tops));
                if !down.is_empty() {
                    pass(g.e, 0, &[Operand::OUTPUT], &down);
                }
            }
        }
    })
}

/// The leaders at the top, who have their part of the result in the output.
fn among_tops<'g>(g: &'g mut Group, tops: &[u32]) -> Group<'g> {
    let places = (Operand::OUTPUT, Operand::OUTPUT);
    g.level(tops.to_vec(), Pieces::Listed(vec![vec![0]]), places, true)
}

/// A root with the leaders at the top: it reaches a few of them itself, and many by a binomial tree
/// that begins with the one that leads it.
struct Crown {
    /// From the top down: (parent, children), where this rank is the root or a top.
    parent: Option<u32>,
    children: Vec<u32>,
}

impl Crown {
    fn of(place: &LeaderPlace, root: u32, nodes: &Nodes) -> Crown {
        let (me, tops) = (place.me, &place.tops);
        let mut members = tops.clone();
        if tops.len() <= FEW_TOPS {
            members.retain(|&top| top != root);
            return if me == root {
                Crown {
                    parent: None,
                    children: members,
                }
            } else {
                Crown {
                    parent: Some(root).filter(|_| members.contains(&me)),
                    children: Vec::new(),
                }
            };
        }
        let ladder = Ladder::of(nodes);
        let first = match ladder.height() {
            1 => root,
            height => ladder.leader(height - 2, root),
        };
        let number = |rank: u32| tops.iter().position(|&top| top == rank);
        let mut crown = Crown {
            parent: None,
            children: Vec::new(),
        };
        if let (Some(begin), Some(mine)) = (number(first), number(me)) {
            let place = Place::among(tops.len() as u32, begin as u32, mine as u32);
            let top = |member: u32| tops[member as usize];
            let children = place.children().map(|child| top(place.member(child)));
            crown.children.extend(children);
            let above = place.parent().map(top);
            crown.parent = above.or(Some(root).filter(|&root| root != me));
        }
        if me == root && me != first {
            crown.children.push(first);
        }
        crown
    }
}

/// From the root to the leaders at the top, and down.
pub fn broadcast(shape: &Shape, nodes: &Nodes) -> Plan {
    let place = LeaderPlace::of(nodes, shape.rank);
    let crown = Crown::of(&place, shape.root, nodes);
    flat(shape, 1, Layout::Blocks, |g| {
        let e = &mut *g.e;
        let mut dsts = vec![Operand::OUTPUT];
        dsts.extend(crown.children.iter().rev().map(|&top| e.to(top).operand()));
        dsts.extend(place.down(e, Some(shape.root)));
        if shape.rank == shape.root {
            pass(e, PRE_SCALE, &[Operand::INPUT], &dsts);
            // Whoever is in a group reads all that is cast there.
            if place.cast.is_some()
                && let Some(above) = place.above(e)
            {
                pass(e, 0, &[above.operand()], &[]);
            }
            return;
        }
        let above = match crown.parent.filter(|_| place.is_top()) {
            Some(parent) => Some(e.from(parent)),
            None => place.above(e),
        };
        let above = above.expect("only the root has nobody above");
        pass(e, 0, &[above.operand()], &dsts);
    })
}

/// Contributions up to the leaders at the top, and to the root.
pub fn reduce(shape: &Shape, nodes: &Nodes) -> Plan {
    let place = LeaderPlace::of(nodes, shape.rank);
    let crown = Crown::of(&place, shape.root, nodes);
    flat(shape, 1, Layout::Blocks, |g| {
        let e = &mut *g.e;
        let (mut srcs, mut flags) = place.gathered(e, Operand::SCRATCH);
        if place.is_top() && srcs.len() > 1 && !crown.children.is_empty() {
            // What is near is folded while what is far is on its way.
            pass(e, flags, &srcs, &[Operand::SCRATCH]);
            (srcs, flags) = (vec![Operand::SCRATCH], 0);
        }
        let up = if place.is_top() {
            crown.parent.map(|parent| e.to(parent).operand())
        } else {
            place.up(e)
        };
        if let Some(up) = up {
            if place.is_top() {
                srcs.extend(crown.children.iter().map(|&top| e.from(top).operand()));
            }
            pass(e, flags, &srcs, &[up]);
        }
        if shape.rank == shape.root {
            let tops: Vec<Operand> = (crown.children.iter())
                .map(|&top| e.from(top).operand())
                .collect();
            match up {
                // Its own contribution comes back with that of its top.
                Some(_) => pass(e, POST_SCALE, &tops, &[Operand::OUTPUT]),
                None => {
                    srcs.extend(tops);
                    pass(e, flags | POST_SCALE, &srcs, &[Operand::OUTPUT]);
                }
            }
        }
    })
}

/// Signals up, between the leaders at the top, and down.
pub fn barrier(shape: &Shape, nodes: &Nodes) -> Plan {
    let place = LeaderPlace::of(nodes, shape.rank);
    flat(shape, 1, Layout::Blocks, |g| {
        let children = place.signalled(g.e);
        let down = place.down(g.e, None);
        if let (Some(up), Some(above)) = (place.up(g.e), place.above(g.e)) {
            answer(g.e, &children, &[up]);
            return answer(g.e, &[above.operand()], &down);
        }
        let others = match place.tops.len() {
            2..=FEW_TOPS => place.other_tops(),
            _ => Vec::new(),
        };
        let out: Vec<Operand> = others.iter().map(|&top| g.e.to(top).operand()).collect();
        let back: Vec<Operand> = others.iter().map(|&top| g.e.from(top).operand()).collect();
        match place.tops.len() {
            1 => answer(g.e, &children, &down),
            2..=FEW_TOPS => {
                answer(g.e, &children, &out);
                answer(g.e, &back, &down);
            }
            _ => {
                answer(g.e, &children, &[]);
                rd::barrier_in(&mut among_tops(g, &place.tops));
                answer(g.e, &[], &down);
            }
        }
    })
}
