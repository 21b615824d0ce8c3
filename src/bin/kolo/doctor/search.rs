//! Which files the loader would bring into a process, found by its rules and without running
//! anything: `ldd` starts the program's own loader, and the doctor may be root.
//!
//! The rules are those of glibc (`man ld.so`): breadth first, a name that is loaded already is not
//! looked for again, and the folders are DT_RPATH of the asking file and of those that brought it
//! (unless it has a DT_RUNPATH), LD_LIBRARY_PATH, DT_RUNPATH of the asking file, the cache, and the
//! system's own. A file for another processor is passed over.

use super::cache::LoaderCache;
use crate::launcher::raw_variable;
use crate::object::ElfObject;
use kolo::base::input_file;
use std::path::{Path, PathBuf};

/// Where libraries are looked for.
pub struct Loader {
    /// `LD_LIBRARY_PATH`.
    pub library_path: Vec<PathBuf>,
    /// `LD_PRELOAD` and `/etc/ld.so.preload`.
    pub preload: Vec<String>,
    /// Libraries that `ldconfig` has found.
    pub cache: LoaderCache,
}

/// A file in a process, and which one brought it; the program brought itself.
#[derive(Debug)]
pub struct LoadedFile {
    pub object: ElfObject,
    pub by: usize,
    /// The names by which it was asked for.
    known: Vec<String>,
}

/// A library that is not found.
#[derive(Debug, PartialEq, Eq)]
pub struct Missing {
    pub name: String,
    pub by: usize,
}

/// More than any process has.
const MOST: usize = 10_000;

impl Loader {
    /// That of programs which this process would start.
    pub fn of_this_process() -> Loader {
        let words = |text: String| {
            let words = text.split([' ', ':', '\t', '\n']);
            let words = words.filter(|word| !word.is_empty()).map(str::to_owned);
            words.collect::<Vec<_>>()
        };
        let everywhere = input_file::text(Path::new("/etc/ld.so.preload"), 1 << 20);
        let mut preload = words(raw_variable("LD_PRELOAD").unwrap_or_default());
        preload.extend(words(everywhere.unwrap_or_default()));
        let folders = raw_variable("LD_LIBRARY_PATH").unwrap_or_default();
        Loader {
            library_path: listed(&folders, Path::new("")),
            preload,
            cache: LoaderCache::of_system(),
        }
    }

    /// All files that `program` has when it starts, the program first; and what is not found.
    pub fn load(&self, program: ElfObject) -> (Vec<LoadedFile>, Vec<Missing>) {
        let mut all = vec![LoadedFile {
            object: program,
            by: 0,
            known: Vec::new(),
        }];
        let mut missing: Vec<Missing> = Vec::new();
        let mut at = 0;
        while at < all.len() && all.len() < MOST {
            let mut names = all[at].object.dynamic.needed.clone();
            if at == 0 {
                names.splice(0..0, self.preload.iter().cloned());
            }
            for name in names {
                if let Some(one) = all.iter_mut().find(|one| one.has_name(&name)) {
                    one.known.push(name);
                    continue;
                }
                let found = self.find(&all, at, &name);
                let is_it = |one: &&mut LoadedFile, id| one.object.id == id;
                let id = found.as_ref().map(|object| object.id);
                if let Some(one) = id.and_then(|id| all.iter_mut().find(|one| is_it(one, id))) {
                    one.known.push(name);
                    continue;
                }
                match found {
                    Some(object) => all.push(LoadedFile {
                        object,
                        by: at,
                        known: vec![name],
                    }),
                    // One that is to be loaded before all others may be away.
                    None if at == 0 && self.preload.contains(&name) => (),
                    None if missing.iter().any(|one| one.name == name) => (),
                    None => missing.push(Missing { name, by: at }),
                }
            }
            at += 1;
        }
        (all, missing)
    }

