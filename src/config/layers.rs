//! Lays what the layers say over one another.
//!
//! What one place says becomes one figment provider, whose metadata name it. A layer is checked
//! before it is merged, so that a bad value is reported even where a higher layer hides it: it
//! would surprise whoever removes the higher one. The one exception is an alias hidden by the
//! option's own `KOLO_*` variable or by the caller: it may be meant for another library in the same
//! process, and hiding it must be possible.

use super::effective::Effective;
use super::file::Given;
use super::files::{OneFile, SettingsFiles};
use super::lock::{self, Dropped, Locks};
use super::message::{Section, bad_value, unknown_key, unknown_variable};
use super::option::Opt;
use super::options::{self, OPTIONS};
use super::part::Part;
use super::profile;
use super::raw;
use super::source::{FileSeen, Layer, Origin, Source, Spot};
use super::sources::{Sources, Stamps, is_reserved};
use super::value::Value;
use crate::base::{Error, Result};
use figment::value::{Dict, Map, Value as Raw};
use figment::{Figment, Metadata, Provider};
use std::path::Path;

/// A part on its way into the figment: its number is how the values are known again.
struct Numbered<'a>(usize, &'a Part);

impl Provider for Numbered<'_> {
    fn metadata(&self) -> Metadata {
        let Numbered(number, part) = self;
        Metadata::named(part.source.layer.text()).source(number.to_string())
    }

    fn data(&self) -> figment::error::Result<Map<figment::Profile, Dict>> {
        let pair = |item: &Given| (item.key.clone(), item.raw.clone());
        let values: Dict = self.1.items.iter().map(pair).collect();
        Ok(Map::from([(figment::Profile::Default, values)]))
    }
}

/// Options as all layers together give them.
pub(super) struct Loaded {
    /// Each option, in the order of the table.
    pub(super) values: Vec<Effective>,
    /// The files looked at, lowest layer first.
    pub(super) files: Vec<FileSeen>,
    /// How each of them was.
    pub(super) stamps: Stamps,
    /// Lines for the log, once there is one.
    pub(super) warnings: Vec<String>,
}

/// Reads, checks and merges all layers.
pub(super) fn load(sources: &Sources) -> Result<Loaded> {
    let mut files = SettingsFiles::of(sources);
    if !files.faults.is_empty() {
        return Err(files.faults.swap_remove(0));
    }
    let mut parts = parts_of(&files.read, sources.variable("KOLO_PROFILE"))?;
    read_variables(sources, &mut parts)?;
    for (key, text) in &sources.caller {
        parts.push(Part::one(Layer::Caller, Origin::Caller, key, text));
    }
    for part in &parts {
        check(part)?;
    }
    let locks = Locks::of(&files.read);
    let dropped = locks.drop_higher(&mut parts);
    let values = merged(&parts, &locks)?;
    let mut warnings = files.warnings;
    warnings.extend(lock::told(&values, &dropped));
    Ok(Loaded {
        values,
        files: files.seen,
        stamps: files.stamps,
        warnings,
    })
}

/// Merges a settings file with this text, which includes none, over the built-in values.
pub(super) fn of_text(path: &Path, text: &str) -> Result<Vec<Effective>> {
    let mut faults = Vec::new();
    let layer = Layer::System;
    let text = super::file::parse(layer, path, text, &mut faults);
    if !faults.is_empty() {
        return Err(faults.swap_remove(0));
    }
    let file = OneFile {
        layer,
        path: path.to_owned(),
        text,
    };
    of_files(&[file], None).map(|(values, _)| values)
}

/// Merges these files and this profile over the built-in values. Returns the options, and the
/// settings that locks refuse.
pub(super) fn of_files(
    files: &[OneFile],
    profile: Option<&str>,
) -> Result<(Vec<Effective>, Vec<Dropped>)> {
    let mut parts = parts_of(files, profile)?;
    let locks = Locks::of(files);
    let dropped = locks.drop_higher(&mut parts);
    Ok((merged(&parts, &locks)?, dropped))
}

/// The defaults, and what the files say here, lowest layer first.
fn parts_of(files: &[OneFile], variable: Option<&str>) -> Result<Vec<Part>> {
    let mut parts = vec![defaults()];
    let (site, others): (Vec<_>, Vec<_>) = files.iter().partition(|file| file.layer.is_of_site());
    parts.extend(site.iter().map(|file| part(file)));
    if let Some(name) = profile::chosen(files, variable)? {
        parts.extend(profile::parts(&name, &site));
    }
    parts.extend(others.iter().map(|file| part(file)));
    Ok(parts)
}

/// The settings of a file, without those of its profiles.
fn part(file: &OneFile) -> Part {
    Part {
        source: Source {
            layer: file.layer,
            origin: Origin::File(file.path.clone()),
        },
        items: file.text.items.clone(),
    }
}

fn merged(parts: &[Part], locks: &Locks) -> Result<Vec<Effective>> {
    let mut figment = Figment::new();
    for numbered in parts.iter().enumerate() {
        figment = figment.merge(Numbered(numbered.0, numbered.1));
    }
    let mut values = Vec::with_capacity(OPTIONS.len());
    for option in OPTIONS {
        let mut set = read(&figment, parts, option)?;
        set.locked = locks.place(option.key);
        values.push(set);
    }
    reconcile_channels(&mut values)?;
    Ok(values)
}

