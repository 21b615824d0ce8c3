//! The root's roll call: who is there, who must be refused, and when all have come.
//!
//! Pure bookkeeping, without sockets. Ranks may disagree about the number of ranks, and the
//! first to arrive may be the one that is wrong. So everybody is held until rank 0 has checked
//! in; rank 0's number counts, and who said another one is refused. If *all* other ranks of
//! another number contradict rank 0, rank 0 is refused instead of waiting for ever. A rank that
//! dies after its check-in spoils the start for those that agree with its number, and for nobody
//! else.

use super::frame::PROCESS_BYTES;
use crate::base::{Error, Rank};
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

/// One connection, by a number that the root gives.
pub type MemberId = u64;

/// The most missing ranks that a notice names.
const MAX_NAMED: usize = 16;

/// Order of the root to a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// The check-in stands.
    Welcome(MemberId),
    /// It cannot take part.
    Refuse(MemberId, Error),
    /// Everybody is there: send the addresses.
    Complete,
}

#[derive(Clone, Debug)]
struct Present {
    member: MemberId,
    address: SocketAddr,
    from: SocketAddr,
    process: [u8; PROCESS_BYTES],
}

/// One check-in.
#[derive(Clone, Copy, Debug)]
pub struct CheckIn {
    pub rank: u32,
    pub nranks: u32,
    /// Where the rank listens.
    pub address: SocketAddr,
    /// Where its connection comes from.
    pub from: SocketAddr,
    /// The number that its process has drawn.
    pub process: [u8; PROCESS_BYTES],
}

/// A rank of a complete roll.
#[derive(Clone, Copy, Debug)]
pub struct RollSeat {
    pub member: MemberId,
    pub address: SocketAddr,
    pub process: [u8; PROCESS_BYTES],
}

/// The roll.
#[derive(Default)]
pub struct Roll {
    /// nranks -> rank -> who; more than one group only while rank 0 is missing.
    groups: HashMap<u32, BTreeMap<u32, Present>>,
    /// Rank 0's number of ranks.
    decided: Option<u32>,
    /// nranks -> why that group can no longer start.
    spoiled: HashMap<u32, Error>,
    /// nranks -> ranks refused because rank 0 said another number.
    contradicting: HashMap<u32, BTreeMap<u32, SocketAddr>>,
    complete: bool,
}

impl Roll {
    /// Notes a check-in and says what to tell whom.
    pub fn check_in(&mut self, member: MemberId, who: CheckIn) -> Vec<Order> {
        let refuse = |error: Error| vec![Order::Refuse(member, error)];
        if who.rank >= who.nranks {
            return refuse(out_of_range(&who));
        }
        if let Some(error) = self.spoiled.get(&who.nranks) {
            return refuse(error.clone());
        }
        if let Some(first) = self.already(&who) {
            return refuse(twice(&who, first));
        }
        match self.decided {
            Some(nranks) if nranks != who.nranks => return self.contradict(member, &who, nranks),
            None if who.rank == 0 => return self.decide(member, &who),
            _ => {}
        }
        self.enter(member, &who);
        let mut orders = vec![Order::Welcome(member)];
        orders.extend(self.completion());
        orders
    }

    /// Notes that a member has left or died before all were there.
    pub fn lost(&mut self, member: MemberId, why: &str) -> Vec<Order> {
        let found = self.groups.iter().find_map(|(&nranks, group)| {
            let (&rank, present) = group.iter().find(|(_, present)| present.member == member)?;
            Some((nranks, rank, present.from))
        });
        let Some((nranks, rank, from)) = found else {
            return Vec::new();
        };
        let error = Error::remote(
            Rank(rank),
            format!(
                "rank {rank} at {} checked in and then was lost before all {nranks} ranks were \
                 there: {why}",
                from.ip()
            ),
            "look into the output of that rank for its own error; if it was killed (out of \
             memory?) restart the job",
        );
        self.spoil(nranks, error, Some(member))
    }

    /// Gives up the group of `nranks` ranks: everybody in it, now or later, is refused.
    pub fn spoil(&mut self, nranks: u32, error: Error, except: Option<MemberId>) -> Vec<Order> {
        let group = self.groups.remove(&nranks).unwrap_or_default();
        self.spoiled.insert(nranks, error.clone());
        // Rank 0 last: the root may live in its process, which may end as soon as it knows.
        let others = group
            .into_values()
            .rev()
            .filter(|present| Some(present.member) != except);
        others
            .map(|present| Order::Refuse(present.member, error.clone()))
            .collect()
    }

