//! Who started this process, and MPI, if it was MPI's launcher.
//!
//! `kolo` is linked to no MPI. A launcher is recognised by the variables it sets; then the
//! `libkolo_mpi.so` of the same family is loaded, which hands out a table of functions.

use crate::object;
use kolo::base::{Error, Result, printed, turns};
use kolo::bootstrap::launch::mistake;
use kolo::bootstrap::mpi_abi::{API_VERSION, MpiApi, MpiComm, MpiTable};
use kolo::bootstrap::mpi_library::{self, LIBRARY, VARIABLE};
use serde::{Deserialize, Serialize};
use std::ffi::{CStr, c_int};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Families of MPI that share a binary interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Open MPI.
    OpenMpi,
    /// MPICH and all that share its interface.
    Mpich,
    /// Any MPI with the standard interface of MPI 5.
    Abi,
}

impl Family {
    /// All.
    pub const ALL: [Family; 3] = [Family::OpenMpi, Family::Mpich, Family::Abi];

    /// The directory name.
    pub fn name(self) -> &'static str {
        match self {
            Family::OpenMpi => "openmpi",
            Family::Mpich => "mpich",
            Family::Abi => "abi",
        }
    }
}

/// The families to try, best first, of the launcher whose variables `is_set` tells of; empty
/// without launcher.
fn families(is_set: impl Fn(&str) -> bool) -> Vec<Family> {
    if is_set("OMPI_COMM_WORLD_SIZE") {
        return vec![Family::OpenMpi];
    }
    if is_set("PMI_SIZE") {
        return vec![Family::Mpich];
    }
    if is_set("PMIX_RANK") {
        vec![Family::OpenMpi, Family::Mpich]
    } else {
        Vec::new()
    }
}

/// The families that the launcher of this process may have started, best first; empty for a
/// process that was started alone.
///
/// # Errors
/// Slurm started several processes, and nothing that an MPI could learn of the others by.
pub fn launched_by() -> Result<Vec<Family>> {
    let found = families(|name| std::env::var_os(name).is_some());
    if found.is_empty() {
        mistake::check_world(1)?;
    }
    Ok(found)
}

/// The families by the variables alone: empty too where Slurm started processes without MPI.
pub fn of_variables() -> Vec<Family> {
    families(|name| std::env::var_os(name).is_some())
}

/// Who started a process, as precisely as MPI needs to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum StartedBy {
    /// Nobody, a script, or a launcher of one process.
    #[default]
    Nobody,
    /// `mpirun` of Open MPI.
    OpenMpi,
    /// `mpirun` of MPICH, or of one that shares its interface.
    Mpich,
    /// `srun --mpi=pmix`.
    SlurmPmix,
    /// `srun --mpi=pmi2`.
    SlurmPmi2,
    /// `srun --mpi=none`.
    SlurmNone,
}

/// Who started this process among others.
pub fn started_by() -> StartedBy {
    started(variable)
}

fn started(get: impl Fn(&str) -> Option<String>) -> StartedBy {
    let several = |name: &str| {
        let count = get(name).and_then(|text| text.trim().parse::<u32>().ok());
        count.is_some_and(|count| count > 1)
    };
    let is_set = |name: &str| get(name).is_some();
    // Under srun --mpi=pmi2 the variable of MPICH's launcher is Slurm's.
    let is_step = several("SLURM_STEP_NUM_TASKS") && !is_set("HYDI_CONTROL_FD");
    match () {
        () if several("OMPI_COMM_WORLD_SIZE") => StartedBy::OpenMpi,
        () if several("PMI_SIZE") && !is_step => StartedBy::Mpich,
        () if !is_step => StartedBy::Nobody,
        () if is_set("PMIX_RANK") => StartedBy::SlurmPmix,
        () if is_set("PMI_RANK") => StartedBy::SlurmPmi2,
        () => StartedBy::SlurmNone,
    }
}

/// Whether this process should say what every rank of its node would say.
pub fn speaks_for_node() -> bool {
    let ranks = [
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "MPI_LOCALRANKID",
        "SLURM_LOCALID",
    ];
    let rank = ranks.iter().find_map(std::env::var_os);
    rank.is_none_or(|rank| rank == "0")
}

/// Whether `srun` has started this process, so that it can meet the others without MPI.
pub fn by_slurm() -> bool {
    let set = |name: &str| std::env::var_os(name).is_some();
    set("SLURM_STEP_NUM_TASKS") && !set("OMPI_COMM_WORLD_SIZE")
}

