//! `libkolo_pmpi_calls.so`: blocking collectives of MPI programs on kolo, a build per MPI family.
//! Programs know it as `libkolo_pmpi.so`, which loads it at the end of MPI_Init (`front/front.c`).
//!
//! The way of a call, from `MPI_Allreduce` of the program:
//!
//! - `front/jumps.S`: the name; whose call is it?
//! - [`forms`]: MPI's arguments, with counts of either size.
//! - [`reductions`], [`moves`], [`vectors`]: looks at what all ranks know of the call,
//!   whose [`arguments`] they have.
//! - [`attach`] asks [`decide`], the one decision that all ranks take alike, and makes kolo's
//!   communicator where its time has come. What is not taken is MPI's, with the same arguments.
//! - [`turn`]: what is odd on this rank alone is packed or copied.
//! - The function of `libkolo.so.0`; of communicators on several nodes perhaps by
//!   [`spanning`], in two [`levels`].
//!
//! Around it: [`alone`] and [`agree`] (all ranks can, at the start), [`nodes`] (where they are),
//! [`comms`] (what is known of a communicator), [`kinds`] (of a type, of an operation), [`large`]
//! (elements over 2 GiB), [`folding`] (MPI folds what kolo cannot), [`errors`], [`settings`],
//! [`table`] (where MPI is faster), [`placement`] (what it should not run), [`report`]. The
//! functions of MPI are called by their `PMPI_` names; the front knows that these calls come from
//! kolo.

/// The place that [`mpi_table`] knows of the other file that kolo has too.
mod base {
    pub(crate) use crate::mpi_calls;
}

mod agree;
mod agreed;
mod alike;
mod allocated;
mod alone;
mod apart;
mod arguments;
mod attach;
mod begin;
mod comms;
mod counts;
mod decide;
mod devices;
mod errors;
mod folding;
mod footprint;
mod forms;
mod front;
mod kinds;
mod large;
mod levels;
mod memory;
mod moves;
#[path = "../../../src/base/mpi_calls.rs"]
mod mpi_calls;
#[path = "../../../src/tune/mpi_table.rs"]
#[allow(dead_code, reason = "the command writes such tables")]
mod mpi_table;
mod nodes;
mod placement;
mod places;
#[path = "../../../src/base/printed.rs"]
mod printed;
mod reductions;
mod repeated;
mod report;
mod results;
mod settings;
mod spanning;
mod sys;
mod table;
mod together;
mod turn;
mod vectors;
mod verify;

use std::ffi::{CString, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) use front::native;

/// Runs the body of an exported function; a panic becomes `otherwise`.
#[inline(always)]
pub(crate) fn contained<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise)
}

/// Tells a line on standard error.
pub(crate) fn say(line: &str) {
    if let Ok(text) = CString::new(format!("{line}\n")) {
        // SAFETY: a function of the shim, and a text with its zero byte.
        unsafe { sys::kolo_pmpi_say(text.as_ptr()) };
    }
}

/// `Ok` for MPI_SUCCESS (0 in every MPI), else the code.
pub(crate) fn outcome(code: c_int) -> Result<(), c_int> {
    match code {
        0 => Ok(()),
        code => Err(code),
    }
}

/// Any function.
pub(crate) type Function = *const c_void;
