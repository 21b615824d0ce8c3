//! Reads the facts from the system. Nothing here judges.

use super::facts::{
    Gathered, LinkedFacts, NodeFacts, NodeSeen, RankFacts, StartFacts, Trials, TunerFacts,
};
use super::gather_network::{listen, names_in, of_network};
use super::{gather_files, gather_left, libfabric, linked};
use crate::facts as system;
use crate::launcher::{self, Family};
use crate::object::family_of_library;
use crate::ways::JobWays;
use kolo::base::{Code, Error, folder, input_file};
use kolo::bootstrap::mpi_library::LIBRARY;
use kolo::bootstrap::reach::Listeners;
use kolo::config::{self, CmaPtracer, Settings};
use kolo::topo;
use kolo::transport::cma::wish;
use kolo::trust::check_secret_file;
use kolo::tune::{Measured, measured};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Facts that this process finds without the others.
pub struct ThisRank {
    /// Its settings, as far as they can be read.
    pub settings: Settings,
    /// Facts about itself.
    pub rank: RankFacts,
}

impl ThisRank {
    /// Looks at this process, and at a program if one is named. What the system did not give is a
    /// fault too, unless only facts that last are wanted: it may be a file server that is away, or
    /// a job that has used something up.
    pub fn look(program: Option<&Path>, lasting: bool) -> ThisRank {
        let (settings, faults) = config::load_with_faults();
        let prefix = config::install_prefix();
        // Whose a file is keeps no node from working.
        let of_files = if lasting {
            Vec::new()
        } else {
            config::faults_of_files(settings.files(), prefix.as_deref())
        };
        let faults = faults
            .into_iter()
            .chain(gather_files::faults(&settings))
            .chain(of_files)
            .filter(|error| !lasting || error.code != Code::SystemError)
            .map(Error::into_parts)
            .map(|error| (error.what, error.remedy.into_owned()));
        let shape = settings.shape().into_iter();
        let rank = RankFacts {
            host: system::host(),
            boot: topo::boot_id(),
            cpus: topo::affinity().map_or(String::new(), |set| set.to_string()),
            memlock: system::limit(libc::RLIMIT_MEMLOCK),
            files: system::limit(libc::RLIMIT_NOFILE),
            processes: system::limit(libc::RLIMIT_NPROC),
            settings: faults.collect(),
            shape: shape
                .map(|entry| (entry.key.into_owned(), (entry.value, entry.source)))
                .collect(),
            start: start(program, lasting),
            tuner: settings.tuner_file().and_then(|path| tuner(path, lasting)),
            secret: settings.secret_file().and_then(secret),
            ..RankFacts::default()
        };
        ThisRank { settings, rank }
    }
}

/// This node as a job of one rank; of its interfaces, only what lasts if that is wanted.
pub fn job_of_one(here: &ThisRank, lasting: bool) -> Gathered {
    let mut facts = of_network(&here.settings, lasting);
    of_machine(here, &mut facts);
    Gathered {
        ranks: vec![here.rank.clone()],
        nodes: vec![NodeSeen {
            name: here.rank.host.clone(),
            ranks: vec![0],
            facts,
            trials: Trials::default(),
        }],
        ways: JobWays::default(),
    }
}

/// Gathers the facts about this node, and opens its listeners where there are other nodes.
pub fn node(here: &ThisRank, several: bool) -> (NodeFacts, Option<Listeners>) {
    let mut facts = of_network(&here.settings, false);
    of_machine(here, &mut facts);
    let left = gather_left::left();
    (facts.leftovers, facts.foreign) = (left.removable, left.foreign);
    facts.libfabric = libfabric::look(&here.settings);
    if !several {
        // A loopback that is named serves one node.
        let has_any = !facts.table.cards.is_empty();
        facts.no_face.take_if(|why| !why.by_setting || has_any);
        return (facts, None);
    }
    facts.builds = builds();
    facts.removes_ipc = logind_runs() && folder::user() >= 1000 && removes_ipc(&logind_files());
    let listeners = listen(&mut facts);
    (facts, Some(listeners))
}

/// The facts that need no other node.
fn of_machine(here: &ThisRank, facts: &mut NodeFacts) {
    facts.shm = system::dev_shm();
    facts.yama = system::ptrace_scope();
    facts.wants_cma = wish::from(&here.settings).is_some();
    facts.lets_cma = here.settings.cma_ptracer() != CmaPtracer::None;
    facts.cpus = system::cpus();
    facts.processor = system::processor();
    facts.hcas = system::rdma_ports();
    facts.fabrics = system::rdma_subnets();
}

fn start(program: Option<&Path>, lasting: bool) -> StartFacts {
    let named = launcher::named_library();
    let of_variable = named.as_deref().map(|file| LinkedFacts {
        is_named: true,
        module: launcher::loaded_module(),
        ..linked::of_file(file)
    });
    let linked = program.map(linked::of_file).into_iter().chain(of_variable);
    let named = named.as_deref().and_then(family_of_library);
    let has = |family: &Family| {
        launcher::find_own(*family).is_some() || named.as_deref() == Some(family.name())
    };
    StartFacts {
        by: launcher::started_by(),
        linked: linked
            .filter(|one| !lasting || one.fault.is_none())
            .collect(),
        installed: config::install_prefix().map(|_| {
            let found = Family::ALL.into_iter().filter(has);
            found.map(|family| family.name().to_owned()).collect()
        }),
    }
}

