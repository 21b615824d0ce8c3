//! The route of a call: which of kolo's ways it goes, the same on all ranks.
//!
//! **Idea.** A route is a pure function of what all ranks say alike ([`Asked`]) and of the
//! [`Table`], which all ranks have alike. Whoever makes a call, queues it, tells of it in the log,
//! or only asks (`kolo explain`, `koloCommGetRoute`) gets the same answer here.
//!
//! Not in it: whether the call runs on the calling thread or waits in a queue, which may differ
//! between ranks and changes no byte on the way; and the *form* of [`Route::MayDirect`], which
//! follows from where the buffers of all ranks lie.

use super::messages::{as_messages, has_small_way};
use super::{Candidate, Choice, Table, parts};
use crate::algo;
use crate::plan::{Algorithm, Collective};

/// With a factor for each rank, the fold of a kernel marks its sources in a mask of 64 bits.
const MOST_SCALED_RANKS: u32 = 64;

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

/// Facts that decide the route of a call. They are the same on all ranks.
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
    pub has_parts: bool,
}

impl Asked {
    /// A call with a built-in operation, or none.
    pub fn plain(collective: Collective, bytes: usize) -> Asked {
        Asked {
            collective,
            bytes,
            combining: Combining::BuiltIn,
            has_parts: false,
        }
    }

    /// Whether nothing is exchanged: such a call ends at once.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0 && self.collective != Collective::Barrier && !self.has_parts
    }
}

/// Which way a call goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Nothing is exchanged.
    Nothing,
    /// The only rank copies its data.
    Alone,
    /// One-shot, without interpretation: everybody reads what everybody published.
    Small,
    /// Messages, or a collective of small blocks that are messages, without interpretation. The
    /// choice is that of the plan that says the same.
    Messages(Choice),
    /// A plan.
    Plan(Choice),
    /// [`algo::direct`] over the buffers of all ranks where they lie, if they can be read there;
    /// else this plan.
    MayDirect(Choice),
    /// An exact sum: several launches, as many as the data ask for.
    Exact,
    /// Other collectives in a row ([`Route::parts`]).
    Composed,
    /// One message for each block.
    Parts,
}

impl Route {
    /// The route of a call.
    #[inline(always)]
    pub fn of(asked: &Asked, table: &Table) -> Route {
        if asked.is_empty() {
            return Route::Nothing;
        }
        match asked.combining {
            Combining::Exact => return Route::Exact,
            Combining::BuiltIn
                if has_small_way(asked.collective)
                    && table.is_oneshot(asked.collective, asked.bytes) =>
            {
                return Route::Small;
            }
            Combining::BuiltIn if !asked.has_parts => {
                if let Some(choice) = table.as_messages(asked.collective, asked.bytes) {
                    return Route::Messages(choice);
                }
            }
            _ => {}
        }
        Route::larger(asked, table)
    }

    /// Returns the route of a call that has data and is neither exact nor one-shot, by the grid of
    /// choices alone.
    #[doc(hidden)]
    #[inline(never)]
    pub fn larger(asked: &Asked, table: &Table) -> Route {
        let &Asked {
            collective, bytes, ..
        } = asked;
        if asked.has_parts {
            return Route::Parts;
        }
        let is_plain = asked.combining == Combining::BuiltIn;
        let nranks = table.inputs().nranks;
        let usual = || table.choose(collective, bytes);
        if is_plain && let Some(choice) = as_messages((collective, bytes), nranks, usual) {
            return Route::Messages(choice);
        }
        if collective.is_point_to_point() {
            return Route::Plan(Choice::plain(collective, Algorithm::Bundle, 1));
        }
        if nranks == 1 && is_plain && collective != Collective::Exscan {
            return Route::Alone;
        }
        let usual = usual();
        if usual.composed {
            return Route::Composed;
        }
        let choice = match asked.combining {
            Combining::Made { scaled: true, .. } if nranks > MOST_SCALED_RANKS => {
                table.choose_large(collective, bytes)
            }
            Combining::Made {
                commutes: false, ..
            } => table.choose_ordered(collective, bytes),
            _ => usual,
        };
        let is_uniform = matches!(
            asked.combining,
            Combining::BuiltIn
                | Combining::Made {
                    commutes: true,
                    scaled: false
                }
        );
        match is_uniform && table.may_be_direct(collective, bytes) {
            true => Route::MayDirect(choice),
            false => Route::Plan(choice),
        }
    }

