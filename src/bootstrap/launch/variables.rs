//! Environment variables of launchers, behind a function so that tests give their own.

use crate::base::{Error, Result, privilege};

/// The value of a variable, if it is set and not empty.
pub type Get<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Those of this process. As every reader of the environment, not to be called while another
/// thread of the program changes it.
///
/// One with more rights than its user has none: they name a library to load, files to write to, and
/// whom to meet.
pub fn of_process(name: &str) -> Option<String> {
    let value = any(name)?;
    (!privilege::is_raised()).then_some(value)
}

/// A variable, whoever has set it: to tell that it is ignored.
pub fn any(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// A number from 0 to 2^32 - 1; an error names the variable.
pub fn number(get: Get, name: &str) -> Result<Option<u32>> {
    let Some(text) = get(name) else {
        return Ok(None);
    };
    text.trim().parse().map(Some).map_err(|_| {
        Error::argument(
            format!("{name}=\"{text}\" is not a number from 0 to {}", u32::MAX),
            format!("unset {name}, or look into what sets it"),
        )
    })
}

/// A fixed environment, for tests.
#[cfg(test)]
pub fn fixed(set: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> {
    let set: Vec<(String, String)> = set
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect();
    move |name| {
        let found = set.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.clone())
    }
}
