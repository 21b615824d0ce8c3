//! Buffers that peers reach where they lie.
//!
//! **Problem.** Large data need not pass through slots where a peer's buffer can be addressed: in
//! the same process, in memory of `koloMemAlloc`, or in memory that was registered. But whether it
//! can is known to its owner only, and all ranks must do the same. Private memory of other
//! processes may be readable too, by system calls ([`crate::comm::start::cma`]), which is worth
//! it for large data only.
//!
//! **Idea.** A call that may be direct begins with an all-gather of *cards*: each rank says where
//! its buffers lie. Every rank then has all cards, and decides from them, and from nothing else,
//! whether buffers are read directly or pass slots. So all ranks decide alike.
//! A rank then maps what it has not mapped yet; mappings are kept until their owner frees memory.
//!
//! The cards also decide which bytes of the receive buffers peers *write* ([`pushed`]).

use crate::base::{Error, Rank, Result};
use crate::comm::start::cma::Private;
use crate::exec::order::LaunchOrder;
use crate::exec::pushed;
use crate::exec::reach::{Base, Copied, PeerBuffers, Pushed, ShowCopy};
use crate::proxy::service::{self, Address, Published};
use crate::transport::cma::Mark;
use crate::transport::memory::{self, Mapping};
use crate::transport::registered::{Edge, is_pinned_at_ends};
use crate::transport::segment::{Key, Nonce};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Number of a buffer that a rank does not have, such as what only a root sends.
const NO_BUFFER: u64 = u64::MAX;

/// Where one buffer lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
struct Place {
    /// In its own process.
    address: u64,
    /// Number of the allocation; 0 if none.
    number: u64,
    /// Bytes from the start of the allocation.
    offset: u64,
    /// Not 0: its owner can take it back from peers that write there.
    may_be_written: u64,
    /// [`memory::Found::window`].
    window: u64,
}

impl ShowCopy for Edge {
    fn show(&self, part: &Range<usize>) -> Result<()> {
        Edge::show(self, part)
    }
}

/// Facts about its buffers that a rank sends to the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(in crate::comm) struct Card {
    send: Place,
    recv: Place,
    /// [`memory::freed`] of its process.
    freed: u64,
}

/// Mappings kept before all of them are dropped.
const MOST_MAPPED: usize = 1024;

/// How this rank reaches the buffers of the others.
pub(in crate::comm) struct Direct {
    me: usize,
    nonce: Nonce,
    /// The service of each rank's process; equal for ranks of one process.
    services: Vec<Address>,
    /// Names under which this process's allocations are published.
    published: HashMap<u64, Published>,
    mapped: HashMap<(usize, u64), Arc<Mapping>>,
    /// The last `freed` of each rank.
    freed: Vec<u64>,
    /// Calls that do not ask, and how many did not the time before.
    pause: u32,
    last_pause: u32,
    /// The private memory of the other ranks, if all ranks can read that of all others.
    private: Option<Private>,
    /// By which they know this process.
    _mark: Mark,
}

/// After cards in vain one call in so many asks again.
const LONGEST_PAUSE: u32 = 64;

impl Direct {
    /// Rank `me` of the communicator with this nonce, whose ranks have these services. `mark` is
    /// what this rank has shown them; `private` is what they have agreed on.
    pub fn new(
        me: usize,
        nonce: Nonce,
        services: Vec<Address>,
        mark: Mark,
        private: Option<Private>,
    ) -> Direct {
        let freed = vec![0; services.len()];
        Direct {
            me,
            nonce,
            services,
            published: HashMap::new(),
            mapped: HashMap::new(),
            freed,
            pause: 0,
            last_pause: 0,
            private,
            _mark: mark,
        }
    }

    /// Whether private buffers of other processes are read in this call.
    fn reads_private(&self, bytes: usize) -> bool {
        let serves = |private: &Private| private.serves(bytes);
        self.private.as_ref().is_some_and(serves)
    }

    /// Whether the call of so many bytes that begins now asks for cards. Programs whose buffers are private should
    /// not pay for them each time. All ranks answer alike: it depends on the calls before, and on
    /// nothing else.
    pub fn asks(&mut self, bytes: usize) -> bool {
        if self.reads_private(bytes) {
            // Never in vain.
            return true;
        }
        let asks = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        asks
    }

