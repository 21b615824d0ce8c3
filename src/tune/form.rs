//! The form of a call: which executor carries it out, and over what.
//!
//! **Problem.** A plan says what ranks tell each other. To interpret it takes longer than to move a
//! small call, so there are *short forms* beside the interpreter, which move the tokens of the plan
//! without reading it. Whoever explains, traces or reports a call should say which form it takes.
//!
//! **Idea.** The form is a field of the route ([`super::route`]), decided here and nowhere else, by
//! facts that a communicator has when a call begins: the choice of the table, where the ranks are,
//! the settings ([`FormFacts`]), and how the call is made ([`Called`]). Executors are named by it
//! and ask nothing again. Two facts come later: what the cards of a call say
//! ([`crate::plan::Cards`]), and how many words an exact sum has; a route is then made anew from
//! them.

use super::Choice;
use super::asked::{Asked, Called, Combining, OwnBlocks};
use super::messages::is_small_message;
use crate::plan::{Algorithm, Collective, Protocol};

/// A calling thread moves a message of fewer bytes itself while it waits. For larger ones launches
/// try which kind of store is better.
pub const WAITED_BELOW: usize = 2 << 20;

/// The executor of a call, and what it moves the data over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallForm {
    /// None, as no data move.
    Nothing,
    /// A copy: the only rank has all contributions.
    Copy,
    /// The table of one-shot calls: the ranks read what others publish on their fans.
    OneShot,
    /// One message, which the calling thread moves while it waits.
    Message,
    /// A message to a rank and one from a rank. The calling thread moves both, side by side.
    Exchange,
    /// The messages between the root and the others, which the calling thread moves one after the
    /// other.
    Rooted,
    /// One message from the root to all others, over its cast. The calling thread moves it.
    Cast,
    /// A list of messages of one token each: the calling thread passes it until all have moved.
    Bundle,
    /// The interpreter of plans, over slots and fans.
    Interpreted,
    /// The interpreter of plans, over the buffers of all ranks where they lie.
    Direct,
    /// Not known before all ranks have shown their cards: [`CallForm::Direct`] or another.
    Cards,
    /// Not known before the blocks are, which each rank has for itself.
    Blocks,
    /// Several calls in a row, each by a form of its own.
    Several,
    /// A kernel on the stream of each rank, which interprets the plan.
    Kernel,
    /// Kernels on the streams, each of which moves messages together.
    Waves,
}

impl CallForm {
    /// All forms.
    pub const ALL: [CallForm; 15] = [
        CallForm::Nothing,
        CallForm::Copy,
        CallForm::OneShot,
        CallForm::Message,
        CallForm::Exchange,
        CallForm::Rooted,
        CallForm::Cast,
        CallForm::Bundle,
        CallForm::Interpreted,
        CallForm::Direct,
        CallForm::Cards,
        CallForm::Blocks,
        CallForm::Several,
        CallForm::Kernel,
        CallForm::Waves,
    ];

    /// A word for it.
    pub fn name(self) -> &'static str {
        match self {
            CallForm::Nothing => "nothing",
            CallForm::Copy => "copy",
            CallForm::OneShot => "one-shot",
            CallForm::Message => "message",
            CallForm::Exchange => "exchange",
            CallForm::Rooted => "rooted",
            CallForm::Cast => "cast",
            CallForm::Bundle => "bundle",
            CallForm::Interpreted => "interpreted",
            CallForm::Direct => "direct",
            CallForm::Cards => "by cards",
            CallForm::Blocks => "by blocks",
            CallForm::Several => "several",
            CallForm::Kernel => "kernel",
            CallForm::Waves => "waves",
        }
    }
}

/// Facts of a communicator that decide the forms of its calls.
#[derive(Clone, Copy, Debug)]
pub struct FormFacts {
    nranks: u32,
    is_one_node: bool,
    /// The ranks compare their calls, so the plan of a message waits for the receive.
    compares: bool,
    /// The calling thread moves messages of fewer bytes while it waits. Zero also for a rank alone:
    /// its messages go to itself, so they have another half, and are queued together with it.
    waited_below: usize,
}

impl FormFacts {
    /// Those of so many ranks on so many nodes, which compare their calls or not.
    pub fn new(nranks: u32, nodes: u32, compares: bool) -> FormFacts {
        let is_one_node = nodes <= 1;
        let waits = is_one_node && !compares && nranks > 1;
        FormFacts {
            nranks,
            is_one_node,
            compares,
            waited_below: if waits { WAITED_BELOW } else { 0 },
        }
    }

    /// Whether the calling thread moves a message of so many bytes while it waits.
    #[inline(always)]
    fn waits(&self, bytes: usize) -> bool {
        bytes < self.waited_below
    }