    /// The plan that runs: of [`Route::Small`] and [`Route::Alone`] the one that says what they do,
    /// of [`Route::MayDirect`] the one for buffers that cannot be read. None where there are
    /// several.
    pub fn choice(self, asked: &Asked, table: &Table) -> Option<Choice> {
        match self {
            Route::Messages(choice) | Route::Plan(choice) | Route::MayDirect(choice) => {
                Some(choice)
            }
            Route::Small | Route::Alone => Some(table.choose(asked.collective, asked.bytes)),
            Route::Nothing | Route::Exact | Route::Composed | Route::Parts => None,
        }
    }

    /// The plan of one launch of so many bytes that [`Route::Exact`] makes: always a single one,
    /// also where calls of this size are composed.
    pub fn launch(collective: Collective, bytes: usize, table: &Table) -> Choice {
        let usual = table.choose(collective, bytes);
        match usual.composed {
            true => table.choose_large(collective, bytes),
            false => usual,
        }
    }

    /// A word for it.
    pub fn name(self) -> &'static str {
        match self {
            Route::Nothing => "nothing",
            Route::Alone => "alone",
            Route::Small => "small",
            Route::Messages(_) => "messages",
            Route::Plan(_) => "plan",
            Route::MayDirect(_) => "may be direct",
            Route::Exact => "exact",
            Route::Composed => "composed",
            Route::Parts => "parts",
        }
    }

    /// The collectives of [`Route::Composed`], and whether each moves the blocks of all ranks where
    /// the whole counts a single one; none for other routes.
    pub fn parts(self, collective: Collective) -> &'static [(Collective, bool)] {
        match self {
            Route::Composed => parts(collective),
            _ => &[],
        }
    }

    /// The nanoseconds that the table expects the call to take; none where nobody knows: several
    /// launches by what the data are, messages to one peer, blocks of different sizes.
    pub fn expected_ns(self, asked: &Asked, table: &Table) -> Option<f64> {
        let &Asked {
            collective, bytes, ..
        } = asked;
        let known = |ns: f64| (ns.is_finite() && ns < f64::MAX).then_some(ns);
        match (self, self.choice(asked, table)) {
            (Route::Nothing, _) => Some(0.0),
            (Route::Composed, _) => known(table.expected_ns(collective, bytes)),
            (_, Some(choice)) if !collective.is_point_to_point() => {
                let cell = table.cell(collective, bytes);
                if (cell.algorithm, cell.protocol) == (choice.algorithm, choice.protocol) {
                    return known(cell.time_ns);
                }
                let candidates = table.candidates(collective, bytes);
                let is_same = |it: &&Candidate| {
                    (it.choice.algorithm, it.choice.protocol) == (choice.algorithm, choice.protocol)
                };
                let found = candidates.iter().find(is_same)?;
                known(found.time_ns)
            }
            _ => None,
        }
    }

    /// Describes the way of the call: the algorithm, its protocol and its channels where there is
    /// one.
    pub fn words(self, asked: &Asked, table: &Table) -> String {
        self.words_with(asked.collective, self.choice(asked, table))
    }

    /// Describes the way of a call whose [`Route::choice`] is known.
    pub fn words_with(self, collective: Collective, choice: Option<Choice>) -> String {
        let plan = choice.map(|choice| choice.words());
        let plan = plan.unwrap_or_default();
        match self {
            Route::Nothing => "nothing to move".into(),
            Route::Alone => "a copy, as there is no other rank".into(),
            Route::Small | Route::Plan(_) => plan,
            Route::Messages(_) if collective.is_point_to_point() => {
                "one message, protocol simple".into()
            }
            Route::Messages(_) => plan,
            Route::MayDirect(_) => {
                let direct = algo::direct(collective).map_or("", Algorithm::name);
                format!("{plan}, or {direct} where the buffers of all ranks can be read")
            }
            Route::Exact => "exact sum".into(),
            Route::Composed => {
                let names = parts(collective).iter().map(|(part, _)| part.name());
                format!("{} in a row", names.collect::<Vec<_>>().join(" and "))
            }
            Route::Parts => "a message for each block, protocol simple".into(),
        }
    }
}
