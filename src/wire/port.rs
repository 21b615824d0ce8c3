//! A port: this rank's end of a connection, whatever its kind.
//!
//! **Problem.** Who moves tokens asks every connection the same: may one move, where does its
//! payload lie, it is written, it was read. The answers differ by kind, and there are five kinds.
//!
//! **Idea.** One type has all of them and answers. Nothing outside of this room distinguishes slots
//! from flagged lines, or one reader from many. [`super::ports`] keeps them by number.

use super::cast::{CastReceiver, CastSender};
use super::fan::Fans;
use super::line::{Arrival, INLINE_BYTES};
use super::ll::{Encoding, LinesReceiver, LinesSender, Ll, SLOT_WORDS};
use super::ll128::Ll128;
use super::pair::{PairReceiver, PairSender};
use std::ops::Range;

/// The end of one connection. Those with flagged lines are large.
pub enum Port {
    /// The writing end of a pair.
    PairOut(PairSender),
    /// The reading end of a pair.
    PairIn(PairReceiver),
    /// The own cast.
    CastOut(CastSender),
    /// The cast of another rank.
    CastIn(CastReceiver),
    /// The writing end of a pair with flags of LL.
    LlOut(Box<LinesSender<Ll>>),
    /// The reading end of a pair with flags of LL.
    LlIn(Box<LinesReceiver<Ll>>),
    /// The writing end of a pair with flags of LL128.
    Ll128Out(Box<LinesSender<Ll128>>),
    /// The reading end of a pair with flags of LL128.
    Ll128In(Box<LinesReceiver<Ll128>>),
    /// The own fan, which [`Fans`] holds with all others of the node.
    FanOut,
    /// The fan of this rank.
    FanIn(usize),
}

impl Port {
    /// Whether this rank writes here.
    pub(super) fn writes(&self) -> bool {
        match self {
            Port::PairOut(_) | Port::CastOut(_) | Port::FanOut => true,
            Port::LlOut(_) | Port::Ll128Out(_) => true,
            Port::PairIn(_) | Port::CastIn(_) | Port::FanIn(_) => false,
            Port::LlIn(_) | Port::Ll128In(_) => false,
        }
    }

    /// Whether what is published here has one reader.
    #[inline]
    pub(super) fn has_one_reader(&self) -> bool {
        !matches!(self, Port::CastOut(_) | Port::FanOut)
    }

    /// Begins a launch whose chunks take `chunk_steps` slots.
    pub fn begin(&mut self, chunk_steps: u32) {
        match self {
            Port::PairOut(pair) => pair.begin(chunk_steps),
            Port::PairIn(pair) => pair.begin(chunk_steps),
            Port::CastOut(cast) => cast.begin(chunk_steps),
            Port::CastIn(cast) => cast.begin(chunk_steps),
            Port::LlOut(lines) => lines.begin(chunk_steps),
            Port::LlIn(lines) => lines.begin(chunk_steps),
            Port::Ll128Out(lines) => lines.begin(chunk_steps),
            Port::Ll128In(lines) => lines.begin(chunk_steps),
            Port::FanOut | Port::FanIn(_) => {}
        }
    }

    /// Whether a token of `slots` slots may move; of those to be read, the one `ahead` slots behind
    /// the next. `token` gives its bytes and signature: lines are read to see whether it is there.
    #[inline]
    pub fn ready(
        &mut self,
        fans: &mut Fans,
        (slots, ahead): (u32, u32),
        token: impl FnOnce() -> (usize, u64),
    ) -> bool {
        match self {
            Port::PairOut(pair) => pair.ready(slots),
            Port::PairIn(pair) => pair.ready(ahead),
            Port::CastOut(cast) => cast.ready(slots),
            Port::CastIn(cast) => cast.ready(ahead),
            Port::LlOut(lines) => lines.ready(slots),
            Port::LlIn(lines) => {
                let (bytes, signature) = token();
                lines.ready(bytes, signature, ahead)
            }
            Port::Ll128Out(lines) => lines.ready(slots),
            Port::Ll128In(lines) => {
                let (bytes, signature) = token();
                lines.ready(bytes, signature, ahead)
            }
            Port::FanOut => fans.may_publish(usize::MAX),
            Port::FanIn(writer) => fans.ready(*writer),
        }
    }

    /// Returns the words that came with the token that is there, or with that `ahead` slots behind
    /// it, and whether it is of an earlier call; `None` where this rank writes.
    #[inline]
    pub fn arrival(&self, fans: &Fans, ahead: u32) -> Option<(Arrival, bool)> {
        let arrival = match self {
            Port::PairIn(pair) => pair.arrival(ahead),
            Port::CastIn(cast) => cast.arrival(ahead),
            Port::LlIn(lines) => lines.arrival(ahead),
            Port::Ll128In(lines) => lines.arrival(ahead),
            Port::FanIn(writer) => return Some(fans.arrival_now(*writer)),
            _ => return None,
        };
        Some((arrival, false))
    }