/// Whether variables tell of several processes, and of no MPI.
pub fn several_without_mpi() -> bool {
    let several = |name: &str| {
        let number = variable(name).and_then(|text| text.trim().parse::<u32>().ok());
        number.is_some_and(|number| number > 1)
    };
    several("KOLO_NRANKS") || by_slurm() && several("SLURM_STEP_NUM_TASKS")
}

/// Whether somebody has started several processes of one job, or one by a launcher of MPI. Without
/// MPI they may be meant to stay `apart`.
pub fn has_started(apart: bool) -> bool {
    !of_variables().is_empty() || several_without_mpi() && !apart
}

/// A variable of this process, unless it is empty.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

/// A variable of this process, which may be empty.
pub fn raw_variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// A mistake that all processes of a job have found is printed by one.
pub fn told_by_one(error: Error) -> Error {
    error.told_elsewhere(!speaks_for_all())
}

/// Whether this process should say what every rank would say: rank 0, or one without launcher.
pub fn speaks_for_all() -> bool {
    let ranks = [
        "OMPI_COMM_WORLD_RANK",
        "PMI_RANK",
        "PMIX_RANK",
        "SLURM_PROCID",
    ];
    let rank = ranks.iter().find_map(std::env::var_os);
    rank.is_none_or(|rank| rank == "0")
}

/// Where the library of a family may be.
pub fn places(family: Family) -> Vec<PathBuf> {
    mpi_library::files(family.name())
}

/// The library of a family, if there is one.
pub fn find(family: Family) -> Option<PathBuf> {
    places(family).into_iter().find(|place| place.is_file())
}

/// The library of a family that belongs to this program, whatever a variable names.
pub fn find_own(family: Family) -> Option<PathBuf> {
    let places = mpi_library::own_files(family.name());
    places.into_iter().find(|place| place.is_file())
}

/// The library that the variable names, which kolo takes whatever the launcher is.
pub fn named_library() -> Option<PathBuf> {
    variable(VARIABLE).map(PathBuf::from)
}

/// The loaded module of kolo, which sets that variable.
pub fn loaded_module() -> Option<String> {
    let modules = variable("LOADEDMODULES")?;
    let of_kolo = |name: &&str| name.starts_with("kolo/") && !name.starts_with("kolo/dropin");
    modules.split(':').rfind(of_kolo).map(str::to_owned)
}

/// Remedy where the variable names the library of another MPI.
pub fn other_library(module: Option<&str>, family: &str) -> String {
    let load = match module {
        Some(module) => format!("load kolo's module for {family} in place of {module}, which sets"),
        None => format!("load kolo's module for {family} in place of one that sets"),
    };
    format!("{load} {VARIABLE}, or unset the variable")
}

/// An error where the library that the variable names is for none of these families: MPI would
/// start each process alone, or not at all.
fn check_named(families: &[Family]) -> Result<()> {
    let named = named_library();
    let built = |path: PathBuf| Some((object::family_of_library(&path)?, path));
    match named.and_then(built) {
        Some((family, path)) => of_one(&path, &family, families, loaded_module().as_deref()),
        None => Ok(()),
    }
}

fn of_one(path: &Path, family: &str, families: &[Family], module: Option<&str>) -> Result<()> {
    let any = Family::Abi.name();
    let fits = family == any || families.iter().any(|one| one.name() == family);
    let Some(first) = families.first().filter(|_| !fits) else {
        return Ok(());
    };
    Err(Error::usage(
        format!(
            "{VARIABLE} names {}, the library for {family}, and the launcher is that of {}",
            path.display(),
            first.name()
        ),
        other_library(module, first.name()),
    ))
}

/// The library of the first of these families that has one, or else the one for every MPI with the
/// standard interface.
fn find_for(families: &[Family]) -> Option<PathBuf> {
    families
        .iter()
        .chain([&Family::Abi])
        .find_map(|family| find(*family))
}

/// MPI, started.
pub struct Mpi {
    api: &'static MpiApi,
    /// The file it came from.
    pub library: PathBuf,
    ring: OnceLock<std::result::Result<MpiComm, i32>>,
}

type Start = unsafe extern "C" fn(c_int) -> *const MpiApi;

