//! The settings files of all layers, with the files that they include.

use super::file::{self, FileText};
use super::source::{FileSeen, Layer, Origin, Source, Spot};
use super::sources::{Sources, Stamps, stamp};
use super::trust;
use crate::base::{Error, input_file};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Larger files are refused: a settings file that large is another file named by mistake.
const LONGEST_FILE_BYTES: u64 = 1 << 20;
/// More files than this are another mistake.
const MOST_FILES: usize = 100;

/// A file that was read.
pub(super) struct OneFile {
    pub(super) layer: Layer,
    pub(super) path: PathBuf,
    pub(super) text: FileText,
}

/// All files that were looked at.
#[derive(Default)]
pub(super) struct SettingsFiles {
    /// Their content: a later one hides an earlier one, so an included one stands before the one
    /// that includes it.
    pub(super) read: Vec<OneFile>,
    pub(super) seen: Vec<FileSeen>,
    /// How each of them was before it was read.
    pub(super) stamps: Stamps,
    pub(super) warnings: Vec<String>,
    /// Their faults.
    pub(super) faults: Vec<Error>,
    prefix: Option<PathBuf>,
}

impl SettingsFiles {
    /// None yet, of an installation whose owner is trusted below its prefix.
    pub(super) fn none_of(sources: &Sources) -> SettingsFiles {
        SettingsFiles {
            prefix: sources.prefix.clone(),
            ..SettingsFiles::default()
        }
    }

    /// Reads the files of all layers.
    pub(super) fn of(sources: &Sources) -> SettingsFiles {
        let mut files = SettingsFiles::none_of(sources);
        for (layer, path) in sources.files() {
            files.add(layer, path);
        }
        files
    }

    /// Reads this file and those that it includes.
    pub(super) fn add(&mut self, layer: Layer, path: PathBuf) {
        self.stamps.push((path.clone(), stamp(&path)));
        if layer == Layer::User && trust::is_behind_closed_folder(&path) {
            self.warnings.push(format!(
                "file {} is taken for one that is not there: this user may not enter its folder \
                 (set HOME to the user's own, or XDG_CONFIG_HOME)",
                path.display()
            ));
            return;
        }
        let text = match read(&path, layer) {
            Ok(text) => text,
            Err(fault) => return self.faults.push(fault),
        };
        self.seen.push(FileSeen {
            layer,
            path: path.clone(),
            found: text.is_some(),
        });
        if let Some(text) = text {
            let fault = trust::foreign(&path, self.prefix.as_deref());
            self.warnings.extend(fault.map(trust::warning));
            self.take(layer, path, &text, &mut Vec::new());
        }
    }

    /// Adds a warning for each file of the site that root alone can read.
    pub(super) fn warn_of_unread(&mut self) {
        let unread = trust::unread(&self.seen, self.prefix.as_deref());
        self.warnings.extend(unread.into_iter().map(trust::warning));
    }

    /// Keeps what a file says, behind what the files say that it includes.
    fn take(&mut self, layer: Layer, path: PathBuf, text: &str, within: &mut Vec<PathBuf>) {
        let text = file::parse(layer, &path, text, &mut self.faults);
        within.push(true_name(&path));
        for (name, at) in &text.includes {
            let source = Source {
                layer,
                origin: Origin::File(path.clone()),
            };
            let place = Spot {
                source,
                at: Some(*at),
            };
            let folder = path.parent().unwrap_or(Path::new(""));
            self.include(layer, folder.join(name), &place, within);
        }
        within.pop();
        self.read.push(OneFile { layer, path, text });
    }

    fn include(&mut self, layer: Layer, path: PathBuf, place: &Spot, within: &mut Vec<PathBuf>) {
        let refuse = |why: String, remedy: &'static str| {
            let what = format!("{place}: the included file {} {why}", path.display());
            Error::usage(what, remedy)
        };
        if self.stamps.len() >= MOST_FILES {
            // One file that includes another ten times, which does so too, need not be read to the
            // end, nor told of each time.
            if self.stamps.len() == MOST_FILES {
                let why = format!("is more than the {MOST_FILES}th");
                let remedy = "put what they say into fewer files";
                self.faults.push(refuse(why, remedy));
                self.stamps.push((path, None));
            }
            return;
        }
        // The same file may have several names.
        let name = true_name(&path);
        if let Some(first) = within.iter().position(|outer| *outer == name) {
            let circle: Vec<String> = within[first..]
                .iter()
                .chain([&name])
                .map(|path| path.display().to_string())
                .collect();
            let why = format!("closes a circle: {}", circle.join(" includes "));
            self.faults
                .push(refuse(why, "remove one of these includes"));
            return;
        }
        self.stamps.push((path.clone(), stamp(&path)));
        match input_file::text(&path, LONGEST_FILE_BYTES) {
            Ok(text) => {
                self.seen.push(FileSeen {
                    layer,
                    path: path.clone(),
                    found: true,
                });
                // By the true name: that of a link, or with `..`, may seem to lie in the prefix.
                let fault = trust::foreign(&name, self.prefix.as_deref());
                self.warnings.extend(fault.map(trust::warning));
                self.take(layer, path, &text, within);
            }
            Err(error) => {
                let why = format!("cannot be read: {error}");
                let remedy = "correct its name, which is looked for beside the file that includes \
                              it, or remove it";
                self.faults.push(refuse(why, remedy));
            }
        }
    }
}

/// The name without links and `..`, where there is such a file.
fn true_name(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// The text of a file; `None` where a file that need not exist does not.
fn read(path: &Path, layer: Layer) -> Result<Option<String>, Error> {
    match input_file::text(path, LONGEST_FILE_BYTES) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::FileTooLarge => Err(Error::usage(
            format!(
                "file {} has more than 1 MiB and is no settings file",
                path.display()
            ),
            "name a TOML file with settings of kolo, or remove this one",
        )),
        Err(error) if layer == Layer::ConfigFile => Err(Error::usage(
            format!(
                "file {}, named by variable KOLO_CONFIG, cannot be read: {error}",
                path.display()
            ),
            "let KOLO_CONFIG name a readable TOML file on every node, or unset it",
        )),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(Error::system(
            format!("file {} cannot be read", path.display()),
            &error,
            "make the file readable and its text UTF-8, or remove it",
        )),
    }
}
