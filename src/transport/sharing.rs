//! How one rank has its part in a segment that the ranks of its node share.
//!
//! **Problem.** The ranks of a node may be processes, threads of one process, or both. One of them
//! makes the memory, the others come to it, and all must be sure that it is the same.
//!
//! **Idea.** Every rank makes a [`Terms`] of what it thinks is shared; equal claims may go on. The
//! lowest rank, the leader, makes the segment: a memfd where other processes need it, anonymous
//! memory otherwise ([`Sharing::lead`]). The others open it ([`Sharing::open`]); from where they
//! have its descriptor is their caller's part. Then each writes its confirmation line, and after a
//! barrier reads those of all ([`confirm`]).

use super::confirm;
use super::fork::Fd;
use super::segment::{self, Key, Nonce, Segment};
use crate::base::{Code, Error, Rank, Result, hash};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A rank, its node, and the memory that it is to share there.
pub struct Sharing<'a> {
    nonce: Nonce,
    me: Rank,
    /// All local ranks, ascending.
    ranks: Vec<Rank>,
    /// The machine's name, for messages.
    node: &'a str,
    /// Bytes of the head, and of head and parts.
    lengths: (usize, usize),
}

/// What ranks that share memory must have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// Of the list of local ranks.
    group_hash: u64,
    /// Of the nonce, which itself is nobody's business.
    nonce_hash: u64,
    length: u64,
}

impl<'a> Sharing<'a> {
    /// Rank `me` of `nranks`, on `node` with the ascending `ranks`, which share a head of the first
    /// of `lengths` bytes, and head and parts of the second.
    ///
    /// # Errors
    /// The list is not in order, or the head too short for the confirmations.
    pub fn new(
        nonce: Nonce,
        (me, nranks): (Rank, u32),
        (node, ranks): (&'a str, Vec<Rank>),
        lengths: (usize, usize),
    ) -> Result<Sharing<'a>> {
        let ascending = ranks.windows(2).all(|pair| pair[0] < pair[1]);
        let known = ranks.iter().all(|rank| rank.0 < nranks);
        if !ascending || !known || !ranks.contains(&me) {
            return Err(Error::internal(format!(
                "the list of local ranks {ranks:?} of rank {me} is not in order"
            )));
        }
        if lengths.0 < Segment::user_offset(ranks.len()) {
            return Err(Error::internal(format!(
                "a segment of {} bytes has no room for the confirmations of {} ranks",
                lengths.0,
                ranks.len()
            )));
        }
        Ok(Sharing {
            nonce,
            me,
            ranks,
            node,
            lengths,
        })
    }

    /// What this rank thinks is shared.
    pub fn claim(&self) -> Terms {
        let list: Vec<u8> = self.ranks.iter().flat_map(|r| r.0.to_le_bytes()).collect();
        Terms {
            group_hash: hash::fnv1a(&list),
            nonce_hash: hash::fnv1a(&self.nonce.0.to_le_bytes()),
            length: self.lengths.1 as u64,
        }
    }

    /// # Errors
    /// `InvalidUsage` where `rank` thinks otherwise.
    pub fn agree(&self, rank: Rank, theirs: &Terms) -> Result<()> {
        let mine = self.claim();
        let differ = if theirs.group_hash != mine.group_hash {
            format!("which ranks run on {}", self.node)
        } else if theirs.nonce_hash != mine.nonce_hash {
            "the communicator's secret".to_owned()
        } else if theirs.length != mine.length {
            format!(
                "the length of the shared memory ({} and {} bytes)",
                mine.length, theirs.length
            )
        } else {
            return Ok(());
        };
        Err(Error::new(
            Code::InvalidUsage,
            format!("ranks {} and {rank} disagree about {differ}", self.me),
            "start all ranks with the same settings and the same version of kolo (`kolo info \
             --config` on each node shows them)",
        )
        .with_peer(rank))
    }

    /// Whether this rank makes the segment.
    pub fn is_leader(&self) -> bool {
        self.me == self.ranks[0]
    }

    /// The name of the segment.
    pub fn key(&self) -> Key {
        Key::new(self.nonce, self.ranks[0])
    }

