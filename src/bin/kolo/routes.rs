//! The route of a call that is asked about, for `kolo explain`: which way it would go, of several
//! launches what each would be, or why it is refused.

use crate::perf::operation::Operation;
use crate::question::{Question, bytes_text};
use kolo::base::{Error, Result};
use kolo::comm::{RedOp, asked_of, exact_launches};
use kolo::dtype::ReduceOp;
use kolo::plan::Collective;
use kolo::tune::{Asked, Called, Choice, Combining, Route, Table, ToldRoute};
use serde_json::{Value, json};

/// The operation that is asked about.
///
/// # Errors
/// What there are, where it is none.
pub fn operation(text: &str) -> std::result::Result<Operation, String> {
    let names = || Operation::all().map(Operation::name).collect::<Vec<_>>();
    Operation::from_name(text).ok_or_else(|| format!("there are {}", names().join(", ")))
}

/// A call with the way that it would go.
pub struct Routed {
    /// Facts that decided.
    pub asked: Asked,
    /// The way.
    pub route: Route,
}

impl Routed {
    /// # Errors
    /// No rank may make the call: why.
    pub fn of(
        question: &Question,
        collective: Collective,
        op: Operation,
        table: &Table,
    ) -> Result<Routed> {
        let asked = asked(question, collective, op)?;
        let route = Route::of(&asked, table);
        Ok(Routed { asked, route })
    }

    /// `exact: exact sum`.
    pub fn text(&self, table: &Table) -> String {
        let words = self.words(table);
        format!("{}: {words}", self.route.name())
    }

    /// Describes the way.
    pub fn words(&self, table: &Table) -> String {
        ToldRoute::of(self.route, &self.asked, table).words()
    }

    /// Whether the buffers of all ranks decide its form.
    pub fn may_be_direct(&self) -> bool {
        matches!(self.route, Route::MayDirect { .. })
    }

    /// The plan that does it, or what is known of several collectives in a row.
    pub fn choice(&self, table: &Table) -> Option<Choice> {
        let composed = || table.choose(self.asked.collective, self.asked.bytes);
        let choice = self.route.choice(&self.asked, table);
        choice.or_else(|| (self.route == Route::Composed).then(composed))
    }
}

/// Collects the facts that decide the route.
///
/// # Errors
/// No rank may make the call: why.
pub fn asked(question: &Question, collective: Collective, op: Operation) -> Result<Asked> {
    let (count, nranks) = (question.count(), question.place.nranks());
    let with = |op| {
        let asked = asked_of(collective, count, (question.dtype, op), nranks)?;
        Ok(if question.is_exchange() {
            asked.made(Called::Both)
        } else {
            asked
        })
    };
    match op.handle() {
        Some(handle) => with(handle),
        // A factor for each rank; the elements are summed.
        None if collective.reduces() => {
            if !op.combines(question.dtype) {
                return Err(Error::argument(
                    format!("{} takes no {}", op.name(), question.dtype.name()),
                    "ask about a type of real or complex numbers",
                ));
            }
            Ok(Asked {
                combining: Combining::Made {
                    commutes: true,
                    scaled: op == Operation::Built(ReduceOp::PreMulSum),
                },
                ..with(RedOp::SUM)?
            })
        }
        None => with(RedOp::SUM),
    }
}

/// A launch of an exact sum, and the plan that it goes by.
struct Launched {
    what: &'static str,
    collective: Collective,
    bytes: usize,
    choice: Choice,
}

fn launches(question: &Question, routed: &Routed, table: &Table) -> Vec<Launched> {
    if !matches!(routed.route, Route::Exact { .. }) {
        return Vec::new();
    }
    let nranks = question.place.nranks();
    let collective = routed.asked.collective;
    let all = exact_launches(collective, question.dtype, question.count(), nranks);
    let launched = all.into_iter().map(|launch| Launched {
        choice: Route::launch(launch.collective, launch.bytes, table),
        what: launch.what,
        collective: launch.collective,
        bytes: launch.bytes,
    });
    launched.collect()
}

/// A line for each launch of an exact sum.
pub fn lines(question: &Question, routed: &Routed, table: &Table) -> Vec<String> {
    let line = |it: &Launched| {
        let (name, size) = (it.collective.name(), bytes_text(it.bytes as f64));
        let words = it.choice.words();
        format!("{}, {name} of up to {size}: {words}", it.what)
    };
    launches(question, routed, table).iter().map(line).collect()
}

/// Lists the launches for programs.
pub fn document(question: &Question, routed: &Routed, table: &Table) -> Vec<Value> {
    let one = |it: &Launched| {
        let mut one = crate::question::choice_document(it.collective, &it.choice);
        one["what"] = it.what.into();
        one["collective"] = it.collective.name().into();
        one["bytes"] = it.bytes.into();
        one
    };
    launches(question, routed, table).iter().map(one).collect()
}

/// Tells programs of a call that is refused.
pub fn refusal(error: &Error) -> Value {
    json!({ "route": "refused", "why": error.what, "remedy": error.remedy })
}
