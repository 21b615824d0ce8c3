//! Rings of one rate: each takes its rate from the links that it passes, and the next one gets
//! what is left. Where no ring fits any more, the search takes back its last choices.

use super::super::node_graph::{Exit, RingPart};
use super::super::paths::PathKind;
use super::model::Model;
use super::room::Room;

/// Members that are considered at each end of a ring over the network, where there are many.
const MOST_ENDS: usize = 6;

/// A search for up to `target` rings of one rate within limits.
pub(super) struct RingSearch<'m> {
    model: &'m Model<'m>,
    pub(super) room: Room,
    rate: u32,
    inner: PathKind,
    outer: PathKind,
    cross: bool,
    target: usize,
    found: Vec<RingPart>,
    /// The most rings that fitted at once.
    pub(super) best: Vec<RingPart>,
    /// Rings that use a port, in and out, and rings that begin and end at a member.
    uses: Uses,
}

struct Uses {
    ports: Vec<u32>,
    ends: Vec<u32>,
}

/// Where a ring over the network begins and ends.
#[derive(Clone, Copy)]
struct Ends {
    nets: [usize; 2],
    members: [usize; 2],
}

/// The limits of one try.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub(super) rate: u32,
    pub(super) inner: PathKind,
    pub(super) outer: PathKind,
    pub(super) cross: bool,
    pub(super) target: usize,
}

