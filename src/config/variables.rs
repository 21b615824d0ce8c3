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

/// Variables by which files are found, and parts of them chosen.
const OF_FILES: [&str; 2] = ["KOLO_CONFIG", "KOLO_PROFILE"];

/// Sources in which variables are tried.
struct TriedSources {
    /// Without any variable that is read, and without files where one of them has a mistake: that
    /// would be told instead of those of variables.
    plain: Sources,
    has_files: bool,
}

impl TriedSources {
    fn of(sources: &Sources) -> TriedSources {
        let mut plain = sources.clone();
        plain.environment.retain(|name, _| !is_read(name));
        let has_files = Settings::load_from(&plain).is_ok();
        if !has_files {
            (plain.system_file, plain.prefix) = (None, None);
            for folder in ["HOME", "XDG_CONFIG_HOME"] {
                plain.environment.remove(folder);
            }
        }
        TriedSources { plain, has_files }
    }

    /// Mistake of these variables, read together.
    fn try_all<'v>(
        &self,
        variables: impl IntoIterator<Item = (&'v String, &'v String)>,
    ) -> Option<Error> {
        let mut with_them = self.plain.clone();
        let variables = variables.into_iter().filter(|(name, _)| {
            is_read(name) && (self.has_files || !OF_FILES.contains(&name.as_str()))
        });
        let owned = |(name, value): (&String, &String)| (name.clone(), value.clone());
        with_them.environment.extend(variables.map(owned));
        Settings::load_from(&with_them).err()
    }
}

/// Whether a variable of another library does not count, for kolo's own is set.
fn is_hidden(name: &str, sources: &Sources) -> bool {
    OPTIONS.iter().any(|option| {
        option.aliases.iter().any(|alias| alias.name == name)
            && sources.environment.contains_key(&option.variable())
    })
}

/// Looks for mistakes in the variables of these sources.
pub fn check_variables(sources: &Sources) -> VariablesCheck {
    let count = sources.environment.keys().filter(|name| is_read(name));
    let mut left = sources.clone();
    let mut faults = take_faulty(&mut left);
    // What is well by itself may not fit together.
    faults.extend(TriedSources::of(&left).try_all(&left.environment));
    VariablesCheck {
        count: count.count(),
        faults,
    }
}

/// Reads all layers of this process, and collects what it stumbles over instead of stopping:
/// each variable that cannot be used, and whatever else keeps settings from being read, in
/// which case they are the built-in ones. For the command `kolo`.
pub fn load_with_faults() -> (Settings, Vec<Error>) {
    let mut sources = match Sources::of_process(&[]) {
        Ok(sources) => sources,
        Err(error) => return (Settings::defaults(), vec![error]),
    };
    let mut faults = take_faulty(&mut sources);
    let settings = Settings::load_from(&sources).unwrap_or_else(|error| {
        faults.push(error);
        Settings::defaults()
    });
    (settings, faults)
}

/// Takes the variables out that settings cannot be read from, and says of each what is wrong.
fn take_faulty(sources: &mut Sources) -> Vec<Error> {
    if Settings::load_from(sources).is_ok() {
        return Vec::new();
    }
    let (mut wrong, mut faults): (BTreeSet<String>, Vec<Error>) =
        layers::unknown_variables(sources).into_iter().unzip();
    let trials = TriedSources::of(sources);
    for (name, value) in &sources.environment {
        if wrong.contains(name) || is_hidden(name, sources) {
            continue;
        }
        if let Some(fault) = trials.try_all([(name, value)]) {
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

    fn with(variables: &[(&str, &str)]) -> Sources {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Sources {
            environment: variables.iter().map(pair).collect(),
            ..Sources::default()
        }
    }

    fn told(sources: &Sources) -> Vec<String> {
        let faults = check_variables(sources).faults;
        faults.iter().map(|fault| fault.what.clone()).collect()
    }

    #[test]
    fn variables_that_do_not_fit_together_are_a_mistake() {
        let sources = with(&[("KOLO_MIN_NCHANNELS", "8"), ("KOLO_MAX_NCHANNELS", "4")]);
        assert_eq!(told(&sources).len(), 1);
        assert_eq!(told(&with(&[("KOLO_MIN_NCHANNELS", "8")])), [""; 0]);
    }

    #[test]
    fn a_mistake_of_a_file_hides_none_of_a_variable_and_is_none() {
        let file = std::env::temp_dir().join(format!("kolo-variables-{}", std::process::id()));
        std::fs::write(&file, "no_such_key = 1\n").unwrap();
        let sources = Sources {
            system_file: Some(file.clone()),
            ..with(&[("KOLO_NET", "scoket"), ("KOLO_PROFILE", "x")])
        };
        assert!(Settings::load_from(&sources).is_err());
        let told = told(&sources);
        std::fs::remove_file(&file).unwrap();
        assert!(told.len() == 1 && told[0].contains("scoket"), "{told:?}");
    }

    #[test]
    fn a_hidden_variable_of_another_library_is_no_mistake() {
        let pair = [("NCCL_CROSS_NIC", "7"), ("KOLO_NET", "scoket")];
        assert_eq!(told(&with(&pair)).len(), 2);
        let own = ("KOLO_CROSS_NIC", "auto");
        assert_eq!(told(&with(&[pair[0], pair[1], own])).len(), 1);
    }

    #[test]
    fn each_variable_is_told_once_and_taken_out() {
        let mut sources = with(&[
            ("KOLO_ALGOO", "ring"),
            ("KOLO_NET", "scoket"),
            ("KOLO_TIMEOUT", "7"),
            ("KOLO_WAIT", "spni"),
            ("NOT_KOLOS", "x"),
        ]);
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
