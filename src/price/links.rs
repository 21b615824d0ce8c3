//! Links: what carries the bytes of tokens, and which of them a token passes.

use super::cluster::Cluster;
use crate::base::rails;

/// Links of one token at most: interface out, leaf up, leaf down, interface in.
pub const MOST_LINKS: usize = 4;

/// Where a link stands; a link carries the bytes of one token at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LinkPlace {
    /// Out of a rank to a rank of its node, where links carry the bytes.
    PortOut,
    /// Into a rank from a rank of its node.
    PortIn,
    /// The memory of a socket.
    Memory,
    /// Out of a last-level cache to ranks of its node.
    CacheOut,
    /// Out of a socket to another one of its node.
    Cross,
    /// Out of a network interface.
    NicOut,
    /// Into a network interface.
    NicIn,
    /// From a leaf switch up.
    LeafUp,
    /// Down to a leaf switch.
    LeafDown,
}

impl LinkPlace {
    /// All kinds, in the order of link numbers.
    pub const ALL: [LinkPlace; 9] = [
        LinkPlace::PortOut,
        LinkPlace::PortIn,
        LinkPlace::Memory,
        LinkPlace::CacheOut,
        LinkPlace::Cross,
        LinkPlace::NicOut,
        LinkPlace::NicIn,
        LinkPlace::LeafUp,
        LinkPlace::LeafDown,
    ];

    /// Name for tables.
    pub fn name(self) -> &'static str {
        match self {
            LinkPlace::PortOut => "port out",
            LinkPlace::PortIn => "port in",
            LinkPlace::Memory => "memory",
            LinkPlace::CacheOut => "cache out",
            LinkPlace::Cross => "cross",
            LinkPlace::NicOut => "nic out",
            LinkPlace::NicIn => "nic in",
            LinkPlace::LeafUp => "leaf up",
            LinkPlace::LeafDown => "leaf down",
        }
    }
}

/// All links of a machine, by number.
#[derive(Clone, Debug)]
pub struct Links {
    machine: Cluster,
    /// Of each rank of a node its group, and how many before it are in that: a group is the ranks
    /// of a socket where sockets have equally many interfaces, else of the node.
    seats: Vec<(u32, u32)>,
    /// First number of each kind, and the end.
    starts: [u32; 10],
}

