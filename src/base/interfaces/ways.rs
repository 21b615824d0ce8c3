//! By which interfaces two nodes reach each other.
//!
//! Problem: what is the best interface of one node may lead to nobody: a bridge that has the same
//! address on all nodes, a subnet that only some have, a card whose cable is out on one of them.
//! Idea: the ranks tell each other tables of all interfaces with all addresses. What follows from
//! them is a pure function: both ends of a pair, and `kolo doctor`, come to the same ways. A
//! *way* is an address of one node and one of the other. Ways have *tiers*: the worse class of the
//! two interfaces, and whether both lie in one subnet, or a router would have to be between them.
//! The best tier of a pair that is not *barred* (tried in vain) is what the pair uses.

use super::class::FaceClass;
use super::face::{FaceAddress, MAX_IFS};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// The most addresses of an interface that are told to others.
pub const MAX_PLACES: usize = 16;

/// An interface as others are told of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaceCard {
    /// The system's name.
    pub name: String,
    /// Its class.
    pub class: FaceClass,
    /// Its addresses, never none.
    pub places: Vec<FaceAddress>,
}

/// The interfaces of a node that may be used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaceTable {
    /// Stands for this start of the machine; 0: not known.
    pub machine: u64,
    /// The user has named the interfaces.
    pub is_named: bool,
    /// Best first.
    pub cards: Vec<FaceCard>,
}

/// How good a way is, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tier {
    /// The worse class of both ends; of addresses of a link that of the worst such interface.
    pub class: FaceClass,
    /// They lie in different subnets.
    pub is_far: bool,
}

/// From an address of one node to one of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeWay {
    /// How good it is.
    pub tier: Tier,
    /// The card of the first node, by its place in the table.
    pub exit: usize,
    /// Its address.
    pub from: FaceAddress,
    /// The card of the other node.
    pub entry: usize,
    /// Its address.
    pub to: FaceAddress,
}

/// Ways that were tried in vain: an address, and one of another node.
pub type Barred = BTreeSet<(IpAddr, IpAddr)>;

impl FaceTable {
    /// All addresses with the classes of their interfaces.
    pub fn places(&self) -> impl Iterator<Item = (FaceClass, &FaceAddress)> {
        let of_card = |card: &'_ FaceCard| card.class;
        let cards = self.cards.iter();
        cards.flat_map(move |card| card.places.iter().map(move |it| (of_card(card), it)))
    }

    /// Whether it can be that of another rank.
    pub fn is_possible(&self) -> bool {
        let fits = |card: &FaceCard| (1..=MAX_PLACES).contains(&card.places.len());
        self.cards.len() <= MAX_IFS && self.cards.iter().all(fits)
    }

    /// Cuts what is too much to be told.
    pub fn shortened(mut self) -> FaceTable {
        self.cards.truncate(MAX_IFS);
        for card in &mut self.cards {
            card.places.truncate(MAX_PLACES);
        }
        self
    }

    /// Whether both have the same interfaces, with the same addresses.
    pub fn is_alike(&self, other: &FaceTable) -> bool {
        let all = |table: &FaceTable| -> BTreeSet<(String, IpAddr)> {
            let of_card = |card: &FaceCard| {
                let name = card.name.clone();
                let places = card.places.clone().into_iter();
                places.map(move |place| (name.clone(), place.ip))
            };
            table.cards.iter().flat_map(of_card).collect()
        };
        // Ports differ, and the order seldom does.
        let ip = |place: &FaceAddress| place.ip;
        let is_same = |(one, other): (&FaceCard, &FaceCard)| {
            let places = (one.places.iter().map(ip), other.places.iter().map(ip));
            one.name == other.name && places.0.eq(places.1)
        };
        let is_same_list = self.cards.len() == other.cards.len()
            && self.cards.iter().zip(&other.cards).all(is_same);
        is_same_list || all(self) == all(other)
    }

    /// Whether an address that both have may be meant all the same.
    pub fn may_share(&self, other: &FaceTable) -> bool {
        self.machine == other.machine && self.machine != 0 || self.is_named && other.is_named
    }
}

/// One end of a way that is looked at: its class and address, and all addresses of its node.
#[derive(Clone, Copy)]
pub struct WayEnd<'a> {
    /// The class of its interface.
    pub class: FaceClass,
    /// The address.
    pub place: &'a FaceAddress,
    /// The addresses of its node.
    pub all: &'a [FaceAddress],
}

