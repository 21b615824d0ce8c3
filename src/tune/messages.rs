//! Which small calls are messages and nothing else.
//!
//! Their plans say that some ranks send others one token each. So they need no interpreter, and
//! they are known without a look at the whole table ([`Table::as_messages`]).
//!
//! [`Table::as_messages`]: super::Table::as_messages

use super::Choice;
use super::grid::class_of;
use crate::plan::{Algorithm, Collective};

/// Larger messages and blocks are worth the plan's windows and streaming stores.
pub const MOST_MESSAGE_BYTES: usize = 4096;

/// Whether messages and blocks of this size go without interpretation.
#[inline]
pub const fn is_small_message(bytes: usize) -> bool {
    bytes <= MOST_MESSAGE_BYTES
}

/// Of the collectives that have a one-shot plan those that have a way without interpretation.
#[inline(always)]
pub(super) fn has_small_way(collective: Collective) -> bool {
    collective != Collective::Reduce
}

/// The algorithm by which a collective consists of messages.
fn of_messages(collective: Collective) -> Option<Algorithm> {
    match collective {
        Collective::Gather | Collective::Scatter | Collective::AllToAll => Some(Algorithm::Bundle),
        Collective::Reduce => Some(Algorithm::OneShot),
        _ => None,
    }
}

/// The choice of a plain call that is messages, if it is: the plan that says the same. `usual` is
/// what is chosen for its collective and size.
pub(super) fn as_messages(
    (collective, bytes): (Collective, usize),
    nranks: u32,
    usual: impl FnOnce() -> Choice,
) -> Option<Choice> {
    if !is_small_message(bytes) || nranks <= 1 {
        return None;
    }
    if collective.is_point_to_point() {
        return Some(Choice::plain(collective, Algorithm::Bundle, 1));
    }
    // Over flagged lines the plan runs, for the ends of messages are those of slots.
    let usual = usual();
    let is_messages = Some(usual.algorithm) == of_messages(collective);
    (is_messages && !usual.composed && !usual.protocol.is_lines()).then_some(usual)
}

/// Up to how many bytes, exclusive, calls are messages of one choice; none if the smallest are not.
/// `usual` is what is chosen for a size, none where calls of it go one-shot.
pub(super) fn bound(
    collective: Collective,
    nranks: u32,
    usual: impl Fn(usize) -> Option<Choice>,
) -> Option<(usize, Choice)> {
    let classes = (0..=class_of(MOST_MESSAGE_BYTES)).map(|class| 1usize << class);
    let sizes = classes.flat_map(|least| [least, (2 * least - 1).min(MOST_MESSAGE_BYTES)]);
    let mut found: Option<(usize, Choice)> = None;
    for bytes in sizes {
        let Some(usual) = usual(bytes) else { continue };
        match (as_messages((collective, bytes), nranks, || usual), found) {
            (Some(choice), Some((_, other))) if choice != other => break,
            (Some(choice), _) => found = Some((bytes + 1, choice)),
            (None, _) => break,
        }
    }
    found
}
