//! Options that a file of the site locks: nothing above that file changes them.

use super::effective::Effective;
use super::files::OneFile;
use super::option::Opt;
use super::options::OPTIONS;
use super::part::Part;
use super::raw;
use super::source::{Layer, Origin, Source, Spot};
use super::value::Value;

/// The locked options, each with the place that locks it.
pub(super) struct Locks(Vec<(String, Spot)>);

/// A value that does not count, because its option is locked.
pub(super) struct Dropped {
    pub(super) key: String,
    pub(super) value: Value,
    pub(super) place: Spot,
}

impl Locks {
    /// Collects the locks of these files. Of two that lock the same, the lower counts.
    pub(super) fn of(files: &[OneFile]) -> Locks {
        let mut locks: Vec<(String, Spot)> = Vec::new();
        let site = files.iter().filter(|file| file.layer.is_of_site());
        for file in site {
            for (key, at) in &file.text.locked {
                if locks.iter().any(|(locked, _)| locked == key) {
                    continue;
                }
                let source = Source {
                    layer: file.layer,
                    origin: Origin::File(file.path.clone()),
                };
                let at = Some(*at);
                locks.push((key.clone(), Spot { source, at }));
            }
        }
        Locks(locks)
    }

    fn find(&self, key: &str) -> Option<&Spot> {
        let found = self.0.iter().find(|(locked, _)| locked == key);
        found.map(|(_, place)| place)
    }

    /// The place that locks this option, in words.
    pub(super) fn place(&self, key: &str) -> Option<String> {
        self.find(key).map(Spot::to_string)
    }

    /// Takes away what layers above that of a lock say about its option.
    pub(super) fn drop_higher(&self, parts: &mut [Part]) -> Vec<Dropped> {
        let mut dropped = Vec::new();
        for part in parts {
            let Part { source, items } = part;
            items.retain(|item| {
                let lock = self.find(&item.key).map(|place| place.source.layer);
                let counts = lock.is_none_or(|lock| source.layer <= lock);
                let option = OPTIONS.iter().find(|option| option.key == item.key);
                let value = option.and_then(|option| raw::parse(option, &item.raw));
                if let (false, Some(value)) = (counts, value) {
                    dropped.push(Dropped {
                        key: item.key.clone(),
                        value,
                        place: Spot {
                            source: source.clone(),
                            at: item.at,
                        },
                    });
                }
                counts
            });
        }
        dropped
    }
}

/// A sentence for each locked option that somebody wants to have otherwise.
pub(super) fn told(values: &[Effective], dropped: &[Dropped]) -> Vec<String> {
    let told = |(option, set): (&Opt, &Effective)| {
        let others: Vec<String> = dropped
            .iter()
            .filter(|one| one.key == option.key && one.value != set.value)
            .map(|one| format!("`{}` ({})", shown(&one.value), one.place))
            .collect();
        let lock = set.locked.as_ref().filter(|_| !others.is_empty())?;
        let whose = match set.source.layer {
            Layer::Default => "the built-in value".to_owned(),
            _ => format!("that of {}", set.source.origin),
        };
        Some(format!(
            "`{}` stays `{}`, {whose}: {lock} locks it, so that {} does not count; remove it, or \
             ask who runs this machine",
            option.key,
            shown(&set.value),
            others.join(" or ")
        ))
    };
    OPTIONS.iter().zip(values).filter_map(told).collect()
}

fn shown(value: &Value) -> String {
    match value {
        Value::Unset => "none".to_owned(),
        value => value.to_string(),
    }
}