    /// The form of a send and a receive of so many bytes, to and from other ranks, that one call
    /// asks for while nothing else is in flight: [`CallForm::Exchange`], or [`CallForm::Several`]
    /// where they go as a group of two.
    #[inline(always)]
    pub fn of_both(&self, sizes: [usize; 2]) -> CallForm {
        if sizes.into_iter().all(|bytes| self.waits(bytes)) {
            CallForm::Exchange
        } else {
            CallForm::Several
        }
    }

    /// The form of a call whose blocks differ.
    #[inline]
    pub fn of_blocks(&self, blocks: OwnBlocks, called: Called) -> CallForm {
        // A small message is shorter than all that the calling thread does not move.
        let waits = self.waits(0);
        match (called, blocks) {
            (Called::AtOnce, OwnBlocks::Alike | OwnBlocks::Unseen) => CallForm::Blocks,
            (Called::AtOnce, OwnBlocks::SmallOne) if waits => CallForm::Message,
            (Called::AtOnce, OwnBlocks::SmallBoth) if waits => CallForm::Exchange,
            (Called::AtOnce, OwnBlocks::Large) => CallForm::Interpreted,
            (Called::AtOnce, _) => CallForm::Bundle,
            _ => CallForm::Interpreted,
        }
    }

    /// The form of a call that is small messages: one of them, or a collective of some.
    #[inline]
    pub(super) fn of_messages(&self, asked: &Asked) -> CallForm {
        use Collective::{Gather, Reduce};
        let is_message = asked.collective.is_point_to_point();
        match asked.called {
            Called::Queued => CallForm::Interpreted,
            _ if is_message && self.compares => CallForm::Interpreted,
            Called::Together => CallForm::Bundle,
            Called::Both if self.waits(asked.bytes) => CallForm::Exchange,
            Called::Both => CallForm::Bundle,
            Called::AtOnce if is_message && self.waits(asked.bytes) => CallForm::Message,
            Called::AtOnce => match asked.collective {
                Gather | Reduce if self.is_one_node => CallForm::Rooted,
                _ => CallForm::Bundle,
            },
        }
    }

    /// The form of a call that one plan says, over slots.
    pub(super) fn of_plan(&self, asked: &Asked, choice: Choice) -> CallForm {
        use Algorithm::{Binomial, Bundle, Nvls, Ring};
        use Collective::{Broadcast, Gather, Reduce, Scatter};
        let waits = asked.combining == Combining::BuiltIn && self.waits(asked.bytes);
        if !waits || choice.channels != 1 {
            return CallForm::Interpreted;
        }
        match asked.called {
            Called::AtOnce => {}
            Called::Both => return CallForm::Exchange,
            Called::Together | Called::Queued => return CallForm::Interpreted,
        }
        let over_slots = choice.protocol.of_pairs() == Protocol::Simple;
        let is_between_two = self.nranks == 2 && over_slots;
        match (asked.collective, choice.algorithm) {
            _ if asked.collective.is_point_to_point() => CallForm::Message,
            (Broadcast, Nvls) => CallForm::Cast,
            (Broadcast | Reduce, Ring | Binomial) if is_between_two => CallForm::Rooted,
            (Gather | Scatter, Bundle | Binomial) if is_between_two => CallForm::Rooted,
            _ => CallForm::Interpreted,
        }
    }
}

