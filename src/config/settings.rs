//! The settings of a communicator: every option with its value and where that comes from.

use super::source::{FileSeen, Position, Source};
use super::value::Value;
use std::path::PathBuf;

/// All options with their values, read once per communicator and not changed afterwards.
///
/// Read one option with the getter that has its name: [`Settings::buffsize`], [`Settings::algo`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// In the order of the table.
    pub(super) values: Vec<Effective>,
    pub(super) files: Vec<FileSeen>,
    pub(super) warnings: Vec<String>,
}

impl Settings {
    /// The files that were looked at, lowest layer first.
    pub fn files(&self) -> &[FileSeen] {
        &self.files
    }

    /// Warnings about these files, for the log once there is one.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// [`Settings::debug_file`] with `%h` replaced by `host`, `%p` by `process` and `%%` by `%`.
    pub fn debug_file_of(&self, host: &str, process: u32) -> Option<PathBuf> {
        let pattern = self.debug_file()?.to_str()?;
        let mut name = String::with_capacity(pattern.len() + host.len());
        let mut rest = pattern.chars();
        while let Some(c) = rest.next() {
            match (c, rest.clone().next()) {
                ('%', Some('h')) => name.push_str(host),
                ('%', Some('p')) => name.push_str(&process.to_string()),
                ('%', Some('%')) => name.push('%'),
                _ => {
                    name.push(c);
                    continue;
                }
            }
            rest.next();
        }
        Some(PathBuf::from(name))
    }

    /// The value of the option at `index` of the table.
    pub(super) fn value(&self, index: usize) -> &Value {
        &self.values[index].value
    }
}

/// One option as the layers set it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Effective {
    pub(super) value: Value,
    pub(super) source: Source,
    /// Where in the file it stands.
    pub(super) at: Option<Position>,
    /// The file that locks it.
    pub(super) locked: Option<String>,
}
