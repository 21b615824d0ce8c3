//! Settings of kolo.
//!
//! **Problem.** A site, a user, a job script and a program all have a say, and when a job behaves
//! oddly somebody must find out who set what. Some settings must also be the same on every rank.
//!
//! **Idea.** One table of [`OPTIONS`] says everything about each option; the TOML keys, the
//! environment variables, the typed getters of [`Settings`], the file `config/kolo.toml`, the page
//! `docs/settings.md` and the help come from it. Values are read in *layers*, lowest first:
//!
//! 1. the defaults of the table,
//! 2. `/etc/kolo/kolo.toml`,
//! 3. `PREFIX/etc/kolo.toml`, where PREFIX is above the `lib/` or `bin/` that holds the code,
//! 4. `~/.config/kolo/kolo.toml` (or under `XDG_CONFIG_HOME`),
//! 5. the file named by `KOLO_CONFIG`,
//! 6. the documented `NCCL_*` variables,
//! 7. the `KOLO_*` variables,
//! 8. what the program gives in its call.
//!
//! Every value remembers its [`Source`]: the layer, and the file or variable in it. What cannot be
//! used is an error, never ignored: an unknown key, an unknown `KOLO_*` variable, a bad value.
//! Variables of the other library that are no aliases are not looked at.
//!
//! **Terms.** *Option*: an entry of the table. *Key*: its name. *Value*: what it is set to.
//! *Layer*: one of the eight above. *Shape*: the options that all ranks must agree on, because
//! plans or the exchange of messages follow from them; see [`compare_shapes`].
//!
//! Reference: TOML 1.0; the XDG Base Directory Specification.
//!
//! Settings belong to the process, but are read once per communicator: a program may change a
//! variable between two inits, and the first communicator keeps what it read.

#[doc(hidden)]
pub mod fuzz;
mod install;
pub mod kept;
mod kind;
mod layers;
mod lists;
mod message;
mod nccl;
#[macro_use]
mod option;
#[macro_use]
mod options_start;
#[macro_use]
mod options_verbs;
mod options;
mod read;
mod render;
mod settings;
mod shape;
mod source;
mod sources;
#[cfg(test)]
mod tests;
mod trust;
mod value;
mod word;
mod words;

pub use install::install_prefix;
pub use kind::Kind;
pub use lists::{ChoiceList, ChoiceRule};
pub use option::{Alias, Opt, RESERVED, RESERVED_PREFIX, Tag};
pub use options::{OPTIONS, find};
pub use read::Entry;
pub use render::{render_help, render_help_of, render_markdown, render_table, render_toml};
pub use settings::Settings;
pub use shape::{ShapeEntry, compare_shapes, digest};
pub use source::{FileSeen, Layer, Origin, Source};
pub use sources::Sources;
pub use value::{FaultFlip, HostPort, PrefixList, Value};
pub use word::Word;
pub use words::{
    Affinity, Algo, Cma, CmaPtracer, CrossNic, DebugLevel, Errors, GdrLevel, HoldIn, Net, OnSignal,
    Progress, Proto, Pxn, SocketFamily, Stores, Wait,
};

/// Whether lines on a terminal may have colours: `NO_COLOR` (no-color.org) forbids them.
pub fn may_use_colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