const _: () = assert!(is_small_message(0) && !is_small_message(WAITED_BELOW));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::ProtocolChoice;

    const NEAR: (u32, bool) = (1, false);
    const AFAR: (u32, bool) = (2, false);
    const COMPARED: (u32, bool) = (1, true);

    fn facts(nranks: u32, (nodes, compares): (u32, bool)) -> FormFacts {
        FormFacts::new(nranks, nodes, compares)
    }

    #[test]
    fn messages_have_a_form_by_the_way_they_are_called() {
        use CallForm::{Bundle, Exchange, Interpreted, Message};
        for (place, wanted) in [
            (NEAR, [Message, Exchange, Bundle, Interpreted]),
            (AFAR, [Bundle, Bundle, Bundle, Interpreted]),
            (COMPARED, [Interpreted; 4]),
        ] {
            let ways = [
                Called::AtOnce,
                Called::Both,
                Called::Together,
                Called::Queued,
            ];
            let form = |called| {
                let asked = Asked::plain(Collective::Send, 64).made(called);
                facts(3, place).of_messages(&asked)
            };
            assert_eq!(ways.map(form), wanted, "{place:?}");
        }
    }

    /// Its own messages are those of a group, which the queue has.
    #[test]
    fn a_rank_alone_has_no_short_form_of_messages() {
        let choice = Choice::plain(Collective::Send, Algorithm::Bundle, 1);
        for (nranks, wanted) in [
            (1, [CallForm::Interpreted; 2]),
            (2, [CallForm::Message, CallForm::Exchange]),
        ] {
            let form = |called| {
                let asked = Asked::plain(Collective::Send, 40).made(called);
                facts(nranks, NEAR).of_plan(&asked, choice)
            };
            let forms = [Called::AtOnce, Called::Both].map(form);
            assert_eq!(forms, wanted, "{nranks} ranks");
        }
    }

    #[test]
    fn roots_gather_by_themselves_on_one_node() {
        use CallForm::{Bundle, Interpreted, Rooted};
        for (collective, place, wanted) in [
            (Collective::Gather, NEAR, Rooted),
            (Collective::Reduce, NEAR, Rooted),
            (Collective::Reduce, COMPARED, Rooted),
            (Collective::Reduce, AFAR, Bundle),
            (Collective::Scatter, NEAR, Bundle),
        ] {
            let asked = Asked::plain(collective, 64);
            let form = |asked| facts(3, place).of_messages(asked);
            assert_eq!(form(&asked), wanted, "{collective:?} {place:?}");
            assert_eq!(form(&asked.made(Called::Queued)), Interpreted);
        }
    }

    #[test]
    fn plans_that_say_one_message_have_a_short_form() {
        use CallForm::{Cast, Interpreted, Message, Rooted};
        use Collective::{AllReduce, Broadcast, Reduce, Scatter, Send};
        let form = |nranks, place, (collective, algorithm), change: &dyn Fn(&mut Asked)| {
            let mut asked = Asked::plain(collective, 64 << 10);
            change(&mut asked);
            let choice = Choice::plain(collective, algorithm, 1);
            facts(nranks, place).of_plan(&asked, choice)
        };
        let same = |_: &mut Asked| {};
        for (call, of_two, of_three) in [
            ((Broadcast, Algorithm::Nvls), Cast, Cast),
            ((Broadcast, Algorithm::Ring), Rooted, Interpreted),
            ((Reduce, Algorithm::Binomial), Rooted, Interpreted),
            ((Scatter, Algorithm::Bundle), Rooted, Interpreted),
            ((Reduce, Algorithm::Tree), Interpreted, Interpreted),
            ((AllReduce, Algorithm::Nvls), Interpreted, Interpreted),
            ((Send, Algorithm::Bundle), Message, Message),
        ] {
            assert_eq!(form(2, NEAR, call, &same), of_two, "{call:?}");
            assert_eq!(form(3, NEAR, call, &same), of_three, "{call:?}");
            for place in [AFAR, COMPARED] {
                assert_eq!(form(2, place, call, &same), Interpreted, "{call:?}");
            }
            for change in [
                (&|asked: &mut Asked| asked.called = Called::Queued) as &dyn Fn(&mut Asked),
                &|asked| asked.bytes = WAITED_BELOW,
                &|asked| {
                    asked.combining = Combining::Made {
                        commutes: true,
                        scaled: false,
                    }
                },
            ] {
                assert_eq!(form(2, NEAR, call, change), Interpreted, "{call:?}");
            }
        }
        // Flagged lines have no slots, and further channels no short form.
        let asked = Asked::plain(Broadcast, 64 << 10);
        let ring = Choice::plain(Broadcast, Algorithm::Ring, 1);
        let of = |choice| facts(2, NEAR).of_plan(&asked, choice);
        assert_eq!(of(ring), Rooted);
        assert_eq!(
            of(Choice {
                channels: 2,
                ..ring
            }),
            Interpreted
        );
        let lines = ProtocolChoice::Ll;
        assert_eq!(
            of(Choice {
                protocol: lines,
                ..ring
            }),
            Interpreted
        );
    }

    #[test]
    fn blocks_have_the_form_of_how_few_they_are() {
        use CallForm::{Blocks, Bundle, Exchange, Interpreted, Message};
        let of = |messages: &[(bool, usize)], kept: &[usize]| {
            OwnBlocks::of(messages.iter().copied(), kept.iter().copied())
        };
        let (send, recv) = ((true, 8), (false, 16));
        for (blocks, near, afar) in [
            (OwnBlocks::Unseen, Blocks, Blocks),
            (of(&[send], &[]), Message, Bundle),
            (of(&[recv], &[4096]), Message, Bundle),
            (of(&[send, recv], &[]), Exchange, Bundle),
            (of(&[recv, send], &[]), Bundle, Bundle),
            (of(&[send, send], &[]), Bundle, Bundle),
            (of(&[send, recv, recv], &[]), Bundle, Bundle),
            (of(&[send, (false, 0)], &[]), Bundle, Bundle),
            (of(&[(true, 0)], &[]), Bundle, Bundle),
            (of(&[], &[8]), Bundle, Bundle),
            (of(&[send, (false, 4097)], &[]), Interpreted, Interpreted),
            (of(&[send], &[4097]), Interpreted, Interpreted),
        ] {
            let form = |place, called| facts(3, place).of_blocks(blocks, called);
            assert_eq!(form(NEAR, Called::AtOnce), near, "{blocks:?}");
            assert_eq!(form(AFAR, Called::AtOnce), afar, "{blocks:?}");
            assert_eq!(form(NEAR, Called::Queued), Interpreted);
        }
    }
}
