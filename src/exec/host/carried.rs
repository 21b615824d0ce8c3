//! Words of executors to the carrier of tokens that go to other nodes.
//!
//! They move tokens of all connections alike, through memory. Where the other end of a pair is on
//! another node somebody carries them, and wants to know beforehand how many there will be.

use crate::plan::{ConnectionUse, Direction, Link};
use crate::wire::carrier::{CarriedSlots, Carrier};
use std::sync::Arc;

/// The carrier of tokens between nodes, if there are some, and the launches that it was told of.
#[derive(Default)]
pub struct Carried {
    carrier: Option<Arc<dyn Carrier>>,
    /// Launches that were numbered.
    launches: u64,
}

impl Carried {
    /// With a carrier of tokens between nodes.
    pub fn by(carrier: Arc<dyn Carrier>) -> Carried {
        Carried {
            carrier: Some(carrier),
            launches: 0,
        }
    }

    /// The carrier, if some ranks are on other nodes.
    #[inline(always)]
    pub fn carrier(&self) -> Option<&dyn Carrier> {
        self.carrier.as_deref()
    }

    /// Whether some ranks are on other nodes.
    #[inline(always)]
    pub fn somewhere(&self) -> bool {
        self.carrier.is_some()
    }

    /// Whether a rank is on another node.
    #[inline(always)]
    pub fn is_remote(&self, rank: usize) -> bool {
        self.carrier()
            .is_some_and(|carrier| carrier.is_remote(rank))
    }

    /// A number for what is launched together.
    pub fn number_launch(&mut self) -> u64 {
        self.launches += 1;
        self.launches
    }

    /// Says that `slots` slots will pass over a connection, and whether executors say where they
    /// want large tokens. Nobody but the two ranks needs to know that of connections within the
    /// node.
    pub fn expect(&self, launch: u64, used: &ConnectionUse, slots: u64, wished: bool) {
        let Link::Pair {
            writer,
            reader,
            channel,
        } = used.link
        else {
            return;
        };
        let is_send = used.direction == Direction::Send;
        let peer = if is_send { reader } else { writer };
        if let Some(carrier) = self.carrier().filter(|it| it.is_remote(peer as usize)) {
            let slots = CarriedSlots {
                peer,
                channel,
                is_send,
                slots,
                wished,
            };
            carrier.expect(launch, slots);
        }
    }
}
