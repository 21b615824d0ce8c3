//! By which interfaces two nodes reach each other.
//!
//! Problem: what is the best interface of one node may lead to nobody: a bridge that has the same
//! address on all nodes, a subnet that only some have, a card whose cable is out on one of them.
//! Idea: the ranks tell each other tables of all interfaces with all addresses. What follows from
//! them is a pure function: both ends of a pair, and `kolo doctor`, come to the same ways. A
//! *way* is an address of one node and one of the other. Ways have *tiers*: the worse class of the
//! two interfaces, and whether both lie in one subnet, or a router would have to be between them.
//! The best tier of a pair that is not *barred* (tried in vain) is what the pair uses.

use super::class::Class;
use super::{Interface, MAX_IFS};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

/// The most addresses of an interface that are told to others.
pub const MAX_PLACES: usize = 16;

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The address.
    pub ip: IpAddr,
    /// How many of its bits are the subnet's.
    pub prefix: u8,
    /// The zone of an address of the link; it has a meaning on its own node only.
    pub scope: u32,
    /// The port where somebody listens; 0 if nobody does.
    pub port: u16,
}

impl Place {
    /// The address of an interface, at which nobody listens.
    pub fn of(interface: &Interface) -> Place {
        Place {
            ip: interface.address,
            prefix: interface.prefix(),
            scope: interface.scope,
            port: 0,
        }
    }

    /// Whether it is valid on its link only.
    pub fn is_of_link(&self) -> bool {
        match self.ip {
            IpAddr::V4(v4) => v4.is_link_local(),
            IpAddr::V6(v6) => v6.is_unicast_link_local(),
        }
    }

    /// Whether `other` lies in its subnet.
    pub fn is_near(&self, other: IpAddr) -> bool {
        in_subnet(self.ip, self.prefix, other)
    }

    /// With a port, as the node sees it whose zone of the link is `scope`.
    pub fn at(&self, port: u16, scope: u32) -> SocketAddr {
        match self.ip {
            IpAddr::V6(v6) if self.is_of_link() => SocketAddrV6::new(v6, port, 0, scope).into(),
            ip => SocketAddr::new(ip, port),
        }
    }

    /// Its own end of a connection, at any port.
    pub fn own(&self) -> SocketAddr {
        self.at(0, self.scope)
    }
}

/// As `10.1.0.7/16`.
impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.ip, self.prefix)
    }
}

/// Whether two addresses begin with the same `prefix` bits.
pub fn in_subnet(address: IpAddr, prefix: u8, other: IpAddr) -> bool {
    match (address, other) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            let differs = u32::from(a) ^ u32::from(b);
            differs.leading_zeros() >= u32::from(prefix.min(32))
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            let differs = u128::from(a) ^ u128::from(b);
            differs.leading_zeros() >= u32::from(prefix.min(128))
        }
        _ => false,
    }
}

/// An interface as others are told of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// The system's name.
    pub name: String,
    /// What it is good for.
    pub class: Class,
    /// Its addresses, never none.
    pub places: Vec<Place>,
}

/// The interfaces of a node that may be used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Stands for this start of the machine; 0: not known.
    pub machine: u64,
    /// The user has named the interfaces.
    pub is_named: bool,
    /// Best first.
    pub cards: Vec<Card>,
}

/// How good a way is, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tier {
    /// The worse class of both ends; of addresses of a link that of the worst such interface.
    pub class: Class,
    /// They lie in different subnets.
    pub is_far: bool,
}

/// From an address of one node to one of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// How good it is.
    pub tier: Tier,
    /// The card of the first node, by its place in the table.
    pub exit: usize,
    /// Its address.
    pub from: Place,
    /// The card of the other node.
    pub entry: usize,
    /// Its address.
    pub to: Place,
}

/// Ways that were tried in vain: an address, and one of another node.
pub type Barred = BTreeSet<(IpAddr, IpAddr)>;

impl Table {
    /// All addresses with the classes of their interfaces.
    pub fn places(&self) -> impl Iterator<Item = (Class, &Place)> {
        let of_card = |card: &'_ Card| card.class;
        let cards = self.cards.iter();
        cards.flat_map(move |card| card.places.iter().map(move |it| (of_card(card), it)))
    }

    /// Whether it can be that of another rank.
    pub fn is_possible(&self) -> bool {
        let fits = |card: &Card| (1..=MAX_PLACES).contains(&card.places.len());
        self.cards.len() <= MAX_IFS && self.cards.iter().all(fits)
    }

    /// Cuts what is too much to be told.
    pub fn shortened(mut self) -> Table {
        self.cards.truncate(MAX_IFS);
        for card in &mut self.cards {
            card.places.truncate(MAX_PLACES);
        }
        self
    }

    /// Whether an address that both have may be meant all the same.
    pub fn may_share(&self, other: &Table) -> bool {
        self.machine == other.machine && self.machine != 0 || self.is_named && other.is_named
    }
}

/// One end of a way that is looked at: its class and address, and all addresses of its node.
#[derive(Clone, Copy)]
pub struct End<'a> {
    /// The class of its interface.
    pub class: Class,
    /// The address.
    pub place: &'a Place,
    /// The addresses of its node.
    pub all: &'a [Place],
}