    /// The leader's part: the segment, and its file where other processes need it (`!is_alone`).
    ///
    /// # Errors
    /// The system refused, or there is a segment of this name.
    pub fn lead(&self, is_alone: bool) -> Result<(Arc<Segment>, Option<Arc<Fd>>)> {
        let (length, span) = self.lengths;
        if is_alone {
            let made = segment::shared(self.key(), || Segment::in_process(length, span));
            return Ok((made?, None));
        }
        let mut file = None;
        let made = segment::shared(self.key(), || {
            let (lines, users) = (Segment::user_offset(self.ranks.len()), self.ranks.len());
            let (segment, descriptor) = Segment::create(self.lengths, lines, users as u32)?;
            file = Some(descriptor);
            Ok(segment)
        })?;
        if file.is_none() {
            return Err(Error::internal(
                "two communicators were given the same secret",
            ));
        }
        Ok((made, file))
    }

    /// Everyone's part: the segment, mapped by the first rank of this process that comes.
    ///
    /// # Errors
    /// Those of `fetch`, which gets the leader's descriptor, and of the system.
    pub fn open(&self, fetch: impl FnOnce() -> Result<Fd>) -> Result<Arc<Segment>> {
        segment::shared(self.key(), || {
            Segment::open(Arc::new(fetch()?), self.lengths)
        })
    }

    /// Writes this rank's confirmation line.
    pub fn confirm(&self, segment: &Segment) {
        if let Some(index) = self.ranks.iter().position(|rank| *rank == self.me) {
            confirm::write(segment, self.nonce, index, self.me);
        }
    }

    /// After a barrier that follows everybody's [`Sharing::confirm`].
    ///
    /// # Errors
    /// Ranks whose lines are missing.
    pub fn check(&self, segment: &Segment) -> Result<()> {
        confirm::check(segment, self.nonce, &self.ranks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sharing(nonce: u128, me: u32, ranks: &[u32]) -> Result<Sharing<'static>> {
        let ranks = ranks.iter().map(|&rank| Rank(rank)).collect();
        Sharing::new(Nonce(nonce), (Rank(me), 9), ("node7", ranks), (8192, 8192))
    }

    #[test]
    fn only_an_ascending_list_with_oneself_is_one() {
        for (me, ranks) in [(2, &[0, 2][..]), (0, &[0]), (8, &[3, 8])] {
            assert!(sharing(1, me, ranks).is_ok(), "{me} {ranks:?}");
        }
        for (me, ranks) in [(1, &[0, 2][..]), (2, &[2, 0]), (0, &[0, 0]), (0, &[0, 9])] {
            assert!(sharing(1, me, ranks).is_err(), "{me} {ranks:?}");
        }
        let node = ("node7", vec![Rank(0)]);
        assert!(Sharing::new(Nonce(1), (Rank(0), 1), node, (4095, 8192)).is_err());
    }

    #[test]
    fn whoever_thinks_otherwise_is_told_about_what() {
        let mine = sharing(1, 0, &[0, 2]).unwrap();
        mine.agree(Rank(2), &sharing(1, 2, &[0, 2]).unwrap().claim())
            .unwrap();
        let about = |theirs: Terms| {
            let error = mine.agree(Rank(2), &theirs).unwrap_err();
            assert_eq!(
                (error.code, error.peer),
                (Code::InvalidUsage, Some(Rank(2)))
            );
            error.into_what()
        };
        let group = about(sharing(1, 2, &[0, 2, 3]).unwrap().claim());
        assert!(group.contains("which ranks run on node7"), "{group}");
        let secret = about(sharing(2, 2, &[0, 2]).unwrap().claim());
        assert!(secret.contains("the communicator's secret"), "{secret}");
        let length = about(Terms {
            length: 7,
            ..mine.claim()
        });
        assert!(length.contains("(8192 and 7 bytes)"), "{length}");
    }

    #[test]
    fn the_leader_makes_it_and_another_process_opens_it() {
        let (one, two) = (sharing(5, 0, &[0, 2]), sharing(5, 2, &[0, 2]));
        let (one, two) = (one.unwrap(), two.unwrap());
        let (made, file) = one.lead(false).unwrap();
        let again = one.lead(false).unwrap_err();
        assert!(again.what.contains("the same secret"), "{again}");
        one.confirm(&made);
        let missing = one.check(&made).unwrap_err();
        assert!(missing.what.contains("of rank 2 is missing"), "{missing}");
        // In this process the register knows it: nothing is fetched.
        let opened = two.open(|| Err(Error::internal("not asked for"))).unwrap();
        assert!(Arc::ptr_eq(&made, &opened) && file.is_some());
        two.confirm(&opened);
        one.check(&made).unwrap();
        drop((made, opened));
        assert!(two.open(|| Err(Error::internal("asked for"))).is_err());
        let (_, file) = sharing(6, 0, &[0, 2]).unwrap().lead(true).unwrap();
        assert!(file.is_none());
    }
}