    /// Whether a rank is a thread of this process.
    pub fn is_of_this_process(&self, rank: usize) -> bool {
        self.services[rank] == self.services[self.me]
    }

    fn key(&self, rank: usize, number: u64) -> Key {
        let mixed = (number << 32 | rank as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Key(self.nonce.0 ^ (u128::from(mixed) << 64 | u128::from(number)))
    }

    /// This rank's card for a call, and what of its buffers peers read in copies. Allocations are published before anybody can know of them.
    ///
    /// # Errors
    /// When the service of this process is gone.
    pub fn card(&mut self, order: &LaunchOrder) -> Result<(Card, Vec<Copied>)> {
        let bytes = order.buffer_bytes(order.shape.rank);
        let freed = memory::freed();
        if u64::from(freed) != self.freed[self.me] {
            self.published.retain(|&number, _| memory::is_live(number));
        }
        let mut copies = Vec::new();
        let card = Card {
            send: self.place((order.send, bytes.0), &mut copies)?,
            recv: self.place((order.recv.cast_const(), bytes.1), &mut copies)?,
            freed: u64::from(freed),
        };
        Ok((card, copies))
    }

    fn place(
        &mut self,
        (address, bytes): (*const u8, usize),
        copies: &mut Vec<Copied>,
    ) -> Result<Place> {
        let mut place = Place {
            address: address as u64,
            ..Place::default()
        };
        if bytes == 0 {
            place.number = NO_BUFFER;
        } else if let Some(found) = memory::find(address, bytes) {
            (place.number, place.offset) = (found.number, found.offset as u64);
            // A device that reaches the memory would not see the pages that take its place after a
            // stop: nobody else writes into it.
            let may_be_written = found.may_be_written && !is_pinned_at_ends(address.addr(), bytes);
            place.may_be_written = u64::from(may_be_written);
            place.window = found.window as u64;
            if !self.published.contains_key(&found.number) {
                let key = self.key(self.me, found.number);
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

    fn is_one_process(&self) -> bool {
        self.services.iter().all(|one| *one == self.services[0])
    }

    /// Whether all buffers can be addressed by all ranks. Pure in what all ranks know.
    fn possible(&self, cards: &[Card]) -> bool {
        let one_process = self.is_one_process();
        let known = |card: &Card| card.send.number != 0 && card.recv.number != 0;
        one_process || cards.iter().all(known)
    }

    /// How this rank reaches the buffers of all ranks, who read `copies` of some bytes of its own;
    /// `None` if the call cannot be direct on any rank.
    ///
    /// # Errors
    /// When a peer's memory cannot be mapped: the other ranks count on it, so the call fails.
    pub fn reached(
        &mut self,
        cards: &[Card],
        order: &LaunchOrder,
        copies: Vec<Copied>,
    ) -> Result<Option<PeerBuffers>> {
        if self.mapped.len() > MOST_MAPPED {
            self.mapped.clear();
        }
        for (rank, card) in cards.iter().enumerate() {
            if card.freed != self.freed[rank] {
                self.freed[rank] = card.freed;
                self.mapped.retain(|&(owner, _), _| owner != rank);
            }
        }
        if !self.reads_private(order.bytes()) && !self.possible(cards) {
            self.last_pause = (2 * self.last_pause).clamp(1, LONGEST_PAUSE);
            self.pause = self.last_pause;
            return Ok(None);
        }
        self.last_pause = 0;
        let pushed = match self.possible(cards) {
            true if self.is_one_process() => pushed::everything(order),
            true => pushed::common(order, &writable(cards), memory::page_bytes()),
            false => Pushed::nothing(),
        };
        let mut bases = Vec::with_capacity(cards.len());
        for (rank, card) in cards.iter().enumerate() {
            let bytes = order.buffer_bytes(rank as u32);
            let send = self.base(rank, &card.send, bytes.0)?;
            bases.push([send, self.base(rank, &card.recv, bytes.1)?]);
        }
        Ok(Some(PeerBuffers {
            bases,
            pushed,
            copies,
        }))
    }

    fn base(&mut self, rank: usize, place: &Place, bytes: usize) -> Result<Base> {
        if self.is_of_this_process(rank) {
            return Ok(Base::here(place.address as *const u8));
        }
        if place.number == NO_BUFFER {
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
        let mapping = match self.mapped.get(&(rank, place.number)) {
            Some(mapping) => Arc::clone(mapping),
            None => {
                let mapping = Arc::new(self.fetch(rank, place)?);
                self.mapped
                    .insert((rank, place.number), Arc::clone(&mapping));
                mapping
            }
        };
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

    fn fetch(&self, rank: usize, place: &Place) -> Result<Mapping> {
        let remedy = "raise the limits on open files and memory (`ulimit -n`, `ulimit -v`), or set \
                      KOLO_DIRECT=off";
        let key = self.key(rank, place.number);
        let fetched = service::get()?.fetch(&self.services[rank], key);
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

/// Where the receive buffers of all ranks begin; nothing where peers may not write into one.
fn writable(cards: &[Card]) -> Vec<usize> {
    let starts = cards.iter().map(|card| {
        let recv = &card.recv;
        let is_there = recv.number != 0 && recv.number != NO_BUFFER;
        (is_there && recv.may_be_written != 0).then_some(recv.address as usize)
    });
    starts.collect::<Option<_>>().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(send: u64, recv: u64) -> Card {
        let place = |number| Place {
            number,
            ..Place::default()
        };
        Card {
            send: place(send),
            recv: place(recv),
            freed: 0,
        }
    }

    #[test]
    fn one_private_buffer_makes_everybody_use_slots() {
        let (here, there) = (Address([1; 16]), Address([2; 16]));
        let new = |services| Direct::new(0, Nonce(1), services, Mark::new(1), None);
        let two = new(vec![here, there]);
        assert!(two.possible(&[card(1, 2), card(1, 1)]));
        assert!(!two.possible(&[card(1, 2), card(1, 0)]));
        assert!(!two.possible(&[card(0, 2), card(1, 1)]));
        let threads = new(vec![here, here]);
        assert!(threads.possible(&[card(0, 0), card(0, 0)]));
    }

    #[test]
    fn peers_write_only_where_all_owners_let_them() {
        let at = |address: usize| {
            let mut card = card(1, 2);
            (card.recv.address, card.recv.may_be_written) = (address as u64, 1);
            card
        };
        assert_eq!(writable(&[at(4096), at(8200)]), [4096, 8200]);
        let mut fixed = at(4096);
        fixed.recv.may_be_written = 0;
        assert!(writable(&[at(4096), fixed]).is_empty());
        assert!(writable(&[at(4096), card(1, 0)]).is_empty());
        assert!(writable(&[at(4096), card(1, NO_BUFFER)]).is_empty());
    }

    /// Returns where this rank finds the buffer of rank 1, whose card says that it lies at `place`.
    fn believed(place: Place, bytes: usize) -> Result<Base> {
        let start = memory::allocate(8192).expect("memory");
        let file = memory::find(start, 1).expect("inside").file;
        let services = vec![Address([1; 16]), Address([2; 16])];
        let mut direct = Direct::new(0, Nonce(1), services, Mark::new(1), None);
        let mapping = Arc::new(Mapping::open(&file).expect("a mapping"));
        direct.mapped.insert((1, 7), mapping);
        let base = direct.base(1, &place, bytes);
        memory::free(start).expect("once");
        base
    }

    #[test]
    fn what_a_card_says_is_held_against_the_mapping() {
        let place = |offset: u64| Place {
            number: 7,
            offset,
            ..Place::default()
        };
        assert!(believed(place(4096), 4096).is_ok_and(|base| base.is_mapped()));
        for (offset, bytes) in [(4097, 4096), (8192, 1), (u64::MAX, 2), (0, usize::MAX)] {
            let error = believed(place(offset), bytes).err().expect("too long");
            assert!(error.what.contains("not so long"), "{error}");
            assert_eq!(error.peer, Some(Rank(1)));
        }
        let nowhere = Place {
            address: 4096,
            number: NO_BUFFER,
            ..Place::default()
        };
        assert!(believed(nowhere, 0).is_ok());
        let error = believed(nowhere, 1)
            .err()
            .expect("an address of this process");
        assert!(error.what.contains("no buffer"), "{error}");
    }
}
