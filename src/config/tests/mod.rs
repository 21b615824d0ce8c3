//! Tests of the settings as a whole; each file beside this one has one subject.

mod generated;
mod layers;
mod messages;
mod process;
mod shape;
mod site;
mod site_mistakes;
mod table;

use super::{Settings, Sources};
use crate::base::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory of a test's own that holds the files of all layers, removed at the end.
pub(super) struct Sandbox {
    root: PathBuf,
    pub(super) sources: Sources,
}

impl Sandbox {
    /// A sandbox whose files do not exist yet and whose environment is empty but for HOME.
    pub(super) fn new() -> Sandbox {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("kolo-config-{}-{number}", std::process::id());
        let root = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&root).unwrap();
        let mut sandbox = Sandbox {
            sources: Sources::default(),
            root,
        };
        sandbox.sources.system_file = Some(sandbox.path("etc/kolo/kolo.toml"));
        sandbox.sources.prefix = Some(sandbox.path("opt"));
        let home = sandbox.path("home").to_str().unwrap().to_string();
        sandbox.set("HOME", &home);
        sandbox
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub(super) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(super) fn set(&mut self, variable: &str, value: &str) {
        self.sources
            .environment
            .insert(variable.to_string(), value.to_string());
    }

    pub(super) fn give(&mut self, key: &str, value: &str) {
        self.sources
            .caller
            .push((key.to_string(), value.to_string()));
    }

    pub(super) fn load(&self) -> Result<Settings> {
        Settings::load_from(&self.sources)
    }

    pub(super) fn error(&self) -> Error {
        self.load().expect_err("these settings must be refused")
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

/// Settings of an environment alone.
pub(super) fn with(variables: &[(&str, &str)]) -> Result<Settings> {
    let mut sources = Sources::default();
    for (name, value) in variables {
        sources
            .environment
            .insert(name.to_string(), value.to_string());
    }
    Settings::load_from(&sources)
}

/// A file of the source tree.
pub(super) fn in_tree(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}
