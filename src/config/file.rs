//! The text of one settings file taken apart: settings, and what decides when they count.
//!
//! Besides `key = value` a file may hold `include` and `default_profile`, and a file of the site
//! `[profile.NAME]` tables and `locked`. Everything is checked here, whether it counts in this job
//! or not, and each fault has its line and column.

use super::message::{self, Section, bad_part, bad_value, unknown_key};
use super::options;
use super::raw;
use super::source::{Layer, Origin, Position, Source, Spot};
use crate::base::Error;
use figment::value::Value as Raw;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A key with its value.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) key: String,
    pub(super) raw: Raw,
    pub(super) at: Option<Position>,
}

/// A `[profile.NAME]`.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    pub(super) name: String,
    pub(super) items: Vec<Given>,
    /// Libraries that Slurm's plugin preloads; kolo itself does nothing with them.
    pub(super) preload: Vec<String>,
}

/// A word with its place.
pub(super) type Quoted = (String, Position);

/// Content of one file.
#[derive(Clone, Debug, Default)]
pub(super) struct FileText {
    pub(super) items: Vec<Given>,
    pub(super) includes: Vec<Quoted>,
    pub(super) profiles: Vec<Profile>,
    pub(super) default_profile: Option<Quoted>,
    pub(super) locked: Vec<Quoted>,
}

/// Longest name of a profile, as Slurm's plugin takes it.
const LONGEST_NAME: usize = 64;
/// The word that chooses no profile.
pub(super) const NO_PROFILE: &str = "none";

/// Takes `text` apart, and appends what is wrong to `faults`.
pub(super) fn parse(layer: Layer, path: &Path, text: &str, faults: &mut Vec<Error>) -> FileText {
    let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
    let mut reader = FileReader {
        layer,
        path,
        text,
        starts: [0].into_iter().chain(ends.map(|(at, _)| at + 1)).collect(),
        faults,
    };
    let mut file = FileText::default();
    match DeTable::parse(text) {
        Ok(table) => reader.top(table.get_ref(), &mut file),
        Err(error) => {
            let at = error.span().map(|span| reader.at(span.start));
            let place = reader.place(at);
            let fault = message::no_toml(&place, error.message());
            reader.faults.push(fault);
        }
    }
    file
}

struct FileReader<'a> {
    layer: Layer,
    path: &'a Path,
    text: &'a str,
    /// Where each line begins.
    starts: Vec<usize>,
    faults: &'a mut Vec<Error>,
}

/// Keys and values in the order of the file.
type Entries<'t> = Vec<(&'t str, Position, &'t Spanned<DeValue<'t>>)>;

