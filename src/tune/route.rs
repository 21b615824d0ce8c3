//! The route of a call: which of kolo's ways it goes, the same on all ranks.
//!
//! **Idea.** A route is a pure function of what all ranks say alike ([`Asked`]) and of the
//! [`Table`], which all ranks have alike. Whoever makes a call, queues it, tells of it in the log,
//! or only asks (`kolo explain`, `koloCommGetRoute`) gets the same answer here.
//!
//! A route says *which bytes go where*, which is the same on all ranks, and by which *form*
//! ([`super::form`]), which also depends on how this rank calls. Forms change no byte on the way.
//! That of [`Route::MayDirect`] follows from where the buffers of all ranks lie: the route is made
//! anew from what their cards say ([`Route::after`]).

use super::asked::{Asked, Called, Combining};
use super::form::CallForm;
use super::messages::{as_messages, has_small_way};
use super::{Candidate, Choice, Table, parts};
use crate::algo;
use crate::plan::{Algorithm, Cards, Collective};

/// With a factor for each rank, the fold of a kernel marks its sources in a mask of 64 bits.
const MOST_SCALED_RANKS: u32 = 64;

/// The way of a call, and its form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Nothing is exchanged.
    Nothing,
    /// The only rank has all data.
    Alone {
        /// A copy, or the interpreter.
        form: CallForm,
    },
    /// One-shot: everybody reads what everybody published.
    Small {
        /// The table, or the interpreter.
        form: CallForm,
    },
    /// Messages, or a collective of small blocks that are messages.
    Messages {
        /// The plan that says the same.
        choice: Choice,
        /// Who moves them.
        form: CallForm,
    },
    /// A plan.
    Plan {
        /// Which plan.
        choice: Choice,
        /// Its executor: a plan of one message has a short form.
        form: CallForm,
    },
    /// [`algo::direct`] over the buffers of all ranks where they lie, if they can be read there;
    /// else this plan.
    MayDirect {
        /// The plan for buffers that cannot be read.
        choice: Choice,
        /// [`CallForm::Cards`], until these have said more.
        form: CallForm,
        /// The form where no cards are shown.
        unread: CallForm,
    },
    /// An exact sum.
    Exact {
        /// [`CallForm::OneShot`] where the sums travel whole at once. Otherwise it has several
        /// launches, as many as the data ask for.
        form: CallForm,
    },
    /// Other collectives in a row ([`Route::parts`]).
    Composed,
    /// One message for each block.
    Parts {
        /// Who moves them.
        form: CallForm,
    },
}

