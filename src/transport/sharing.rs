//! How one rank has its part in a segment that the ranks of its node share.
//!
//! **Problem.** The ranks of a node may be processes, threads of one process, or both. One of them
//! makes the memory, the others come to it, and all must be sure that it is the same.
//!
//! **Idea.** Every rank makes a [`Terms`] of what it thinks is shared; equal claims may go on. The
//! lowest rank, the leader, makes the segment: where other processes need it a region of a memfd,
//! which most of them have already ([`super::pool`]), anonymous memory otherwise
//! ([`Sharing::lead`]). The others open it ([`Sharing::open`]); from where they have a descriptor
//! that they lack is their caller's part. Then each writes its confirmation line, and after a
//! barrier reads those of all ([`confirm`]).

use super::confirm;
use super::fork::Fd;
use super::pool::{self, Lease, Pool, PoolName, PoolPlace};
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
    /// The memory that it thinks is shared.
    terms: Terms,
}

/// Names of files that a rank shows, at most: a process has few.
const MOST_FILES: usize = 16;

/// Memory that the leader has made.
pub struct Led {
    /// The segment.
    pub segment: Arc<Segment>,
    /// Where the others find it; `None` where they are threads of this process.
    pub place: Option<PoolPlace>,
    /// The file, where a process lacks it.
    pub file: Option<Arc<Fd>>,
    /// The leader's hold on the region until all others have joined it.
    pub lease: Lease,
}

