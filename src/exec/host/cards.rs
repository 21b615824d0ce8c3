//! Cards: by them ranks tell each other, before a call, where their buffers lie.
//!
//! **Problem.** Large data need not pass through slots where a peer's buffer can be addressed: in
//! the same process, in memory of `koloMemAlloc`, or in memory that was registered. But whether it
//! can is known to its owner only, and all ranks must do the same. Private memory of other
//! processes may be readable too, by system calls, which is worth it for large data only.
//!
//! **Idea.** A call that may be direct begins with an all-gather of *cards*: each rank says where
//! its buffers lie. Every rank then has all cards, and decides from them, and from nothing else,
//! whether buffers are read directly or pass slots. So all ranks decide alike. What follows is a
//! second launch of the same flight, of which the caller knows nothing.
//!
//! The cards also decide which bytes of the receive buffers peers *write* ([`pushed`]). How memory
//! is found, shown and mapped is no matter of the engine: it asks [`NodeBuffers`].

use crate::base::Result;
use crate::exec::order::{DirectOrder, LaunchOrder};
use crate::exec::pushed::{self, Exposed};
use crate::exec::reach::{CardPlace, Copied, NodeBuffers, PeerBuffers, Pushed};
use crate::plan::{Algorithm, Cards, Collective, Geometry, Shape};

/// After cards in vain one call in so many shows them again.
const LONGEST_PAUSE: u32 = 64;

/// Facts about its buffers that a rank sends to the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
struct Card {
    send: CardPlace,
    recv: CardPlace,
    /// [`NodeBuffers::freed`] of its process.
    freed: u64,
}

/// The part of a flight that its cards decide.
#[derive(Default)]
pub struct ShownBuffers {
    /// The call, until its launch is made.
    pub order: Option<Box<DirectOrder>>,
    /// The cards are on their way.
    pub is_shown: bool,
    /// The answer of the cards, if they have given it.
    pub said: Option<Cards>,
    /// The memory of this rank into which peers may write since its card is out. Peers that have
    /// all cards do not wait for this rank.
    pub exposed: Option<Exposed>,
    /// The cards of all ranks, and behind them the own one as it is sent.
    cards: Vec<Card>,
    /// Bytes of this rank's buffers of which peers read copies.
    copies: Vec<Copied>,
}

impl ShownBuffers {
    /// Forgets the call, and keeps memory.
    pub fn clear(&mut self) {
        (self.order, self.is_shown) = (None, false);
        (self.said, self.exposed) = (None, None);
    }
}

/// The side of a rank in exchanges of cards.
pub struct CardExchange {
    /// Slots and slices of the tokens that hold cards.
    geometry: Geometry,
    /// Turns that still pass without cards, and how many did the time before.
    pause: u32,
    last_pause: u32,
}

impl CardExchange {
    /// With tokens of this geometry.
    pub fn new(geometry: Geometry) -> CardExchange {
        CardExchange {
            geometry,
            pause: 0,
            last_pause: 0,
        }
    }

    /// Takes the turn of the call of so many bytes that begins now, once, and returns whether it
    /// shows cards. Programs whose buffers are private should not pay for them each time: after
    /// cards in vain some turns pass without. All ranks answer alike: it depends on the turns
    /// before, and on nothing else.
    pub fn take_turn(&mut self, buffers: &dyn NodeBuffers, bytes: usize) -> bool {
        if buffers.reads_private(bytes) {
            // Never in vain.
            return true;
        }
        let shows = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        shows
    }

    /// The launch that shows this rank's card before a call, and brings those of the others.
    ///
    /// # Errors
    /// When the service of this process is gone.
    pub fn show(
        &mut self,
        buffers: &mut dyn NodeBuffers,
        call: &LaunchOrder,
        shown: &mut ShownBuffers,
    ) -> Result<LaunchOrder> {
        let ranks = call.shape.nranks as usize;
        shown.copies.clear();
        shown.cards.clear();
        shown.cards.resize(ranks + 1, Card::default());
        shown.cards[ranks] = card(buffers, call, &mut shown.copies)?;
        shown.exposed = pushed::exposed(call, buffers.page_bytes());
        let (all, own) = shown.cards.split_at_mut(ranks);
        let (own, all) = (own.as_ptr().cast(), all.as_mut_ptr().cast());
        let shape = Shape {
            collective: Collective::AllGather,
            algorithm: Algorithm::OneShot,
            root: 0,
            channels: 1,
            ..call.shape
        };
        Ok(LaunchOrder {
            geometry: self.geometry,
            // That of the call itself: ranks that disagree hear of it now.
            signature: call.signature,
            ..LaunchOrder::of_bytes(shape, own, all, size_of::<Card>())
        })
    }

