//! Reads the layers, checks each of them, and lays them over one another.
//!
//! Each file, each variable and each of the caller's values becomes one figment provider, whose
//! metadata say where it comes from. A layer is checked before it is merged, so that a bad value is
//! reported even where a higher layer hides it: it would surprise whoever removes the higher one.
//! The one exception is an alias hidden by the option's own `KOLO_*` variable or by the caller: it
//! may be meant for another library in the same process, and hiding it must be possible.

use super::message::{bad_value, unknown_key, unknown_variable};
use super::option::Opt;
use super::options::{self, OPTIONS};
use super::source::{FileSeen, Layer, Origin, Source};
use super::sources::{Sources, is_reserved};
use super::trust;
use super::value::Value;
use crate::base::{Error, Result, input_file};
use figment::providers::{Format, Toml};
use figment::value::{Dict, Map, Value as Raw};
use figment::{Figment, Metadata, Profile, Provider};
use std::io::ErrorKind;
use std::path::Path;

/// Larger files are refused: a settings file that large is another file named by mistake.
const LONGEST_FILE_BYTES: u64 = 1 << 20;

/// One provider: values of one layer from one place.
struct Part {
    source: Source,
    values: Dict,
}

impl Part {
    /// A part with one value, as text.
    fn one(layer: Layer, origin: Origin, key: &str, text: &str) -> Part {
        let values = Dict::from([(key.to_string(), Raw::from(text))]);
        Part {
            source: Source { layer, origin },
            values,
        }
    }
}

impl Provider for Part {
    fn metadata(&self) -> Metadata {
        let metadata = Metadata::named(self.source.layer.text());
        match &self.source.origin {
            Origin::File(path) => metadata.source(path.as_path()),
            Origin::Variable(name) => metadata.source(name.as_str()),
            Origin::BuiltIn | Origin::Follows(_) | Origin::Caller => metadata,
        }
    }

    fn data(&self) -> figment::error::Result<Map<Profile, Dict>> {
        Ok(Map::from([(Profile::Default, self.values.clone())]))
    }
}

/// The source that metadata made by [`Part::metadata`] describe.
fn source_of(metadata: &Metadata) -> Option<Source> {
    let layer = Layer::ALL
        .into_iter()
        .find(|layer| layer.text() == metadata.name)?;
    let origin = match &metadata.source {
        Some(figment::Source::File(path)) => Origin::File(path.clone()),
        Some(figment::Source::Custom(name)) => Origin::Variable(name.clone()),
        _ if layer == Layer::Caller => Origin::Caller,
        _ => Origin::BuiltIn,
    };
    Some(Source { layer, origin })
}

/// What the layers say together.
pub(super) struct Loaded {
    /// The value and the source of each option, in the order of the table.
    pub(super) values: Vec<(Value, Source)>,
    /// The files looked at, lowest layer first.
    pub(super) files: Vec<FileSeen>,
    /// What should be said once there is a log.
    pub(super) warnings: Vec<String>,
}

/// Reads, checks and merges all layers.
pub(super) fn load(sources: &Sources) -> Result<Loaded> {
    let mut parts = vec![defaults()];
    let mut warnings = Vec::new();
    let seen = read_files(sources, &mut parts, &mut warnings)?;
    read_variables(sources, &mut parts)?;
    for (key, text) in &sources.caller {
        parts.push(Part::one(Layer::Caller, Origin::Caller, key, text));
    }
    Ok(Loaded {
        values: merged(parts)?,
        files: seen,
        warnings,
    })
}

/// What a settings file with this text says over the built-in values.
pub(super) fn of_text(path: &Path, text: &str) -> Result<Vec<(Value, Source)>> {
    let source = Source {
        layer: Layer::ConfigFile,
        origin: Origin::File(path.to_owned()),
    };
    let values = parse_toml(path, text)?;
    merged(vec![defaults(), Part { source, values }])
}

fn merged(parts: Vec<Part>) -> Result<Vec<(Value, Source)>> {
    let mut figment = Figment::new();
    for part in parts {
        check(&part)?;
        figment = figment.merge(part);
    }
    let mut values = Vec::with_capacity(OPTIONS.len());
    for option in OPTIONS {
        values.push(read(&figment, option)?);
    }
    reconcile_channels(&mut values)?;
    Ok(values)
}

fn defaults() -> Part {
    let value = |option: &Opt| (option.key.to_string(), Raw::from(option.default));
    let source = Source {
        layer: Layer::Default,
        origin: Origin::BuiltIn,
    };
    Part {
        source,
        values: OPTIONS.iter().map(value).collect(),
    }
}

fn read_files(
    sources: &Sources,
    parts: &mut Vec<Part>,
    warnings: &mut Vec<String>,
) -> Result<Vec<FileSeen>> {
    let mut seen = Vec::new();
    for (layer, path) in sources.files() {
        if layer == Layer::User && trust::is_behind_closed_folder(&path) {
            warnings.push(format!(
                "file {} is taken for one that is not there: this user may not enter its folder \
                 (set HOME to the user's own, or XDG_CONFIG_HOME)",
                path.display()
            ));
            continue;
        }
        let text = read_file(&path, layer)?;
        seen.push(FileSeen {
            layer,
            path: path.clone(),
            found: text.is_some(),
        });
        if let Some(text) = text {
            warnings.extend(trust::foreign(&path, sources.prefix.as_deref()));
            let values = parse_toml(&path, &text)?;
            parts.push(Part {
                source: Source {
                    layer,
                    origin: Origin::File(path),
                },
                values,
            });
        }
    }
    Ok(seen)
}

