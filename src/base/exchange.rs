//! Exchanges: collectives that are nothing but messages between pairs of ranks, and the order in
//! which a rank turns to its peers.
//!
//! **Problem.** All-to-all, gather and scatter run as plans, as small messages without a plan, and
//! with blocks of different sizes as groups of messages. Were the messages and their order written
//! for each, the three would drift apart.
//!
//! **Idea.** They stand here once, and follow from what the table of collectives says: who hands in
//! how many blocks, and who gets how many. In turn d a rank sends d ranks ahead and receives from d
//! ranks behind. So in each turn every rank has another one, and nobody turns to rank 0 first.

use super::collective::{Collective, Share};

/// A *transfer*: one message of a rank, or what it does with its own data. Blocks are numbered as
/// the caller numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// Block `from` of the input is block `to` of the output.
    Own {
        /// Block of the input.
        from: usize,
        /// Block of the output.
        to: usize,
    },
    /// Block `block` of the input goes to rank `to`.
    Send {
        /// The peer.
        to: u32,
        /// Block of the input.
        block: usize,
    },
    /// Block `block` of the output comes from rank `from`.
    Recv {
        /// The peer.
        from: u32,
        /// Block of the output.
        block: usize,
    },
    /// Blocks that all others sent are folded with block `block` of the input, in the order of
    /// ranks.
    Fold {
        /// Block of the input.
        block: usize,
    },
}

/// Messages of a rank in each turn.
#[derive(Clone, Copy)]
enum Visit {
    /// It sends and receives; all get the same block, or each its own.
    Both { same: bool },
    /// It sends to each other rank that rank's block.
    Send,
    /// It receives the block of each other rank.
    Recv,
    /// It has one message with the root, or none.
    Nothing,
}

impl Visit {
    /// The transfers of one turn.
    #[inline]
    fn turn(self, distance: u32, (rank, nranks): (u32, u32)) -> [Option<Transfer>; 2] {
        let past = rank + distance;
        let ahead = if past < nranks { past } else { past - nranks };
        let behind = match rank < distance {
            true => rank + nranks - distance,
            false => rank - distance,
        };
        let send = |block| Some(Transfer::Send { to: ahead, block });
        let recv = |from| {
            let block = from as usize;
            Some(Transfer::Recv { from, block })
        };
        match self {
            Visit::Both { same: true } => [send(0), recv(behind)],
            Visit::Both { same: false } => [send(ahead as usize), recv(behind)],
            Visit::Send => [send(ahead as usize), None],
            Visit::Recv => [recv(ahead), None],
            Visit::Nothing => [None; 2],
        }
    }
}

/// The transfers of `rank` in a collective among all ranks, in their order; none for collectives
/// that are no exchange, or go along a graph.
#[inline]
pub fn transfers(
    collective: Collective,
    rank: u32,
    nranks: u32,
    root: u32,
) -> impl Iterator<Item = Transfer> {
    let (mine, at_root) = (rank as usize, rank == root);
    let own = |from, to| Some(Transfer::Own { from, to });
    let to_root = Transfer::Send { to: root, block: 0 };
    let from_root = Transfer::Recv {
        from: root,
        block: 0,
    };
    let fold = Transfer::Fold { block: mine };
    let (first, visit, last) = match (collective.sends(), collective.receives()) {
        (Share::All, Share::All) => (own(mine, mine), Visit::Both { same: false }, None),
        (Share::One, Share::All) => (own(0, mine), Visit::Both { same: true }, None),
        (Share::One, Share::AllAtRoot) if at_root => (own(0, mine), Visit::Recv, None),
        (Share::One, Share::AllAtRoot) => (Some(to_root), Visit::Nothing, None),
        (Share::AllAtRoot, Share::One) if at_root => (own(mine, 0), Visit::Send, None),
        (Share::AllAtRoot, Share::One) => (Some(from_root), Visit::Nothing, None),
        (Share::All, Share::One) => (None, Visit::Send, Some(fold)),
        _ => (None, Visit::Nothing, None),
    };
    let turns = match visit {
        Visit::Nothing => 1..1,
        _ => 1..nranks,
    };
    let of_turn = move |distance| visit.turn(distance, (rank, nranks)).into_iter().flatten();
    first.into_iter().chain(turns.flat_map(of_turn)).chain(last)
}

#[cfg(test)]
mod tests {
    use super::Transfer::{Fold, Own, Recv, Send};
    use super::*;
    use std::collections::BTreeSet;

    const MOST: u32 = 9;