/// All that ranks which share memory must have in common.
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
        let list: Vec<u8> = ranks.iter().flat_map(|r| r.0.to_le_bytes()).collect();
        let terms = Terms {
            group_hash: hash::fnv1a(&list),
            nonce_hash: hash::fnv1a(&nonce.0.to_le_bytes()),
            length: lengths.1 as u64,
        };
        Ok(Sharing {
            nonce,
            me,
            ranks,
            node,
            lengths,
            terms,
        })
    }

    /// The memory that this rank thinks is shared.
    pub fn claim(&self) -> Terms {
        self.terms
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

    /// The files of this process that may hold the segment, to be kept until it is open.
    pub fn files(&self) -> Vec<Arc<Pool>> {
        let mut files = pool::known(self.lengths.1);
        files.truncate(MOST_FILES);
        files
    }

    /// The leader's part: the segment. Where other processes need it (`!is_alone`), it lies in
    /// one of the `files` of this process that all of `theirs` name too, else in any of its
    /// files, which the others are then given; in a new one where none has room.
    ///
    /// # Errors
    /// The system refused, or there is a segment of this name.
    pub fn lead(&self, is_alone: bool, files: &[Arc<Pool>], theirs: &[&[PoolName]]) -> Result<Led> {
        let (length, span) = self.lengths;
        if is_alone {
            return Ok(Led {
                segment: segment::shared(self.key(), || Segment::in_process(length, span))?,
                place: None,
                file: None,
                lease: Lease::of(None),
            });
        }
        let is_common = |pool: &Pool| theirs.iter().all(|names| names.contains(&pool.name()));
        let (common, own): (Vec<_>, Vec<_>) = files.iter().partition(|pool| is_common(pool));
        let taken = common.into_iter().chain(own).find_map(|pool| {
            let region = pool.take(1, self.lengths)?;
            Some((pool, region, Lease::of(Some((Arc::clone(pool), region)))))
        });
        let mut lease = None;
        let segment = segment::shared(self.key(), || {
            let lines = Segment::user_offset(self.ranks.len());
            let (segment, held) = match taken {
                Some((pool, region, held)) => {
                    let segment = Segment::of_pool(pool, region, self.lengths)?;
                    segment.reserve((0, lines), "the first pages of shared memory")?;
                    (segment, held)
                }
                None => {
                    let (segment, _) = Segment::create(self.lengths, lines, 1)?;
                    let region = segment.region().map(|(pool, at)| (Arc::clone(pool), at));
                    (segment, Lease::of(region))
                }
            };
            lease = Some(held);
            Ok(segment)
        })?;
        let same = || Error::internal("two communicators were given the same secret");
        let (lease, (pool, region)) = lease.zip(segment.region()).ok_or_else(same)?;
        Ok(Led {
            place: Some(pool.place(region)),
            file: (!is_common(pool)).then(|| Arc::clone(pool.file())),
            segment: Arc::clone(&segment),
            lease,
        })
    }

    /// Everyone's part: the segment in the leader's `place`, mapped by the first rank of this
    /// process that comes, and this rank's use of it.
    ///
    /// # Errors
    /// Those of `fetch`, which gets the leader's descriptor where this process lacks it, and of the
    /// system.
    pub fn open(
        &self,
        place: Option<&PoolPlace>,
        files: &[Arc<Pool>],
        fetch: impl FnOnce() -> Result<Fd>,
    ) -> Result<(Arc<Segment>, Lease)> {
        let segment = segment::shared(self.key(), || {
            let gone = || Error::internal("the leader's segment is gone");
            let place = place.ok_or_else(gone)?;
            match files.iter().find(|pool| pool.name() == place.name) {
                Some(pool) => Segment::of_pool(pool, place.region, self.lengths),
                None => Segment::open(Arc::new(fetch()?), place, self.lengths),
            }
        })?;
        let lease = match (place, segment.region()) {
            (Some(place), Some((pool, region))) => {
                pool.join(region, place.tag).ok_or_else(|| {
                    let what = "the leader has given the memory of the new communicator back";
                    Error::remote(self.ranks[0], what, "see the message of that rank")
                })?
            }
            _ => Lease::of(None),
        };
        Ok((segment, lease))
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
        let Led {
            segment: made,
            place,
            file,
            lease,
        } = one.lead(false, &[], &[&[]]).unwrap();
        let again = one.lead(false, &[], &[&[]]).err().expect("it is made");
        assert!(again.what.contains("the same secret"), "{again}");
        one.confirm(&made);
        let missing = one.check(&made).unwrap_err();
        assert!(missing.what.contains("of rank 2 is missing"), "{missing}");
        // In this process the register knows it: nothing is fetched.
        let not = || Err(Error::internal("not asked for"));
        let (opened, joined) = two.open(place.as_ref(), &[], not).unwrap();
        assert!(Arc::ptr_eq(&made, &opened) && file.is_some());
        two.confirm(&opened);
        one.check(&made).unwrap();
        drop((made, opened, lease, joined, file));
        let asked = || Err(Error::internal("asked for"));
        assert!(two.open(place.as_ref(), &[], asked).is_err());
        let alone = sharing(6, 0, &[0, 2]).unwrap();
        let alone = alone.lead(true, &[], &[]).unwrap();
        assert!(alone.file.is_none() && alone.place.is_none());
    }

    #[test]
    fn another_communicator_lies_in_a_file_that_its_members_have() {
        let first = sharing(7, 0, &[0, 2]).unwrap();
        let first = first.lead(false, &[], &[&[]]).unwrap();
        let (pool, _) = first.segment.region().expect("between processes");
        let (files, names) = ([Arc::clone(pool)], [pool.name()]);
        let next = sharing(8, 0, &[0, 2]).unwrap();
        let made = next.lead(false, &files, &[&names, &names]).unwrap();
        let place = made.place.expect("between processes");
        assert_eq!((place.name, place.region), (pool.name(), 1));
        assert!(made.file.is_none(), "all have it");
        // One process does not have it: it is given to that one.
        let other = sharing(9, 0, &[0, 2]).unwrap();
        let other = other.lead(false, &files, &[&names, &[]]).unwrap();
        assert!(other.file.is_some());
        assert_eq!(other.place.map(|place| place.region), Some(2));
        // Regions are as new when nobody has them, also where nobody has come.
        let (_, joined) = next.open(Some(&place), &files, || unreachable!()).unwrap();
        drop((made.lease, other));
        assert_eq!(pool.taken(), 2);
        drop(joined);
        assert_eq!(pool.taken(), 1);
        assert!(next.open(Some(&place), &files, || unreachable!()).is_err());
    }
}