/// The text of a file; `None` where a file that need not exist does not.
fn read_file(path: &Path, layer: Layer) -> Result<Option<String>> {
    match input_file::text(path, LONGEST_FILE_BYTES) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::FileTooLarge => Err(Error::usage(
            format!(
                "file {} has more than 1 MiB and is no settings file",
                path.display()
            ),
            "name a TOML file with settings of kolo, or remove this one",
        )),
        Err(error) if layer == Layer::ConfigFile => Err(Error::usage(
            format!(
                "file {}, named by variable KOLO_CONFIG, cannot be read: {error}",
                path.display()
            ),
            "let KOLO_CONFIG name a readable TOML file on every node, or unset it",
        )),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(Error::system(
            format!("file {} cannot be read", path.display()),
            &error,
            "make the file readable and its text UTF-8, or remove it",
        )),
    }
}

fn parse_toml(path: &Path, text: &str) -> Result<Dict> {
    let mut data = Toml::string(text).data().map_err(|error| {
        Error::usage(
            format!(
                "file {} is not valid TOML: {}",
                path.display(),
                error.to_string().trim_end()
            ),
            "write each setting as `key = value`, with text values in quotes",
        )
    })?;
    Ok(data.remove(&Profile::Default).unwrap_or_default())
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
                parts.push(Part::one(
                    Layer::Alias,
                    origin,
                    option.key,
                    &(alias.translate)(text),
                ));
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
    for (key, raw) in &part.values {
        let option = options::find(key)
            .ok_or_else(|| unknown_key(&part.source, key, raw.as_dict().is_some()))?;
        parse(option, raw).ok_or_else(|| bad_value(&part.source, option, &show(raw)))?;
    }
    Ok(())
}

fn read(figment: &Figment, option: &Opt) -> Result<(Value, Source)> {
    let lost = || {
        Error::internal(format!(
            "the option `{}` was lost between layers",
            option.key
        ))
    };
    let raw = figment.find_value(option.key).map_err(|_| lost())?;
    let value = parse(option, &raw).ok_or_else(lost)?;
    let source = figment
        .get_metadata(raw.tag())
        .and_then(source_of)
        .ok_or_else(lost)?;
    Ok((value, source))
}

/// The checked value, or `None` where `raw` is none of the option's values.
fn parse(option: &Opt, raw: &Raw) -> Option<Value> {
    let text = match raw {
        Raw::String(_, text) => text.clone(),
        Raw::Bool(..) | Raw::Num(..) if !option.kind.is_text() => show(raw),
        // A list may be written as one: socket_ifname = ["eth", "ib"].
        Raw::Array(_, entries)
            if matches!(
                option.kind,
                super::Kind::Prefixes | super::Kind::Ports | super::Kind::Lists(_)
            ) =>
        {
            let names: Option<Vec<_>> = entries.iter().map(Raw::as_str).collect();
            names?.join(",")
        }
        _ => return None,
    };
    option.kind.parse(&text)
}

/// A raw value as a person would write it; also the text that is parsed for numbers and booleans.
fn show(raw: &Raw) -> String {
    match raw {
        Raw::String(_, text) => text.clone(),
        Raw::Char(_, c) => c.to_string(),
        Raw::Bool(_, yes) => yes.to_string(),
        Raw::Num(_, number) => match (number.to_u128(), number.to_actual()) {
            (Some(number), _) => number.to_string(),
            (None, figment::error::Actual::Signed(number)) => number.to_string(),
            (None, figment::error::Actual::Float(number)) => number.to_string(),
            (None, other) => other.to_string(),
        },
        Raw::Empty(..) => String::new(),
        Raw::Dict(..) => "{a table}".to_string(),
        Raw::Array(_, entries) => {
            let entries: Vec<_> = entries.iter().map(show).collect();
            format!("[{}]", entries.join(", "))
        }
    }
}

/// Holds `min_nchannels <= max_nchannels`: a built-in maximum gives way to a minimum that somebody
/// set; two values that were both set must fit each other.
fn reconcile_channels(values: &mut [(Value, Source)]) -> Result<()> {
    let index = |key| OPTIONS.iter().position(|option| option.key == key);
    let (Some(low), Some(high)) = (index("min_nchannels"), index("max_nchannels")) else {
        return Err(Error::internal(
            "the table of options lost the numbers of channels",
        ));
    };
    let (Value::Int(least), Value::Int(most)) = (&values[low].0, &values[high].0) else {
        return Err(Error::internal("the numbers of channels are not integers"));
    };
    if least <= most {
        return Ok(());
    }
    if values[high].1.layer == Layer::Default {
        let origin = Origin::Follows("min_nchannels");
        values[high] = (
            values[low].0.clone(),
            Source {
                layer: Layer::Default,
                origin,
            },
        );
        return Ok(());
    }
    Err(Error::usage(
        format!(
            "min_nchannels is {least} ({}), which is more than max_nchannels, {most} ({})",
            values[low].1.origin, values[high].1.origin
        ),
        "lower min_nchannels or raise max_nchannels",
    ))
}
