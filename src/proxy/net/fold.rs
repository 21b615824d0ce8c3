//! Tokens that the network folds on their way.
//!
//! **Problem.** Where switches can add, the heads of nodes need not hand their data to each other:
//! each gives its contribution to the network and takes the result.
//!
//! **Idea.** The plan of such a head sends to the next head and receives from the one before it, on
//! a channel of its own (`plan::Link::FOLDS`), as if tokens went around a ring by one. The engine
//! sends nothing: it takes the token out of the slot of the one connection, has the network fold it
//! with those of all other heads, and publishes the result in the slot of the other one. So the
//! executor notices no difference, nor does whoever counts slots. What is folded, and how, the
//! launch says beforehand.
//!
//! `done` of the sending side <= `begun` <= `done` + 8, and as far as the reader has given back.

use super::active::Sub;
use super::counts::{Counts, SLOTS};
use super::ends::Ends;
use super::trace::{Phase, Trace};
use crate::base::{Rank, Result};
use crate::plan::Direction;
use crate::transport::net::plugin::fold::{Begun, FoldGroup, Places, Registered, What};
use crate::wire::line::{LINES, SMALL_BYTES};
use crate::wire::pair::{PairReceiver, PairSender};
use std::collections::VecDeque;

/// Type and operation that a launch folds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Folding {
    /// Number of the type.
    pub dtype: i32,
    /// Number of the operation.
    pub operation: i32,
    /// Bytes of an element.
    pub element_bytes: usize,
}

/// The foldings of launches that were announced, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Foldings {
    known: VecDeque<(u64, Folding)>,
    /// As many are remembered: as may be in flight.
    pub most: usize,
}

impl Foldings {
    pub fn announce(&mut self, launch: u64, folding: Folding) {
        if self.known.len() >= self.most {
            self.known.pop_front();
        }
        self.known.push_back((launch, folding));
    }

    pub fn of(&self, launch: u64) -> Option<Folding> {
        let mut known = self.known.iter().rev();
        let found = known.find(|(number, _)| *number == launch);
        found.map(|(_, folding)| *folding)
    }
}

/// The group of one channel, and this rank's neighbours in it.
pub struct Fold {
    /// The group.
    pub group: FoldGroup,
    /// To whom the plan sends.
    pub next: Rank,
    /// From whom the plan receives.
    pub previous: Rank,
}

/// A fold with its memory.
pub(super) struct FoldLink {
    group: FoldGroup,
    next: Rank,
    previous: Rank,
    ends: Option<Connected>,
}

struct Connected {
    from: (PairReceiver, Registered),
    to: (PairSender, Registered),
    /// Tokens on their way: bytes, signature, and the operation, if there is anything to fold.
    flying: VecDeque<(usize, u64, Option<Begun>)>,
    /// Slots that were begun.
    begun: u64,
    /// Slots whose result was published, and which the writer has back.
    done: u64,
}

impl FoldLink {
    pub fn new(fold: Fold) -> FoldLink {
        FoldLink {
            group: fold.group,
            next: fold.next,
            previous: fold.previous,
            ends: None,
        }
    }

    fn connect(&mut self, ends: &Ends, channel: u16) -> Result<&mut Connected> {
        let bytes = ends.slot_bytes * LINES;
        let from = ends.reading_of_host(self.next, channel)?;
        let to = ends.writing_of_host(self.previous, channel)?;
        // SAFETY: the slots stay mapped as long as the communicator, which closes its links first.
        let known = unsafe {
            let of_from = self.group.register(from.slot(0), bytes)?;
            (of_from, self.group.register(to.slot(0), bytes)?)
        };
        Ok(self.ends.insert(Connected {
            from: (from, known.0),
            to: (to, known.1),
            flying: VecDeque::with_capacity(LINES),
            begun: 0,
            done: 0,
        }))
    }

    /// One look, for the tokens of a sub, which are folded so. True if something moved.
    pub fn progress(
        &mut self,
        ends: &Ends,
        (sub, folding): (&Sub, Folding),
        trace: &mut Trace,
    ) -> Result<bool> {
        if self.ends.is_none() {
            self.connect(ends, sub.channel)?;
        }
        let Some(at) = &mut self.ends else {
            return Ok(false);
        };
        let before = (at.begun, at.done);
        let given = at.to.0.given();
        // What belongs to the sub before it may be folded otherwise.
        let of_sub = |at: &Connected| (sub.start..sub.end).contains(&at.begun);
        while of_sub(at) && at.begun < given.min(at.done) + SLOTS {
            let ahead = (at.begun - at.done) as u32;
            if !at.from.0.ready(ahead) {
                break;
            }
            let Some(token) = begin(&mut self.group, at, ahead, folding)? else {
                break;
            };
            at.flying.push_back(token);
            at.begun += ends.slice;
            trace.note(Direction::Send, self.next, Phase::Transmitted, at.begun);
        }
        while let Some((bytes, signature, begun)) = at.flying.front() {
            if let Some(begun) = begun
                && !self.group.test(begun)?
            {
                break;
            }
            if *bytes <= SMALL_BYTES {
                let (slot, place) = (at.to.0.slot(0), at.to.0.place(*bytes));
                // SAFETY: the result is in the slot; its place is this end's until it is published,
                // and is not the slot.
                unsafe { std::ptr::copy_nonoverlapping(slot, place, *bytes) };
            }
            at.to.0.publish(ends.slice as u32, *bytes, *signature);
            at.from.0.release(ends.slice as u32);
            at.flying.pop_front();
            at.done += ends.slice;
            trace.note(Direction::Send, self.next, Phase::Done, at.done);
            trace.note(Direction::Recv, self.previous, Phase::Transmitted, at.done);
        }
        Ok(before != (at.begun, at.done))
    }

    /// How far a direction is.
    pub fn counts(&mut self, direction: Direction) -> Counts {
        let Some(at) = &mut self.ends else {
            return Counts::default();
        };
        match direction {
            Direction::Send => Counts {
                posted: at.done + SLOTS,
                full: at.begun,
                transmitted: at.begun,
                done: at.done,
            },
            Direction::Recv => Counts {
                posted: at.begun,
                full: at.done,
                transmitted: at.done,
                done: at.to.0.given(),
            },
        }
    }
}

/// Hands the token that is `ahead` to the network.
fn begin(
    group: &mut FoldGroup,
    at: &Connected,
    ahead: u32,
    folding: Folding,
) -> Result<Option<(usize, u64, Option<Begun>)>> {
    let (from, to) = (&at.from.0, &at.to.0);
    let arrival = from.arrival(ahead);
    let (bytes, signature) = (arrival.ack as usize, arrival.signature);
    if bytes == 0 {
        return Ok(Some((0, signature, None)));
    }
    let (slot, place) = (from.slot(u64::from(ahead)), from.place(bytes, ahead));
    if !std::ptr::eq(slot, place) {
        // SAFETY: the token is there with so many bytes, and its slot, which its payload does not
        // use, is this end's until it is given back.
        unsafe { std::ptr::copy(place, slot, bytes) };
    }
    let places = Places {
        send: (slot, at.from.1),
        recv: (to.slot(u64::from(ahead)), at.to.1),
    };
    let what = What {
        count: bytes / folding.element_bytes.max(1),
        dtype: folding.dtype,
        operation: folding.operation,
    };
    // SAFETY: the writer leaves its slot alone until the token is given back, and the reader looks
    // at its own when the result is published; both are when the operation has ended.
    let begun = unsafe { group.all_reduce(places, what)? };
    Ok(begun.map(|begun| (bytes, signature, Some(begun))))
}
