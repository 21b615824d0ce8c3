//! Buffers that peers reach where they lie: how they are found, shown and mapped.
//!
//! The engine asks for them when it exchanges cards ([`crate::exec::host::cards`]). A buffer in the
//! same process has an address. What lies in memory of `koloMemAlloc`, or was registered, is
//! published by the service of its process, and mapped by a peer that has not mapped it yet;
//! mappings are kept until their owner frees memory. Private memory of other processes is read by
//! system calls, if all ranks can ([`crate::comm::start::cma`]).

use crate::base::{Error, Rank, Result};
use crate::comm::start::cma::Private;
use crate::exec::reach::{Base, CardPlace, Copied, NodeBuffers, ShowCopy};
use crate::proxy::service::{self, Address, Published};
use crate::transport::cma::Mark;
use crate::transport::memory::{self, Mapping};
use crate::transport::registered::{Edge, is_pinned_at_ends};
use crate::transport::segment::{Key, Nonce};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

impl ShowCopy for Edge {
    fn show(&self, part: &Range<usize>) -> Result<()> {
        Edge::show(self, part)
    }
}

/// Mappings kept before all of them are dropped.
const MOST_MAPPED: usize = 1024;

/// How this rank reaches the buffers of the others.
pub(in crate::comm) struct Direct {
    me: Rank,
    nonce: Nonce,
    /// The ranks of this node in order, and the service of each one's process; equal for ranks of
    /// one process.
    processes: Vec<(Rank, Address)>,
    /// Names under which this process's allocations are published.
    published: HashMap<u64, Published>,
    mapped: HashMap<(usize, u64), Arc<Mapping>>,
    /// The last `freed` of each of these ranks.
    freed: Vec<u64>,
    /// The private memory of the other ranks, if all ranks can read that of all others.
    private: Option<Private>,
    /// By which they know this process.
    _mark: Mark,
}

impl Direct {
    /// Rank `me` of the communicator with this nonce. `processes` are the ranks of its node, in
    /// order, with their services; `mark` is what this rank has shown them; `private` is what they
    /// have agreed on.
    pub fn new(
        me: Rank,
        nonce: Nonce,
        processes: Vec<(Rank, Address)>,
        mark: Mark,
        private: Option<Private>,
    ) -> Direct {
        let freed = vec![0; processes.len()];
        Direct {
            me,
            nonce,
            processes,
            published: HashMap::new(),
            mapped: HashMap::new(),
            freed,
            private,
            _mark: mark,
        }
    }

    /// Where a rank of this node is in the list of them.
    #[inline]
    fn at(&self, rank: usize) -> Option<usize> {
        let of = |&(other, _): &(Rank, Address)| other.index();
        // On one node a rank is where its number says.
        match self.processes.get(rank) {
            Some(found) if of(found) == rank => Some(rank),
            _ => self.processes.binary_search_by_key(&rank, of).ok(),
        }
    }

    /// The service of a rank's process, if it is on this node.
    #[inline]
    fn service(&self, rank: usize) -> Option<&Address> {
        self.at(rank).map(|at| &self.processes[at].1)
    }

    fn key(&self, rank: usize, number: u64) -> Key {
        let mixed = (number << 32 | rank as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Key(self.nonce.0 ^ (u128::from(mixed) << 64 | u128::from(number)))
    }

    /// The mapping of the allocation that a card names, made on first use.
    fn mapping(&mut self, rank: usize, place: &CardPlace) -> Result<Arc<Mapping>> {
        let named = (rank, place.number);
        if let Some(mapping) = self.mapped.get(&named) {
            return Ok(Arc::clone(mapping));
        }
        let mapping = Arc::new(self.fetch(rank, place)?);
        if self.mapped.len() > MOST_MAPPED {
            self.mapped.clear();
        }
        self.mapped.insert(named, Arc::clone(&mapping));
        Ok(mapping)
    }

    fn fetch(&self, rank: usize, place: &CardPlace) -> Result<Mapping> {
        let remedy = "raise the limits on open files and memory (`ulimit -n`, `ulimit -v`), or set \
                      KOLO_DIRECT=off";
        let key = self.key(rank, place.number);
        let of_node = || Error::internal(format!("rank {rank} is on another node"));
        let address = self.service(rank).ok_or_else(of_node)?;
        let fetched = service::get()?.fetch(address, key);
        fetched
            .map_err(|cause| {
                let what = format!("cannot get at the memory of rank {rank}");
                Error::system(what, &cause, remedy)
            })
            .and_then(|file| match place.window {
                0 => Mapping::open(&file),
                window => {
                    let start = place.address.wrapping_sub(place.offset);
                    let bytes = start as usize..start.saturating_add(window) as usize;
                    Mapping::of_registration(&file, &bytes, place.number)
                }
            })
            .map_err(|error| error.with_peer(Rank(rank as u32)))
    }
}

impl NodeBuffers for Direct {
    fn page_bytes(&self) -> usize {
        memory::page_bytes()
    }