    /// How this rank reaches the buffers of all ranks, whose cards are there; `None` if the call
    /// cannot be direct on any rank.
    ///
    /// # Errors
    /// When a peer's memory cannot be mapped: the other ranks count on it, so the call fails.
    pub fn take(
        &mut self,
        buffers: &mut dyn NodeBuffers,
        call: &LaunchOrder,
        shown: &mut ShownBuffers,
    ) -> Result<Option<PeerBuffers>> {
        let ranks = call.shape.nranks as usize;
        let copies = std::mem::take(&mut shown.copies);
        let reached = self.reached(buffers, &shown.cards[..ranks], call, copies)?;
        shown.said = Some(if reached.is_some() {
            Cards::Readable
        } else {
            shown.exposed = None;
            Cards::Private
        });
        Ok(reached)
    }

    fn reached(
        &mut self,
        buffers: &mut dyn NodeBuffers,
        cards: &[Card],
        call: &LaunchOrder,
        copies: Vec<Copied>,
    ) -> Result<Option<PeerBuffers>> {
        for (rank, card) in cards.iter().enumerate() {
            buffers.hear(rank, card.freed);
        }
        let is_here = (0..cards.len()).all(|rank| buffers.is_of_this_process(rank));
        let is_known = is_here || are_known(cards);
        if !is_known && !buffers.reads_private(call.bytes()) {
            self.last_pause = (2 * self.last_pause).clamp(1, LONGEST_PAUSE);
            self.pause = self.last_pause;
            return Ok(None);
        }
        self.last_pause = 0;
        let pushed = if is_here {
            pushed::everything(call)
        } else if is_known {
            pushed::common(call, &writable(cards), buffers.page_bytes())
        } else {
            Pushed::nothing()
        };
        let mut bases = Vec::with_capacity(cards.len());
        for (rank, card) in cards.iter().enumerate() {
            let (sent, received) = call.buffer_bytes(rank as u32);
            let send = buffers.base(rank, &card.send, sent)?;
            bases.push([send, buffers.base(rank, &card.recv, received)?]);
        }
        Ok(Some(PeerBuffers {
            bases,
            pushed,
            copies,
        }))
    }
}

/// This rank's card for a call, and what of its buffers peers read in copies.
///
/// # Errors
/// Those of [`CardExchange::show`].
fn card(
    buffers: &mut dyn NodeBuffers,
    call: &LaunchOrder,
    copies: &mut Vec<Copied>,
) -> Result<Card> {
    let (sent, received) = call.buffer_bytes(call.shape.rank);
    let freed = buffers.freed();
    Ok(Card {
        send: buffers.find(call.send, sent, copies)?,
        recv: buffers.find(call.recv.cast_const(), received, copies)?,
        freed,
    })
}

/// Whether all buffers can be addressed by ranks of other processes. Pure in what all ranks know.
fn are_known(cards: &[Card]) -> bool {
    let known = |card: &Card| card.send.is_known() && card.recv.is_known();
    cards.iter().all(known)
}

