//! Which MPI a program loads, by all that the loader would load with it.

use super::facts::{KoloFacts, LinkedFacts, MpiFacts};
use super::search::{LoadedFile, Loader, Missing};
use crate::launcher;
use crate::object::{ElfObject, MpiNames, NoObject};
use std::path::{Path, PathBuf};

/// The program, or the library, that a user names.
pub fn of_file(named: &Path) -> LinkedFacts {
    let mut facts = LinkedFacts {
        file: named.display().to_string(),
        ..LinkedFacts::default()
    };
    match ElfObject::read(&place(named)) {
        Ok(object) => with_all(&Loader::of_this_process(), object, &mut facts),
        Err(NoObject::Unreadable(why)) => facts.fault = Some(why),
        Err(NoObject::Script(line)) => {
            facts.untold = Some(format!(
                "it is a script (#!{line}), which may start any program: name that program"
            ));
        }
        Err(NoObject::Other) => {
            facts.untold = Some("it is no program of this system (no ELF file)".into());
        }
    }
    facts
}

/// A launcher looks for a name without a folder in the folder where it is, and in `PATH`.
fn place(named: &Path) -> PathBuf {
    let is_bare = named.parent() == Some(Path::new(""));
    if !is_bare || named.exists() {
        return named.to_owned();
    }
    let path = launcher::raw_variable("PATH").unwrap_or_default();
    let mut places = path.split(':').map(|folder| Path::new(folder).join(named));
    let found = places.find(|place| place.is_file());
    found.unwrap_or(named.to_owned())
}

/// All that a program has when it starts.
struct Process<'a> {
    loader: &'a Loader,
    all: Vec<LoadedFile>,
    missing: Vec<Missing>,
}

fn with_all(loader: &Loader, mut program: ElfObject, facts: &mut LinkedFacts) {
    let inner = program.inner_names();
    if inner.is_mpi {
        // It was linked into the program itself.
        program.names = inner;
    }
    let (all, missing) = loader.load(program);
    let mut process = Process {
        loader,
        all,
        missing,
    };
    facts.kolo = process.kolo();
    facts.mpis = process.mpis();
    if facts.mpis.is_empty() {
        facts.mpis.extend(process.brought_by_kolo());
    }
    facts.untold = process.untold(&facts.mpis, inner);
    if process.foreign().is_none() {
        let told = |one: &Missing| (one.name.clone(), process.name(one.by));
        facts.missing = process.missing.iter().map(told).collect();
    }
}

impl Process<'_> {
    /// The name of a file in messages; that of the program is empty.
    fn name(&self, at: usize) -> String {
        match at {
            0 => String::new(),
            at => self.all[at].object.name(),
        }
    }

    /// The loader, if it is not glibc's: its rules are not known here.
    fn foreign(&self) -> Option<&str> {
        let loader = self.all[0].object.loader.as_deref()?;
        let known = ["/ld-linux", "/ld64.so"];
        (!known.iter().any(|name| loader.contains(name))).then_some(loader)
    }

    fn kolo(&self) -> Vec<KoloFacts> {
        let of = |one: &LoadedFile| {
            Some(KoloFacts {
                file: one.object.path.display().to_string(),
                family: one.object.kolo.as_ref()?.family.clone(),
            })
        };
        self.all.iter().filter_map(of).collect()
    }

    /// The MPIs among all files, and those that are wanted and not found.
    fn mpis(&self) -> Vec<MpiFacts> {
        let loaded = self.all.iter().enumerate();
        // The library of kolo that stands before an MPI has some of its names.
        let is_drop_in = |name: &str| name.starts_with("libkolo_pmpi");
        let loaded = loaded.filter(|(_, one)| one.object.names.is_mpi);
        let loaded = loaded.filter(|(_, one)| !is_drop_in(&one.object.name()));
        let mut mpis: Vec<MpiFacts> = loaded
            .map(|(at, one)| of_library(&one.object, self.name(at), self.name(one.by)))
            .collect();
        for one in &self.missing {
            let family = by_name(&one.name);
            if family.is_some() && mpis.iter().all(|mpi| mpi.family.as_deref() != family) {
                mpis.push(of_name(&one.name, self.name(one.by)));
            }
        }
        mpis
    }

    /// Where a program has no MPI, `libkolo_mpi` loads the one that it was built with.
    fn brought_by_kolo(&mut self) -> Option<MpiFacts> {
        let at = self.all.iter().position(|one| one.object.kolo.is_some())?;
        let (note, by) = (self.all[at].object.kolo.clone()?, self.name(at));
        let name = note.default;
        if let Some(object) = self.loader.find(&self.all, at, &name) {
            return Some(of_library(&object, name, by));
        }
        self.missing.push(Missing {
            name: name.clone(),
            by: at,
        });
        let family = Some(note.family);
        Some(MpiFacts {
            family,
            ..of_name(&name, by)
        })
    }

    /// Why it is not known which launcher the program needs, or that it needs none.
    fn untold(&self, mpis: &[MpiFacts], inner: MpiNames) -> Option<String> {
        if let Some(mpi) = mpis.iter().find(|mpi| mpi.launcher.is_none()) {
            let name = &mpi.library;
            return Some(format!(
                "its MPI ({name}) is not known to be of Open MPI's kind, or of MPICH's"
            ));
        }
        if !mpis.is_empty() {
            return None;
        }
        if let Some(loader) = self.foreign() {
            return Some(format!(
                "{loader} loads it, and only the rules of glibc's loader are known here"
            ));
        }
        if self.all[0].object.is_static() && !inner.any {
            return Some("it is a static program without names (stripped)".into());
        }
        let is_kolo = |one: &ElfObject| {
            one.own_name()
                .is_some_and(|name| name.starts_with("libkolo"))
        };
        let opens = |one: &&LoadedFile| one.object.names.opens && !is_kolo(&one.object);
        if inner.opens || self.all[0].object.names.opens {
            return Some("it loads no MPI at its start, and may open one later (dlopen)".into());
        }
        Some(match self.all.iter().find(opens) {
            Some(one) => format!(
                "it loads no MPI at its start, and {} may open one later (dlopen)",
                one.object.name()
            ),
            None => "it loads no MPI, so that any launcher can start it".into(),
        })
    }
}