    fn is_of_this_process(&self, rank: usize) -> bool {
        self.service(rank) == self.service(self.me.index())
    }

    fn reads_private(&self, bytes: usize) -> bool {
        let serves = |private: &Private| private.serves(bytes);
        self.private.as_ref().is_some_and(serves)
    }

    fn freed(&mut self) -> u64 {
        let freed = u64::from(memory::freed());
        if self
            .at(self.me.index())
            .is_some_and(|at| freed != self.freed[at])
        {
            self.published.retain(|&number, _| memory::is_live(number));
        }
        freed
    }

    fn find(
        &mut self,
        address: *const u8,
        bytes: usize,
        copies: &mut Vec<Copied>,
    ) -> Result<CardPlace> {
        let mut place = CardPlace {
            address: address as u64,
            ..CardPlace::default()
        };
        if bytes == 0 {
            place.number = CardPlace::NO_BUFFER;
        } else if let Some(found) = memory::find(address, bytes) {
            (place.number, place.offset) = (found.number, found.offset as u64);
            // A device that reaches the memory would not see the pages that take its place after a
            // stop: nobody else writes into it.
            let may_be_written = found.may_be_written && !is_pinned_at_ends(address.addr(), bytes);
            place.may_be_written = u64::from(may_be_written);
            place.window = found.window as u64;
            if !self.published.contains_key(&found.number) {
                let key = self.key(self.me.index(), found.number);
                let published = service::get()?.publish(key, found.file);
                self.published.insert(found.number, published);
            }
            copies.extend(found.edges.into_iter().map(|edge| Copied {
                bytes: edge.bytes().clone(),
                how: Arc::new(edge),
            }));
        }
        Ok(place)
    }

    fn hear(&mut self, rank: usize, freed: u64) {
        if let Some(at) = self.at(rank)
            // Calls in flight tell what their begin knew: only what is newer counts.
            && (freed.wrapping_sub(self.freed[at]) as i64) > 0
        {
            self.freed[at] = freed;
            self.mapped.retain(|&(owner, _), _| owner != rank);
        }
    }

    fn base(&mut self, rank: usize, place: &CardPlace, bytes: usize) -> Result<Base> {
        if self.is_of_this_process(rank) {
            return Ok(Base::here(place.address as *const u8));
        }
        if place.number == CardPlace::NO_BUFFER {
            // Where a rank has no buffer nothing is read. One that should have one is not believed:
            // its address would be looked up in this process.
            return match bytes {
                0 => Ok(Base::here(place.address as *const u8)),
                _ => Err(Error::internal(format!(
                    "rank {rank} says that it has no buffer in a call that reads {bytes} bytes"
                ))
                .with_peer(Rank(rank as u32))),
            };
        }
        if place.number == 0 {
            let private = self.private.as_ref().ok_or_else(|| {
                Error::internal("a private buffer cannot be read").with_peer(Rank(rank as u32))
            })?;
            return Ok(Base::private(
                place.address as *const u8,
                private.peer(rank),
            ));
        }
        let mapping = self.mapping(rank, place)?;
        let start = mapping.at(place.offset as usize, bytes).ok_or_else(|| {
            Error::internal(format!(
                "rank {rank} says that its buffer of {bytes} bytes begins {} bytes inside an \
                 allocation that is not so long",
                place.offset
            ))
            .with_peer(Rank(rank as u32))
        })?;
        Ok(Base::mapped(start, mapping))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns where this rank finds the buffer of rank 1, whose card says that it lies at `place`.
    fn believed(place: CardPlace, bytes: usize) -> Result<Base> {
        let start = memory::allocate(8192).expect("memory");
        let file = memory::find(start, 1).expect("inside").file;
        let services = [(Rank(0), Address([1; 16])), (Rank(1), Address([2; 16]))];
        let mut direct = Direct::new(Rank(0), Nonce(1), services.to_vec(), Mark::new(1), None);
        let mapping = Arc::new(Mapping::open(&file).expect("a mapping"));
        direct.mapped.insert((1, 7), mapping);
        let base = direct.base(1, &place, bytes);
        memory::free(start).expect("once");
        base
    }

    #[test]
    fn what_a_card_says_is_held_against_the_mapping() {
        let place = |offset: u64| CardPlace {
            number: 7,
            offset,
            ..CardPlace::default()
        };
        assert!(believed(place(4096), 4096).is_ok_and(|base| base.is_mapped()));
        for (offset, bytes) in [(4097, 4096), (8192, 1), (u64::MAX, 2), (0, usize::MAX)] {
            let error = believed(place(offset), bytes).err().expect("too long");
            assert!(error.what.contains("not so long"), "{error}");
            assert_eq!(error.peer, Some(Rank(1)));
        }
        let nowhere = CardPlace {
            address: 4096,
            number: CardPlace::NO_BUFFER,
            ..CardPlace::default()
        };
        assert!(believed(nowhere, 0).is_ok());
        let error = believed(nowhere, 1)
            .err()
            .expect("an address of this process");
        assert!(error.what.contains("no buffer"), "{error}");
    }
}
