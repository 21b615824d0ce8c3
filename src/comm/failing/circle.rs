//! Sends that wait for each other: each rank of a circle sends first and would receive afterwards.
//!
//! A short message lies in the memory of its connection until it is received, so two ranks that
//! both send before they receive go on. A longer one does not fit, and they wait for ever; with
//! `KOLO_CHECK` messages of every size do. Whoever waits in a call that only sends notes on its
//! board to whom ([`SendNote`](crate::wire::board::SendNote)). A rank follows these notes from peer
//! to peer; where they lead back to it, nobody in the circle will ever receive.

use crate::comm::calling::waiting_call::WaitingCall;
use crate::comm::health::Health;

/// The remedy for a circle of sends.
pub(in crate::comm) const REMEDY: &str = "put the Send and the Recv of each rank into one group \
    (GroupStart, GroupEnd; in Rust scope), or make them one SendRecv";

/// Messages of a circle that are named.
const NAMED: usize = 8;

/// A message of a circle: from whom, to whom, and its bytes.
type CircleLink = (u32, u32, u64);

/// The circle in which this rank waits for `peer`, in words, if there is one.
pub(super) fn circle(health: &Health, call: &WaitingCall, peer: usize) -> Option<String> {
    let (to, bytes) = call.sends.get()?;
    if to as usize != peer {
        return None;
    }
    let sends = |rank: u32| health.node.board(rank as usize).sends().get();
    let messages = back_to(health.rank, (to, bytes), health.nranks, sends)?;
    let place = health.place(to);
    let words = words(&messages);
    Some(format!(
        "rank {to} on {place}, which waits in a Send itself: {words}"
    ))
}

/// Forgets for which messages ranks of other nodes have waited so far, before they are asked.
pub(in crate::comm) fn forget_others(health: &Health) {
    let others = (0..health.nranks).filter(|&rank| rank != health.rank && !health.is_mate(rank));
    for rank in others {
        let board = health.node.board(rank as usize);
        board.note_sends(Default::default());
    }
}

/// The messages from rank `me`, which sends `first`, back to it, where `sends` tells to whom the
/// others send.
fn back_to(
    me: u32,
    (mut to, mut bytes): (u32, u64),
    nranks: u32,
    sends: impl Fn(u32) -> Option<(u32, u64)>,
) -> Option<Vec<CircleLink>> {
    let (mut from, mut messages) = (me, Vec::new());
    // A circle that this rank only leads into goes round without it.
    while messages.len() < nranks as usize {
        messages.push((from, to, bytes));
        if to == me {
            return Some(messages);
        }
        from = to;
        (to, bytes) = sends(from).filter(|(next, _)| *next < nranks)?;
    }
    None
}

fn words(messages: &[CircleLink]) -> String {
    let named =
        |(from, to, bytes): &CircleLink| format!("rank {from} sends {bytes} bytes to rank {to}");
    let (before, last) = messages.split_at(messages.len() - 1);
    let mut all: Vec<String> = before.iter().take(NAMED).map(named).collect();
    if before.len() > NAMED {
        all.push("...".to_owned());
    }
    let whom = match messages.len() {
        2 => "the other",
        _ => "the next one",
    };
    let (all, last) = (all.join(", "), named(&last[0]));
    format!("{all}, and {last}, and each waits until {whom} receives")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(me: u32, sends: &[Option<(u32, u64)>]) -> Option<String> {
        let first = sends[me as usize]?;
        let of = |rank: u32| sends[rank as usize];
        back_to(me, first, sends.len() as u32, of).map(|it| words(&it))
    }

    #[test]
    fn two_ranks_and_rings_are_found_and_nothing_else() {
        let two = [Some((1, 800)), Some((0, 900))];
        assert_eq!(
            found(0, &two).unwrap(),
            "rank 0 sends 800 bytes to rank 1, and rank 1 sends 900 bytes to rank 0, and each \
             waits until the other receives"
        );
        let three = [Some((2, 8)), Some((0, 16)), Some((1, 24))];
        assert_eq!(
            found(1, &three).unwrap(),
            "rank 1 sends 16 bytes to rank 0, rank 0 sends 8 bytes to rank 2, and rank 2 sends 24 \
             bytes to rank 1, and each waits until the next one receives"
        );
        // Rank 1 receives; a circle that does not come back; what no board can say.
        assert_eq!(found(0, &[Some((1, 8)), None]), None);
        assert_eq!(found(0, &[Some((1, 8)), Some((2, 8)), Some((1, 8))]), None);
        assert_eq!(found(0, &[Some((1, 8)), Some((7, 8))]), None);
    }

    #[test]
    fn a_long_ring_is_named_in_part() {
        for n in [8, 9, 10, 100] {
            let ring: Vec<_> = (0..n).map(|rank| Some(((rank + 1) % n, 8))).collect();
            let text = found(3, &ring).unwrap();
            let named = text.matches(" sends 8 bytes to rank ").count();
            assert_eq!(named, (n as usize).min(NAMED + 1), "{text}");
            assert_eq!(text.contains(", ..., and rank 2 sends"), n > 9, "{text}");
            assert!(text.contains("and rank 2 sends 8 bytes to rank 3, and each"));
        }
    }
}
