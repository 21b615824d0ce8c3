//! Facts about a call that decide its route.

use super::messages::is_small_message;
use crate::plan::Collective;

/// How a call combines elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Combining {
    /// Not at all, or by a built-in operation.
    #[default]
    BuiltIn,
    /// By an operation that the program made.
    Made {
        /// In any order. Otherwise in the order of ranks.
        commutes: bool,
        /// Each rank's elements are multiplied by a factor first.
        scaled: bool,
    },
    /// By the exact sum, which rounds once.
    Exact,
}

/// Facts that decide the route of a call. Those that decide more than its form are the same on all
/// ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Which operation.
    pub collective: Collective,
    /// Bytes of a rank's contribution: of the data, of one block, or of the message. Of no meaning
    /// where blocks differ, as each rank has its own.
    pub bytes: usize,
    /// How elements are combined.
    pub combining: Combining,
    /// Blocks of different sizes, each a message.
    pub blocks: OwnBlocks,
    /// Bytes of an exact sum that travels whole; 0 where it does not.
    pub whole_bytes: usize,
    /// How it is made.
    pub called: Called,
}

impl Asked {
    /// A call with a built-in operation, or none.
    pub fn plain(collective: Collective, bytes: usize) -> Asked {
        Asked {
            collective,
            bytes,
            combining: Combining::BuiltIn,
            blocks: OwnBlocks::Alike,
            whole_bytes: 0,
            called: Called::AtOnce,
        }
    }

    /// The call as it is when it is made so.
    #[inline(always)]
    pub fn made(self, called: Called) -> Asked {
        Asked { called, ..self }
    }

    /// Whether its blocks differ, and each is a message.
    #[inline(always)]
    pub fn has_parts(&self) -> bool {
        self.blocks != OwnBlocks::Alike
    }

    /// Whether nothing is exchanged: such a call ends at once.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0 && self.collective != Collective::Barrier && !self.has_parts()
    }
}

/// How a call is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Called {
    /// It blocks, and nothing else is in flight.
    #[default]
    AtOnce,
    /// It is a send and a receive of as many bytes: it blocks, and nothing else is in flight.
    Both,
    /// It is a message of a group of blocking ones. They are small, none is to the own rank, and
    /// nothing else is in flight.
    Together,
    /// It goes through the queue: on a stream, in another group, or behind calls in flight.
    Queued,
}

/// The blocks of this rank in a call whose blocks differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OwnBlocks {
    /// Blocks do not differ.
    #[default]
    Alike,
    /// Nobody has said yet which there are.
    Unseen,
    /// Some are large, or some are folded.
    Large,
    /// They are small, but not few.
    Small,
    /// One small message, and not an empty one.
    SmallOne,
    /// A small message to a rank, and one from a rank, neither of them empty.
    SmallBoth,
}

/// How few the messages of a call are.
enum Few {
    None,
    Sends,
    One,
    Both,
    No,
}

impl OwnBlocks {
    /// The blocks of these messages, each with whether it is sent and its bytes, and of other data
    /// of so many bytes that this rank keeps.
    pub fn of(
        messages: impl Iterator<Item = (bool, usize)>,
        mut kept: impl Iterator<Item = usize>,
    ) -> OwnBlocks {
        let mut few = Few::None;
        for (is_sent, bytes) in messages {
            if !is_small_message(bytes) {
                return OwnBlocks::Large;
            }
            few = match few {
                _ if bytes == 0 => Few::No,
                Few::None if is_sent => Few::Sends,
                Few::None => Few::One,
                Few::Sends if !is_sent => Few::Both,
                _ => Few::No,
            };
        }
        if !kept.all(is_small_message) {
            return OwnBlocks::Large;
        }
        match few {
            Few::Sends | Few::One => OwnBlocks::SmallOne,
            Few::Both => OwnBlocks::SmallBoth,
            Few::None | Few::No => OwnBlocks::Small,
        }
    }
}
