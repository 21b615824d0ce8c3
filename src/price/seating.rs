//! Seatings: which rank of a node has which cache and socket.
//!
//! **Problem.** What two ranks share depends on how the launcher dealt them, and launchers differ:
//! in order of the cores, to the sockets in turn (Slurm, unless told otherwise), or as somebody
//! wrote down.
//!
//! **Idea.** One rule needs no table, however many ranks there are: in order and evenly. All else
//! is a list of [`CacheSeat`]s, one for each rank of a node; every node is dealt alike.

use std::collections::BTreeMap;
use std::sync::Arc;

/// A rank's place on its node. Numbers count from 0 on the node, in any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CacheSeat {
    /// The socket.
    pub socket: u32,
    /// The last-level cache; a cache has one socket.
    pub cache: u32,
    /// The core.
    pub core: u32,
}

/// Knowledge of a rank's place on its node: parts that it shares with others, by any numbers. A
/// rank that may run in several of a kind has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownSeat {
    /// The socket.
    pub socket: Option<u32>,
    /// The last-level cache.
    pub cache: Option<u32>,
    /// A core that it may run on.
    pub core: u32,
}

/// How the ranks of a node are dealt to its sockets and caches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Seating {
    /// Neighbours sit together: sockets and caches are filled one after the other.
    #[default]
    Block,
    /// As listed, by the rank's number on its node.
    Listed(SeatList),
}

/// A list of spots, with what is counted of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeatList {
    spots: Arc<[CacheSeat]>,
    /// Sockets, caches and cores that have a rank.
    counts: [u32; 3],
}

impl SeatList {
    /// A list of the spots of a node's ranks. Sockets, caches and cores are numbered anew, in the
    /// order in which they first have a rank. `None` where there is no rank.
    pub fn new(spots: &[CacheSeat]) -> Option<SeatList> {
        (!spots.is_empty()).then(|| SeatList::renumbered(spots))
    }

    fn renumbered(spots: &[CacheSeat]) -> SeatList {
        let mut known: [BTreeMap<u32, u32>; 3] = Default::default();
        let mut number = |kind: usize, old: u32| {
            let next = known[kind].len() as u32;
            *known[kind].entry(old).or_insert(next)
        };
        let renumbered: Vec<CacheSeat> = spots
            .iter()
            .map(|spot| CacheSeat {
                socket: number(0, spot.socket),
                cache: number(1, spot.cache),
                core: number(2, spot.core),
            })
            .collect();
        let counts = [0, 1, 2].map(|kind: usize| known[kind].len() as u32);
        let spots = renumbered.into();
        SeatList { spots, counts }
    }

    /// A list by what is known of each rank. What is not known of one is not told apart for any: if
    /// a rank has no cache, all ranks of a socket share one, and if it has no socket, all share
    /// that. `None` where all ranks share one cache: then there is nothing to list.
    pub fn of_known(ranks: &[KnownSeat]) -> Option<SeatList> {
        let has_sockets = ranks.iter().all(|known| known.socket.is_some());
        let has_caches = has_sockets && ranks.iter().all(|known| known.cache.is_some());
        let spot = |known: &KnownSeat| {
            let socket = known.socket.filter(|_| has_sockets).unwrap_or(0);
            let cache = known.cache.filter(|_| has_caches).unwrap_or(socket);
            CacheSeat {
                socket,
                cache,
                core: known.core,
            }
        };
        let listed = SeatList::new(&ranks.iter().map(spot).collect::<Vec<_>>())?;
        (listed.caches() > 1).then_some(listed)
    }

    /// The spot of a rank of the node.
    pub fn spot(&self, local: u32) -> CacheSeat {
        self.spots[local as usize % self.spots.len()]
    }

    /// Sockets that have a rank.
    pub fn sockets(&self) -> u32 {
        self.counts[0]
    }

    /// Caches that have a rank.
    pub fn caches(&self) -> u32 {
        self.counts[1]
    }

    /// Cores that have a rank.
    pub fn cores(&self) -> u32 {
        self.counts[2]
    }

    /// Ranks of the node.
    pub fn len(&self) -> u32 {
        self.spots.len() as u32
    }

    /// Whether there is no rank; a list always has one.
    pub fn is_empty(&self) -> bool {
        self.spots.is_empty()
    }
}

/// A list of `per_node` ranks that are dealt to the sockets in turn, each on a core of its own.
/// Inside a socket caches are filled one after the other.
pub fn in_turn(per_node: u32, sockets: u32, caches: u32) -> SeatList {
    let (per_node, sockets, caches) = (per_node.max(1), sockets.max(1), caches.max(1));
    let spot = |local: u32| {
        let (socket, seat) = (local % sockets, local / sockets);
        let seats = (per_node - socket).div_ceil(sockets);
        let cache = u64::from(seat) * u64::from(caches) / u64::from(seats);
        CacheSeat {
            socket,
            cache: socket * caches + cache as u32,
            core: local,
        }
    };
    SeatList::renumbered(&(0..per_node).map(spot).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_begin_anew_and_ranks_keep_what_they_share() {
        let spot = |socket, cache, core| CacheSeat {
            socket,
            cache,
            core,
        };
        let given = [
            spot(7, 40, 12),
            spot(3, 20, 99),
            spot(7, 41, 12),
            spot(7, 40, 0),
        ];
        let listed = SeatList::new(&given).expect("ranks");
        let spots: Vec<CacheSeat> = (0..4).map(|rank| listed.spot(rank)).collect();
        assert_eq!(
            spots,
            [spot(0, 0, 0), spot(1, 1, 1), spot(0, 2, 0), spot(0, 0, 2)]
        );
        assert_eq!(
            (listed.sockets(), listed.caches(), listed.cores()),
            (2, 3, 3)
        );
        assert_eq!(SeatList::new(&[]), None);
    }

    #[test]
    fn what_is_not_known_of_one_is_told_apart_for_none() {
        let known = |socket, cache| KnownSeat {
            socket,
            cache,
            core: 0,
        };
        let counts = |ranks: &[KnownSeat]| {
            SeatList::of_known(ranks).map(|listed| (listed.sockets(), listed.caches()))
        };
        let (a, b) = (known(Some(0), Some(0)), known(Some(0), Some(8)));
        let c = known(Some(64), Some(64));
        assert_eq!(counts(&[a, b, c, a]), Some((2, 3)));
        assert_eq!(counts(&[a, b, c, known(Some(0), None)]), Some((2, 2)));
        assert_eq!(counts(&[a, b, c, known(None, None)]), None);
        assert_eq!(counts(&[a, b, known(Some(0), None)]), None);
        assert_eq!(counts(&[a, a]), None);
    }
}
