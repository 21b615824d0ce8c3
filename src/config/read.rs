//! Settings are read from their layers, and what was read is remembered.

use super::layers::{self, Loaded};
use super::option::Opt;
use super::options::OPTIONS;
use super::settings::Settings;
use super::source::{Position, Source};
use super::sources::{Sources, Stamp, Stamps, stamp};
use super::value::Value;
use super::variables;
use crate::base::{Error, Result};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Settings that were read, and from what: a program that makes many communicators need not parse
/// the same text for each.
struct Read {
    sources: Sources,
    stamps: Stamps,
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
    /// Where in a file it stands.
    pub at: Option<Position>,
    /// The file that locks it, with the place, in words.
    pub locked: Option<&'a str>,
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
        let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let is_as_it_was = |(path, then): &(PathBuf, Option<Stamp>)| stamp(path) == *then;
        let same = |one: &&Read| one.sources == sources && one.stamps.iter().all(is_as_it_was);
        if let Some(read) = known().iter().find(same) {
            return Ok(read.settings.clone());
        }
        let (settings, stamps) = Settings::read(&sources)?;
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
        Settings::read(sources).map(|(settings, _)| settings)
    }

    /// Also how each file was that was looked at.
    fn read(sources: &Sources) -> Result<(Settings, Stamps)> {
        let Loaded {
            values,
            files,
            stamps,
            warnings,
        } = layers::load(sources)?;
        let settings = Settings {
            values,
            files,
            warnings,
        };
        Ok((settings, stamps))
    }

    /// Reads all layers of this process, and collects what it stumbles over instead of stopping:
    /// each variable that cannot be used, and whatever else keeps settings from being read, in
    /// which case they are the built-in ones. For the command `kolo`.
    pub fn load_with_faults() -> (Settings, Vec<Error>) {
        let mut sources = match Sources::of_process(&[]) {
            Ok(sources) => sources,
            Err(error) => return (Settings::defaults(), vec![error]),
        };
        let mut faults = variables::take_faulty(&mut sources);
        let settings = Settings::load_from(&sources).unwrap_or_else(|error| {
            faults.push(error);
            Settings::defaults()
        });
        (settings, faults)
    }

    /// The built-in values alone, for tests of other parts.
    pub fn defaults() -> Settings {
        Settings::load_from(&Sources::default()).expect("the table's defaults pass its own checks")
    }

    /// Every option in the order of the documentation.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        OPTIONS.iter().zip(&self.values).map(|(option, set)| Entry {
            option,
            value: &set.value,
            source: &set.source,
            at: set.at,
            locked: set.locked.as_deref(),
        })
    }

    /// The option with this key.
    pub fn entry(&self, key: &str) -> Option<Entry<'_>> {
        self.entries().find(|entry| entry.option.key == key)
    }
}
