//! The settings of a communicator: every option with its value and where that comes from.

use super::effective::Effective;
use super::install::installed;
use super::layers::{self, Loaded};
use super::lists::ChoiceList;
use super::option::Opt;
use super::options::{Index, OPTIONS, getters};
use super::shape::{ShapeEntry, digest};
use super::source::{FileSeen, Position, Source};
use super::sources::{Sources, Stamp, Stamps, stamp};
use super::value::{FaultFlip, FromValue, HostPort, PrefixList, Value};
use super::words::{
    Affinity, Cma, CmaPtracer, CrossNic, DebugLevel, Dropin, DropinDevices, DropinNodes, Errors,
    FloatSums, GdrLevel, HoldIn, Net, OnSignal, Progress, Pxn, Reproducible, SocketFamily, Stores,
    Wait,
};
use crate::base::record;
use crate::base::{Error, Result};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The file with the kernels of GPUs.
const KERNELS: &str = "kolo_kernels.fatbin";

/// All options with their values, read once per communicator and not changed afterwards.
///
/// Read one option with the getter that has its name: [`Settings::buffsize`], [`Settings::algo`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// In the order of the table.
    values: Vec<Effective>,
    files: Vec<FileSeen>,
    warnings: Vec<String>,
}

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

/// The getters of the table: each has the name of its option.
impl Settings {
    getters! {}
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

    /// The files that were looked at, lowest layer first.
    pub fn files(&self) -> &[FileSeen] {
        &self.files
    }

    /// Warnings about these files, for the log once there is one.
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

    /// The file with the kernels of GPUs: the one that is named, or the installed one.
    ///
    /// # Errors
    /// None is named, and this code runs from a build directory.
    pub fn kernels(&self) -> Result<PathBuf> {
        let named = self.kernels_file().map(Path::to_path_buf);
        named.or_else(|| installed(KERNELS)).ok_or_else(|| {
            Error::usage(
                format!("kolo is not installed here, so there is no lib/kolo/{KERNELS}"),
                "`make kernels`, and set KOLO_KERNELS_FILE=build/kernels/kolo_kernels.fatbin",
            )
        })
    }

    /// The options that all ranks must agree on.
    pub fn shape(&self) -> Vec<ShapeEntry> {
        let shaping = self.entries().filter(|entry| entry.option.shapes);
        shaping
            .map(|entry| ShapeEntry {
                key: Cow::Borrowed(entry.option.key),
                // Exact numbers: a rank with another version of kolo may shorten them otherwise.
                value: match entry.value {
                    Value::Bytes(bytes) => bytes.to_string(),
                    other => other.to_string(),
                },
                source: entry.source.origin.to_string(),
            })
            .collect()
    }

    /// The shape as bytes, for [`super::compare_shapes`] on this or another rank.
    pub fn shape_bytes(&self) -> Vec<u8> {
        record::encode(&self.shape())
    }

    /// A digest of keys and values: equal on ranks that agree, wherever their values come from.
    pub fn shape_digest(&self) -> u64 {
        digest(&self.shape())
    }

    /// Key and value of every option that `libkolo_verbs` takes, to be handed to its
    /// `kolo_net_configure` before it is started. An option without a value has an empty text.
    pub fn of_verbs(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        self.of_library("ib_")
    }

    /// Key and value of every option that `libkolo_ofi` takes.
    pub fn of_ofi(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        self.of_library("ofi_")
    }

    /// Options whose keys begin so, and those of every network that is a library of its own.
    fn of_library(&self, begin: &'static str) -> impl Iterator<Item = (&'static str, String)> + '_ {
        const SHARED: [&str; 3] = ["socket_ifname", "socket_family", "net_link_timeout"];
        self.entries()
            .filter(move |entry| {
                let key = entry.option.key;
                key.starts_with(begin) || SHARED.contains(&key)
            })
            .map(|entry| (entry.option.key, entry.value.to_string()))
    }

    /// The value of the option at `index` of the table.
    fn value(&self, index: usize) -> &Value {
        &self.values[index].value
    }
}
