//! Looks at each variable of the environment by itself: reading settings stops at the first
//! mistake, and whoever has made two wants to hear of both.

use super::layers;
use super::options::OPTIONS;
use super::settings::Settings;
use super::sources::Sources;
use crate::base::Error;
use std::collections::BTreeSet;

/// Whether settings are read from a variable of this name.
fn is_read(name: &str) -> bool {
    let mut aliases = OPTIONS.iter().flat_map(|option| option.aliases);
    name.starts_with("KOLO_") || aliases.any(|alias| alias.name == name)
}

/// Faults of variables, and how many variables are set.
#[derive(Debug, Default)]
pub struct VariablesCheck {
    /// Mistakes, in the order of names; that of a file is none.
    pub faults: Vec<Error>,
    /// How many there are.
    pub count: usize,
}

/// Looks for mistakes in the variables of these sources.
pub fn check_variables(sources: &Sources) -> VariablesCheck {
    let count = sources.environment.keys().filter(|name| is_read(name));
    VariablesCheck {
        count: count.count(),
        faults: take_faulty(&mut sources.clone()),
    }
}

/// Takes the variables out that settings cannot be read from, and says of each what is wrong.
pub(super) fn take_faulty(sources: &mut Sources) -> Vec<Error> {
    if Settings::load_from(sources).is_ok() {
        return Vec::new();
    }
    let (mut wrong, mut faults): (BTreeSet<String>, Vec<Error>) =
        layers::unknown_variables(sources).into_iter().unzip();
    let mut plain = sources.clone();
    plain.environment.retain(|name, _| !is_read(name));
    // A mistake of a file is that of no variable.
    let of_files = Settings::load_from(&plain).err();
    for (name, value) in sources.environment.iter().filter(|(name, _)| is_read(name)) {
        if wrong.contains(name) {
            continue;
        }
        let mut with_it = plain.clone();
        with_it.environment.insert(name.clone(), value.clone());
        let fault = Settings::load_from(&with_it).err();
        if let Some(fault) = fault.filter(|fault| Some(fault) != of_files.as_ref()) {
            wrong.insert(name.clone());
            faults.push(fault);
        }
    }
    sources.environment.retain(|name, _| !wrong.contains(name));
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_variable_is_told_once_and_taken_out() {
        let pair = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let mut sources = Sources {
            environment: [
                ("KOLO_ALGOO", "ring"),
                ("KOLO_NET", "scoket"),
                ("KOLO_TIMEOUT", "7"),
                ("KOLO_WAIT", "spni"),
                ("NOT_KOLOS", "x"),
            ]
            .map(pair)
            .into(),
            ..Sources::default()
        };
        let check = check_variables(&sources);
        let told: Vec<String> = check
            .faults
            .iter()
            .map(|fault| fault.what.clone())
            .collect();
        assert_eq!((check.count, told.len()), (4, 3), "{told:?}");
        for (what, name) in told.iter().zip(["KOLO_ALGOO", "KOLO_NET", "KOLO_WAIT"]) {
            assert!(what.contains(name), "{told:?}");
        }
        assert_eq!(take_faulty(&mut sources).len(), 3);
        let left: Vec<&str> = sources.environment.keys().map(String::as_str).collect();
        assert_eq!(left, ["KOLO_TIMEOUT", "NOT_KOLOS"]);
        assert_eq!(check_variables(&sources).faults, []);
    }
}
