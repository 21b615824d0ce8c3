//! The ground that every other room stands on.
//!
//! **Problem.** Some things must be the same everywhere: how an error reads, what a rank number is,
//! where the clock is read, what a fork must not copy. A second way to
//! do one of them is a fault that shows late.
//!
//! **Idea.** They stand here once, and `tests/tidy` refuses a second way.
//!
//! - What is said: [`error`], [`shortage`], [`mod@caught`] (a panic as an error).
//! - Names and numbers: [`mod@collective`], [`exchange`] (which messages a
//!   collective is), [`ids`], [`checked`] arithmetic, [`mod@hash`], [`random()`].
//! - Time and memory order: [`clock`], [`turns`] (rests beside MPI), [`sync`] (atomics of the
//!   standard library, or loom's).
//! - Files and interfaces that a user names: [`input_file`], [`interfaces`]; devices: [`pci_bus`].
//! - Folders where others may plant something: [`folder`].
//! - What ranks tell each other at first: [`record`].
//! - Sockets: [`tcp`].
//! - A start under way: [`birth`], its phases and its end before the time.
//! - Manners inside the program of others: [`descriptors`], [`float_env`], [`fork`],
//!   [`own_thread`], [`privilege`], [`quiet`], [`starts`], [`signal_bell`], [`last_words`],
//!   [`lasting`] (behind the end of a thread), [`printed`] (before the end of a job).
//!   `docs/process.md` tells them in one place.
//!
//! **Terms.** *Remedy*: the part of an error that says what to do.

#[cfg(test)]
#[path = "../../tests/alone/mod.rs"]
pub mod alone;
pub mod birth;
pub mod caught;
pub mod checked;
pub mod clock;
pub mod collective;
pub mod descriptors;
pub mod error;
pub mod exchange;
#[doc(hidden)]
pub mod first_store;
pub mod float_env;
pub mod folder;
pub mod fork;
pub mod hash;
pub mod ids;
pub mod input_file;
pub mod interfaces;
pub mod last_words;
pub mod lasting;
#[doc(hidden)]
pub mod mpi_calls;
pub mod own_thread;
pub mod pci_bus;
pub mod place;
pub mod printed;
pub mod privilege;
pub mod quiet;
pub mod rails;
mod random;
pub mod record;
pub mod shortage;
pub mod signal_bell;
#[cfg(test)]
#[path = "../../tests/skip/mod.rs"]
pub mod skip;
pub mod starts;
pub mod sync;
pub mod tcp;
pub mod turns;

pub use caught::caught;
pub use collective::{Collective, InPlace, Share};
pub use error::{Code, Error, ErrorParts, Result};
pub use ids::{ChannelId, Rank};
pub use random::random;
