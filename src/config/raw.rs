//! Values as files, variables and programs give them, before an option has looked at them.

use super::Kind;
use super::option::Opt;
use super::value::Value;
use figment::value::{Dict, Value as Raw};
use toml::de::DeValue;

/// A value of a TOML file. What settings never are (a table, a date) stays an empty table, which no
/// option takes.
pub(super) fn of_toml(value: &DeValue<'_>) -> Raw {
    match value {
        DeValue::String(text) => Raw::from(text.as_ref()),
        DeValue::Integer(number) => {
            let exact = i128::from_str_radix(number.as_str(), number.radix());
            // A number with more digits is out of every option's range as well.
            Raw::from(exact.unwrap_or(i128::MAX))
        }
        DeValue::Float(number) => Raw::from(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(yes) => Raw::from(*yes),
        DeValue::Array(entries) => {
            let entries = entries.iter().map(|entry| of_toml(entry.get_ref()));
            Raw::from(entries.collect::<Vec<_>>())
        }
        DeValue::Table(_) | DeValue::Datetime(_) => Raw::from(Dict::new()),
    }
}

/// The checked value, or `None` where `raw` is none of the option's values.
pub(super) fn parse(option: &Opt, raw: &Raw) -> Option<Value> {
    let text = match raw {
        Raw::String(_, text) => text.clone(),
        Raw::Bool(..) | Raw::Num(..) if !option.kind.is_text() => show(raw),
        // A list may be written as one: socket_ifname = ["eth", "ib"].
        Raw::Array(_, entries)
            if matches!(
                option.kind,
                Kind::Prefixes | Kind::Ports | Kind::Lists(_) | Kind::MpiCalls
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
pub(super) fn show(raw: &Raw) -> String {
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
