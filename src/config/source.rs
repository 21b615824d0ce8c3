//! Where a value comes from: its layer, and the file or variable in that layer.

use std::fmt;
use std::path::PathBuf;

/// The layers of settings, lowest first: a value of a later one hides those of earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// The table of options.
    Default,
    /// `/etc/kolo/kolo.toml`.
    System,
    /// `PREFIX/etc/kolo.toml`, beside the installed library.
    Prefix,
    /// The profile that `KOLO_PROFILE` or a file chooses: `[profile.NAME]` of these files.
    Profile,
    /// `~/.config/kolo/kolo.toml`, or under `XDG_CONFIG_HOME`.
    User,
    /// The file named by `KOLO_CONFIG`.
    ConfigFile,
    /// The documented `NCCL_*` variables.
    Alias,
    /// The `KOLO_*` variables.
    Environment,
    /// The program, in its call.
    Caller,
}

impl Layer {
    /// All layers, lowest first.
    pub const ALL: [Layer; 9] = [
        Layer::Default,
        Layer::System,
        Layer::Prefix,
        Layer::Profile,
        Layer::User,
        Layer::ConfigFile,
        Layer::Alias,
        Layer::Environment,
        Layer::Caller,
    ];

    /// Whether this layer's file is of those who run the machine. It may have profiles and locks.
    pub fn is_of_site(self) -> bool {
        matches!(self, Layer::System | Layer::Prefix)
    }

    /// The name that `kolo config show --origin` prints.
    pub fn text(self) -> &'static str {
        match self {
            Layer::Default => "default",
            Layer::System => "system file",
            Layer::Prefix => "prefix file",
            Layer::Profile => "profile",
            Layer::User => "user file",
            Layer::ConfigFile => "KOLO_CONFIG",
            Layer::Alias => "NCCL alias",
            Layer::Environment => "environment",
            Layer::Caller => "caller",
        }
    }
}

/// The place in a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The table of options.
    BuiltIn,
    /// The built-in value made way for that of another option.
    Follows(&'static str),
    /// A TOML file.
    File(PathBuf),
    /// A profile of a TOML file.
    Profile(String, PathBuf),
    /// An environment variable.
    Variable(String),
    /// The program, in its call.
    Caller,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::BuiltIn => f.write_str("built in"),
            Origin::Follows(key) => write!(f, "follows {key}"),
            Origin::File(path) => write!(f, "file {}", path.display()),
            Origin::Profile(name, path) => write!(f, "profile {name} of file {}", path.display()),
            Origin::Variable(name) => write!(f, "variable {name}"),
            Origin::Caller => f.write_str("the calling program"),
        }
    }
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The layer.
    pub layer: Layer,
    /// The place in it.
    pub origin: Origin,
}

/// A place in the text of a file, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The character in it.
    pub column: usize,
}

/// Where something stands: a source and, if that is a file, the place in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) source: Source,
    pub(super) at: Option<Position>,
}

impl From<Source> for Spot {
    fn from(source: Source) -> Spot {
        Spot { source, at: None }
    }
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source.origin)?;
        match self.at {
            Some(Position { line, column }) => write!(f, ", line {line}, column {column}"),
            None => Ok(()),
        }
    }
}

/// A file that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSeen {
    /// The layer it belongs to.
    pub layer: Layer,
    /// Its name.
    pub path: PathBuf,
    /// Whether it exists.
    pub found: bool,
}
