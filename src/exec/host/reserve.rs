//! Memory behind the slots that a rank writes.
//!
//! A page that no limit leaves room for is a signal when it is touched. So before a launch the
//! pages that its tokens will touch are taken, and how many have been is remembered: the question
//! costs a comparison.

use super::end::End;
use super::wires::Wires;
use crate::base::{Rank, Result};
use crate::wire::Slots;
use crate::wire::line::SMALL_BYTES;

impl Wires {
    /// Channels between ranks; those beyond lead to a network that folds.
    pub fn channels(&self) -> u16 {
        self.plain
    }

    /// Only so many channels lead to ranks.
    pub fn place_on(&mut self, channels: usize) {
        self.plain = channels as u16;
    }

    /// Makes sure that tokens of `bytes` bytes can be written at this end: what a limit stands
    /// before is an error now, and would be a signal later. The pages of a connection that leads to
    /// another node appear when they are touched.
    ///
    /// # Errors
    /// `SystemError` naming the connection, the limit and the remedy.
    #[inline]
    pub fn reserve(&mut self, end: End, bytes: usize) -> Result<()> {
        let reserved = match end {
            End::Send(index, _) => self.reserved.senders[index],
            End::CastSend(channel) => self.reserved.casts[channel],
            _ => return Ok(()),
        };
        match bytes <= reserved.max(SMALL_BYTES) {
            true => Ok(()),
            false => self.reserve_more(end, bytes),
        }
    }

    #[cold]
    fn reserve_more(&mut self, end: End, bytes: usize) -> Result<()> {
        /// Less is not asked for.
        const PAGE: usize = 4096;
        // In powers of two, so that growing sizes ask seldom.
        let bytes = bytes.max(PAGE).next_power_of_two();
        let (slots, peer, reserved) = match end {
            End::Send(_, peer) if self.carried.is_remote(peer) => return Ok(()),
            End::Send(index, reader) => {
                let channel = self.channel(index);
                let slots = Slots::Pair { reader, channel };
                (slots, reader, &mut self.reserved.senders[index])
            }
            End::CastSend(channel) => {
                let slots = Slots::Cast { channel };
                (slots, self.me(), &mut self.reserved.casts[channel])
            }
            _ => return Ok(()),
        };
        let taken = self.source.reserve(slots, bytes);
        taken.map_err(|error| error.with_peer(Rank(peer as u32)))?;
        *reserved = bytes;
        Ok(())
    }
}