impl Mpi {
    /// Loads the library of the first family that has one, and starts MPI on this thread.
    ///
    /// # Errors
    /// No library, one of another version, or MPI that cannot be started.
    pub fn start(families: &[Family]) -> Result<Mpi> {
        check_named(families)?;
        let Some(library) = find_for(families) else {
            return Err(not_found(families));
        };
        let unusable = |why: String| {
            Error::usage(
                format!("{} cannot be used: {why}", library.display()),
                "install kolo and its libkolo_mpi together, for the MPI whose mpirun is used",
            )
        };
        // SAFETY: the library is kolo's own; its initialisers only set up MPI. MPI loads plugins
        // that look for its symbols among the global ones.
        let loaded = unsafe {
            use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
            Library::open(Some(&library), RTLD_NOW | RTLD_GLOBAL)
        };
        let loaded = loaded.map_err(|error| unusable(error.to_string()))?;
        // SAFETY: the exported function has this type (see kolo::bootstrap::mpi_abi).
        let start = unsafe { loaded.get::<Start>(b"kolo_mpi_start\0") };
        let start = *start.map_err(|error| unusable(error.to_string()))?;
        // MPI keeps threads and handlers: it is never unloaded.
        std::mem::forget(loaded);
        const FUNNELED: c_int = 1;
        // SAFETY: no other thread runs yet that could start MPI.
        let api = unsafe { start(FUNNELED) };
        if api.is_null() {
            return Err(unusable("MPI did not start".into()));
        }
        // SAFETY: not null, so it points to a table that begins with size and version.
        let (size, version) = unsafe { ((*api).size, (*api).version) };
        if size < size_of::<MpiApi>() || version != API_VERSION {
            return Err(unusable(format!(
                "its table is version {version} of {size} bytes, not {API_VERSION}"
            )));
        }
        // SAFETY: the table is complete, constant, and lives until the process ends.
        let api = unsafe { &*api };
        Ok(Mpi {
            api,
            library,
            ring: OnceLock::new(),
        })
    }

    /// Itself, if it knows of all the processes that Slurm started; otherwise it is ended.
    ///
    /// # Errors
    /// MPI under the wrong `srun --mpi`.
    pub fn among_all(self) -> Result<Mpi> {
        if let Err(error) = mistake::check_world(self.nranks()) {
            self.finalize();
            return Err(error);
        }
        Ok(self)
    }

    /// The functions.
    pub fn api(&self) -> &MpiApi {
        self.api
    }

    /// This process among those that were launched.
    pub fn rank(&self) -> u32 {
        self.api.rank as u32
    }

    /// Processes that were launched.
    pub fn nranks(&self) -> u32 {
        self.api.nranks as u32
    }

    /// Version of MPI, in its own words.
    pub fn version(&self) -> String {
        // SAFETY: a string that lives until the process ends.
        let text = unsafe { CStr::from_ptr(self.api.library) };
        text.to_string_lossy().into_owned()
    }

    /// A table over all launched processes, for kolo's start.
    ///
    /// # Errors
    /// MPI's.
    pub fn table(&self) -> Result<MpiTable> {
        let mut table = std::mem::MaybeUninit::<MpiTable>::zeroed();
        // SAFETY: the communicator is the world; there is room for a table.
        let code = unsafe { (self.api.table)(self.api.world, table.as_mut_ptr()) };
        // SAFETY: every member of the table may be zero, and the function wrote it if code is 0.
        mpi_result(code, "making a table").map(|()| unsafe { table.assume_init() })
    }

    /// Broadcasts bytes from process 0.
    ///
    /// # Errors
    /// MPI's.
    pub fn broadcast(&self, bytes: &mut [u8]) -> Result<()> {
        let (place, length) = (bytes.as_mut_ptr().cast(), bytes.len());
        // SAFETY: the buffer has that length on all ranks.
        let code = unsafe { (self.api.bcast_bytes)(self.api.world, place, length, 0) };
        mpi_result(code, "MPI_Bcast")
    }

    /// The periodic ring of all launched processes, made when it is first asked for, by all.
    ///
    /// # Errors
    /// MPI's code.
    pub fn ring(&self) -> std::result::Result<MpiComm, i32> {
        *self.ring.get_or_init(|| {
            let mut ring = 0;
            // SAFETY: the communicator is the world; there is room for a handle.
            match unsafe { (self.api.ring)(self.api.world, &mut ring) } {
                0 => Ok(ring),
                code => Err(code),
            }
        })
    }

