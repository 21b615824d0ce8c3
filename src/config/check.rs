//! Looks at settings files without using them: what is wrong in one, and what it says.

use super::effective::Effective;
use super::file::Given;
use super::files::{OneFile, SettingsFiles};
use super::layers;
use super::lock;
use super::options::OPTIONS;
use super::profile;
use super::raw;
use super::source::{FileSeen, Layer};
use super::sources::Sources;
use super::value::Value;
use crate::base::{Error, Result};
use std::path::{Path, PathBuf};

/// Result of a check of settings files.
#[derive(Debug)]
pub struct FileCheck {
    /// Faults, file by file from the top down.
    pub faults: Vec<Error>,
    /// Settings that work, but of which somebody should know.
    pub warnings: Vec<String>,
    /// The files that were read.
    pub files: Vec<PathBuf>,
    /// How many settings they have, profiles and conditions included.
    pub settings: usize,
}

/// Looks for mistakes in one file and those that it includes. It counts as a file of the site,
/// unless it is the one that this user or `KOLO_CONFIG` has.
pub fn check_file(path: &Path, sources: &Sources) -> FileCheck {
    let (layer, mut files) = read_alone(path, sources);
    // A draft is its writer's alone until it lies in its place.
    if layer_of(path, sources).is_some() {
        files.warn_of_unread();
    }
    checked(files, layer.is_of_site())
}

/// Looks for mistakes in all files of these sources.
pub fn check_all(sources: &Sources) -> FileCheck {
    let mut files = SettingsFiles::of(sources);
    files.warn_of_unread();
    checked(files, true)
}

/// The layer that this file is read for, if it is one of these sources.
fn layer_of(path: &Path, sources: &Sources) -> Option<Layer> {
    let name = |path: &Path| path.canonicalize().ok();
    let is_it = |(_, other): &(Layer, PathBuf)| name(other).is_some_and(|o| Some(o) == name(path));
    let found = sources.files().into_iter().find(is_it);
    found.map(|(layer, _)| layer)
}

fn read_alone(path: &Path, sources: &Sources) -> (Layer, SettingsFiles) {
    let layer = layer_of(path, sources).unwrap_or(Layer::System);
    let mut files = SettingsFiles::none_of(sources);
    files.add(layer, path.to_owned());
    if files.faults.is_empty() && !files.seen.iter().any(|file| file.found) {
        let what = format!("file {} is not there", path.display());
        let remedy = "name a file that is there and may be read";
        files.faults.push(Error::usage(what, remedy));
    }
    (layer, files)
}

fn checked(files: SettingsFiles, knows_profiles: bool) -> FileCheck {
    let SettingsFiles {
        read,
        seen,
        mut warnings,
        mut faults,
        ..
    } = files;
    if knows_profiles {
        faults.extend(profile::unknown_defaults(&read));
    }
    // Where a file is wrong in itself, what follows from it would only confuse.
    if faults.is_empty() {
        let mut tries = vec![super::file::NO_PROFILE];
        tries.extend(names(&read));
        for name in tries {
            match layers::of_files(&read, Some(name)) {
                Ok((values, dropped)) => warnings.extend(lock::told(&values, &dropped)),
                Err(fault) => faults.push(fault),
            }
        }
    }
    let mut told = Vec::new();
    faults.retain(|fault| {
        let text = fault.to_string();
        let is_new = !told.contains(&text);
        told.push(text);
        is_new
    });
    warnings.dedup();
    let found = |file: FileSeen| file.found.then_some(file.path);
    FileCheck {
        faults,
        warnings,
        files: seen.into_iter().filter_map(found).collect(),
        settings: read.iter().map(count).sum(),
    }
}

fn names(files: &[OneFile]) -> Vec<&str> {
    let profiles = files.iter().flat_map(|file| &file.text.profiles);
    let mut names: Vec<&str> = profiles.map(|profile| profile.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn count(file: &OneFile) -> usize {
    let text = &file.text;
    let profiles = text.profiles.iter().map(|profile| profile.items.len());
    text.items.len() + profiles.sum::<usize>()
}

/// Lists the settings of a file, with those that it includes: a name and a value each. All options
/// come first, those that the file does not set with their built-in values; then
/// `profile.NAME.KEY`, `locked` and `default_profile`. Without a file: the
/// built-in values.
///
/// # Errors
/// The first mistake of the file.
pub fn contents(path: Option<&Path>, sources: &Sources) -> Result<Vec<(String, String)>> {
    let mut files = path.map_or_else(SettingsFiles::default, |path| read_alone(path, sources).1);
    if !files.faults.is_empty() {
        return Err(files.faults.swap_remove(0));
    }
    let none = Some(super::file::NO_PROFILE);
    let (values, _) = layers::of_files(&files.read, none)?;
    let pair = |(option, set): (&super::Opt, Effective)| (option.key.to_owned(), shown(&set.value));
    let mut said: Vec<_> = OPTIONS.iter().zip(values).map(pair).collect();
    for file in &files.read {
        for profile in &file.text.profiles {
            let head = format!("profile.{}", profile.name);
            put_items(&mut said, &head, &profile.items);
            if !profile.preload.is_empty() {
                put(
                    &mut said,
                    format!("{head}.preload"),
                    profile.preload.join(":"),
                );
            }
        }
        if let Some((name, _)) = &file.text.default_profile {
            put(&mut said, "default_profile".to_owned(), name.clone());
        }
    }
    let locked = files.read.iter().flat_map(|file| &file.text.locked);
    let mut locked: Vec<&str> = locked.map(|(key, _)| key.as_str()).collect();
    locked.sort_unstable();
    locked.dedup();
    if !locked.is_empty() {
        put(&mut said, "locked".to_owned(), locked.join(", "));
    }
    Ok(said)
}

fn put_items(said: &mut Vec<(String, String)>, head: &str, items: &[Given]) {
    for item in items {
        let option = super::options::find(&item.key);
        let value = option.and_then(|option| raw::parse(option, &item.raw));
        let value = value.map_or_else(|| raw::show(&item.raw), |value| shown(&value));
        put(said, format!("{head}.{}", item.key), value);
    }
}

/// A later word hides an earlier one.
fn put(said: &mut Vec<(String, String)>, name: String, value: String) {
    match said.iter_mut().find(|(known, _)| *known == name) {
        Some(known) => known.1 = value,
        None => said.push((name, value)),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Unset => "-".to_owned(),
        value => value.to_string(),
    }
}