/// Where the receive buffers of all ranks begin; nothing where peers may not write into one.
fn writable(cards: &[Card]) -> Vec<usize> {
    let starts = cards.iter().map(|card| {
        let recv = &card.recv;
        let is_there = recv.is_known() && recv.number != CardPlace::NO_BUFFER;
        (is_there && recv.may_be_written != 0).then_some(recv.address as usize)
    });
    starts.collect::<Option<_>>().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::reach::Base;

    const PAGE: usize = 4096;
    const FREED: u64 = 5;

    /// Ranks of one process, or each in its own; private memory is read from some size on.
    struct Told {
        is_one_process: bool,
        private_from: usize,
    }

    impl NodeBuffers for Told {
        fn page_bytes(&self) -> usize {
            PAGE
        }

        fn is_of_this_process(&self, rank: usize) -> bool {
            self.is_one_process || rank == 0
        }

        fn reads_private(&self, bytes: usize) -> bool {
            bytes >= self.private_from
        }

        fn freed(&mut self) -> u64 {
            FREED
        }

        /// Memory from page 16 on was allocated so that peers can map it.
        fn find(&mut self, at: *const u8, _: usize, _: &mut Vec<Copied>) -> Result<CardPlace> {
            Ok(CardPlace {
                address: at as u64,
                number: u64::from(at as usize >= 16 * PAGE),
                may_be_written: 1,
                ..CardPlace::default()
            })
        }

        fn hear(&mut self, _: usize, freed: u64) {
            assert_eq!(freed, FREED);
        }

        fn base(&mut self, _: usize, place: &CardPlace, _: usize) -> Result<Base> {
            Ok(Base::here(place.address as *const u8))
        }
    }

    const RANKS: usize = 3;
    const BYTES: usize = 2 * PAGE;

    fn exchange(is_one_process: bool, private_from: usize) -> (CardExchange, Told) {
        let told = Told {
            is_one_process,
            private_from,
        };
        (CardExchange::new(Geometry::bundle(8 * PAGE)), told)
    }

    /// An all-reduce of rank 0, in place.
    fn call(page: usize) -> LaunchOrder {
        let shape = Shape {
            collective: Collective::AllReduce,
            algorithm: Algorithm::Ring,
            rank: 0,
            nranks: RANKS as u32,
            root: 0,
            channels: 2,
        };
        let at = std::ptr::with_exposed_provenance_mut::<u8>(page * PAGE);
        LaunchOrder {
            signature: 77,
            ..LaunchOrder::of_bytes(shape, at.cast_const(), at, BYTES)
        }
    }

    /// The answer of the cards where the buffers of the ranks begin at these pages.
    fn answer(
        (exchange, told): &mut (CardExchange, Told),
        pages: [usize; RANKS],
    ) -> Option<PeerBuffers> {
        let mut shown = ShownBuffers::default();
        let order = exchange.show(told, &call(pages[0]), &mut shown);
        let order = order.expect("a card");
        assert_eq!((order.count, order.signature), (size_of::<Card>(), 77));
        assert_eq!(order.shape.channels, 1);
        // What the launch does, each card by its own rank.
        for (rank, page) in pages.into_iter().enumerate() {
            let card = card(told, &call(page), &mut Vec::new()).expect("a card");
            shown.cards[rank] = card;
        }
        // SAFETY: the launch has the own card to send.
        assert_eq!(unsafe { order.send.cast::<Card>().read() }, shown.cards[0]);
        let reached = exchange
            .take(told, &call(pages[0]), &mut shown)
            .expect("all can be mapped");
        let said = if reached.is_some() {
            Cards::Readable
        } else {
            Cards::Private
        };
        assert_eq!(shown.said, Some(said));
        assert_eq!(
            shown.exposed.is_some(),
            reached.is_some(),
            "no more than may be written"
        );
        reached
    }

    #[test]
    fn one_private_buffer_makes_everybody_use_slots() {
        let mut processes = exchange(false, usize::MAX);
        let reached = answer(&mut processes, [20, 30, 40]).expect("all are known");
        let starts = reached.bases.iter().map(|[_, recv]| recv.at(0) as usize);
        assert_eq!(
            starts.collect::<Vec<_>>(),
            [20 * PAGE, 30 * PAGE, 40 * PAGE]
        );
        assert!(reached.pushed.is_all);
        for pages in [[1, 30, 40], [20, 2, 40], [20, 30, 3]] {
            assert!(answer(&mut processes, pages).is_none(), "{pages:?}");
            // Whoever is a thread of the process needs no allocation, and can read private memory.
            let threads = answer(&mut exchange(true, usize::MAX), pages);
            assert!(threads.expect("here").pushed.is_all);
            let fetched = answer(&mut exchange(false, BYTES), pages);
            assert_eq!(fetched.expect("is read").pushed, Pushed::nothing());
            assert!(answer(&mut exchange(false, BYTES + 1), pages).is_none());
        }
    }

    #[test]
    fn cards_in_vain_are_followed_by_a_pause() {
        let mut exchange = exchange(false, usize::MAX);
        let takes_turn = |exchange: &mut (CardExchange, Told)| {
            let (exchange, told) = exchange;
            exchange.take_turn(told, BYTES)
        };
        for pause in [1, 2, 4, 8, 16, 32, 64, 64] {
            assert!(takes_turn(&mut exchange));
            assert!(answer(&mut exchange, [1, 2, 3]).is_none());
            for call in 0..pause {
                assert!(!takes_turn(&mut exchange), "{call} of {pause}");
            }
        }
        assert!(takes_turn(&mut exchange));
        assert!(answer(&mut exchange, [20, 30, 40]).is_some());
        assert!(takes_turn(&mut exchange), "these were not in vain");
        assert!(answer(&mut exchange, [1, 30, 40]).is_none());
        assert_eq!(
            [0; 2].map(|_| takes_turn(&mut exchange)),
            [false, true],
            "as if for the first time"
        );
    }

    #[test]
    fn peers_write_only_where_all_owners_let_them() {
        let at = |address: usize| {
            let mut card = Card::default();
            (card.send.number, card.recv.number) = (1, 2);
            (card.recv.address, card.recv.may_be_written) = (address as u64, 1);
            card
        };
        assert_eq!(writable(&[at(4096), at(8200)]), [4096, 8200]);
        for change in [
            (|card| card.recv.may_be_written = 0) as fn(&mut Card),
            |card| card.recv.number = 0,
            |card| card.recv.number = CardPlace::NO_BUFFER,
        ] {
            let mut other = at(8200);
            change(&mut other);
            assert!(writable(&[at(4096), other]).is_empty());
        }
    }
}
