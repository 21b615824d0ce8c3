//! The settings of a communicator: every option with its value and where that comes from.

use super::layers::{self, FileSeen, Loaded};
use super::options::{OPTIONS, Opt};
use super::source::{Source, Sources, Stamp};
use super::value::Value;
use crate::base::Result;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// All options with their values, read once per communicator and not changed afterwards.
///
/// Read one option with the getter that has its name: [`Settings::buffsize`], [`Settings::algo`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    values: Vec<(Value, Source)>,
    files: Vec<FileSeen>,
    warnings: Vec<String>,
}

/// Settings that were read, and from what: a program that makes many communicators need not parse
/// the same text for each.
struct Read {
    sources: Sources,
    stamps: Vec<Option<Stamp>>,
    settings: Settings,
}

/// Readings that a process remembers.
const REMEMBERED: usize = 8;

static KNOWN: Mutex<VecDeque<Read>> = Mutex::new(VecDeque::new());

/// One option as it was set.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The option.
    pub option: &'static Opt,
    /// Its value.
    pub value: &'a Value,
    /// Where the value comes from.
    pub source: &'a Source,
}

impl Settings {
    /// Reads all layers of this process, with `caller` (option key, value) on top.
    ///
    /// Reads the environment: not to be called while another thread of the program calls `setenv`.
    ///
    /// # Errors
    /// - `InvalidUsage`: an unknown key, an unknown `KOLO_*` variable, a bad value, TOML that
    ///   cannot be parsed, a `KOLO_CONFIG` that names no readable file.
    /// - `InvalidArgument`: the same faults in `caller`.
    /// - `SystemError`: a file that exists but cannot be read.
    ///
    /// The message names the file or variable, the key, the value, and what was expected.
    pub fn load(caller: &[(String, String)]) -> Result<Settings> {
        let sources = Sources::of_process(caller)?;
        let stamps = sources.stamps();
        let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |one: &&Read| one.sources == sources && one.stamps == stamps;
        if let Some(read) = known().iter().find(same) {
            return Ok(read.settings.clone());
        }
        let settings = Settings::load_from(&sources)?;
        let mut known = known();
        known.truncate(REMEMBERED - 1);
        known.push_front(Read {
            sources,
            stamps,
            settings: settings.clone(),
        });
        Ok(settings)
    }

    /// Reads the layers of `sources` and nothing else of the process.
    ///
    /// # Errors
    /// Those of [`Settings::load`].
    pub fn load_from(sources: &Sources) -> Result<Settings> {
        let Loaded {
            values,
            files,
            warnings,
        } = layers::load(sources)?;
        Ok(Settings {
            values,
            files,
            warnings,
        })
    }

    /// The built-in values alone, for tests of other parts.
    pub fn defaults() -> Settings {
        Settings::load_from(&Sources::default()).expect("the table's defaults pass its own checks")
    }

    /// Every option in the order of the documentation.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        OPTIONS
            .iter()
            .zip(&self.values)
            .map(|(option, (value, source))| Entry {
                option,
                value,
                source,
            })
    }

    /// The option with this key.
    pub fn entry(&self, key: &str) -> Option<Entry<'_>> {
        self.entries().find(|entry| entry.option.key == key)
    }

    /// The files that were looked at, lowest layer first.
    pub fn files(&self) -> &[FileSeen] {
        &self.files
    }

    /// What should be said about these files, once there is a log.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// [`Settings::debug_file`] with `%h` replaced by `host`, `%p` by `process` and `%%` by `%`.
    pub fn debug_file_of(&self, host: &str, process: u32) -> Option<PathBuf> {
        let pattern = self.debug_file()?.to_str()?;
        let mut name = String::with_capacity(pattern.len() + host.len());
        let mut rest = pattern.chars();
        while let Some(c) = rest.next() {
            match (c, rest.clone().next()) {
                ('%', Some('h')) => name.push_str(host),
                ('%', Some('p')) => name.push_str(&process.to_string()),
                ('%', Some('%')) => name.push('%'),
                _ => {
                    name.push(c);
                    continue;
                }
            }
            rest.next();
        }
        Some(PathBuf::from(name))
    }

    /// The value of the option at `index` of the table.
    pub(super) fn value(&self, index: usize) -> &Value {
        &self.values[index].0
    }
}

impl std::fmt::Debug for Opt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.key)
    }
}