    /// Ends MPI. Every process calls it.
    pub fn finalize(&self) {
        // SAFETY: nothing of MPI is used afterwards but `abort`, which is not called then.
        unsafe { (self.api.finalize)() };
    }

    /// Ends all processes of the job, when what this one has printed is read.
    pub fn abort(&self) {
        printed::wait_until_read(turns::sleep);
        // SAFETY: MPI is running.
        unsafe { (self.api.abort)(1) };
    }
}

/// An error unless MPI reports success.
pub fn mpi_result(code: i32, doing: &str) -> Result<()> {
    match code {
        0 => Ok(()),
        _ => Err(Error::usage(
            format!("{doing} failed in MPI with class {code}"),
            "see MPI's own message above",
        )),
    }
}

fn not_found(families: &[Family]) -> Error {
    let tried: Vec<String> = families
        .iter()
        .flat_map(|family| places(*family))
        .map(|place| place.display().to_string())
        .collect();
    let names: Vec<&str> = families.iter().map(|family| family.name()).collect();
    Error::usage(
        format!(
            "the launcher is that of {}, but its {LIBRARY} is in none of {}",
            names.join(" or "),
            tried.join(", ")
        ),
        format!(
            "install kolo for this MPI (make install MPI={}), name the library in \
             {VARIABLE}, or use --ranks N without mpirun",
            names.first().unwrap_or(&"openmpi")
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_are_known_by_their_variables() {
        let of = |set: &'static [&str]| families(move |name| set.contains(&name));
        assert_eq!(of(&[]), []);
        assert_eq!(
            of(&["PMIX_RANK", "OMPI_COMM_WORLD_SIZE"]),
            [Family::OpenMpi]
        );
        assert_eq!(of(&["PMI_SIZE", "PMI_RANK"]), [Family::Mpich]);
        assert_eq!(of(&["PMIX_RANK"]), [Family::OpenMpi, Family::Mpich]);
    }

    #[test]
    fn who_started_a_process_is_known_by_its_variables() {
        let of = |set: &[(&str, &str)]| {
            started(|name| {
                let found = set.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| value.to_string())
            })
        };
        let step = ("SLURM_STEP_NUM_TASKS", "4");
        assert_eq!(of(&[]), StartedBy::Nobody);
        assert_eq!(of(&[("OMPI_COMM_WORLD_SIZE", "1")]), StartedBy::Nobody);
        assert_eq!(
            of(&[("OMPI_COMM_WORLD_SIZE", "2"), step]),
            StartedBy::OpenMpi
        );
        assert_eq!(of(&[("PMI_SIZE", "2")]), StartedBy::Mpich);
        let hydra = ("HYDI_CONTROL_FD", "9");
        assert_eq!(of(&[("PMI_SIZE", "2"), step, hydra]), StartedBy::Mpich);
        assert_eq!(of(&[step, ("PMIX_RANK", "0")]), StartedBy::SlurmPmix);
        let pmi2 = [step, ("PMI_RANK", "0"), ("PMI_SIZE", "4")];
        assert_eq!(of(&pmi2), StartedBy::SlurmPmi2);
        assert_eq!(of(&[step]), StartedBy::SlurmNone);
        assert_eq!(of(&[("SLURM_STEP_NUM_TASKS", "1")]), StartedBy::Nobody);
    }

    #[test]
    fn a_named_library_of_another_family_is_refused_with_the_variable() {
        let path = Path::new("/opt/kolo/lib/kolo/mpich/libkolo_mpi.so");
        let of = |family, families: &[Family]| of_one(path, family, families, Some("kolo/1-mpich"));
        let error = of("mpich", &[Family::OpenMpi]).unwrap_err().to_string();
        let words = [
            "KOLO_MPI_LIBRARY names /opt/kolo/lib/kolo/mpich/libkolo_mpi.so, the library for mpich",
            "kolo's module for openmpi in place of kolo/1-mpich, which sets KOLO_MPI_LIBRARY",
            "unset the variable",
        ];
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
        of("mpich", &[Family::Mpich]).unwrap();
        of("mpich", &[Family::OpenMpi, Family::Mpich]).unwrap();
        of("abi", &[Family::OpenMpi]).unwrap();
        of("mpich", &[]).unwrap();
    }

    #[test]
    fn a_missing_library_names_places_and_remedy() {
        let error = not_found(&[Family::Mpich]);
        assert!(error.what.contains("mpich"), "{error}");
        assert!(error.remedy.contains("make install MPI=mpich"), "{error}");
    }
}
