//! Words for ranks that are gone.

use crate::base::{Error, Rank};

/// The error for ranks of which `what` is known ("died"), as `description` says in detail. `None`
/// if there are none.
pub fn error(ranks: &[Rank], what: &str, description: &str) -> Option<Error> {
    let first = *ranks.first()?;
    let names: Vec<String> = ranks.iter().map(Rank::to_string).collect();
    let word = if ranks.len() == 1 { "rank" } else { "ranks" };
    Some(Error::remote(
        first,
        format!("{word} {} {what}: {description}", names.join(", ")),
        "look for the reason in that rank's output; end the job, or make a new communicator \
         without it",
    ))
}
