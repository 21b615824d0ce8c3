//! Says of a rank that it has let go of the communicator or ended, and of a connection that it
//! ended for such a reason.

use crate::base::clock;
use crate::base::turns;
use crate::base::{Error, Rank};
use crate::comm::identity::Identity;
use crate::transport::node::NodeMemory;
use crate::wire::board::Board;
use std::time::Duration;

/// How long the reason of a failed connection is waited for.
pub(super) const NEWS: Duration = Duration::from_millis(500);

/// Why a connection may have ended.
pub(in crate::comm) enum News {
    /// The communicator was stopped, as its abort record says.
    Aborted,
    /// The rank at the other end has left.
    Left(Rank),
    None,
}

/// A connection that ends is often the consequence of something else, of which the lookouts tell in
/// a moment, if they are asked.
pub(in crate::comm) fn news(node: &NodeMemory, peer: Option<Rank>, ask: impl Fn()) -> News {
    let start = clock::now();
    let mut asked = 0;
    while !start.past(NEWS) {
        if node.aborted() {
            return News::Aborted;
        }
        if let Some(peer) = peer
            && (node.board(peer.index()).has_left() || node.board(peer.index()).has_ended())
        {
            return News::Left(peer);
        }
        // A rank that leaves says so before it closes, but the answer to one question may be older.
        if start.past(NEWS / 10 * asked) {
            asked += 1;
            ask();
        }
        turns::sleep(NEWS / 500);
    }
    News::None
}

/// Returns the error to report for a network that failed. `None` if it failed because of an abort.
pub(in crate::comm) fn of_network(
    identity: &Identity,
    node: &NodeMemory,
    is_mate: impl Fn(u32) -> bool,
    ask: impl Fn(),
    mut error: Error,
) -> Option<Error> {
    let peer = error.peer.filter(|peer| peer.0 < identity.nranks);
    let gone = match news(node, peer, ask) {
        News::Aborted => return None,
        News::Left(peer) => Some(peer),
        News::None => {
            let mates = (0..identity.nranks).filter(|&rank| is_mate(rank));
            let boards = mates.map(|rank| (Rank(rank), node.board(rank as usize)));
            absentee(node.board(identity.rank as usize), boards)
        }
    };
    if let Some(gone) = gone {
        let waiting = error.rank.unwrap_or(Rank(identity.rank));
        let gone = (gone, identity.place(gone.0), node.board(gone.index()));
        return Some(left(gone, (waiting, "a call")));
    }
    if let Some(peer) = peer {
        let place = identity.place(peer.0);
        let what = &error.what;
        error.what = format!("no data pass to or from rank {peer} on {place}: {what}");
    }
    Some(error)
}

/// The rank of this node that has left without a call of `mine`. Other nodes stop for it and end
/// their connections, and who would tell why, the lookout of this node, may have been that rank.
fn absentee<'a>(mine: &Board, mates: impl Iterator<Item = (Rank, &'a Board)>) -> Option<Rank> {
    let is_absent =
        |board: &Board| (board.has_left() || board.has_ended()) && board.calls() < mine.calls();
    let mut absent = mates.filter(|(_, board)| is_absent(board));
    absent.next().map(|(rank, _)| rank)
}

/// The error for a rank that has left while another one waits for it.
pub(in crate::comm) fn left(
    (peer, place, board): (Rank, &str, &Board),
    (waiting, call): (Rank, &str),
) -> Error {
    let (has_gone, remedy) = gone(board);
    let has_gone = match board.has_left() {
        true => has_gone,
        false => "has ended with status 0 without taking part in this call",
    };
    let what =
        format!("rank {peer} on {place} {has_gone}, but rank {waiting} waits for it in {call}");
    Error::remote(peer, what, remedy)
}

/// How a rank has let go of the communicator, and what to do about it.
pub(super) fn gone(board: &Board) -> (&'static str, &'static str) {
    if !board.has_left() {
        return (
            "has ended with status 0",
            "see why its program ended before this one: let all ranks make the same calls, and \
             call CommDestroy before they end",
        );
    }
    match board.has_panicked() {
        true => (
            "panicked and let go of the communicator",
            "see the message of its panic",
        ),
        false => (
            "has let go of the communicator (destroyed or dropped it)",
            "make all ranks call the same operations before they let go of the communicator",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Board of a rank that has begun so many collectives.
    fn after(calls: u64) -> Board {
        let board = Board::new();
        (1..=calls).for_each(|call| board.begin(call, 7));
        board
    }

    #[test]
    fn who_left_without_a_call_is_absent_and_nobody_else() {
        let mine = after(3);
        let [there, left, ended, in_time] = [2, 2, 2, 3].map(after);
        left.leave(false);
        ended.end();
        in_time.leave(false);
        let among = |boards: &[&Board]| {
            let ranks = (4..).map(Rank);
            absentee(&mine, ranks.zip(boards.iter().copied()))
        };
        assert_eq!(among(&[&there, &in_time]), None);
        assert_eq!(among(&[&there, &in_time, &left]), Some(Rank(6)));
        assert_eq!(among(&[&ended, &there]), Some(Rank(4)));
    }
}
