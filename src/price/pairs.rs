//! Pairs of ranks: at which levels those of a node meet, counted once for all prices of a machine.
//!
//! **Problem.** An exchange between all ranks and those some distance away crosses what only part
//! of the pairs cross, and which part that is has no formula where ranks are dealt by a list, or
//! where their number is no power of two.
//!
//! **Idea.** Distances are powers of two, so there are few; all pairs of a node are counted.
//!
//! **Terms.** *Parts*: which part of some pairs meets at each level. *Core*, *guest*: where
//! exchanges want a power of two, the first ranks form pairs, of which the second one takes part
//! for both.

use super::cluster::{Cluster, Level};

/// Parts of some pairs at each level.
pub type LevelParts = [f64; 4];

/// Hand-overs of some pairs, all at once.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Crossing {
    /// Parts of them at each level.
    pub parts: LevelParts,
    /// How many there are.
    pub count: f64,
    /// Most that come to a socket, from other caches and from inside caches.
    pub into: [f64; 2],
    /// Most readers of a socket.
    pub readers: f64,
    /// Most that leave a cache.
    pub cache: f64,
    /// Most that leave a socket.
    pub socket: f64,
}

/// Sockets and caches of the ranks of a node.
struct Seats {
    of: Vec<[usize; 2]>,
    sockets: usize,
    caches: usize,
}

impl Seats {
    fn of(machine: &Cluster) -> Seats {
        let seat = |rank| [machine.socket_of(rank), machine.cache_of(rank)];
        Seats {
            of: (0..machine.per_node)
                .map(|rank| seat(rank).map(|part| part as usize))
                .collect(),
            sockets: machine.sockets.max(1) as usize,
            caches: machine.caches_of_node() as usize,
        }
    }

    fn level(&self, a: [usize; 2], b: [usize; 2]) -> Level {
        match (a[0] == b[0], a[1] == b[1]) {
            (false, _) => Level::Node,
            (true, false) => Level::Socket,
            (true, true) => Level::Cache,
        }
    }
}

impl Crossing {
    /// By writers and readers.
    fn of(seats: &Seats, pairs: impl Iterator<Item = (u32, u32)>) -> Crossing {
        let mut parts = [0.0; 4];
        let mut into = vec![[0.0; 2]; seats.sockets];
        let (mut cache, mut socket) = (vec![0.0; seats.caches], vec![0.0; seats.sockets]);
        for (writer, reader) in pairs {
            let (from, to) = (seats.of[writer as usize], seats.of[reader as usize]);
            let level = seats.level(from, to);
            parts[level as usize] += 1.0;
            into[to[0]][usize::from(level == Level::Cache)] += 1.0;
            socket[from[0]] += f64::from(u8::from(level > Level::Socket));
            cache[from[1]] += f64::from(u8::from(level > Level::Cache));
        }
        let count: f64 = parts.iter().sum();
        let most = |counts: &mut dyn Iterator<Item = f64>| counts.fold(0.0, f64::max);
        Crossing {
            parts: parts.map(|part| part / count.max(1.0)),
            count,
            into: [0, 1].map(|kind: usize| most(&mut into.iter().map(|into| into[kind]))),
            readers: most(&mut into.iter().map(|into| into[0] + into[1])),
            cache: most(&mut cache.into_iter()),
            socket: most(&mut socket.into_iter()),
        }
    }
}

/// The ranks of a node, and what they share with each other.
#[derive(Clone, Debug, PartialEq)]
pub struct NodePairs {
    /// [`Cluster::company`].
    pub company: [f64; 3],
    /// [`Cluster::along`].
    pub along: [f64; 4],
    /// [`Cluster::around`].
    pub around: [f64; 4],
    /// [`Cluster::by_number`].
    pub by_number: [f64; 4],
    /// Cores and partners whose numbers differ in one bit, by the bit.
    exchanges: Vec<Crossing>,
    /// Ranks and those 2^k ahead, around the node, by k.
    ahead: Vec<Crossing>,
    /// [`NodePairs::ahead`] without those around the node.
    upwards: Vec<Crossing>,
    /// From guests to their hosts, and back.
    pub guests: [Crossing; 2],
    /// Of the binomial tree with its root at rank 0 the edges 2^k long, by k, down and up.
    edges: Vec<[Crossing; 2]>,
    /// All edges of it, down and up.
    pub tree: [Crossing; 2],
}