    /// The messages of all ranks, of everything that is an exchange.
    fn exchanges() -> impl Iterator<Item = (Collective, u32, Vec<Vec<Transfer>>)> {
        let calls = Collective::ALL.into_iter().flat_map(|collective| {
            (1..=MOST).flat_map(move |n| (0..n).map(move |root| (collective, n, root)))
        });
        calls.filter_map(|(collective, n, root)| {
            let of = |rank| transfers(collective, rank, n, root).collect::<Vec<_>>();
            let all: Vec<_> = (0..n).map(of).collect();
            all.iter()
                .any(|list| !list.is_empty())
                .then_some((collective, root, all))
        })
    }

    /// Every block that one rank sends to another one arrives there, once, where it belongs.
    #[test]
    fn the_messages_of_all_ranks_pair_up() {
        let mut seen = BTreeSet::new();
        for (collective, root, all) in exchanges() {
            seen.insert(collective.name());
            let n = all.len() as u32;
            for (from, to) in (0..n).flat_map(|from| (0..n).map(move |to| (from, to))) {
                let sent = all[from as usize].iter().filter_map(|it| match *it {
                    Send { to: peer, block } => (peer == to).then_some(block),
                    _ => None,
                });
                let taken = all[to as usize].iter().filter_map(|it| match *it {
                    Recv { from: peer, block } => (peer == from).then_some(block),
                    Fold { .. } => (from != to).then_some(0),
                    _ => None,
                });
                let what = format!("{collective:?} of {n}, root {root}: {from} to {to}");
                let (sent, taken): (Vec<_>, Vec<_>) = (sent.collect(), taken.collect());
                assert_eq!(sent.len(), taken.len(), "{what}");
                // The block that a rank has for another one has that one's number.
                let numbered = |share, rank: u32| match share {
                    Share::All | Share::AllAtRoot => rank as usize,
                    _ => 0,
                };
                for block in sent {
                    assert_eq!(block, numbered(collective.sends(), to), "{what}");
                }
                for block in taken {
                    assert_eq!(block, numbered(collective.receives(), from), "{what}");
                }
            }
        }
        let wanted = "AllGather AllGatherV AllToAll AllToAllV Gather GatherV ReduceScatter \
            ReduceScatterV Scatter ScatterV";
        assert_eq!(seen.into_iter().collect::<Vec<_>>().join(" "), wanted);
    }

    /// The own block moves once where there is one, and no message goes to the rank itself.
    #[test]
    fn the_own_block_is_no_message() {
        for (collective, root, all) in exchanges() {
            for (rank, list) in all.iter().enumerate() {
                let what = format!("{collective:?}, root {root}, rank {rank}");
                let own = list
                    .iter()
                    .filter(|it| matches!(it, Own { .. } | Fold { .. }));
                let shares = (collective.sends(), collective.receives());
                let has_both = match shares {
                    (Share::AllAtRoot, _) | (_, Share::AllAtRoot) => rank == root as usize,
                    _ => true,
                };
                assert_eq!(own.count(), usize::from(has_both), "{what}");
                let peers = list.iter().filter_map(|it| match *it {
                    Send { to: peer, .. } | Recv { from: peer, .. } => Some(peer as usize),
                    _ => None,
                });
                for peer in peers {
                    assert!(peer != rank && peer < all.len(), "{what}: {peer}");
                }
            }
        }
    }

    /// In a turn no two ranks send to the same one, and what is sent in it is received in it.
    #[test]
    fn in_each_turn_every_rank_has_another_peer() {
        for (collective, root, all) in exchanges() {
            let everybody = |share| matches!(share, Share::One | Share::All);
            if !everybody(collective.sends()) || !everybody(collective.receives()) {
                continue;
            }
            let n = all.len();
            for turn in 0..n - 1 {
                let sent = all.iter().map(|list| {
                    let mut sends = list.iter().filter_map(|it| match *it {
                        Send { to, .. } => Some(to as usize),
                        _ => None,
                    });
                    sends.nth(turn).expect("a send in each turn")
                });
                let sent: Vec<usize> = sent.collect();
                let what = format!("{collective:?} of {n}, root {root}, turn {turn}: {sent:?}");
                assert_eq!(sent.iter().collect::<BTreeSet<_>>().len(), n, "{what}");
                for (rank, list) in all.iter().enumerate() {
                    let mut received = list.iter().filter_map(|it| match *it {
                        Recv { from, .. } => Some(from as usize),
                        _ => None,
                    });
                    match received.nth(turn) {
                        Some(from) => assert_eq!(sent[from], rank, "{what}"),
                        None => assert!(collective.reduces(), "{what}"),
                    }
                }
            }
        }
    }
}
