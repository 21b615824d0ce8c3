//! Everything that settings are read from: the environment, the files, the program's own.

use super::option::{RESERVED, RESERVED_PREFIXES};
use super::options::OPTIONS;
use super::source::Layer;
use crate::base::{Error, Result, privilege};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Everything that settings are read from; tests give their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// The environment: `KOLO_*`, the aliases, `HOME` and `XDG_CONFIG_HOME` are looked at.
    pub environment: BTreeMap<String, String>,
    /// The file of the machine; `None` reads none.
    pub system_file: Option<PathBuf>,
    /// Where kolo is installed; its `etc/kolo.toml` is read.
    pub prefix: Option<PathBuf>,
    /// Settings that the program gives: option key and value.
    pub caller: Vec<(String, String)>,
}

/// How a file is: as long as this stays, so does what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Device, number, length.
    file: [u64; 3],
    /// When contents and anything else were changed last.
    changed: [i64; 4],
}

/// Files, each as it was.
pub(super) type Stamps = Vec<(PathBuf, Option<Stamp>)>;

/// How this file is at the moment; `None` where there is none.
pub(super) fn stamp(path: &Path) -> Option<Stamp> {
    use std::os::unix::fs::MetadataExt;
    let data = std::fs::metadata(path).ok()?;
    let changed = [
        data.mtime(),
        data.mtime_nsec(),
        data.ctime(),
        data.ctime_nsec(),
    ];
    Some(Stamp {
        file: [data.dev(), data.ino(), data.len()],
        changed,
    })
}

impl Sources {
    /// The sources of this process. One with more rights than its user has neither the environment
    /// nor, as that says where they are, the user's files.
    ///
    /// Like every reader of the environment, not to be called while another thread of the program
    /// changes it with `setenv`.
    ///
    /// # Errors
    /// A variable that kolo would read is not UTF-8.
    pub fn of_process(caller: &[(String, String)]) -> Result<Sources> {
        Sources::trusting(!privilege::is_raised(), caller)
    }

    fn trusting(environment_is_trusted: bool, caller: &[(String, String)]) -> Result<Sources> {
        let mut environment = BTreeMap::new();
        let variables = environment_is_trusted.then(std::env::vars_os);
        for (name, value) in variables.into_iter().flatten() {
            let Some(name) = name.to_str().filter(|name| concerns_kolo(name)) else {
                continue;
            };
            environment.insert(name.to_string(), utf8(name, &value)?);
        }
        Ok(Sources {
            environment,
            system_file: Some(PathBuf::from("/etc/kolo/kolo.toml")),
            prefix: super::install::install_prefix(),
            caller: caller.to_vec(),
        })
    }

    /// A variable that is set and not empty, without surrounding blanks.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.environment
            .get(name)
            .map(|value| value.trim())
            .filter(|value| !value.is_empty())
    }

    /// The files to look at, lowest layer first.
    pub(super) fn files(&self) -> Vec<(Layer, PathBuf)> {
        let system = self.system_file.clone();
        let prefix = self
            .prefix
            .as_ref()
            .map(|prefix| prefix.join("etc/kolo.toml"));
        let named = self.variable("KOLO_CONFIG").map(PathBuf::from);
        [
            (Layer::System, system),
            (Layer::Prefix, prefix),
            (Layer::User, self.user_file()),
            (Layer::ConfigFile, named),
        ]
        .into_iter()
        .filter_map(|(layer, path)| Some((layer, path?)))
        .collect()
    }

    /// `kolo/kolo.toml` under `XDG_CONFIG_HOME`, or under `~/.config`. The base-directory
    /// specification says that a relative `XDG_CONFIG_HOME` is to be ignored.
    fn user_file(&self) -> Option<PathBuf> {
        let xdg = self.variable("XDG_CONFIG_HOME").map(PathBuf::from);
        let home = || {
            self.variable("HOME")
                .map(|home| Path::new(home).join(".config"))
        };
        let base = xdg.filter(|path| path.is_absolute()).or_else(home)?;
        Some(base.join("kolo/kolo.toml"))
    }
}