    /// A sentence about who is missing in the group of `nranks` ranks.
    pub fn missing(&self, nranks: u32) -> String {
        let empty = BTreeMap::new();
        let group = self.groups.get(&nranks).unwrap_or(&empty);
        let named: Vec<String> = (0..nranks)
            .filter(|rank| !group.contains_key(rank))
            .take(MAX_NAMED)
            .map(|rank| rank.to_string())
            .collect();
        let more = nranks as usize - group.len() - named.len();
        let mut text = format!("still missing: {}", named.join(", "));
        if more > 0 {
            text += &format!(" and {more} more");
        }
        for (said, ranks) in &self.contradicting {
            let list: Vec<String> = ranks.keys().take(MAX_NAMED).map(u32::to_string).collect();
            text += &format!(
                " (refused because they were started with {said} ranks, not {nranks}: {})",
                list.join(", ")
            );
        }
        text
    }

    /// Whether all ranks have checked in.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Whether rank 0 has come and its group can no longer start.
    pub fn is_over(&self) -> bool {
        self.decided
            .is_some_and(|nranks| self.spoiled.contains_key(&nranks))
    }

    /// Every rank, in rank order; empty before [`Order::Complete`].
    pub fn ring(&self) -> Vec<RollSeat> {
        let group = self.decided.filter(|_| self.complete);
        group
            .and_then(|nranks| self.groups.get(&nranks))
            .into_iter()
            .flat_map(BTreeMap::values)
            .map(|present| RollSeat {
                member: present.member,
                address: present.address,
                process: present.process,
            })
            .collect()
    }

    fn already(&self, who: &CheckIn) -> Option<&Present> {
        if who.rank == 0 {
            // Two ranks 0 with different numbers are two ranks 0 all the same.
            return self.groups.values().find_map(|group| group.get(&0));
        }
        self.groups.get(&who.nranks)?.get(&who.rank)
    }

    fn enter(&mut self, member: MemberId, who: &CheckIn) {
        let present = Present {
            member,
            address: who.address,
            from: who.from,
            process: who.process,
        };
        let group = self.groups.entry(who.nranks).or_default();
        group.insert(who.rank, present);
    }

    fn completion(&mut self) -> Option<Order> {
        let nranks = self.decided?;
        let all = self.groups.get(&nranks)?.len() == nranks as usize;
        self.complete |= all;
        all.then_some(Order::Complete)
    }

    /// Rank 0 has come: its number counts.
    fn decide(&mut self, member: MemberId, who: &CheckIn) -> Vec<Order> {
        self.decided = Some(who.nranks);
        self.enter(member, who);
        let mut orders = vec![Order::Welcome(member)];
        let others: Vec<u32> = self.groups.keys().copied().collect();
        for said in others.into_iter().filter(|&said| said != who.nranks) {
            let group = self.groups.remove(&said).unwrap_or_default();
            for (rank, present) in group {
                let check_in = CheckIn {
                    rank,
                    nranks: said,
                    address: present.address,
                    from: present.from,
                    process: present.process,
                };
                orders.extend(self.contradict(present.member, &check_in, who.nranks));
            }
        }
        orders.extend(self.completion());
        orders
    }

    fn contradict(&mut self, member: MemberId, who: &CheckIn, decided: u32) -> Vec<Order> {
        let mut orders = vec![Order::Refuse(member, contradiction(who, decided))];
        let refused = self.contradicting.entry(who.nranks).or_default();
        refused.insert(who.rank, who.from);
        if refused.len() + 1 == who.nranks as usize && !self.complete {
            let error = Error::usage(
                format!(
                    "rank 0 was started with {decided} ranks, but all other ranks with {}",
                    who.nranks
                ),
                "start every rank with the same number of ranks",
            )
            .with_peer(Rank(0));
            orders.extend(self.spoil(decided, error, None));
        }
        orders
    }
}

fn out_of_range(who: &CheckIn) -> Error {
    Error::argument(
        format!("rank {} of {} does not exist", who.rank, who.nranks),
        "ranks count from 0 to nranks - 1: check the arguments of koloCommInitRank",
    )
}

fn twice(who: &CheckIn, first: &Present) -> Error {
    Error::usage(
        format!(
            "rank {} checks in twice: another process at {} has already checked in as rank {}",
            who.rank,
            first.from.ip(),
            who.rank
        ),
        "give every process or thread a rank of its own, and every communicator an id of its own",
    )
}