    /// The file of this name for the one at `at`.
    pub fn find(&self, all: &[LoadedFile], at: usize, name: &str) -> Option<ElfObject> {
        let (kind, asking) = (all[0].object.kind, &all[at].object);
        let fits = |path: &Path| {
            let found = ElfObject::read(path).ok();
            found.filter(|object| object.kind == kind)
        };
        if name.contains('/') {
            return fits(&expanded(name, &origin(&asking.path)));
        }
        let own = asking.dynamic.runpath.as_deref();
        let own = own.map(|text| listed(text, &origin(&asking.path)));
        let mut folders = match own {
            None => inherited(all, at),
            Some(_) => Vec::new(),
        };
        folders.extend(self.library_path.iter().cloned());
        folders.extend(own.unwrap_or_default());
        let inside = |folder: &PathBuf| in_folder(folder, name);
        let mut paths = folders.iter().flat_map(inside);
        let found = paths.find_map(|path| fits(&path));
        let found = found.or_else(|| self.cache.paths(name).iter().find_map(|path| fits(path)));
        found.or_else(|| {
            let mut paths = system_folders().into_iter();
            paths.find_map(|folder| in_folder(&folder, name).iter().find_map(|path| fits(path)))
        })
    }
}

/// The DT_RPATH of a file, of the one that brought it, and so on; that of the program last.
fn inherited(all: &[LoadedFile], at: usize) -> Vec<PathBuf> {
    let mut chain = vec![at];
    while let Some(&last) = chain.last()
        && last != 0
    {
        chain.push(all[last].by);
    }
    let of = |&one: &usize| {
        let (object, dynamic) = (&all[one].object, &all[one].object.dynamic);
        let text = dynamic.rpath.as_deref();
        let text = text.filter(|_| dynamic.runpath.is_none());
        text.map_or(Vec::new(), |text| listed(text, &origin(&object.path)))
    };
    chain.iter().flat_map(of).collect()
}

impl LoadedFile {
    /// Whether it is the one of this name: it gives itself that name, or was asked for by it.
    fn has_name(&self, name: &str) -> bool {
        let own = self.object.dynamic.own_name.as_deref();
        own == Some(name) || self.known.iter().any(|known| known == name)
    }
}

/// The file in a folder, and those in the folders for newer processors beside it. The loader tries
/// these first, but they are builds of one library.
fn in_folder(folder: &Path, name: &str) -> Vec<PathBuf> {
    let newer = ["x86-64-v4", "x86-64-v3", "x86-64-v2"];
    let newer = newer.map(|processor| folder.join("glibc-hwcaps").join(processor).join(name));
    [folder.join(name)].into_iter().chain(newer).collect()
}

/// The word of Debian for the kind of a machine.
fn multiarch() -> String {
    format!("{}-linux-gnu", std::env::consts::ARCH)
}

fn system_folders() -> Vec<PathBuf> {
    let folders = [
        format!("/lib/{}", multiarch()),
        format!("/usr/lib/{}", multiarch()),
        "/lib64".to_owned(),
        "/usr/lib64".to_owned(),
        "/lib".to_owned(),
        "/usr/lib".to_owned(),
    ];
    folders.map(PathBuf::from).to_vec()
}

/// The folder of a file, which `$ORIGIN` stands for.
fn origin(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    path.parent().unwrap_or(Path::new("/")).to_owned()
}

/// A list of folders; an empty word is the present one.
fn listed(text: &str, origin: &Path) -> Vec<PathBuf> {
    if text.is_empty() {
        return Vec::new();
    }
    let folder = |word: &str| match word {
        "" => PathBuf::from("."),
        word => expanded(word, origin),
    };
    text.split([':', ';']).map(folder).collect()
}

/// A path in which the loader's words are replaced.
fn expanded(word: &str, origin: &Path) -> PathBuf {
    if !word.contains('$') {
        return PathBuf::from(word);
    }
    let lib = if Path::new("/lib").join(multiarch()).is_dir() {
        format!("lib/{}", multiarch())
    } else {
        "lib64".to_owned()
    };
    let origin = origin.display().to_string();
    let values = [
        ("ORIGIN", origin.as_str()),
        ("LIB", &lib),
        ("PLATFORM", std::env::consts::ARCH),
    ];
    let mut text = word.to_owned();
    for (name, value) in values {
        text = text.replace(&format!("${{{name}}}"), value);
        text = text.replace(&format!("${name}"), value);
    }
    PathBuf::from(text)
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