    /// Where the payload of the next token, or of that `ahead` slots behind it, lies.
    #[inline]
    pub fn place(&mut self, fans: &Fans, bytes: usize, ahead: u32) -> *mut u8 {
        match self {
            Port::PairOut(pair) => pair.place(bytes),
            Port::PairIn(pair) => pair.place(bytes, ahead).cast_mut(),
            Port::CastOut(cast) => cast.place(bytes),
            Port::CastIn(cast) => cast.place(bytes, ahead).cast_mut(),
            Port::LlOut(lines) => lines.place(bytes),
            Port::LlIn(lines) => lines.place(ahead).cast_mut(),
            Port::Ll128Out(lines) => lines.place(bytes),
            Port::Ll128In(lines) => lines.place(ahead).cast_mut(),
            Port::FanOut => fans.place(bytes),
            Port::FanIn(writer) => fans.source(*writer, bytes).cast_mut(),
        }
    }

    /// Publishes the token written at [`Port::place`].
    #[inline]
    pub fn publish(&mut self, fans: &mut Fans, slots: u32, bytes: usize, signature: u64) {
        match self {
            Port::PairOut(pair) => pair.publish(slots, bytes, signature),
            Port::CastOut(cast) => cast.publish(slots, bytes, signature),
            Port::LlOut(lines) => lines.publish(slots, bytes, signature),
            Port::Ll128Out(lines) => lines.publish(slots, bytes, signature),
            Port::FanOut => fans.publish(signature),
            _ => debug_assert!(false, "published against direction"),
        }
    }

    /// Publishes bytes of a token of one slot: see [`PairSender::publish_part`]. Only at the
    /// writing ends of pairs over slots and casts.
    #[inline]
    pub fn publish_part(&mut self, written: Range<usize>, bytes: usize, signature: u64) {
        match self {
            Port::PairOut(pair) => pair.publish_part(written, bytes, signature),
            Port::CastOut(cast) => cast.publish_part(written, bytes, signature),
            _ => debug_assert!(false, "no token grows here"),
        }
    }

    /// Bytes of the next token that are there, at the reading ends of these;
    /// [`super::line::WHOLE`] if it is whole.
    #[inline]
    pub fn written(&self) -> usize {
        match self {
            Port::PairIn(pair) => pair.written(),
            Port::CastIn(cast) => cast.written(),
            _ => 0,
        }
    }

    /// Gives a token back. Whether its writer waits for that more than for the next call.
    #[inline]
    pub fn release(&mut self, fans: &mut Fans, slots: u32) -> bool {
        match self {
            Port::PairIn(pair) => pair.release(slots),
            Port::CastIn(cast) => cast.release(slots),
            Port::LlIn(lines) => lines.release(slots),
            Port::Ll128In(lines) => lines.release(slots),
            Port::FanIn(writer) => {
                // The credit of a fan is the epoch, which the end of the call publishes.
                fans.release(*writer);
                return false;
            }
            _ => debug_assert!(false, "released against direction"),
        }
        true
    }

    /// Slots published so far and the memory of a slot in bytes, at writing ends but that of a fan.
    pub(super) fn slots_written(&self) -> Option<(u64, usize)> {
        match self {
            Port::PairOut(pair) => Some((pair.position(), pair.slot_bytes())),
            Port::CastOut(cast) => Some((cast.position(), cast.slot_bytes())),
            Port::LlOut(lines) => Some((lines.position(), SLOT_WORDS * 8)),
            Port::Ll128Out(lines) => Some((lines.position(), SLOT_WORDS * 8)),
            _ => None,
        }
    }

    /// Bytes of a token that needs no memory but the lines.
    pub(super) fn least(&self) -> usize {
        match self {
            Port::PairOut(_) | Port::CastOut(_) => INLINE_BYTES,
            _ => 0,
        }
    }

    /// Bytes of slots that a token with so much payload touches.
    pub(super) fn memory_of(&self, bytes: usize) -> usize {
        match self {
            Port::LlOut(_) => Ll::words(bytes) * 8,
            Port::Ll128Out(_) => Ll128::words(bytes) * 8,
            _ => bytes,
        }
    }

    /// The most payload of a token that touches so many bytes.
    pub(super) fn payload_of(&self, bytes: usize) -> usize {
        match self {
            Port::LlOut(_) => Ll::payload(bytes / 8),
            Port::Ll128Out(_) => Ll128::payload(bytes / 8),
            _ => bytes,
        }
    }

    /// Whether the readers have taken all that was written at this end, which is a writing one.
    pub(super) fn is_taken_whole(&mut self) -> bool {
        match self {
            Port::PairOut(pair) => pair.drained(),
            Port::CastOut(cast) => cast.drained(),
            Port::LlOut(lines) => lines.drained(),
            Port::Ll128Out(lines) => lines.drained(),
            _ => false,
        }
    }

    /// All words of its flagged lines were made zero.
    pub(super) fn forget_words(&mut self) {
        match self {
            Port::LlOut(lines) => lines.forget_words(),
            Port::Ll128Out(lines) => lines.forget_words(),
            _ => {}
        }
    }

    /// Whether every token written at this end was given back; true for reading ends, and for those
    /// whose payload is a copy.
    pub fn drained(&mut self) -> bool {
        match self {
            Port::PairOut(pair) => pair.drained(),
            Port::CastOut(cast) => cast.drained(),
            _ => true,
        }
    }
}