/// How well one end reaches the other, as far as tables tell; `None`: not at all. `may_share`: they
/// may be ends of one machine.
pub fn tier(from: End<'_>, to: End<'_>, may_share: bool) -> Option<Tier> {
    let (a, b) = (from.place, to.place);
    let has = |all: &[Place], ip: IpAddr| all.iter().any(|place| place.ip == ip);
    let is_alone = a.ip.is_loopback() || b.ip.is_loopback();
    let is_shared = has(from.all, b.ip) || has(to.all, a.ip) || a.ip == b.ip || is_alone;
    if a.ip.is_ipv4() != b.ip.is_ipv4()
        || a.ip.is_loopback() != b.ip.is_loopback()
        || a.is_of_link() != b.is_of_link()
        || is_shared && !may_share
    {
        return None;
    }
    let is_near = a.is_near(b.ip) && b.is_near(a.ip);
    let of_another = |(end, ip): (End<'_>, IpAddr)| {
        let mut others = end.all.iter().filter(|place| place.ip != end.place.ip);
        others.any(|place| place.is_near(ip))
    };
    // What lies in the subnet of another interface belongs to that one.
    if !is_near && (of_another((from, b.ip)) || of_another((to, a.ip))) {
        return None;
    }
    let class = from.class.max(to.class);
    Some(Tier {
        // Of such an address nobody knows on which link it is.
        class: match a.is_of_link() {
            true => class.max(Class::LinkLocal),
            false => class,
        },
        is_far: !is_near,
    })
}

/// All ways from one node to another, the best first; those of a tier in the order of the cards.
pub fn ways(from: &Table, to: &Table, barred: &Barred) -> Vec<Way> {
    let places = |table: &Table| table.places().map(|(_, place)| *place).collect();
    let (ours, theirs): (Vec<Place>, Vec<Place>) = (places(from), places(to));
    let may_share = from.may_share(to);
    let mut found = Vec::new();
    for (exit, card) in from.cards.iter().enumerate() {
        for (entry, other) in to.cards.iter().enumerate() {
            for (a, b) in pairs(card, other) {
                let is_barred = barred.contains(&(a.ip, b.ip));
                let end = |class, place, all| End { class, place, all };
                let ends = (end(card.class, a, &ours), end(other.class, b, &theirs));
                let tier = tier(ends.0, ends.1, may_share).filter(|_| !is_barred);
                found.extend(tier.map(|tier| Way {
                    tier,
                    exit,
                    from: *a,
                    entry,
                    to: *b,
                }));
            }
        }
    }
    found.sort_by_key(|way| way.tier);
    found
}

fn pairs<'a>(
    card: &'a Card,
    other: &'a Card,
) -> impl Iterator<Item = (&'a Place, &'a Place)> + use<'a> {
    let with = |a: &'a Place| other.places.iter().map(move |b| (a, b));
    card.places.iter().flat_map(with)
}

/// Those of the best tier.
pub fn best(ways: &[Way]) -> &[Way] {
    let tier = ways.first().map(|way| way.tier);
    let count = ways.iter().take_while(|way| Some(way.tier) == tier).count();
    &ways[..count]
}

/// The interfaces that a node uses with others: those of the best ways to and from each of them,
/// with the addresses of these ways. An error is the place of another one, to or from which there
/// is no way.
pub fn used(mine: &Table, others: &[&Table], barred: &Barred) -> Result<Vec<Card>, usize> {
    let mut places: BTreeSet<(usize, IpAddr)> = BTreeSet::new();
    for (at, other) in others.iter().enumerate() {
        let (there, back) = (ways(mine, other, barred), ways(other, mine, barred));
        if there.is_empty() || back.is_empty() {
            return Err(at);
        }
        places.extend(best(&there).iter().map(|way| (way.exit, way.from.ip)));
        places.extend(best(&back).iter().map(|way| (way.entry, way.to.ip)));
    }
    let card = |(at, card): (usize, &Card)| {
        let is_used = |place: &&Place| places.contains(&(at, place.ip));
        let used: Vec<Place> = card.places.iter().filter(is_used).copied().collect();
        (!used.is_empty()).then(|| Card {
            places: used,
            ..card.clone()
        })
    };
    Ok(mine.cards.iter().enumerate().filter_map(card).collect())
}

/// The interfaces of a node, and what is wrong with those that do not lead to another one.
pub fn told(table: &Table, other: &Table) -> String {
    let theirs: Vec<IpAddr> = other.places().map(|(_, place)| place.ip).collect();
    let told = |card: &Card| {
        let places = card.places.iter().map(|place| {
            let is_shared = theirs.contains(&place.ip) && !table.may_share(other);
            let mark = if is_shared { " (which both have)" } else { "" };
            format!("{place}{mark}")
        });
        let places: Vec<String> = places.collect();
        let mark = match card.class {
            Class::Dark => " without a signal",
            Class::Loopback => " that is its own",
            _ => "",
        };
        format!("{} {}{mark}", card.name, places.join(" "))
    };
    match table.cards.is_empty() {
        true => "no interface".into(),
        false => table.cards.iter().map(told).collect::<Vec<_>>().join(", "),
    }
}

/// Which nodes a node tries: all others of a few, or of many those at the distances 1, 2, 4 and so
/// on, so that each is tried by as many.
pub fn partners(me: usize, count: usize, all_up_to: usize) -> Vec<usize> {
    if count <= all_up_to {
        return (0..count).filter(|&other| other != me).collect();
    }
    let distances = (0..usize::BITS).map(|bit| 1 << bit);
    let distances = distances.take_while(|&distance| distance < count);
    distances.map(|distance| (me + distance) % count).collect()
}

#[cfg(test)]
#[path = "ways_tests.rs"]
mod tests;
