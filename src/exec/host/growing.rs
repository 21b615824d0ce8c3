//! Tokens that grow: whoever waits for a token of a slot begins to read while it is written.
//!
//! A message of one token would else pass the memory of one core after the other. In parts the
//! reader ends one part after the writer, and not one token.

use super::wires::Wires;
use crate::dtype;
use crate::exec::Waiting;
use crate::exec::stop::Stop;
use crate::wire::line::WHOLE;
use crate::wire::ports::PortId;
use std::ops::Range;

/// Bytes of a part. Each costs the transfer of a line, which is small beside so many bytes.
pub(super) const PART_BYTES: usize = 16 << 10;
/// Looks at a token that grows before its reader waits as for any other: its writer has run a
/// moment ago, so giving the core away would take longer.
const LOOKS: u32 = 256;

/// The token of a message.
#[derive(Clone, Copy)]
pub(super) struct TokenOrder {
    /// At which end it is.
    pub end: PortId,
    /// Who writes it.
    pub writer: usize,
    /// Its payload.
    pub bytes: usize,
    /// Its signature.
    pub signature: u64,
}

impl Wires {
    /// Writes and publishes the next token of an end that has room for it.
    ///
    /// # Safety
    /// `from` holds its bytes, and is no memory of the connection.
    #[inline(always)]
    pub(super) unsafe fn write_in_parts(
        &mut self,
        token: TokenOrder,
        from: *const u8,
        stream_bytes: usize,
    ) {
        let TokenOrder { end, bytes, .. } = token;
        let slot = self.ports.place(end, bytes, 0);
        let write = |part: Range<usize>| {
            let (from, to) = (from.wrapping_add(part.start), slot.wrapping_add(part.start));
            // SAFETY: the slot holds a token; our caller's promise.
            unsafe {
                match bytes < stream_bytes {
                    true => dtype::move_bytes(from, to, part.len()),
                    false => dtype::stream_bytes(from, to, part.len()),
                }
            }
        };
        // A bit is flipped in what is written and not published.
        if bytes <= PART_BYTES || self.ports.has_fault() {
            write(0..bytes);
            return self.ports.publish(end, 1, bytes, token.signature);
        }
        for start in (0..bytes).step_by(PART_BYTES) {
            let part = start..bytes.min(start + PART_BYTES);
            write(part.clone());
            self.ports.publish_part(end, part, bytes, token.signature);
        }
    }

    /// Waits for the next token of an end, and hands its parts on as they are written: where one
    /// lies, and which bytes of the token it is, a multiple of `unit` but for the last. Gives the
    /// token back.
    ///
    /// # Errors
    /// A token that belongs to another call, and those of the wait.
    #[inline(always)]
    pub(super) fn take_in_parts(
        &mut self,
        token: TokenOrder,
        unit: usize,
        waiting: &mut impl Waiting,
        mut take: impl FnMut(*const u8, Range<usize>),
    ) -> Result<(), Stop> {
        let TokenOrder { end, bytes, .. } = token;
        let mut taken = 0;
        let mut looks = 0;
        while taken < bytes {
            // One that is whole may be of another call and shorter, which the check below finds.
            let written = match self.ports.written(end) {
                WHOLE => bytes,
                some => some.min(bytes) / unit * unit,
            };
            if written <= taken {
                looks += 1;
                match taken > 0 && looks < LOOKS {
                    true => std::hint::spin_loop(),
                    false => waiting.pause(token.writer)?,
                }
                continue;
            }
            if taken == 0 {
                self.check(end, token.signature, 0)?;
            } else {
                waiting.moved()?;
            }
            let slot = self.ports.place(end, bytes, 0).cast_const();
            take(slot.wrapping_add(taken), taken..written);
            (taken, looks) = (written, 0);
        }
        self.ports.release(end, 1);
        Ok(())
    }
}