impl FileReader<'_> {
    fn at(&self, offset: usize) -> Position {
        let line = self.starts.partition_point(|&start| start <= offset);
        let start = self.starts.get(line.saturating_sub(1)).copied();
        let before = self.text.get(start.unwrap_or(0)..offset);
        Position {
            line,
            column: before.map_or(0, |text| text.chars().count()) + 1,
        }
    }

    fn place(&self, at: Option<Position>) -> Spot {
        let source = Source {
            layer: self.layer,
            origin: Origin::File(self.path.to_owned()),
        };
        Spot { source, at }
    }

    fn fault(&mut self, at: Position, what: &str, remedy: &'static str) {
        let place = self.place(Some(at));
        let what = format!("{place}: {what}");
        self.faults.push(Error::usage(what, remedy));
    }

    fn entries<'t>(&self, table: &'t DeTable<'t>) -> Entries<'t> {
        let mut all: Vec<_> = table.iter().collect();
        all.sort_by_key(|(key, _)| key.span().start);
        let entry = |(key, value): (&'t Spanned<_>, _)| {
            let name: &std::borrow::Cow<'t, str> = key.get_ref();
            (name.as_ref(), self.at(key.span().start), value)
        };
        all.into_iter().map(entry).collect()
    }

    fn top<'t>(&mut self, table: &'t DeTable<'t>, file: &mut FileText) {
        for (key, at, value) in self.entries(table) {
            match (key, value.get_ref()) {
                ("include", _) => file.includes = self.words(key, at, value),
                ("default_profile", _) => file.default_profile = self.profile_word(at, value),
                ("locked", _) => file.locked = self.locked(at, value),
                ("profile", DeValue::Table(all)) => file.profiles = self.profiles(at, all),
                ("profile", _) => self.fault(
                    at,
                    "`profile` is no table",
                    "write `[profile.NAME]` and its settings below it; `default_profile = \
                     \"NAME\"` at the top chooses one",
                ),
                ("when", _) => self.fault(
                    at,
                    "no file chooses settings by partition, host or number of nodes",
                    "write them below `[profile.NAME]` in place of `when`, and let the jobs that \
                     need them name it: KOLO_PROFILE=NAME, or `srun --kolo=NAME`",
                ),
                _ => {
                    let item = self.item(Section::Top, key, at, value);
                    file.items.extend(item);
                }
            }
        }
    }

    /// A setting, checked.
    fn item(
        &mut self,
        table: Section,
        key: &str,
        at: Position,
        value: &Spanned<DeValue<'_>>,
    ) -> Option<Given> {
        let raw = raw::of_toml(value.get_ref());
        let place = self.place(Some(at));
        let Some(option) = options::find(key) else {
            let fault = unknown_key(&place, key, raw.as_dict().is_some(), table);
            self.faults.push(fault);
            return None;
        };
        if raw::parse(option, &raw).is_none() {
            let place = self.place(Some(self.at(value.span().start)));
            self.faults
                .push(bad_value(&place, option, &raw::show(&raw)));
            return None;
        }
        Some(Given {
            key: key.to_owned(),
            raw,
            at: Some(at),
        })
    }

    /// A text or a list of texts, each with its place.
    fn words(&mut self, key: &str, at: Position, value: &Spanned<DeValue<'_>>) -> Vec<Quoted> {
        let one = |reader: &Self, value: &Spanned<DeValue<'_>>| {
            let text = value.get_ref().as_str().filter(|text| !text.is_empty())?;
            Some((text.to_owned(), reader.at(value.span().start)))
        };
        let words: Option<Vec<Quoted>> = match value.get_ref() {
            DeValue::Array(all) => all.iter().map(|value| one(self, value)).collect(),
            _ => one(self, value).map(|word| vec![word]),
        };
        if words.is_none() {
            let place = self.place(Some(at));
            let shown = raw::show(&raw::of_toml(value.get_ref()));
            let wanted = "a text, or a list of texts in brackets, in quotes";
            self.faults.push(bad_part(&place, key, &shown, wanted));
        }
        words.unwrap_or_default()
    }

    fn locked(&mut self, at: Position, value: &Spanned<DeValue<'_>>) -> Vec<Quoted> {
        if !self.layer.is_of_site() {
            self.fault(
                at,
                "only a file of the site locks options",
                "remove `locked`, or write it into /etc/kolo/kolo.toml or PREFIX/etc/kolo.toml",
            );
            return Vec::new();
        }
        let mut words = self.words("locked", at, value);
        words.retain(|(key, at)| {
            let known = options::find(key).is_some();
            if !known {
                let place = self.place(Some(*at));
                let fault = unknown_key(&place, key, false, Section::Locked);
                self.faults.push(fault);
            }
            known
        });
        words
    }

    fn profile_word(&mut self, at: Position, value: &Spanned<DeValue<'_>>) -> Option<Quoted> {
        match self.words("default_profile", at, value).as_slice() {
            [word] => Some(word.clone()),
            [] => None,
            _ => {
                let wanted = "name one profile";
                self.fault(at, "`default_profile` has several names", wanted);
                None
            }
        }
    }

    fn profiles<'t>(&mut self, at: Position, all: &'t DeTable<'t>) -> Vec<Profile> {
        if !self.layer.is_of_site() {
            self.fault(
                at,
                "only a file of the site has profiles",
                "write the settings without a section, or `[profile.NAME]` into \
                 /etc/kolo/kolo.toml or PREFIX/etc/kolo.toml",
            );
            return Vec::new();
        }
        let mut profiles = Vec::new();
        for (name, at, value) in self.entries(all) {
            if !is_name(name) {
                let what = format!("`{}` cannot name a profile", message::cut(name));
                let remedy = "use up to 64 letters, digits, `.`, `_` and `-` (with a period the \
                              name stands in quotes), and not `none`";
                self.fault(at, &what, remedy);
                continue;
            }
            let Some(table) = value.get_ref().as_table() else {
                let what = format!("profile `{name}` is no table");
                self.fault(
                    at,
                    &what,
                    "write `[profile.NAME]` and its settings below it",
                );
                continue;
            };
            profiles.push(self.profile(name, table));
        }
        profiles
    }

    fn profile<'t>(&mut self, name: &str, table: &'t DeTable<'t>) -> Profile {
        let mut profile = Profile {
            name: name.to_owned(),
            items: Vec::new(),
            preload: Vec::new(),
        };
        for (key, at, value) in self.entries(table) {
            if key == "preload" {
                for (path, at) in self.words(key, at, value) {
                    // What divides the list that the loader reads cannot stand in it.
                    if !path.starts_with('/') || path.contains([':', ' ']) {
                        let place = self.place(Some(at));
                        let wanted = "absolute paths without blanks and colons";
                        self.faults.push(bad_part(&place, key, &path, wanted));
                    }
                    profile.preload.push(path);
                }
            } else {
                let item = self.item(Section::Profile, key, at, value);
                profile.items.extend(item);
            }
        }
        profile
    }
}

/// Whether Slurm's plugin and kolo take it for the name of a profile.
fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(fits) && name != NO_PROFILE
}
