//! Which profile of the site counts: the one that `KOLO_PROFILE` names, or else a file.

use super::file::NO_PROFILE;
use super::files::OneFile;
use super::message::{cut, nearest};
use super::part::Part;
use super::source::{Layer, Origin, Source, Spot};
use crate::base::{Error, Result};

/// The name of the profile that counts here.
///
/// # Errors
/// There is none of that name.
pub(super) fn chosen(files: &[OneFile], variable: Option<&str>) -> Result<Option<String>> {
    let by_file = || {
        let place = |file: &OneFile, (name, at): &(String, _)| {
            let source = Source {
                layer: file.layer,
                origin: Origin::File(file.path.clone()),
            };
            let at = Some(*at);
            (name.clone(), Spot { source, at })
        };
        files.iter().rev().find_map(|file| {
            let word = file.text.default_profile.as_ref();
            word.map(|word| place(file, word))
        })
    };
    let by_variable = variable.map(|name| {
        let source = Source {
            layer: Layer::Environment,
            origin: Origin::Variable("KOLO_PROFILE".to_owned()),
        };
        (name.to_owned(), Spot::from(source))
    });
    let Some((name, place)) = by_variable.or_else(by_file) else {
        return Ok(None);
    };
    if name == NO_PROFILE {
        return Ok(None);
    }
    match look_up(files, &name, &place) {
        Some(fault) => Err(fault),
        None => Ok(Some(name)),
    }
}

/// Finds the faults of every `default_profile`, whether it counts here or not.
pub(super) fn unknown_defaults(files: &[OneFile]) -> Vec<Error> {
    let mut faults = Vec::new();
    for file in files {
        if let Some((name, at)) = &file.text.default_profile {
            let source = Source {
                layer: file.layer,
                origin: Origin::File(file.path.clone()),
            };
            let at = Some(*at);
            faults.extend(look_up(files, name, &Spot { source, at }));
        }
    }
    faults
}

/// An error where there is no profile of this name.
fn look_up(files: &[OneFile], name: &str, place: &Spot) -> Option<Error> {
    let mut names: Vec<&str> = Vec::new();
    let mut holders: Vec<String> = Vec::new();
    for file in files.iter().filter(|file| file.layer.is_of_site()) {
        let profiles = file.text.profiles.iter();
        names.extend(profiles.map(|profile| profile.name.as_str()));
        holders.push(format!("file {}", file.path.display()));
    }
    let is_there = name == NO_PROFILE || names.contains(&name);
    (!is_there).then(|| unknown(name, place, &names, &holders))
}

fn unknown(name: &str, place: &Spot, names: &[&str], holders: &[String]) -> Error {
    let wanted = name.to_ascii_lowercase();
    let nearest = nearest(&wanted, names.iter().map(|name| name.to_string()));
    let name = cut(name);
    let holders = match holders {
        [] => "there is no file of the site (/etc/kolo/kolo.toml)".to_owned(),
        [one] => format!("{one} has none of that name"),
        many => format!("none of these has one of that name: {}", many.join(", ")),
    };
    let mut what = format!("{place}: the profile `{name}` is chosen, but {holders}");
    if let Some(nearest) = &nearest {
        what += &format!("; the nearest name is `{nearest}`");
    }
    let mut known = names.to_vec();
    known.sort_unstable();
    known.dedup();
    let known = match known.len() {
        0 => "there are no profiles".to_owned(),
        _ => format!("there are {}", known.join(", ")),
    };
    let remedy = match &place.source.origin {
        Origin::Variable(_) => format!(
            "set KOLO_PROFILE (`srun --kolo`) to a profile of the site ({known}), to `none`, or \
             unset it"
        ),
        _ => format!("let `default_profile` name a profile ({known}), or remove it"),
    };
    Error::usage(what, remedy)
}

/// Returns the settings of the profile, file by file.
pub(super) fn parts(name: &str, site: &[&OneFile]) -> Vec<Part> {
    let part = |file: &&OneFile| {
        let mut profiles = file.text.profiles.iter();
        let profile = profiles.find(|profile| profile.name == name)?;
        let origin = Origin::Profile(name.to_owned(), file.path.clone());
        Some(Part {
            source: Source {
                layer: Layer::Profile,
                origin,
            },
            items: profile.items.clone(),
        })
    };
    site.iter().filter_map(part).collect()
}