impl Route {
    /// The route of a call.
    #[inline(always)]
    pub fn of(asked: &Asked, table: &Table) -> Route {
        if asked.is_empty() {
            return Route::Nothing;
        }
        match asked.combining {
            Combining::Exact => return Route::exact(asked, table),
            Combining::BuiltIn
                if has_small_way(asked.collective)
                    && table.is_oneshot(asked.collective, asked.bytes) =>
            {
                return Route::Small {
                    form: match asked.called {
                        Called::AtOnce => CallForm::OneShot,
                        _ => CallForm::Interpreted,
                    },
                };
            }
            Combining::BuiltIn if !asked.has_parts() => {
                if let Some((choice, at_once)) = table.as_messages(asked.collective, asked.bytes) {
                    let form = match asked.called {
                        Called::AtOnce => at_once,
                        _ => table.forms().of_messages(asked),
                    };
                    return Route::Messages { choice, form };
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
        let (inputs, forms) = (table.inputs(), table.forms());
        if asked.has_parts() {
            let form = forms.of_blocks(asked.blocks, asked.called);
            return Route::Parts { form };
        }
        let is_plain = asked.combining == Combining::BuiltIn;
        let nranks = inputs.nranks;
        let usual = || table.choose(collective, bytes);
        if is_plain && let Some(choice) = as_messages((collective, bytes), nranks, usual) {
            let form = forms.of_messages(asked);
            return Route::Messages { choice, form };
        }
        if collective.is_point_to_point() {
            return Route::planned(
                asked,
                Choice::plain(collective, Algorithm::Bundle, 1),
                table,
            );
        }
        if nranks == 1 && is_plain && collective != Collective::Exscan {
            let form = match asked.called {
                Called::AtOnce => CallForm::Copy,
                _ => CallForm::Interpreted,
            };
            return Route::Alone { form };
        }
        let usual = usual();
        if usual.composed {
            return Route::Composed;
        }
        let choice = match asked.combining {
            Combining::Made { scaled: true, .. } if inputs.reproducible => {
                table.choose_scaled(collective, bytes, nranks > MOST_SCALED_RANKS)
            }
            Combining::Made { scaled: true, .. } if nranks > MOST_SCALED_RANKS => {
                table.choose_large(collective, bytes)
            }
            Combining::Made { scaled: true, .. } => table.choose_agreeing(collective, bytes, usual),
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
        if is_uniform && table.may_be_direct(collective, bytes) {
            return Route::MayDirect {
                choice,
                form: CallForm::Cards,
                unread: forms.of_plan(asked, choice),
            };
        }
        Route::planned(asked, choice, table)
    }

    /// One plan, over slots.
    fn planned(asked: &Asked, choice: Choice, table: &Table) -> Route {
        let form = table.forms().of_plan(asked, choice);
        Route::Plan { choice, form }
    }

    /// The route of an exact sum.
    pub fn exact(asked: &Asked, table: &Table) -> Route {
        let (collective, bytes) = (asked.collective, asked.whole_bytes);
        let nranks = table.inputs().nranks;
        let is_whole = asked.called == Called::AtOnce
            && bytes > 0
            && collective == Collective::AllReduce
            && (nranks == 1 || table.is_oneshot(collective, bytes));
        let form = if !is_whole {
            CallForm::Several
        } else if nranks == 1 {
            CallForm::Copy
        } else {
            CallForm::OneShot
        };
        Route::Exact { form }
    }

    /// The route when its cards have said more; others stay.
    pub fn after(self, cards: Cards) -> Route {
        let Route::MayDirect { choice, unread, .. } = self else {
            return self;
        };
        let form = match cards {
            Cards::NotShown => unread,
            Cards::Private => CallForm::Interpreted,
            Cards::Readable => CallForm::Direct,
        };
        Route::MayDirect {
            choice,
            form,
            unread,
        }
    }

    /// The route on devices, whose table it is of: each call is a launch or several.
    pub(super) fn on_device(self, collective: Collective) -> Route {
        let form = if collective.is_point_to_point() {
            CallForm::Waves
        } else {
            CallForm::Kernel
        };
        match self {
            Route::Small { .. } => Route::Small { form },
            Route::Messages { choice, .. } => Route::Messages { choice, form },
            Route::Plan { choice, .. } | Route::MayDirect { choice, .. } => {
                Route::Plan { choice, form }
            }
            Route::Alone { .. } => Route::Alone {
                form: CallForm::Copy,
            },
            Route::Parts { .. } => Route::Parts {
                form: CallForm::Waves,
            },
            Route::Nothing | Route::Exact { .. } | Route::Composed => self,
        }
    }

    /// The executor of the call.
    #[inline(always)]
    pub fn form(self) -> CallForm {
        match self {
            Route::Nothing => CallForm::Nothing,
            Route::Composed => CallForm::Several,
            Route::Alone { form }
            | Route::Small { form }
            | Route::Messages { form, .. }
            | Route::Plan { form, .. }
            | Route::MayDirect { form, .. }
            | Route::Exact { form }
            | Route::Parts { form } => form,
        }
    }

    /// The plan that runs: of [`Route::Small`] and [`Route::Alone`] the one that says what they do,
    /// of [`Route::MayDirect`] the one for buffers that cannot be read, unless they are. None where
    /// there are several.
    pub fn choice(self, asked: &Asked, table: &Table) -> Option<Choice> {
        let collective = asked.collective;
        match self {
            Route::MayDirect {
                form: CallForm::Direct,
                ..
            } => algo::direct(collective).map(|direct| Choice::plain(collective, direct, 1)),
            Route::Messages { choice, .. }
            | Route::Plan { choice, .. }
            | Route::MayDirect { choice, .. } => Some(choice),
            Route::Small { .. } | Route::Alone { .. } => {
                Some(table.choose(asked.collective, asked.bytes))
            }
            Route::Nothing | Route::Exact { .. } | Route::Composed | Route::Parts { .. } => None,
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
            Route::Alone { .. } => "alone",
            Route::Small { .. } => "small",
            Route::Messages { .. } => "messages",
            Route::Plan { .. } => "plan",
            Route::MayDirect { .. } => "may be direct",
            Route::Exact { .. } => "exact",
            Route::Composed => "composed",
            Route::Parts { .. } => "parts",
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_of_cards_decides_the_form() {
        let choice = Choice::plain(Collective::Broadcast, Algorithm::Nvls, 1);
        let unread = CallForm::Cast;
        let form = CallForm::Cards;
        let route = Route::MayDirect {
            choice,
            form,
            unread,
        };
        for (cards, wanted) in [
            (Cards::NotShown, CallForm::Cast),
            (Cards::Private, CallForm::Interpreted),
            (Cards::Readable, CallForm::Direct),
        ] {
            assert_eq!(route.after(cards).form(), wanted);
            let plan = Route::Plan { choice, form };
            assert_eq!(plan.after(cards), plan, "no cards were asked for");
        }
    }
}