/// Fault of the file of the secret, and the fix.
fn secret(path: &Path) -> Option<(String, String)> {
    let error = check_secret_file(path).err()?.into_parts();
    Some((error.what, error.remedy.into_owned()))
}

fn tuner(path: &Path, lasting: bool) -> Option<TunerFacts> {
    let name = path.display().to_string();
    let read = input_file::text(path, measured::MOST_BYTES as u64);
    if lasting && read.is_err() {
        return None;
    }
    let read = read.map_err(|error| format!("{name} cannot be read: {error}"));
    let read = read.and_then(|text| Measured::from_toml(&text, &name).map_err(Error::into_what));
    Some(match read {
        Ok(read) => TunerFacts {
            path: name,
            fault: None,
            machine: read
                .machine
                .map(|machine| (machine.processor, machine.cpus)),
        },
        Err(fault) => TunerFacts {
            path: name,
            fault: Some(fault),
            machine: None,
        },
    })
}

/// kolo's files, with what tells builds apart.
fn builds() -> BTreeMap<String, String> {
    let mut files: Vec<(String, PathBuf)> = Vec::new();
    files.extend(
        std::env::current_exe()
            .ok()
            .map(|path| ("kolo".to_string(), path)),
    );
    if let Some(prefix) = config::install_prefix() {
        files.push(("libkolo.so.0".into(), prefix.join("lib/libkolo.so.0")));
        for family in Family::ALL {
            let path = prefix.join("lib/kolo").join(family.name()).join(LIBRARY);
            files.push((format!("{LIBRARY} for {}", family.name()), path));
        }
    }
    let build = |(name, path): (String, PathBuf)| {
        let bytes = fs::read(path).ok()?;
        let digest = crc32c::crc32c(&bytes);
        let version = env!("CARGO_PKG_VERSION");
        Some(if name == "kolo" {
            (name, format!("{version} (build {digest:08x})"))
        } else {
            (name, format!("build {digest:08x}"))
        })
    };
    files.into_iter().filter_map(build).collect()
}

fn logind_runs() -> bool {
    Path::new("/run/systemd/system").exists() && Path::new("/run/systemd/sessions").exists()
}

/// The texts of logind's configuration, in the order in which they count.
fn logind_files() -> Vec<String> {
    let mut files = vec![
        PathBuf::from("/usr/lib/systemd/logind.conf"),
        PathBuf::from("/etc/systemd/logind.conf"),
    ];
    let mut parts: Vec<PathBuf> = Vec::new();
    for folder in ["/usr/lib", "/run", "/etc"] {
        let folder = Path::new(folder).join("systemd/logind.conf.d");
        parts.extend(names_in(&folder).iter().map(|name| folder.join(name)));
    }
    parts.sort_by_key(|path| path.file_name().map(|name| name.to_os_string()));
    files.extend(parts);
    files
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok())
        .collect()
}

/// The last word counts. Where there is none, a comment in the system's own file shows what logind
/// does by itself (some systems build it with another default); else it removes.
fn removes_ipc(texts: &[String]) -> bool {
    let lines = || texts.iter().flat_map(|text| text.lines()).map(str::trim);
    let said = lines().filter_map(of_remove_ipc).next_back();
    let comment = |line: &'_ str| of_remove_ipc(line.strip_prefix('#')?);
    said.or_else(|| lines().find_map(comment)).unwrap_or(true)
}

/// The value, if the line gives it one.
fn of_remove_ipc(line: &str) -> Option<bool> {
    let (key, value) = line.split_once('=')?;
    if key.trim() != "RemoveIPC" {
        return None;
    }
    match value.trim().to_ascii_lowercase().as_str() {
        "yes" | "true" | "1" | "on" | "y" | "t" => Some(true),
        "no" | "false" | "0" | "off" | "n" | "f" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_of_logind_counts() {
        let of =
            |texts: &[&str]| removes_ipc(&texts.iter().map(|t| t.to_string()).collect::<Vec<_>>());
        assert!(of(&[]));
        let vendor = "[Login]\n#KillUserProcesses=no\n#RemoveIPC=no\n";
        assert!(
            !of(&[vendor]),
            "a system's file shows what it does by itself"
        );
        assert!(of(&[&vendor.replace("IPC=no", "IPC=yes")]));
        assert!(of(&[vendor, "RemoveIPC=yes"]));
        assert!(!of(&["#RemoveIPC=yes", "[Login]\nRemoveIPC = no\n"]));
        assert!(!of(&["RemoveIPC=no", "RemoveIPC=\nRemoveIPC=maybe"]));
        assert!(!of(&["[Login]\nRemoveIPC=no\n"]));
        assert!(of(&["RemoveIPC=no", "RemoveIPC=yes"]));
        assert!(!of(&["RemoveIPC=yes", " RemoveIPC=false "]));
    }
}
