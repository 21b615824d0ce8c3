//! Words of executors to the carrier of tokens that go to other nodes.
//!
//! They move tokens of all connections alike, through memory. Where the other end of a pair is on
//! another node somebody carries them, and wants to know beforehand how many there will be.

use crate::plan::{ConnectionUse, Direction, Link};
use crate::wire::Carrier;

/// Who carries tokens between nodes, if anybody has to.
#[derive(Default)]
pub struct Carried {
    carrier: Option<Box<dyn Carrier>>,
    /// Launches that were numbered.
    launches: u64,
}

impl Carried {
    /// With somebody who carries tokens between nodes.
    pub fn by(carrier: Box<dyn Carrier>) -> Carried {
        Carried {
            carrier: Some(carrier),
            launches: 0,
        }
    }

    /// Whether some ranks are on other nodes.
    #[inline(always)]
    pub fn somewhere(&self) -> bool {
        self.carrier.is_some()
    }

    /// Whether a rank is on another node.
    #[inline(always)]
    pub fn is_remote(&self, rank: usize) -> bool {
        let carrier = self.carrier.as_ref();
        carrier.is_some_and(|carrier| carrier.is_remote(rank))
    }

    /// Whether what is sent on a channel is moved by another rank of the node, which sees slots but
    /// not this rank's other memory.
    pub fn is_proxied(&self, channel: usize) -> bool {
        let carrier = self.carrier.as_ref();
        carrier.is_some_and(|carrier| carrier.is_proxied(channel))
    }

    /// Whether payload that goes to other nodes, or comes from them, may lie elsewhere than in
    /// slots.
    pub fn takes_parts(&self) -> bool {
        let carrier = self.carrier.as_ref();
        carrier.is_some_and(|carrier| carrier.takes_parts())
    }

    /// Where the payload of a token that will come had best be put; see [`Carrier::want`].
    pub fn want(&self, (peer, channel): (usize, usize), position: u64, data: (*mut u8, usize)) {
        if let Some(carrier) = &self.carrier {
            carrier.want(peer, channel, position, data);
        }
    }

    /// A number for what is launched together.
    pub fn number_launch(&mut self) -> u64 {
        self.launches += 1;
        self.launches
    }

    /// Says what a launch has the network fold.
    pub fn announce(&self, launch: u64, dtype: i32, operation: i32, element_bytes: usize) {
        if let Some(carrier) = &self.carrier {
            carrier.announce(launch, dtype, operation, element_bytes);
        }
    }

    /// Says that `slots` slots will pass over a connection. Nobody but the two ranks needs to know
    /// that of connections within the node.
    pub fn expect(&self, launch: u64, used: &ConnectionUse, slots: u64) {
        let (
            Some(carrier),
            Link::Pair {
                writer,
                reader,
                channel,
            },
        ) = (&self.carrier, used.link)
        else {
            return;
        };
        let (peer, is_send) = match used.direction {
            Direction::Send => (reader as usize, true),
            Direction::Recv => (writer as usize, false),
        };
        if carrier.is_remote(peer) {
            carrier.expect(launch, peer, usize::from(channel), is_send, slots);
        }
    }
}
