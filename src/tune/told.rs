//! The words for a route: one value, which is explained, traced, logged, reported and answered.

use super::form::CallForm;
use super::{Asked, Choice, Route, Table, parts};
use crate::algo;
use crate::plan::{Algorithm, Cards, Collective};

/// A route, and what its words need beside it.
#[derive(Clone, Copy, Debug)]
pub struct ToldRoute {
    /// The route.
    pub route: Route,
    /// Whose it is.
    pub collective: Collective,
    /// The plan, where one plan runs.
    pub choice: Option<Choice>,
}

impl ToldRoute {
    /// The route of a call.
    pub fn of(route: Route, asked: &Asked, table: &Table) -> ToldRoute {
        let (collective, choice) = (asked.collective, route.choice(asked, table));
        ToldRoute {
            route,
            collective,
            choice,
        }
    }

    /// The route when the cards of the call have said more ([`Route::after`]).
    pub fn after(mut self, cards: Cards) -> ToldRoute {
        self.route = self.route.after(cards);
        if self.route.form() == CallForm::Direct {
            self.choice = self.direct();
        }
        self
    }

    /// The choice where buffers are read where they lie.
    fn direct(&self) -> Option<Choice> {
        let direct = algo::direct(self.collective);
        direct.map(|direct| Choice::plain(self.collective, direct, 1))
    }

    /// Describes the way of the call: the algorithm, its protocol and its channels where there is
    /// one, and the form where it is not clear without.
    pub fn words(&self) -> String {
        let plan = self.choice.map(|choice| choice.words());
        let plan = plan.unwrap_or_default();
        let formed = |what: &str| format!("{what}, form {}", self.route.form().name());
        match self.route {
            Route::Nothing => "nothing to move".into(),
            Route::Alone { .. } => formed("a copy, as there is no other rank"),
            Route::Messages { .. } if self.collective.is_point_to_point() => {
                formed("one message, protocol simple")
            }
            Route::MayDirect {
                form: CallForm::Cards,
                unread,
                ..
            } => {
                let direct = algo::direct(self.collective).map_or("", Algorithm::name);
                let usual = CallForm::Interpreted;
                let usual = if unread == usual {
                    usual.name().to_owned()
                } else {
                    format!("{} or {}", usual.name(), unread.name())
                };
                format!(
                    "{plan}, form {usual}, or {direct} where the buffers of all ranks can be read"
                )
            }
            Route::Small { .. }
            | Route::Plan { .. }
            | Route::Messages { .. }
            | Route::MayDirect { .. } => formed(&plan),
            Route::Exact {
                form: CallForm::Several,
            } => "exact sum".into(),
            Route::Exact { .. } => formed("exact sum"),
            Route::Composed => {
                let names = parts(self.collective).iter().map(|(part, _)| part.name());
                format!("{} in a row", names.collect::<Vec<_>>().join(" and "))
            }
            Route::Parts { .. } => formed("a message for each block, protocol simple"),
        }
    }
}