/// Variables that are no options, and decide which files and which parts of them count.
const LOOKED_AT: [&str; 4] = ["KOLO_CONFIG", "KOLO_PROFILE", "HOME", "XDG_CONFIG_HOME"];

fn concerns_kolo(name: &str) -> bool {
    let mut aliases = OPTIONS.iter().flat_map(|option| option.aliases);
    (name.starts_with("KOLO_") && !is_reserved(name))
        || LOOKED_AT.contains(&name)
        || aliases.any(|alias| alias.name == name)
}

/// Whether `name` is a `KOLO_*` variable that is no option.
pub(super) fn is_reserved(name: &str) -> bool {
    let begins = RESERVED_PREFIXES
        .iter()
        .any(|start| name.starts_with(start));
    begins || RESERVED.iter().any(|(reserved, _)| *reserved == name)
}

fn utf8(name: &str, value: &OsStr) -> Result<String> {
    value.to_str().map(str::to_string).ok_or_else(|| {
        Error::usage(
            format!("variable {name} has the value {value:?}, which is not valid UTF-8"),
            format!("give {name} a value in UTF-8, or unset it"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    fn user_file(environment: &[(&str, &str)]) -> Option<PathBuf> {
        let pairs = environment
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()));
        Sources {
            environment: pairs.collect(),
            ..Sources::default()
        }
        .user_file()
    }

    #[test]
    fn the_user_file_follows_the_base_directory_specification() {
        let path = |text| Some(PathBuf::from(text));
        assert_eq!(
            user_file(&[("HOME", "/h")]),
            path("/h/.config/kolo/kolo.toml")
        );
        let both = [("HOME", "/h"), ("XDG_CONFIG_HOME", "/x")];
        assert_eq!(user_file(&both), path("/x/kolo/kolo.toml"));
        let relative = [("HOME", "/h"), ("XDG_CONFIG_HOME", "x")];
        assert_eq!(user_file(&relative), path("/h/.config/kolo/kolo.toml"));
        assert_eq!(user_file(&[("XDG_CONFIG_HOME", "")]), None);
    }

    /// The variable of a test program stands for what the user of one with more rights sets.
    #[test]
    fn without_trust_nothing_comes_from_the_environment() {
        let caller = [("algo".to_string(), "ring".to_string())];
        let trusted = Sources::trusting(true, &caller).unwrap();
        assert!(
            trusted.environment.contains_key("HOME"),
            "the tests have a home"
        );
        let raised = Sources::trusting(false, &caller).unwrap();
        assert!(raised.environment.is_empty());
        let user = [Layer::User, Layer::ConfigFile];
        assert!(!raised.files().iter().any(|(layer, _)| user.contains(layer)));
        assert_eq!(
            (raised.caller, raised.prefix),
            (trusted.caller, trusted.prefix)
        );
    }

    #[test]
    fn only_variables_that_concern_kolo_are_kept() {
        for name in [
            "KOLO_ALGO",
            "KOLO_NONSENSE",
            "KOLO_CONFIG",
            "KOLO_PROFILE",
            "NCCL_ALGO",
            "HOME",
        ] {
            assert!(concerns_kolo(name), "{name}");
        }
        for name in [
            "KOLO_BLESS",
            "KOLO_TEST_X",
            "NCCL_NVLS_ENABLE",
            "PATH",
            "kolo_algo",
        ] {
            assert!(!concerns_kolo(name), "{name}");
        }
    }

    #[test]
    fn other_encodings_are_an_error_that_names_the_variable() {
        let error = utf8("KOLO_DEBUG_FILE", OsStr::from_bytes(b"/x\xff"))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("KOLO_DEBUG_FILE") && error.contains("UTF-8"),
            "{error}"
        );
    }
}
