//! Which algorithm did the work of a measured call, in one word for the table.

use super::case::Case;
use super::engine::Collective as Row;
use super::operation::Operation;
use kolo::base::Result;
use kolo::comm::Communicator;
use kolo::comm::Inspect;
use kolo::dtype::ReduceOp;
use kolo::plan::Collective;
use kolo::tune::{Asked, Choice, Combining, Route, Table};

/// Whose buffers are read where they lie.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ReadBuffers {
    /// Nobody's.
    None,
    /// Those of ranks of the same node, in a job on several nodes.
    OfMates,
    /// Those of all ranks.
    All,
}

impl ReadBuffers {
    /// Difference between two looks at the counts of direct calls and of tokens that mates were
    /// shown.
    pub fn between(before: [u64; 2], after: [u64; 2]) -> ReadBuffers {
        match [after[0] > before[0], after[1] > before[1]] {
            [true, _] => ReadBuffers::All,
            [_, true] => ReadBuffers::OfMates,
            _ => ReadBuffers::None,
        }
    }
}

/// Knows what a communicator chooses.
pub struct Ways {
    table: Table,
    /// Collective that computes it; absent where it consists of several calls.
    collective: Option<Collective>,
    nranks: u32,
}

impl Ways {
    /// Of a communicator, for one collective.
    ///
    /// # Errors
    /// Another thread is inside a call of the communicator.
    pub fn new(comm: &Communicator, row: &Row) -> Result<Ways> {
        Ok(Ways {
            table: comm.tuner()?,
            collective: row.kolo,
            nranks: comm.nranks(),
        })
    }

    /// Names the way of a call of `bytes` bytes, whose buffers were read where they lie or not.
    pub fn name(&self, case: &Case, bytes: usize, read: ReadBuffers) -> String {
        let name = self.usual_name(case, bytes, read == ReadBuffers::All);
        match read {
            ReadBuffers::OfMates => format!("{name}/near"),
            _ => name,
        }
    }

    fn usual_name(&self, case: &Case, bytes: usize, direct: bool) -> String {
        let Some(collective) = self.collective.filter(|collective| !collective.is_vector()) else {
            return "messages".to_string();
        };
        if self.nranks == 1 {
            return "copy".to_string();
        }
        if direct {
            return "direct".to_string();
        }
        let asked = Asked {
            combining: match case.op {
                Some(Operation::ExactSum) => Combining::Exact,
                Some(Operation::Built(ReduceOp::PreMulSum)) => Combining::Made {
                    commutes: true,
                    scaled: true,
                },
                _ => Combining::BuiltIn,
            },
            ..Asked::plain(collective, bytes)
        };
        let route = Route::of(&asked, &self.table);
        match (route, route.choice(&asked, &self.table)) {
            (Route::Exact { .. }, _) => "exact".to_string(),
            (_, Some(choice)) => word(collective, &choice),
            (Route::Nothing, None) => "nothing".to_string(),
            (_, None) => {
                let parts = route.parts(collective).iter();
                let names: Vec<String> =
                    parts.map(|(part, _)| part.name().to_lowercase()).collect();
                names.join("+")
            }
        }
    }
}

/// The algorithm, and the protocol where it is not the usual one.
fn word(collective: Collective, choice: &Choice) -> String {
    let usual = Choice::plain(collective, choice.algorithm, choice.channels).protocol;
    if choice.protocol == usual {
        choice.algorithm.name().to_string()
    } else {
        format!("{}/{}", choice.algorithm.name(), choice.protocol.name())
    }
}