/// How well one end reaches the other, as far as tables tell; `None`: not at all. `may_share`: they
/// may be ends of one machine.
pub fn tier(from: WayEnd<'_>, to: WayEnd<'_>, may_share: bool) -> Option<Tier> {
    let (a, b) = (from.place, to.place);
    let has = |all: &[FaceAddress], ip: IpAddr| all.iter().any(|place| place.ip == ip);
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
    let of_another = |(end, ip): (WayEnd<'_>, IpAddr)| {
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
            true => class.max(FaceClass::LinkLocal),
            false => class,
        },
        is_far: !is_near,
    })
}

/// All ways from one node to another, the best first; those of a tier in the order of the cards.
pub fn ways(from: &FaceTable, to: &FaceTable, barred: &Barred) -> Vec<NodeWay> {
    let places = |table: &FaceTable| table.places().map(|(_, place)| *place).collect();
    let (ours, theirs): (Vec<FaceAddress>, Vec<FaceAddress>) = (places(from), places(to));
    let may_share = from.may_share(to);
    let mut found = Vec::new();
    for (exit, card) in from.cards.iter().enumerate() {
        for (entry, other) in to.cards.iter().enumerate() {
            for (a, b) in pairs(card, other) {
                let is_barred = barred.contains(&(a.ip, b.ip));
                let end = |class, place, all| WayEnd { class, place, all };
                let ends = (end(card.class, a, &ours), end(other.class, b, &theirs));
                let tier = tier(ends.0, ends.1, may_share).filter(|_| !is_barred);
                found.extend(tier.map(|tier| NodeWay {
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
    card: &'a FaceCard,
    other: &'a FaceCard,
) -> impl Iterator<Item = (&'a FaceAddress, &'a FaceAddress)> + use<'a> {
    let with = |a: &'a FaceAddress| other.places.iter().map(move |b| (a, b));
    card.places.iter().flat_map(with)
}

/// Those of the best tier.
pub fn best(ways: &[NodeWay]) -> &[NodeWay] {
    let tier = ways.first().map(|way| way.tier);
    let count = ways.iter().take_while(|way| Some(way.tier) == tier).count();
    &ways[..count]
}

/// The interfaces that a node uses with others: those of the best ways to and from each of them,
/// with the addresses of these ways. An error is the place of another one, to or from which there
/// is no way.
pub fn used(
    mine: &FaceTable,
    others: &[&FaceTable],
    barred: &Barred,
) -> Result<Vec<FaceCard>, usize> {
    let mut places: BTreeSet<(usize, IpAddr)> = BTreeSet::new();
    for (at, other) in others.iter().enumerate() {
        // Ranks of a node mostly have the same.
        if at > 0 && others[at - 1] == *other {
            continue;
        }
        let (there, back) = (ways(mine, other, barred), ways(other, mine, barred));
        if there.is_empty() || back.is_empty() {
            return Err(at);
        }
        places.extend(best(&there).iter().map(|way| (way.exit, way.from.ip)));
        places.extend(best(&back).iter().map(|way| (way.entry, way.to.ip)));
    }
    let card = |(at, card): (usize, &FaceCard)| {
        let is_used = |place: &&FaceAddress| places.contains(&(at, place.ip));
        let used: Vec<FaceAddress> = card.places.iter().filter(is_used).copied().collect();
        (!used.is_empty()).then(|| FaceCard {
            places: used,
            ..card.clone()
        })
    };
    Ok(mine.cards.iter().enumerate().filter_map(card).collect())
}

/// The interfaces of a node, and what is wrong with those that do not lead to another one.
pub fn told(table: &FaceTable, other: &FaceTable) -> String {
    let theirs: Vec<IpAddr> = other.places().map(|(_, place)| place.ip).collect();
    let told = |card: &FaceCard| {
        let places = card.places.iter().map(|place| {
            let is_shared = theirs.contains(&place.ip) && !table.may_share(other);
            let mark = if is_shared { " (which both have)" } else { "" };
            format!("{place}{mark}")
        });
        let places: Vec<String> = places.collect();
        let mark = match card.class {
            FaceClass::Dark => " without a signal",
            FaceClass::Loopback => " that is its own",
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