fn defaults() -> Part {
    let item = |option: &Opt| Given {
        key: option.key.to_string(),
        raw: Raw::from(option.default),
        at: None,
    };
    let source = Source {
        layer: Layer::Default,
        origin: Origin::BuiltIn,
    };
    Part {
        source,
        items: OPTIONS.iter().map(item).collect(),
    }
}

/// Each `KOLO_*` variable that is no option, and what is said of it; reading settings stops at the
/// first.
pub(super) fn unknown_variables(sources: &Sources) -> Vec<(String, Error)> {
    let names = sources.environment.keys();
    let ours = names.filter(|name| name.starts_with("KOLO_") && !is_reserved(name));
    let is_known = |name: &str| OPTIONS.iter().any(|option| option.variable() == name);
    let unknown = ours.filter(|name| !is_known(name));
    unknown
        .map(|name| (name.clone(), unknown_variable(name)))
        .collect()
}

fn read_variables(sources: &Sources, parts: &mut Vec<Part>) -> Result<()> {
    for option in OPTIONS {
        let hidden = sources.variable(&option.variable()).is_some()
            || sources.caller.iter().any(|(key, _)| key == option.key);
        // The first alias counts, so it is laid over the others.
        for alias in option.aliases.iter().rev().filter(|_| !hidden) {
            if let Some(text) = sources.variable(alias.name) {
                let origin = Origin::Variable(alias.name.to_string());
                let text = (alias.translate)(text);
                parts.push(Part::one(Layer::Alias, origin, option.key, &text));
            }
        }
    }
    for name in sources.environment.keys() {
        if !name.starts_with("KOLO_") || is_reserved(name) {
            continue;
        }
        let option = OPTIONS.iter().find(|option| option.variable() == *name);
        let option = option.ok_or_else(|| unknown_variable(name))?;
        // An empty variable counts as not set, as job scripts expect.
        if let Some(text) = sources.variable(name) {
            let origin = Origin::Variable(name.clone());
            parts.push(Part::one(Layer::Environment, origin, option.key, text));
        }
    }
    Ok(())
}

/// Refuses unknown keys and bad values of one part.
fn check(part: &Part) -> Result<()> {
    for item in &part.items {
        let place = Spot {
            source: part.source.clone(),
            at: item.at,
        };
        let option = options::find(&item.key)
            .ok_or_else(|| unknown_key(&place, &item.key, false, Section::Top))?;
        raw::parse(option, &item.raw)
            .ok_or_else(|| bad_value(&place, option, &raw::show(&item.raw)))?;
    }
    Ok(())
}

fn read(figment: &Figment, parts: &[Part], option: &Opt) -> Result<Effective> {
    let lost = || {
        Error::internal(format!(
            "the option `{}` was lost between layers",
            option.key
        ))
    };
    let found = figment.find_value(option.key).map_err(|_| lost())?;
    let value = raw::parse(option, &found).ok_or_else(lost)?;
    let metadata = figment.get_metadata(found.tag()).ok_or_else(lost)?;
    let number = match &metadata.source {
        Some(figment::Source::Custom(number)) => number.parse::<usize>().ok(),
        _ => None,
    };
    let part = number
        .and_then(|number| parts.get(number))
        .ok_or_else(lost)?;
    let item = part.items.iter().find(|item| item.key == option.key);
    Ok(Effective {
        value,
        source: part.source.clone(),
        at: item.and_then(|item| item.at),
        locked: None,
    })
}

/// Holds `min_nchannels <= max_nchannels`: a built-in maximum gives way to a minimum that somebody
/// set, unless it is locked; two values that were both set must fit each other.
fn reconcile_channels(values: &mut [Effective]) -> Result<()> {
    let index = |key| OPTIONS.iter().position(|option| option.key == key);
    let (Some(low), Some(high)) = (index("min_nchannels"), index("max_nchannels")) else {
        return Err(Error::internal(
            "the table of options lost the numbers of channels",
        ));
    };
    let (Value::Int(least), Value::Int(most)) = (&values[low].value, &values[high].value) else {
        return Err(Error::internal("the numbers of channels are not integers"));
    };
    if least <= most {
        return Ok(());
    }
    if values[high].source.layer == Layer::Default && values[high].locked.is_none() {
        values[high].value = values[low].value.clone();
        values[high].source.origin = Origin::Follows("min_nchannels");
        return Ok(());
    }
    // What the site locks, nobody else changes.
    let remedy = match (&values[low].locked, &values[high].locked) {
        (None, None) => "lower min_nchannels or raise max_nchannels".to_owned(),
        (Some(place), None) => format!("raise max_nchannels: {place} locks min_nchannels"),
        (None, Some(place)) => format!("lower min_nchannels: {place} locks max_nchannels"),
        (Some(place), Some(_)) => {
            format!("{place} locks both: ask whoever maintains that file")
        }
    };
    Err(Error::usage(
        format!(
            "min_nchannels is {least} ({}), which is more than max_nchannels, {most} ({})",
            values[low].source.origin, values[high].source.origin
        ),
        remedy,
    ))
}
