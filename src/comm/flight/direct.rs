//! Buffers that peers reach where they lie.
//!
//! **Problem.** Large data need not pass through slots where a peer's buffer can be addressed: in
//! the same process, in memory of `koloMemAlloc`, or in memory that was registered. But whether it
//! can is known to its owner only, and all ranks must do the same. Private memory of other
//! processes may be readable too, by system calls ([`crate::comm::becoming::cma`]), which is worth
//! it for large data only.
//!
//! **Idea.** A call that may be direct begins with an all-gather of *cards*: each rank says where
//! its buffers lie. Every rank then has all cards, and decides from them, and from nothing else,
//! whether buffers are read directly or pass slots. So all ranks decide alike.
//! A rank then maps what it has not mapped yet; mappings are kept until their owner frees memory.
//!
//! The cards also decide which bytes of the receive buffers peers *write* ([`Direct::pushed`]).

use crate::base::{Error, Rank, Result};
use crate::comm::becoming::cma::Private;
use crate::comm::calling::call::Checked;
use crate::exec::reach::{Base, PeerBuffers};
use crate::proxy::service::{self, Address, Published};
use crate::transport::cma::Mark;
use crate::transport::memory::{self, Mapping};
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

/// What a rank says about its buffers.
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
    /// What this process's allocations are published as.
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
    fn reads_private(&self, checked: &Checked) -> bool {
        let serves = |private: &Private| private.serves(checked.bytes);
        self.private.as_ref().is_some_and(serves)
    }

    /// Whether the call that begins now asks for cards. Programs whose buffers are private should
    /// not pay for them each time. All ranks answer alike: it depends on the calls before, and on
    /// nothing else.
    pub fn asks(&mut self, checked: &Checked) -> bool {
        if self.reads_private(checked) {
            // Never in vain.
            return true;
        }
        let asks = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        asks
    }

    /// Whether the call that begins now does not ask. If so, that is counted as by
    /// [`Direct::asks`]; if not, nothing is.
    pub fn passes(&mut self, checked: &Checked) -> bool {
        let passes = self.pause > 0 && !self.reads_private(checked);
        self.pause -= u32::from(passes);
        passes
    }

    /// Whether a rank is a thread of this process.
    pub fn is_of_this_process(&self, rank: usize) -> bool {
        self.services[rank] == self.services[self.me]
    }

    fn key(&self, rank: usize, number: u64) -> Key {
        let mixed = (number << 32 | rank as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Key(self.nonce.0 ^ (u128::from(mixed) << 64 | u128::from(number)))
    }

    /// This rank's card for a call with buffers of so many bytes. Allocations are published before
    /// anybody can know of them.
    ///
    /// # Errors
    /// When the service of this process is gone.
    pub fn card(&mut self, checked: &Checked, bytes: (usize, usize)) -> Result<Card> {
        let freed = memory::freed();
        if u64::from(freed) != self.freed[self.me] {
            self.published.retain(|&number, _| memory::is_live(number));
        }
        Ok(Card {
            send: self.place(checked.call.send, bytes.0)?,
            recv: self.place(checked.call.recv.cast_const(), bytes.1)?,
            freed: u64::from(freed),
        })
    }

    fn place(&mut self, address: *const u8, bytes: usize) -> Result<Place> {
        let mut place = Place {
            address: address as u64,
            ..Place::default()
        };
        if bytes == 0 {
            place.number = NO_BUFFER;
        } else if let Some(found) = memory::find(address, bytes) {
            (place.number, place.offset) = (found.number, found.offset as u64);
            place.may_be_written = u64::from(found.may_be_written);
            place.window = found.window as u64;
            if !self.published.contains_key(&found.number) {
                let key = self.key(self.me, found.number);
                let published = service::get()?.publish(key, found.file);
                self.published.insert(found.number, published);
            }
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

    /// The bytes of all receive buffers into which peers may write, in a call in which these have
    /// `bytes` bytes on every rank. After an abort the owner of a buffer waits for ranks that are
    /// threads of its process, and replaces whole pages behind the back of others
    /// ([`memory::take_back`]): so what shares a page with other data is left out. Pure in what all
    /// ranks know.
    fn pushed(&self, cards: &[Card], bytes: usize) -> Range<usize> {
        if self.is_one_process() {
            return 0..bytes;
        }
        let page = memory::page_bytes();
        let mut common = 0..bytes;
        for card in cards {
            let Place {
                address,
                number,
                may_be_written,
                ..
            } = card.recv;
            if number == 0 || number == NO_BUFFER || may_be_written == 0 {
                return 0..0;
            }
            let start = address as usize;
            let first = start.next_multiple_of(page) - start;
            let end = ((start + bytes) / page * page).saturating_sub(start);
            common = common.start.max(first)..common.end.min(end);
        }
        match common.is_empty() {
            true => 0..0,
            false => common,
        }
    }

    /// The whole pages of a receive buffer, of which peers may write any that [`Direct::pushed`]
    /// names: address and bytes. Where ranks are threads of one process that is more than pages,
    /// and nothing is taken back; a buffer without a whole page has its address, and no bytes.
    pub fn exposed(recv: *mut u8, bytes: usize) -> Option<(usize, usize)> {
        if bytes == 0 {
            return None;
        }
        let (page, start) = (memory::page_bytes(), recv.expose_provenance());
        let first = start.next_multiple_of(page);
        let end = (start + bytes) / page * page;
        Some((first, end.saturating_sub(first)))
    }

    /// How this rank reaches the buffers of all ranks; `None` if the call cannot be direct on any
    /// rank.
    ///
    /// # Errors
    /// When a peer's memory cannot be mapped: the other ranks count on it, so the call fails.
    pub fn reached(&mut self, cards: &[Card], checked: &Checked) -> Result<Option<PeerBuffers>> {
        if self.mapped.len() > MOST_MAPPED {
            self.mapped.clear();
        }
        for (rank, card) in cards.iter().enumerate() {
            if card.freed != self.freed[rank] {
                self.freed[rank] = card.freed;
                self.mapped.retain(|&(owner, _), _| owner != rank);
            }
        }
        if !self.reads_private(checked) && !self.possible(cards) {
            self.last_pause = (2 * self.last_pause).clamp(1, LONGEST_PAUSE);
            self.pause = self.last_pause;
            return Ok(None);
        }
        self.last_pause = 0;
        let bytes = checked.buffer_bytes(self.me as u32, cards.len() as u32).1;
        let pushed = match self.possible(cards) {
            true => self.pushed(cards, bytes),
            false => 0..0,
        };
        let mut bases = Vec::with_capacity(cards.len());
        for (rank, card) in cards.iter().enumerate() {
            let bytes = checked.buffer_bytes(rank as u32, cards.len() as u32);
            let send = self.base(rank, &card.send, bytes.0)?;
            bases.push([send, self.base(rank, &card.recv, bytes.1)?]);
        }
        Ok(Some(PeerBuffers {
            bases,
            pushes_all: !pushed.is_empty() && pushed == (0..bytes),
            pushed,
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
                    Mapping::open_part(&file, start, window as usize)
                }
            })
            .map_err(|error| error.with_peer(Rank(rank as u32)))
    }
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
    fn peers_write_whole_pages_of_buffers_that_can_be_taken_back() {
        let (here, there) = (Address([1; 16]), Address([2; 16]));
        let new = |services| Direct::new(0, Nonce(1), services, Mark::new(1), None);
        let two = new(vec![here, there]);
        let page = memory::page_bytes();
        let at = |address: usize| {
            let mut card = card(1, 2);
            (card.recv.address, card.recv.may_be_written) = (address as u64, 1);
            card
        };
        let bytes = 10 * page;
        let pushed = |a: usize, b: usize| two.pushed(&[at(a), at(b)], bytes);
        assert_eq!(pushed(7 * page, 90 * page), 0..bytes);
        // One begins 8 bytes into a page, the other 8 bytes before the end of one.
        assert_eq!(pushed(7 * page + 8, 90 * page), page - 8..10 * page - 8);
        assert_eq!(pushed(7 * page + 8, 90 * page - 8), page - 8..9 * page + 8);
        assert_eq!(
            two.pushed(&[at(page + 1), at(page)], page),
            0..0,
            "no whole page"
        );
        let mut fixed = at(page);
        fixed.recv.may_be_written = 0;
        assert_eq!(two.pushed(&[at(page), fixed], bytes), 0..0);
        assert_eq!(two.pushed(&[at(page), card(1, 0)], bytes), 0..0);
        let threads = new(vec![here, here]);
        assert_eq!(threads.pushed(&[card(0, 0), card(0, 0)], bytes), 0..bytes);
    }

    /// What becomes of a card of rank 1, which says that its buffer lies there.
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