impl<'m> RingSearch<'m> {
    pub(super) fn new(model: &'m Model<'m>, room: Room, limits: Limits) -> RingSearch<'m> {
        RingSearch {
            model,
            room,
            rate: limits.rate,
            inner: limits.inner,
            outer: limits.outer,
            cross: limits.cross,
            target: limits.target,
            found: Vec::new(),
            best: Vec::new(),
            uses: Uses {
                ports: vec![0; model.nets.len()],
                ends: vec![0; model.members],
            },
        }
    }

    /// Lays one more ring, and then the others. Returns whether the search is over.
    pub(super) fn next_ring(&mut self) -> bool {
        if self.found.len() > self.best.len() {
            self.best = self.found.clone();
        }
        if self.found.len() >= self.target || self.room.spent() {
            return true;
        }
        if self.model.nets.is_empty() {
            return self.known_orders() || self.from(&mut vec![0], None);
        }
        for ends in self.ends() {
            if self.between(ends) {
                return true;
            }
            if self.room.spent() {
                return true;
            }
        }
        false
    }

    /// Tries the last ring the other way round, and once more: where links are alike in both
    /// directions, as they are nearly always, this fits at once.
    fn known_orders(&mut self) -> bool {
        let Some(last) = self.found.last().map(|ring| ring.order.clone()) else {
            return false;
        };
        let mut back = last.clone();
        back[1..].reverse();
        for order in [back, last] {
            let mut laid = 0;
            let members = order.len();
            while laid < members {
                let (a, b) = (order[laid], order[(laid + 1) % members]);
                if !self.step(a as usize, b as usize) {
                    break;
                }
                laid += 1;
            }
            if laid == members && self.with_ring(order.clone(), None) {
                return true;
            }
            for at in 0..laid {
                let path = self
                    .model
                    .way(order[at] as usize, order[(at + 1) % members] as usize);
                self.room.give(&path.links, self.rate);
            }
        }
        false
    }

    /// Takes the way between two members, where it is within the limit and has room.
    fn step(&mut self, a: usize, b: usize) -> bool {
        let path = self.model.way(a, b);
        path.kind <= self.inner && self.room.take(&path.links, self.rate)
    }

    /// Rings between these ends.
    fn between(&mut self, ends: Ends) -> bool {
        let [first, last] = ends.members;
        let way_in = self
            .model
            .way_in(ends.nets[0], first)
            .expect("listed ends exist");
        let way_out = self
            .model
            .way_out(ends.nets[1], last)
            .expect("listed ends exist");
        let ways = [way_in.links.as_slice(), &way_out.links];
        if !self.room.take_all(&ways, self.rate) {
            return false;
        }
        let over = self.from(&mut vec![first as u32], Some(ends));
        if !over {
            self.room.give_all(&ways, self.rate);
        }
        over
    }

    /// Goes on from the last member of `order`. Returns whether the search is over.
    fn from(&mut self, order: &mut Vec<u32>, ends: Option<Ends>) -> bool {
        let members = self.model.members;
        let at = order[order.len() - 1] as usize;
        if order.len() == members {
            return self.close(order, ends);
        }
        let last = ends
            .map(|ends| ends.members[1] as u32)
            .filter(|_| members > 1);
        for &next in self.model.near(at) {
            let too_early = last == Some(next) && order.len() + 1 < members;
            if too_early || order.contains(&next) {
                continue;
            }
            if self.room.spent() {
                return true;
            }
            if !self.step(at, next as usize) {
                continue;
            }
            order.push(next);
            if self.from(order, ends) {
                return true;
            }
            order.pop();
            self.room
                .give(&self.model.way(at, next as usize).links, self.rate);
        }
        false
    }

    /// All members are in: closes the ring, and lays the next one.
    fn close(&mut self, order: &[u32], ends: Option<Ends>) -> bool {
        let (first, last) = (order[0] as usize, order[order.len() - 1] as usize);
        if ends.is_some() || first == last {
            return self.with_ring(order.to_vec(), ends);
        }
        if !self.step(last, first) {
            return false;
        }
        let over = self.with_ring(order.to_vec(), None);
        if !over {
            self.room
                .give(&self.model.way(last, first).links, self.rate);
        }
        over
    }

    /// Counts a ring that is laid, and goes on to the next one.
    fn with_ring(&mut self, order: Vec<u32>, ends: Option<Ends>) -> bool {
        let exit = ends.map(|ends| Exit {
            net: ends.nets[1] as u32,
            proxy: self.proxy(ends),
        });
        self.found.push(RingPart {
            order,
            entry: ends.map(|ends| ends.nets[0] as u32),
            exit,
        });
        self.count(ends, 1);
        let over = self.next_ring();
        // Many members: what fits is kept, going back would take too long.
        if over || !self.model.is_small() {
            return true;
        }
        self.found.pop();
        self.count(ends, -1);
        false
    }

    fn proxy(&self, ends: Ends) -> u32 {
        let way = self.model.way_out(ends.nets[1], ends.members[1]);
        way.map_or(ends.members[1] as u32, |way| way.proxy)
    }

    fn count(&mut self, ends: Option<Ends>, more: i32) {
        let Some(ends) = ends else { return };
        for net in ends.nets {
            self.uses.ports[net] = self.uses.ports[net].wrapping_add_signed(more);
        }
        for member in ends.members {
            self.uses.ends[member] = self.uses.ends[member].wrapping_add_signed(more);
        }
    }

    /// Where the next ring may begin and end: ports that are used least first, then near members,
    /// then members that are used least.
    fn ends(&self) -> Vec<Ends> {
        let nets = self.model.nets.len();
        let mut all = Vec::new();
        for entry in 0..nets {
            for exit in (0..nets).filter(|&exit| exit == entry || self.cross) {
                for first in self.candidates(entry, true) {
                    for last in self.candidates(exit, false) {
                        if (first == last) != (self.model.members == 1) {
                            continue;
                        }
                        let ends = Ends {
                            nets: [entry, exit],
                            members: [first, last],
                        };
                        all.push((self.key(ends), ends));
                    }
                }
            }
        }
        all.sort_by_key(|(key, _)| *key);
        all.into_iter().map(|(_, ends)| ends).collect()
    }

    fn key(&self, ends: Ends) -> (u32, [PathKind; 2], bool, u32, usize, usize) {
        let way_in = self.model.way_in(ends.nets[0], ends.members[0]);
        let way_out = self.model.way_out(ends.nets[1], ends.members[1]);
        let mut kinds = [way_in, way_out].map(|way| way.map_or(PathKind::Net, |way| way.kind));
        kinds.sort_unstable_by(|a, b| b.cmp(a));
        let ports: u32 = ends.nets.iter().map(|&net| self.uses.ports[net]).sum();
        let uses: u32 = ends
            .members
            .iter()
            .map(|&member| self.uses.ends[member])
            .sum();
        let begins = self.found.iter();
        let same = begins
            .filter(|ring| ring.order[0] as usize == ends.members[0])
            .count();
        (
            ports,
            kinds,
            ends.nets[0] != ends.nets[1],
            uses,
            same,
            ends.members[0],
        )
    }

    /// Members within the limit of a port, nearest first.
    fn candidates(&self, net: usize, is_entry: bool) -> Vec<usize> {
        let model = self.model;
        let way = |member: usize| match is_entry {
            true => model.way_in(net, member),
            false => model.way_out(net, member),
        };
        let mut near: Vec<_> = (0..model.members)
            .filter_map(|member| {
                let way = way(member).filter(|way| way.kind <= self.outer)?;
                Some((way.kind, self.uses.ends[member], member))
            })
            .collect();
        near.sort_unstable();
        if !model.is_small() {
            near.truncate(MOST_ENDS);
        }
        near.into_iter().map(|(_, _, member)| member).collect()
    }
}
