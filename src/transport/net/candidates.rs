//! Starts the networks that a wish can take, for [`super::choose`].
//!
//! A network is started once in a process and kept: plugins and devices are not made to be opened
//! for every communicator. What the setting `net` excludes is not touched, and neither is what
//! stands behind one that works: `KOLO_NET=socket` loads no library. The program's MPI belongs to
//! one communicator, so whoever makes that communicator hands in how to open it.

use super::Net;
use super::choose::{Candidate, ORDER};
use super::plugin::fold::FoldNet;
use super::plugin::{LAST_WORDS, PluginNet, library_of};
use super::socket::{SocketNet, SocketOptions};
use crate::base::starts::{self, Start};
use crate::base::{Error, Result};
use crate::config::{Net as Wish, Settings};
use std::collections::HashMap;
use std::ffi::{CStr, OsStr, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A network that is a library of kolo's own.
struct Library {
    /// Its file: as this version of kolo needs it, as the build leaves it.
    files: [&'static str; 2],
    /// In sentences.
    what: &'static str,
    /// How it says that there is no device.
    nothing: &'static str,
    used: Mutex<Option<Used>>,
}

/// The settings that a library was started with, and its network.
type Used = (Vec<(&'static str, String)>, Arc<dyn Net>);

static VERBS: Library = Library {
    files: ["libkolo_verbs.so.0", "libkolo_verbs.so"],
    what: "RDMA",
    nothing: "no RDMA device can be used: ",
    used: Mutex::new(None),
};

static OFI: Library = Library {
    files: ["libkolo_ofi.so.0", "libkolo_ofi.so"],
    what: "libfabric",
    nothing: "libfabric has no device to use: ",
    used: Mutex::new(None),
};

const NOT_ASKED: &str = "it was not asked for";
const BY_NAME: &str = "it is taken by name only, until somebody has run it on a fabric";
const BETTER: &str = "a better one was found";
const NO_PLUGIN: &str = "KOLO_NET_PLUGIN is none";
const NO_MPI: &str = "the ranks did not meet through MPI (koloCommInitMPI, or mpirun with kolo's \
                      own tools)";

/// A network, or why it cannot be used.
pub type Outcome = std::result::Result<Arc<dyn Net>, String>;

/// Every network of this kolo with its outcome, best first. `mpi` opens the program's MPI as a
/// network, collectively: it is called only when the wish is MPI, which must be so on all ranks
/// (`net` is a setting that ranks compare); `None` where the ranks did not meet through MPI.
/// `sockets` opens the network of sockets over interfaces that were agreed on with other nodes;
/// `None`: over those of this node's best class.
pub fn all(
    settings: &Settings,
    sockets: Option<&dyn Fn() -> SocketNet>,
    mpi: Option<&dyn Fn() -> Result<Arc<dyn Net>>>,
) -> Vec<Candidate> {
    let outcomes = asked(settings, |kind| match (kind, mpi, sockets) {
        (Wish::Mpi, Some(open), _) => open().map_err(Error::into_what),
        (Wish::Socket, _, Some(open)) => {
            starts::note(Start::Network);
            Ok(shared(open()))
        }
        _ => open(settings, kind),
    });
    let candidate = |(kind, outcome)| Candidate { kind, outcome };
    outcomes.into_iter().map(candidate).collect()
}

/// Every kind of network, best first, with the answer of `open`, which is asked as a communicator
/// asks: for those that the settings admit, until one can be used.
pub fn asked<T>(
    settings: &Settings,
    mut open: impl FnMut(Wish) -> std::result::Result<T, String>,
) -> Vec<(Wish, std::result::Result<T, String>)> {
    let wish = settings.net();
    let mut found = false;
    let answer = |kind: Wish| {
        let wanted = wish == kind || (wish == Wish::Auto && kind != Wish::Mpi);
        let outcome = match kind {
            _ if !wanted => Err(NOT_ASKED.into()),
            _ if found => Err(BETTER.into()),
            Wish::Ofi if !wants_libfabric(settings) => Err(BY_NAME.into()),
            kind => open(kind),
        };
        found |= outcome.is_ok();
        (kind, outcome)
    };
    let kinds = ORDER.into_iter().chain([Wish::Mpi]);
    kinds.map(answer).collect()
}

/// Opens one kind of network for whoever has no communicator.
pub fn open(settings: &Settings, kind: Wish) -> Outcome {
    match kind {
        Wish::Plugin => plugin(settings),
        Wish::Verbs => own(&VERBS, settings.of_verbs().collect()),
        Wish::Ofi => libfabric(settings),
        Wish::Socket | Wish::Auto => socket(settings),
        Wish::Mpi => Err(NO_MPI.into()),
    }
}

/// Remedy for whoever wants a kind of network that is not used for the reason `why`; empty where
/// there is none, or no need of one.
pub fn remedy(kind: Wish, why: &str) -> &'static str {
    let is_missing = why.contains("there is no ") || why.contains("cannot be loaded");
    match kind {
        _ if why == BETTER => "",
        Wish::Ofi if why == BY_NAME => "KOLO_NET=ofi, or its provider in KOLO_OFI_PROVIDER",
        Wish::Mpi if why == NOT_ASKED => "KOLO_NET=mpi, which nothing else implies",
        _ if why == NOT_ASKED => "unset KOLO_NET, or let it name this one",
        Wish::Plugin if why == NO_PLUGIN => "unset KOLO_NET_PLUGIN, or let it name the library",
        Wish::Plugin => "KOLO_NET_PLUGIN with the library, where the site has one",
        Wish::Verbs if is_missing => {
            "with RDMA adapters: libibverbs.so.1 of rdma-core, and libkolo_verbs.so.0 beside kolo"
        }
        Wish::Ofi if is_missing => "libfabric.so.1, and libkolo_ofi.so.0 beside kolo",
        Wish::Ofi => "`fi_info` lists providers; docs/net-ofi.md says what each needs",
        Wish::Socket => "an interface with an address that KOLO_SOCKET_IFNAME does not exclude",
        Wish::Mpi | Wish::Verbs | Wish::Auto => "",
    }
}

/// Returns the outcome that `make` had the first time for this key. Failures are kept only if
/// `keep_failures`.
fn once(key: String, keep_failures: bool, make: impl FnOnce() -> Outcome) -> Outcome {
    static STARTED: OnceLock<Mutex<HashMap<String, Outcome>>> = OnceLock::new();
    let started = STARTED.get_or_init(Mutex::default);
    let mut started = started.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(outcome) = started.get(&key) {
        return outcome.clone();
    }
    let outcome = make();
    if outcome.is_ok() {
        starts::note(Start::Network);
    }
    if outcome.is_ok() || keep_failures {
        started.insert(key, outcome.clone());
    }
    outcome
}

fn shared(net: impl Net + 'static) -> Arc<dyn Net> {
    Arc::new(net)
}

/// The network that folds: the other table of the library that `net_plugin` names, started once.
///
/// # Errors
/// Why there is none.
pub fn folding(settings: &Settings) -> std::result::Result<Arc<FoldNet>, String> {
    type Started = std::result::Result<Arc<FoldNet>, String>;
    static STARTED: Mutex<Option<(String, Started)>> = Mutex::new(None);
    let Some(library) = library_of(settings.net_plugin()) else {
        return Err(NO_PLUGIN.into());
    };
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    match &*started {
        Some((file, outcome)) if *file == library => outcome.clone(),
        _ => {
            let outcome = FoldNet::load(OsStr::new(&library)).map(Arc::new);
            *started = Some((library, outcome.clone()));
            outcome
        }
    }
}

fn plugin(settings: &Settings) -> Outcome {
    let Some(library) = library_of(settings.net_plugin()) else {
        return Err(NO_PLUGIN.into());
    };
    once(format!("plugin {library}"), true, || {
        PluginNet::load(OsStr::new(&library)).map(shared)
    })
}

/// Whether libfabric was asked for. Nobody has run it on a fabric yet: so no job that went by
/// sockets takes it unasked.
pub fn wants_libfabric(settings: &Settings) -> bool {
    let names_one = |name: &str| !name.eq_ignore_ascii_case("auto");
    match settings.net() {
        Wish::Ofi => true,
        Wish::Auto => settings.ofi_provider().is_some_and(names_one),
        _ => false,
    }
}

/// The network of libfabric, or why there is none.
pub fn libfabric(settings: &Settings) -> Outcome {
    if !wants_libfabric(settings) {
        return Err(BY_NAME.into());
    }
    own(&OFI, settings.of_ofi().collect())
}

/// Devices are opened once in a process: the settings of the first communicator that uses them
/// hold, and others are told so.
fn own(library: &'static Library, pairs: Vec<(&'static str, String)>) -> Outcome {
    let what = library.what;
    let mut used = library.used.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((first, net)) = &*used {
        let differs = first.iter().zip(&pairs).find(|(one, other)| one != other);
        if let Some(((key, one), (_, other))) = differs {
            tracing::warn!(
                "the {what} network of this process was started with {key} \"{one}\", which \
                 stays; \"{other}\" is ignored"
            );
        }
        return Ok(Arc::clone(net));
    }
    let outcome = once(format!("{what} {pairs:?}"), true, || {
        let places = places(
            &library.files,
            own_library().as_deref(),
            std::env::current_exe().ok().as_deref(),
        );
        let found = places.iter().find(|place| place.is_file());
        let file = found.map_or(Path::new(library.files[0]), PathBuf::as_path);
        let loaded = PluginNet::load_with(file.as_os_str(), &pairs);
        loaded.map(shared).map_err(|why| not_here(library, &why))
    });
    if let Ok(net) = &outcome {
        *used = Some((pairs, Arc::clone(net)));
    }
    outcome
}

/// Why there is no such network, in the words of kolo's own library where it has some: a machine
/// without such devices is no failure of anything.
fn not_here(library: &Library, why: &str) -> String {
    let words = why.split_once(LAST_WORDS).map_or(why, |(_, words)| words);
    let nothing = words.strip_prefix(library.nothing);
    format!("no {} here: {}", library.what, nothing.unwrap_or(words))
}

fn socket(settings: &Settings) -> Outcome {
    let options = SocketOptions::from(settings);
    // An interface that is down today may be up tomorrow.
    once(format!("socket {options:?}"), false, || {
        SocketNet::new(options)
            .map(shared)
            .map_err(Error::into_what)
    })
}

/// Where a library of kolo's own may be: with `library`, in its folder `kolo`, and likewise in the
/// build tree or the installation that `program` belongs to. After these the loader looks.
fn places(names: &[&str; 2], library: Option<&Path>, program: Option<&Path>) -> Vec<PathBuf> {
    let library = library.and_then(Path::parent);
    let program = program.and_then(Path::parent);
    let folders = [
        library.map(|folder| folder.to_path_buf()),
        library.map(|folder| folder.join("kolo")),
        program.map(|folder| folder.to_path_buf()),
        program.map(|folder| folder.join("../lib")),
        program.map(|folder| folder.join("../lib/kolo")),
    ];
    let folders = folders.into_iter().flatten();
    let files = |folder: PathBuf| names.map(|file| folder.join(file));
    folders.flat_map(files).collect()
}

/// The file that this code was loaded from: `libkolo.so.0`, or a program.
fn own_library() -> Option<PathBuf> {
    // SAFETY: all members may be zero; the address is one of this library, and the name that the
    // loader gives for it stays as long as the library.
    unsafe {
        let mut about: libc::Dl_info = std::mem::zeroed();
        let here: fn() -> Option<PathBuf> = own_library;
        if libc::dladdr(here as *const c_void, &mut about) == 0 || about.dli_fname.is_null() {
            return None;
        }
        let name = CStr::from_ptr(about.dli_fname).to_str().ok()?;
        std::fs::canonicalize(name).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::super::choose::choose;
    use super::*;
    use crate::base::Error;
    use crate::config::Sources;

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        let pairs = pairs.iter().map(|(k, v)| (k.to_string(), v.to_string()));
        let sources = Sources {
            caller: pairs.collect(),
            ..Sources::default()
        };
        Settings::load_from(&sources).unwrap()
    }

    fn reasons(candidates: &[Candidate]) -> Vec<String> {
        let reason = |c: &Candidate| c.outcome.as_ref().err().cloned().unwrap_or_default();
        candidates.iter().map(reason).collect()
    }

    #[test]
    fn only_what_is_wished_is_started() {
        let never = || -> Result<Arc<dyn Net>> { panic!("MPI was not asked for") };
        let loopback = ("socket_ifname", "=lo");
        let found = all(
            &settings(&[("net", "socket"), loopback]),
            None,
            Some(&never),
        );
        let not = NOT_ASKED;
        assert_eq!(reasons(&found), [not, not, not, "", not]);
        let choice = choose(Wish::Socket, found).unwrap();
        assert_eq!(choice.net.name(), "socket");
    }

    #[test]
    fn every_network_says_why_it_is_not_used() {
        let settings = settings(&[
            ("net", "auto"),
            ("socket_ifname", "=lo"),
            ("net_plugin", "that-nobody-has"),
        ]);
        let reasons = reasons(&all(&settings, None, None));
        assert_eq!(reasons[0], "there is no libnccl-net-that-nobody-has.so");
        assert!(reasons[1].starts_with("no RDMA here: ") || reasons[1].is_empty());
        assert_eq!(reasons[2], BY_NAME);
        assert_eq!(reasons[4], NOT_ASKED);
    }

    #[test]
    fn mpi_is_opened_only_by_name() {
        let mpi = settings(&[("net", "mpi")]);
        assert_eq!(reasons(&all(&mpi, None, None))[4], NO_MPI);
        let fails = || -> Result<Arc<dyn Net>> { Err(Error::internal("MPI fell asleep")) };
        assert_eq!(
            reasons(&all(&mpi, None, Some(&fails)))[4],
            "MPI fell asleep"
        );
    }

    #[test]
    fn a_machine_without_rdma_is_no_failure() {
        let why = "init of the plugin kolo (libkolo_verbs.so.0) failed: unhandled system error; \
                   its last words: no RDMA device can be used: libibverbs knows none on this node";
        assert_eq!(
            not_here(&VERBS, why),
            "no RDMA here: libibverbs knows none on this node"
        );
        let why = "there is no libkolo_verbs.so.0";
        assert_eq!(not_here(&VERBS, why), format!("no RDMA here: {why}"));
    }

    #[test]
    fn a_network_is_started_once() {
        let settings = settings(&[("net", "socket"), ("socket_ifname", "=lo")]);
        let net = || all(&settings, None, None).remove(3).outcome.unwrap();
        assert!(Arc::ptr_eq(&net(), &net()));
        let none = [("net_plugin", "none")];
        let outcome = plugin(&self::settings(&none)).err().unwrap();
        assert_eq!(outcome, "KOLO_NET_PLUGIN is none");
    }

    #[test]
    fn the_verbs_library_is_looked_for_near_kolo() {
        let places = places(
            &VERBS.files,
            Some(Path::new("/opt/kolo/lib/libkolo.so.0")),
            Some(Path::new("/opt/kolo/bin/kolo")),
        );
        let folders = ["lib", "lib/kolo", "bin", "bin/../lib", "bin/../lib/kolo"];
        let file = |folder: &str, end: &str| {
            PathBuf::from(format!("/opt/kolo/{folder}/libkolo_verbs.so{end}"))
        };
        let expected = folders.map(|folder| [file(folder, ".0"), file(folder, "")]);
        assert_eq!(places, expected.concat());
        assert!(own_library().unwrap().is_file());
    }
}
