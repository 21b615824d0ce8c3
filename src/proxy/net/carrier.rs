//! The connections of a communicator as executors see them: the carrier of tokens to other nodes.

use super::active::Op;
use super::fold::Folding;
use super::links::Links;
use crate::base::Rank;
use crate::plan::Direction;
use crate::proxy::progress::Pass;
use crate::wire::carrier::{CarriedSlots, Carrier};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

impl Carrier for Links {
    #[inline(always)]
    fn is_remote(&self, rank: usize) -> bool {
        Links::is_remote(self, rank)
    }

    fn expect(&self, launch: u64, slots: CarriedSlots) {
        if slots.slots == 0 {
            return;
        }
        let mut op = Op {
            launch,
            direction: if slots.is_send {
                Direction::Send
            } else {
                Direction::Recv
            },
            peer: Rank(slots.peer),
            channel: slots.channel,
            slots: slots.slots,
            wished: slots.wished,
        };
        if slots.is_send && self.is_proxied(usize::from(slots.channel)) {
            self.busy.fetch_add(1, Ordering::Relaxed);
            self.through.put(op);
            self.tell();
            return;
        }
        while let Err(back) = self.offer(op) {
            op = back;
            if self.failed() || self.lock().closed {
                return;
            }
            if self.pass() != Pass::Moved {
                std::thread::yield_now();
            }
        }
    }

    fn is_proxied(&self, channel: usize) -> bool {
        self.proxy(channel).is_some()
    }

    fn takes_parts(&self) -> bool {
        self.net().takes_parts()
    }

    fn announce(&self, launch: u64, dtype: i32, operation: i32, element_bytes: usize) {
        let folding = Folding {
            dtype,
            operation,
            element_bytes,
        };
        let mut foldings = self.foldings.lock().unwrap_or_else(PoisonError::into_inner);
        foldings.announce(launch, folding);
    }

    fn want(&self, peer: usize, channel: usize, position: u64, place: *mut u8, bytes: usize) {
        let link = self.ends.index(Rank(peer as u32), channel as u16);
        self.wanted[link].want(position, (place, bytes));
    }
}
