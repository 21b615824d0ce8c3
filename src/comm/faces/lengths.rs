//! Slices that a call needs are as long as it needs them.

use crate::base::{Error, Result};
use crate::comm::identity::Identity;
use crate::plan::Collective;

/// An error unless `found` is `wanted` elements.
pub(in crate::comm) fn require(name: &str, found: usize, wanted: usize) -> Result<()> {
    if found == wanted {
        return Ok(());
    }
    Err(Error::argument(
        format!(
            "the {name} buffer has {found} element{} where {wanted} {} needed",
            if found == 1 { "" } else { "s" },
            if wanted == 1 { "is" } else { "are" },
        ),
        "make the buffer as long as the call needs it",
    ))
}

/// An error about the arguments of a call, with this rank and the call.
pub(in crate::comm) fn of_call<T>(who: &Identity, call: Collective, found: Result<T>) -> Result<T> {
    found.map_err(|error| who.tells(error).during(call.name()))
}

/// An error of a call unless `found` is `wanted` elements.
pub(in crate::comm) fn require_in(
    who: &Identity,
    call: Collective,
    name: &str,
    found: usize,
    wanted: usize,
) -> Result<()> {
    of_call(who, call, require(name, found, wanted))
}

/// How many of `all` elements each rank has.
///
/// # Errors
/// They cannot be shared out evenly.
pub(in crate::comm) fn share(who: &Identity, call: Collective, all: usize) -> Result<usize> {
    let nranks = who.nranks as usize;
    let what = || format!("{all} elements are not a multiple of {nranks} ranks");
    let remedy = "make the buffers hold one block of the same size for each rank";
    let even = all.is_multiple_of(nranks);
    let share = even.then_some(all / nranks);
    of_call(
        who,
        call,
        share.ok_or_else(|| Error::argument(what(), remedy)),
    )
}
