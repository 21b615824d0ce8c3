//! Settings that kolo has handed over: they go before the environment.

use kolo::base::{Error, Result, privilege};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Key in kolo's files, and a second name in the environment or none.
pub type Key = (&'static str, &'static str);

/// Values that were handed over, by key.
pub struct Given(Mutex<Option<HashMap<&'static str, String>>>);

impl Given {
    /// Nothing yet.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Given {
        Given(Mutex::new(None))
    }

    /// Takes a value of one of these keys; false for another one.
    pub fn take(&self, keys: &[Key], key: &str, value: &str) -> bool {
        let Some((key, _)) = keys.iter().find(|(known, _)| *known == key) else {
            return false;
        };
        let mut given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        given
            .get_or_insert_default()
            .insert(key, value.trim().to_string());
        true
    }

    /// Name and value of a key: what was handed over, else what the environment says.
    pub fn look(&self, names: Key) -> Option<(String, String)> {
        let (key, alias) = names;
        let given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let given = given.as_ref().and_then(|given| given.get(key).cloned());
        let trusted = !privilege::is_raised();
        let variable = |name: &str| std::env::var(name).ok().filter(|_| trusted);
        let own = format!("KOLO_{}", key.to_ascii_uppercase());
        let found = match given {
            Some(value) => Some((own, value)),
            None => variable(&own)
                .map(|value| (own, value))
                .or_else(|| Some((alias.to_string(), variable(alias)?))),
        };
        found
            .map(|(name, value)| (name, value.trim().to_string()))
            .filter(|(_, value)| !value.is_empty())
    }
}

/// The seconds that a setting names; `None`: without limit.
///
/// # Errors
/// `InvalidArgument` that names the setting and what it takes.
pub fn seconds(name: &str, text: &str) -> Result<Option<Duration>> {
    let number = text.strip_suffix(['s', 'S']).unwrap_or(text).trim_end();
    match number.parse::<f64>() {
        _ if number.eq_ignore_ascii_case("none") => Ok(None),
        Ok(0.0) => Ok(None),
        Ok(time) if (0.001..=86_400.0).contains(&time) => Ok(Some(Duration::from_secs_f64(time))),
        _ => Err(wrong(name, text, "seconds from 0.001 to 86400, or none")),
    }
}

/// A setting that has a value which it does not take.
pub fn wrong(name: &str, text: &str, takes: &str) -> Error {
    Error::argument(
        format!("{name} is \"{text}\""),
        format!("set {name} to {takes}, or unset it"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_keys_are_taken() {
        let given = Given::new();
        let keys = [("colour", "")];
        assert!(given.take(&keys, "colour", " red ") && !given.take(&keys, "size", "9"));
        let found = given.look(keys[0]);
        assert_eq!(found, Some(("KOLO_COLOUR".into(), "red".into())));
        given.take(&keys, "colour", "");
        assert_eq!(
            given.look(keys[0]),
            None,
            "it takes the environment's place"
        );
    }
}