impl Links {
    /// The links of `machine`.
    pub fn new(machine: &Cluster) -> Links {
        let (ranks, sockets) = (machine.nranks(), machine.nodes * machine.sockets.max(1));
        let nics = machine.nodes * machine.nics.max(1);
        let leaves = machine.leaves();
        let caches = machine.nodes * machine.caches_of_node();
        let counts = [
            ranks, ranks, sockets, caches, sockets, nics, nics, leaves, leaves,
        ];
        let mut starts = [0; 10];
        for (kind, count) in counts.into_iter().enumerate() {
            starts[kind + 1] = starts[kind] + count;
        }
        Links {
            seats: seats(machine),
            machine: machine.clone(),
            starts,
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.starts[9] as usize
    }

    fn link(&self, kind: LinkPlace, index: u32) -> u32 {
        self.starts[kind as usize] + index
    }

    /// Returns the kind of link `link`, and its number within the kind.
    pub fn describe(&self, link: u32) -> (LinkPlace, u32) {
        let kind = LinkPlace::ALL
            .into_iter()
            .rfind(|kind| self.starts[*kind as usize] <= link)
            .unwrap_or(LinkPlace::PortOut);
        (kind, link - self.starts[kind as usize])
    }

    /// The interface of a rank for what `writer` sends, counted over all nodes: as ranks choose it
    /// ([`crate::base::rails`]).
    fn nic(&self, rank: u32, writer: u32, channel: u16) -> u32 {
        let m = &self.machine;
        let nics = m.nics.max(1);
        let of_group = nics / groups(m);
        let seat = |rank: u32| self.seats[m.local(rank) as usize];
        let port = rails::port(seat(writer).1 as usize, channel.into(), of_group as usize);
        m.node_of(rank) * nics + seat(rank).0 * of_group + port.unwrap_or(0) as u32
    }

    /// The links that carry a token from `writer` to `reader` on a channel where wires carry it, in
    /// order.
    pub fn path(&self, writer: u32, reader: u32, channel: u16) -> ([u32; MOST_LINKS], usize) {
        let m = &self.machine;
        let mut path = [0; MOST_LINKS];
        if m.node_of(writer) == m.node_of(reader) {
            path[0] = self.link(LinkPlace::PortOut, writer);
            path[1] = self.link(LinkPlace::PortIn, reader);
            return (path, 2);
        }
        path[0] = self.link(LinkPlace::NicOut, self.nic(writer, writer, channel));
        let mut length = 1;
        let (from, to) = (m.leaf_of(writer), m.leaf_of(reader));
        if from != to {
            path[1] = self.link(LinkPlace::LeafUp, from);
            path[2] = self.link(LinkPlace::LeafDown, to);
            length = 3;
        }
        path[length] = self.link(LinkPlace::NicIn, self.nic(reader, writer, channel));
        (path, length + 1)
    }

    /// The memory that `rank` reads from.
    pub fn memory(&self, rank: u32) -> u32 {
        self.link(LinkPlace::Memory, self.machine.socket_of(rank))
    }

    /// The way out of the cache of `writer`.
    pub fn cache_out(&self, writer: u32) -> u32 {
        self.link(LinkPlace::CacheOut, self.machine.cache_of(writer))
    }

    /// The way from the socket of `writer` to another one.
    pub fn cross(&self, writer: u32) -> u32 {
        self.link(LinkPlace::Cross, self.machine.socket_of(writer))
    }

    /// How many times faster a link is than one network interface: 1 for all but a leaf's ways,
    /// which are as fast as its nodes together, divided by the taper.
    pub fn width(&self, link: u32) -> f64 {
        let m = &self.machine;
        match self.describe(link).0 {
            LinkPlace::LeafUp | LinkPlace::LeafDown => {
                let nics = f64::from(m.leaf_nodes.min(m.nodes) * m.nics.max(1));
                (nics / f64::from(m.taper.max(1))).max(1.0)
            }
            _ => 1.0,
        }
    }
}

/// Groups of the ranks of a node that have interfaces of their own.
fn groups(machine: &Cluster) -> u32 {
    let sockets = machine.sockets.max(1);
    if machine.nics.max(1).is_multiple_of(sockets) {
        sockets
    } else {
        1
    }
}

/// See [`Links`].
fn seats(machine: &Cluster) -> Vec<(u32, u32)> {
    let groups = groups(machine);
    let mut counts = vec![0; groups as usize];
    let seat = |local: u32| {
        let group = if groups == 1 {
            0
        } else {
            machine.socket_of(local)
        };
        let count = &mut counts[group as usize];
        *count += 1;
        (group, *count - 1)
    };
    (0..machine.per_node).map(seat).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Cluster {
        Cluster {
            sockets: 2,
            caches: 2,
            cores: 4,
            nics: 2,
            leaf_nodes: 2,
            taper: 2,
            ..Cluster::uniform(4, 8)
        }
    }

    #[test]
    fn tokens_pass_interfaces_and_leaves() {
        let m = machine();
        let links = Links::new(&m);
        let kinds = |a, b| {
            let (path, length) = links.path(a, b, 0);
            let named = |link: &u32| links.describe(*link);
            path[..length].iter().map(named).collect::<Vec<_>>()
        };
        assert_eq!(
            kinds(0, 7),
            [(LinkPlace::PortOut, 0), (LinkPlace::PortIn, 7)]
        );
        assert_eq!(kinds(7, 8), [(LinkPlace::NicOut, 1), (LinkPlace::NicIn, 2)]);
        let far = [
            (LinkPlace::NicOut, 0),
            (LinkPlace::LeafUp, 0),
            (LinkPlace::LeafDown, 1),
            (LinkPlace::NicIn, 7),
        ];
        assert_eq!(kinds(0, 31), far);
        assert_eq!(links.count(), 2 * 32 + 2 * 8 + 16 + 2 * 8 + 2 * 2);
        assert_eq!(links.width(links.path(0, 31, 0).0[1]), 2.0);
    }
}
