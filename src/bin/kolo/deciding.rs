//! The settings on which choices depend, as `kolo explain` lists them.

use kolo::config::Settings;
use serde_json::{Value, json};
use std::fmt::Write;

/// The settings on which choices depend.
const DECIDING: [&str; 10] = [
    "algo",
    "proto",
    "eager_limit",
    "tuner_file",
    "direct",
    "cma",
    "cma_from",
    "buffsize",
    "min_nchannels",
    "max_nchannels",
];

/// Lists the settings on which choices depend.
pub fn tell(text: &mut String, settings: &Settings) {
    text.push_str("\nsettings that choices depend on\n");
    for key in DECIDING {
        let Some(entry) = settings.entry(key) else {
            continue;
        };
        let value = match entry.value.to_string() {
            empty if empty.is_empty() => "-".to_string(),
            value => value,
        };
        let _ = writeln!(text, "  {key:<16}{value:<20}{}", entry.source.origin);
    }
}

/// Lists these settings for programs.
pub fn document(settings: &Settings) -> Value {
    let entries = DECIDING.iter().filter_map(|key| settings.entry(key));
    let told = entries.map(|entry| {
        json!({
            "key": entry.option.key,
            "value": entry.value.to_string(),
            "from": entry.source.origin.to_string(),
        })
    });
    told.collect()
}