impl NodePairs {
    /// The pairs of a node of the machine.
    pub fn of(machine: &Cluster) -> NodePairs {
        let (n, seats) = (machine.per_node, Seats::of(machine));
        let bits = n.ilog2();
        let (cores, guests) = (1 << bits, n - (1 << bits));
        // `algo::cores` says who is one.
        let member = |number: u32| {
            if number < guests {
                2 * number + 1
            } else {
                number + guests
            }
        };
        let exchange = |bit: u32| {
            let partners = |number: u32| (member(number), member(number ^ (1 << bit)));
            Crossing::of(&seats, (0..cores).map(partners))
        };
        let ahead =
            |bit: u32| Crossing::of(&seats, (0..n).map(|rank| (rank, (rank + (1 << bit)) % n)));
        let upwards = |bit: u32| {
            let ranks = 0..n.saturating_sub(1 << bit);
            Crossing::of(&seats, ranks.map(|rank| (rank, rank + (1 << bit))))
        };
        let children = |bit: u32| {
            let parents = (0..n).step_by(2 << bit);
            let edges = parents.map(move |rank| (rank, rank + (1 << bit)));
            edges.filter(move |edge| edge.1 < n)
        };
        let lengths = || 0..n.next_power_of_two().ilog2();
        let both = |edges: &[(u32, u32)]| {
            let up = edges.iter().map(|&(a, b)| (b, a));
            [
                Crossing::of(&seats, edges.iter().copied()),
                Crossing::of(&seats, up),
            ]
        };
        let every = |edges: &mut dyn Iterator<Item = (u32, u32)>| both(&edges.collect::<Vec<_>>());
        NodePairs {
            company: machine.company(),
            along: machine.along(),
            around: machine.around(),
            by_number: machine.by_number(),
            exchanges: (0..bits).map(exchange).collect(),
            ahead: (0..=bits).map(ahead).collect(),
            upwards: (0..=bits).map(upwards).collect(),
            guests: every(&mut (0..guests).map(|guest| (2 * guest, 2 * guest + 1))),
            edges: lengths().map(|bit| every(&mut children(bit))).collect(),
            tree: every(&mut lengths().flat_map(children)),
        }
    }

    /// The cores of a node and their partners, whose numbers differ by `distance`, a power of two.
    pub fn exchange(&self, distance: u32) -> Crossing {
        of_bit(&self.exchanges, distance)
    }

    /// The ranks of a node and those `distance` ahead, a power of two.
    pub fn ahead(&self, distance: u32) -> Crossing {
        of_bit(&self.ahead, distance)
    }

    /// The ranks of a node and those `distance` ahead that have a greater number.
    pub fn upwards(&self, distance: u32) -> Crossing {
        of_bit(&self.upwards, distance)
    }

    /// The ranks of a node and their children in a binomial tree `distance` ahead, a power of two:
    /// down and up.
    pub fn edges(&self, distance: u32) -> [Crossing; 2] {
        of_bit(&self.edges, distance)
    }
}

/// The entry of a distance that is a power of two; greater ones are as the greatest.
fn of_bit<T: Copy + Default>(entries: &[T], distance: u32) -> T {
    let bit = distance.trailing_zeros() as usize;
    let entry = entries.get(bit).or(entries.last());
    entry.copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::price::seating::in_turn;

    #[test]
    fn parts_are_those_of_the_pairs() {
        // Two sockets with two caches of four ranks each.
        let block = NodePairs::of(&Cluster {
            sockets: 2,
            caches: 2,
            ..Cluster::uniform(1, 16)
        });
        assert_eq!(block.exchange(2).parts, [1.0, 0.0, 0.0, 0.0]);
        assert_eq!(block.exchange(4).parts, [0.0, 1.0, 0.0, 0.0]);
        assert_eq!(block.ahead(1).parts, [0.75, 0.125, 0.125, 0.0]);
        assert_eq!(block.ahead(8).parts, [0.0, 0.0, 1.0, 0.0]);
        assert_eq!(
            (block.upwards(1).count, block.upwards(8).count),
            (15.0, 8.0)
        );
        let cyclic = NodePairs::of(&Cluster::listed(1, in_turn(16, 2, 2)));
        assert_eq!(cyclic.exchange(1).parts, [0.0, 0.0, 1.0, 0.0]);
        assert_eq!(cyclic.exchange(8).parts, [0.0, 1.0, 0.0, 0.0]);
        assert_eq!(cyclic.company, block.company);
        // In the tree all even ranks, of one socket, have a child on the other one.
        let [down, up] = cyclic.edges(1);
        assert_eq!([down.count, down.socket, down.cache], [8.0, 8.0, 4.0]);
        assert_eq!([up.into, down.into], [[8.0, 0.0]; 2]);
        assert_eq!(block.tree.map(|all| all.socket), [1.0; 2]);
        // Two guests, 0 and 2: the cores are 1, 3, 4 and 5 in two caches of three.
        let odd = NodePairs::of(&Cluster {
            sockets: 2,
            ..Cluster::uniform(1, 6)
        });
        assert_eq!(odd.guests[0].parts, [0.5, 0.0, 0.5, 0.0]);
        assert_eq!(odd.exchange(1).parts, [0.5, 0.0, 0.5, 0.0]);
        assert_eq!(odd.exchange(2).parts, [0.5, 0.0, 0.5, 0.0]);
    }
}
