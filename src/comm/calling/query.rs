//! Answers how a call would go, without making it.

use super::call::{Call, Collective};
use super::checked::Checked;
use super::handles::RedOp;
use super::redop;
use crate::base::{Error, Result};
use crate::comm::queue::Queue;
use crate::dtype::DataType;
use crate::exec::combine::Combine;
use crate::tune::{Asked, Called, Choice, OwnBlocks, Route, ToldRoute};
use std::sync::Arc;

/// How a call would go.
#[derive(Clone, Debug)]
pub struct Way {
    /// Its route.
    pub route: Route,
    /// Algorithm, protocol and channels, where one plan does it.
    pub choice: Option<Choice>,
    /// Algorithm, protocol and channels in words.
    pub words: String,
    /// Nanoseconds that the table expects it to take; none where nobody knows.
    pub expected_ns: Option<f64>,
}

/// How a call of `count` elements would go, whatever its buffers: the same way on all ranks, by the
/// form of a blocking call of this one. Nothing is sent, and no call is counted.
///
/// # Errors
/// That of the call itself, if no rank may make it with these arguments; the error that stopped
/// the communicator; `InvalidUsage` while another thread is inside a call of it.
pub(in crate::comm) fn way(
    queue: &Arc<Queue>,
    collective: Collective,
    count: usize,
    dtype: DataType,
    op: RedOp,
) -> Result<Way> {
    answered(queue, || asked_here(queue, collective, count, dtype, op))
}

/// How a send and a receive of so many elements would go by one call of this rank. Where its calls
/// are observed they are a group of two, so the form is this rank's own.
///
/// # Errors
/// Those of [`way`].
pub(in crate::comm) fn way_of_both(
    queue: &Arc<Queue>,
    count: usize,
    dtype: DataType,
) -> Result<Way> {
    let called = if queue.seen.at_all {
        Called::Together
    } else {
        Called::Both
    };
    answered(queue, || {
        let asked = asked_here(queue, Collective::Send, count, dtype, RedOp::SUM)?;
        Ok(asked.made(called))
    })
}

fn answered(queue: &Queue, ask: impl FnOnce() -> Result<Asked>) -> Result<Way> {
    let run = || {
        queue.callable()?;
        let asked = ask()?;
        let exec = queue.user()?;
        let (table, route) = exec.asked_route(&asked);
        let mut told = ToldRoute::of(route, &asked, table);
        told.choice = told.choice.map(|choice| exec.on_its_device(&asked, choice));
        Ok(Way {
            route,
            choice: told.choice,
            words: told.words(),
            expected_ns: route.expected_ns(&asked, table),
        })
    };
    run().map_err(|error: Error| queue.tells(error))
}

fn asked_here(
    queue: &Arc<Queue>,
    collective: Collective,
    count: usize,
    dtype: DataType,
    op: RedOp,
) -> Result<Asked> {
    let made = match collective.reduces() && op.0 >= RedOp::FIRST_DYNAMIC {
        true => Some(Arc::new(
            redop::made_combine(queue, collective, op, dtype)?.0,
        )),
        false => None,
    };
    asked((collective, count, dtype, op), queue.nranks, made)
}

/// Collects the facts that decide the route of a call without buffers, among `nranks` ranks. `made`
/// says what an operation of the program does.
///
/// # Errors
/// `InvalidArgument`: no rank may make it.
fn asked(
    (collective, count, dtype, op): (Collective, usize, DataType, RedOp),
    nranks: u32,
    made: Option<Arc<Combine>>,
) -> Result<Asked> {
    let call = Call {
        collective,
        send: std::ptr::null(),
        recv: std::ptr::null_mut(),
        count,
        dtype,
        op,
        peer: 0,
    };
    let bytes = call.check_size(nranks)?;
    call.check_operation()?;
    let mut checked = Checked::unseen(&call);
    checked.made = made;
    // Barriers count nothing.
    checked.bytes = match call.collective {
        Collective::Barrier => 0,
        _ => bytes,
    };
    Ok(Asked {
        blocks: match call.collective.is_vector() {
            true => OwnBlocks::Unseen,
            false => OwnBlocks::Alike,
        },
        ..checked.asked_all(Called::AtOnce, nranks)
    })
}

/// Collects the facts that decide the route of a call with an operation that every communicator
/// has.
///
/// # Errors
/// `InvalidArgument`: no rank may make it.
#[doc(hidden)]
pub fn asked_of(
    collective: Collective,
    count: usize,
    (dtype, op): (DataType, RedOp),
    nranks: u32,
) -> Result<Asked> {
    asked((collective, count, dtype, op), nranks, None)
}
