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
//! 4. the profile of these files that `KOLO_PROFILE` chooses,
//! 5. `~/.config/kolo/kolo.toml` (or under `XDG_CONFIG_HOME`),
//! 6. the file named by `KOLO_CONFIG`,
//! 7. the documented `NCCL_*` variables,
//! 8. the `KOLO_*` variables,
//! 9. what the program gives in its call.
//!
//! What a file of the site *locks* keeps the value that it has there. A file may include others,
//! which stand below it.
//!
//! Every value remembers its [`Source`]: the layer, and the file or variable in it. What cannot be
//! used is an error, never ignored: an unknown key, an unknown `KOLO_*` variable, a bad value.
//! Variables of the other library that are no aliases are not looked at.
//!
//! **Terms.** *Option*: an entry of the table. *Key*: its name. *Value*: what it is set to.
//! *Layer*: one of the nine above. *Shape*: the options that all ranks must agree on, because
//! plans or the exchange of messages follow from them; see [`compare_shapes`].
//!
//! Reference: TOML 1.0; the XDG Base Directory Specification.
//!
//! Settings belong to the process, but are read once per communicator: a program may change a
//! variable between two inits, and the first communicator keeps what it read.

mod check;
mod effective;
mod file;
mod files;
#[doc(hidden)]
pub mod fuzz;
mod install;
pub mod kept;
mod kind;
mod layers;
mod lists;
mod lock;
mod message;
mod nccl;
#[macro_use]
mod option;
#[macro_use]
mod options_bits;
#[macro_use]
mod options_memory;
#[macro_use]
mod options_planning;
#[macro_use]
mod options_pmpi;
#[macro_use]
mod options_start;
#[macro_use]
mod options_verbs;
mod options;
mod part;
mod profile;
mod raw;
mod render;
mod render_file;
mod render_site;
mod settings;
mod shape;
mod source;
mod sources;
#[cfg(test)]
mod tests;
mod trust;
mod value;
mod variables;
mod word;
mod words;

pub use check::{FileCheck, check_all, check_file, contents};
pub use install::{install_prefix, installed};
pub use kind::Kind;
pub use lists::{ChoiceList, ChoiceRule};
pub use option::{Alias, Opt, RESERVED, RESERVED_PREFIXES, Tag};
pub use options::{OPTIONS, find};
pub use render::{
    render_columns, render_help, render_help_of, render_markdown, render_origin, render_settings,
    render_table,
};
pub use render_file::render_toml;
pub use settings::{Entry, Settings};
pub use shape::{ShapeEntry, compare_shapes, digest};
pub use source::{FileSeen, Layer, Origin, Position, Source};
pub use sources::Sources;
pub use trust::faults_of_files;
pub use value::{FaultFlip, HostPort, PrefixList, Value};
pub use variables::{VariablesCheck, check_variables, load_with_faults};
pub use word::Word;
pub use words::{
    Affinity, Algo, Cma, CmaPtracer, CrossNic, DebugLevel, Dropin, DropinDevices, DropinNodes,
    Errors, FloatSums, GdrLevel, HoldIn, Net, OnSignal, Progress, Proto, Pxn, Reproducible,
    SocketFamily, Stores, Wait,
};

/// Whether lines on a terminal may have colours: `NO_COLOR` (no-color.org) forbids them.
pub fn may_use_colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