/// An MPI that is there: its names tell whose it is, as many vendors have file names of their own.
fn of_library(object: &ElfObject, library: String, by: String) -> MpiFacts {
    let named = by_name(object.own_name().unwrap_or(&object.name()));
    let made = match object.names {
        MpiNames { is_open: true, .. } => Some("openmpi"),
        MpiNames { is_mpich: true, .. } => Some("mpich"),
        _ => named.filter(|family| *family != ABI),
    };
    let family = if named == Some(ABI) { named } else { made };
    MpiFacts {
        library,
        by,
        family: family.map(str::to_owned),
        launcher: made.map(str::to_owned),
    }
}

/// An MPI that is not there.
fn of_name(name: &str, by: String) -> MpiFacts {
    let family = by_name(name);
    MpiFacts {
        library: name.to_owned(),
        by,
        family: family.map(str::to_owned),
        launcher: family.filter(|family| *family != ABI).map(str::to_owned),
    }
}

/// MPI 5's standard binary interface, which MPIs of both kinds have.
const ABI: &str = "abi";

/// The family of a library by its file name: `libmpi.so.12` is that of MPICH, Intel and others.
fn by_name(name: &str) -> Option<&'static str> {
    let is = |start: &str| name.starts_with(start);
    match () {
        () if is("libmpi_abi.so") => Some(ABI),
        () if is("libmpich") || is("libmpifort.so") => Some("mpich"),
        () if is("libmpi") && name.contains(".so.12") => Some("mpich"),
        () if is("libmpi.so") || is("libmpi_mpifh") || is("libmpi_usempi") => Some("openmpi"),
        () if is("libmpi_ibm") => Some("openmpi"),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Dynamic;

    #[test]
    fn families_are_known_by_names() {
        for (name, family) in [
            ("libmpi.so.40", Some("openmpi")),
            ("libmpi_mpifh.so.40", Some("openmpi")),
            ("libmpi_usempif08.so.40", Some("openmpi")),
            ("libmpi_ibm.so.3", Some("openmpi")),
            ("libmpich.so.12", Some("mpich")),
            ("libmpichfort.so.12", Some("mpich")),
            ("libmpifort.so.12", Some("mpich")),
            ("libmpi.so.12", Some("mpich")),
            ("libmpi_cray.so.12", Some("mpich")),
            ("libmpi_abi.so.1", Some("abi")),
            ("libm.so.6", None),
            ("libmpiP.so", None),
        ] {
            assert_eq!(by_name(name), family, "{name}");
        }
    }

    #[test]
    fn a_library_is_known_by_what_is_in_it() {
        let object = |name: &str, names: MpiNames| ElfObject {
            dynamic: Dynamic {
                own_name: Some(name.into()),
                ..Dynamic::default()
            },
            names,
            ..ElfObject::default()
        };
        let (is_open, is_mpich) = (true, true);
        let open = MpiNames {
            is_open,
            ..MpiNames::default()
        };
        let mpich = MpiNames {
            is_mpich,
            ..MpiNames::default()
        };
        for (name, names, family, launcher) in [
            ("libvendor.so.3", open, Some("openmpi"), Some("openmpi")),
            ("libvendor.so.3", mpich, Some("mpich"), Some("mpich")),
            (
                "libmpi.so.12",
                MpiNames::default(),
                Some("mpich"),
                Some("mpich"),
            ),
            ("libmpi_abi.so.1", mpich, Some("abi"), Some("mpich")),
            ("libmpi_abi.so.1", MpiNames::default(), Some("abi"), None),
            ("libvendor.so.3", MpiNames::default(), None, None),
        ] {
            let told = of_library(&object(name, names), name.into(), String::new());
            let seen = (told.family.as_deref(), told.launcher.as_deref());
            assert_eq!(seen, (family, launcher), "{name}");
        }
    }
}