fn contradiction(who: &CheckIn, decided: u32) -> Error {
    Error::usage(
        format!(
            "rank {} was started with {} ranks, rank 0 with {decided}",
            who.rank, who.nranks
        ),
        "start every rank with the same number of ranks",
    )
    .with_peer(Rank(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(rank: u32, nranks: u32) -> CheckIn {
        CheckIn {
            rank,
            nranks,
            address: SocketAddr::from(([10, 0, 0, rank as u8], 1000)),
            from: SocketAddr::from(([10, 0, 0, rank as u8], 2000)),
            process: [rank as u8; PROCESS_BYTES],
        }
    }

    fn refused(orders: &[Order]) -> Vec<(MemberId, String)> {
        let words = |order: &Order| match order {
            Order::Refuse(member, error) => Some((*member, error.to_string())),
            _ => None,
        };
        orders.iter().filter_map(words).collect()
    }

    #[test]
    fn any_order_of_arrival_completes_in_rank_order() {
        let mut random = fastrand::Rng::with_seed(11);
        for nranks in 1..20 {
            let mut ranks: Vec<u32> = (0..nranks).collect();
            random.shuffle(&mut ranks);
            let mut roll = Roll::default();
            for (count, &rank) in ranks.iter().enumerate() {
                assert!(roll.ring().is_empty());
                let orders = roll.check_in(u64::from(rank) + 7, who(rank, nranks));
                assert_eq!(orders[0], Order::Welcome(u64::from(rank) + 7));
                let last = count + 1 == ranks.len();
                assert_eq!(orders.contains(&Order::Complete), last);
            }
            let ring: Vec<u64> = roll.ring().iter().map(|seated| seated.member).collect();
            assert_eq!(ring, (7..7 + u64::from(nranks)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn wrong_number_first_harms_nobody_else() {
        let mut roll = Roll::default();
        roll.check_in(1, who(2, 4));
        roll.check_in(2, who(1, 3));
        let orders = roll.check_in(3, who(0, 3));
        let offenders = refused(&orders);
        assert_eq!(offenders.len(), 1);
        assert_eq!(offenders[0].0, 1);
        assert!(
            offenders[0]
                .1
                .contains("rank 2 was started with 4 ranks, rank 0 with 3")
        );
        assert!(
            roll.missing(3)
                .contains("still missing: 2 (refused because")
        );
        let late = roll.check_in(4, who(1, 9));
        assert_eq!(refused(&late).len(), 1);
        assert!(roll.check_in(5, who(2, 3)).contains(&Order::Complete));
    }

    #[test]
    fn twice_refuses_the_second_and_keeps_the_first() {
        let mut roll = Roll::default();
        roll.check_in(1, who(1, 2));
        let orders = roll.check_in(2, who(1, 2));
        assert!(refused(&orders)[0].1.contains("checks in twice"));
        // The second one's farewell is no loss.
        assert!(roll.lost(2, "gone").is_empty());
        assert!(roll.check_in(3, who(0, 2)).contains(&Order::Complete));
        assert_eq!(
            roll.ring().iter().map(|r| r.member).collect::<Vec<_>>(),
            [3, 1]
        );
    }

    #[test]
    fn two_ranks_zero_with_different_numbers() {
        let mut roll = Roll::default();
        roll.check_in(1, who(0, 2));
        let orders = roll.check_in(2, who(0, 3));
        assert!(refused(&orders)[0].1.contains("rank 0 checks in twice"));
        assert!(roll.check_in(3, who(1, 2)).contains(&Order::Complete));
    }

    #[test]
    fn rank_zero_alone_against_all_is_told() {
        let mut roll = Roll::default();
        roll.check_in(1, who(1, 3));
        roll.check_in(2, who(0, 5));
        let orders = roll.check_in(3, who(2, 3));
        let told = refused(&orders);
        assert_eq!(told.len(), 2, "{told:?}");
        assert_eq!(told[1].0, 2);
        assert!(told[1].1.contains("all other ranks with 3"));
    }

    #[test]
    fn out_of_range() {
        for (rank, nranks) in [(4, 4), (0, 0), (u32::MAX, 7)] {
            let orders = Roll::default().check_in(1, who(rank, nranks));
            assert!(refused(&orders)[0].1.contains("does not exist"));
        }
    }

    #[test]
    fn a_lost_rank_spoils_its_group_now_and_later() {
        let mut roll = Roll::default();
        roll.check_in(1, who(3, 4));
        roll.check_in(2, who(1, 4));
        roll.check_in(3, who(1, 5));
        let told = refused(&roll.lost(1, "it closed the connection"));
        assert_eq!(told.len(), 1);
        assert!(told[0].0 == 2 && told[0].1.contains("rank 3 at 10.0.0.3"));
        let late = refused(&roll.check_in(4, who(0, 4)));
        assert!(late[0].1.contains("rank 3"));
        // The others have their number, and their own rank 0 may still come.
        assert_eq!(roll.check_in(5, who(2, 5)), [Order::Welcome(5)]);
    }

    #[test]
    fn rank_zero_is_told_last() {
        let mut roll = Roll::default();
        for (member, rank) in [(1, 2), (2, 0), (3, 4), (4, 1)] {
            roll.check_in(member, who(rank, 5));
        }
        let told = refused(&roll.lost(3, "it closed the connection"));
        let told: Vec<MemberId> = told.into_iter().map(|(member, _)| member).collect();
        assert_eq!(told, [1, 4, 2]);
    }

    #[test]
    fn a_long_list_of_missing_ranks_is_cut() {
        let mut roll = Roll::default();
        roll.check_in(1, who(0, 100));
        let text = roll.missing(100);
        assert!(text.starts_with("still missing: 1, 2, 3,") && text.ends_with("and 83 more"));
    }
}
