//! Facts about this build and this machine, as one process sees them, for `kolo info`.

use crate::algorithms;
use crate::gpus::DriverGpus;
use crate::kernels_file;
use crate::launcher::{self, Family};
use crate::object;
use crate::out::amount;
use crate::ways::NetworkSaid;
use kolo::base::interfaces::{self, Interface};
use kolo::bootstrap::mpi_library::VARIABLE;
use kolo::config::{self, Settings};
use kolo::cuda::{ListedDevice, NvmlFacts};
use kolo::topo::{self, Machine};
use kolo::tune::measured::TunedOn;
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::path::Path;

/// A fact that one process knows.
#[derive(Clone, Debug)]
pub struct Fact {
    /// Its name, in text and JSON.
    pub name: &'static str,
    /// One line each; a fact without lines is not worth one.
    pub lines: Vec<String>,
    /// For JSON, where it is more than the lines.
    pub value: Value,
    /// Whether it should be the same in all processes of a job.
    pub is_common: bool,
}

/// A fact of one line.
fn fact(name: &'static str, line: impl Into<String>) -> Fact {
    let line = line.into();
    Fact {
        name,
        value: line.clone().into(),
        lines: vec![line],
        is_common: true,
    }
}

/// A fact of several lines.
fn list(name: &'static str, lines: Vec<String>) -> Fact {
    Fact {
        name,
        value: lines.clone().into(),
        lines,
        is_common: true,
    }
}

/// Marks a fact that may differ from process to process.
fn own(fact: Fact) -> Fact {
    Fact {
        is_common: false,
        ..fact
    }
}

/// All of them, as JSON by name.
pub fn document(facts: &[Fact]) -> Map<String, Value> {
    let pair = |fact: &Fact| (fact.name.replace(' ', "_"), fact.value.clone());
    facts.iter().map(pair).collect()
}

/// All facts of this process, with what it says of its networks.
pub fn of_this_process(said: &[NetworkSaid]) -> Vec<Fact> {
    let settings = Settings::load(&[]);
    let mut facts = of_build();
    facts.push(fact("processor", processor()));
    facts.push(fact("kernel", kernel()));
    facts.push(own(list("hand-over", kolo::comm::stores::report())));
    facts.push(own(fact("launcher", started_by())));
    facts.push(own(match &settings {
        Ok(settings) => networks(settings, said),
        // Which setting is wrong is the error of the command.
        Err(_) => fact("networks", "not tried, because a setting is wrong"),
    }));
    facts.push(own(list("interfaces", interface_lines())));
    facts.push(list("RDMA devices", rdma_devices(Path::new(RDMA))));
    let unreadable = Settings::defaults();
    facts.extend(gpus(settings.as_ref().unwrap_or(&unreadable)));
    facts.extend(limits());
    facts
}

fn of_build() -> Vec<Fact> {
    let build = if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    };
    let mut facts = vec![
        fact("kolo", env!("CARGO_PKG_VERSION")),
        fact("build", build),
        fact("instruction set", kolo::dtype::isa_name()),
        fact("hwloc", Machine::library_version()),
    ];
    let prefix = config::install_prefix();
    let prefix = prefix.map_or("not installed".into(), |path| path.display().to_string());
    facts.push(fact("prefix", prefix));
    for family in Family::ALL {
        let found = launcher::find_own(family).map(|path| path.display().to_string());
        let place = found.unwrap_or("libkolo_mpi.so not found".into());
        facts.push(fact(family.name(), place));
    }
    facts.extend(launcher::named_library().map(|path| fact("mpi library", named_library(&path))));
    let types = kolo::dtype::DataType::ALL.map(|dtype| dtype.name());
    facts.push(words("types", &types));
    facts.push(words(
        "operations",
        &kolo::dtype::ReduceOp::ALL.map(|op| op.name()),
    ));
    facts.push(Fact {
        value: algorithms::document(),
        ..list("algorithms", algorithms::lines())
    });
    let transports = "threads of one process, memory of one machine, a network between machines";
    facts.push(fact("transports", transports));
    facts
}

/// Which library the variable names.
fn named_library(path: &Path) -> String {
    let which = match object::family_of_library(path) {
        Some(family) => format!("the library for {family}"),
        None if path.is_file() => "which is no libkolo_mpi.so".to_owned(),
        None => "which is not there".to_owned(),
    };
    format!(
        "{VARIABLE} names {}, {which}; kolo takes it in place of these",
        path.display()
    )
}

/// One line of words.
fn words(name: &'static str, words: &[&str]) -> Fact {
    Fact {
        value: json!(words),
        ..fact(name, words.join(" "))
    }
}

/// Who started this process, by the variables that launchers set.
fn started_by() -> String {
    match launcher::launched_by() {
        Ok(families) if families.is_empty() => "none".into(),
        Ok(families) => {
            let names: Vec<&str> = families.iter().map(|family| family.name()).collect();
            format!("that of {}", names.join(" or "))
        }
        Err(error) => error.into_what(),
    }
}

/// Which network would carry data between nodes. Why the others would not, the ways say.
fn networks(settings: &Settings, said: &[NetworkSaid]) -> Fact {
    let words = |one: &NetworkSaid| {
        let about = one.about.as_ref().map(|about| format!(" by {about}"));
        one.devices.join(", ") + &about.unwrap_or_default()
    };
    let taken = said.iter().find(|one| one.why_not.is_empty());
    let name = taken.map_or("none", |one| one.name.as_str());
    let mut lines = vec![format!("{name}, with KOLO_NET={}", settings.net().text())];
    lines.extend(taken.map(|one| format!("{}: {}", one.kind, words(one))));
    let value = said.iter().map(|one| {
        let (is_usable, words) = match one.why_not.as_str() {
            "" => (true, words(one)),
            why => (false, why.to_owned()),
        };
        let value = json!({"usable": is_usable, "words": words});
        (one.kind.clone(), value)
    });
    let mut value: Map<String, Value> = value.collect();
    value.insert("taken".into(), name.into());
    Fact {
        value: value.into(),
        ..list("networks", lines)
    }
}

/// The driver, the devices that this process sees, and the file with their kernels.
fn gpus(settings: &Settings) -> [Fact; 3] {
    let (driver, devices, is_software) = match DriverGpus::get() {
        Err(error) => (error.into_what(), vec!["none".to_owned()], None),
        Ok(seen) => {
            let nvml = NvmlFacts::get().map(|facts| format!(", driver {}", facts.driver));
            let driver = format!("CUDA {}{}", seen.cuda, nvml.unwrap_or_default());
            let line = |device: &ListedDevice| {
                let (name, pci, sm) = (&device.name, &device.pci, device.architecture);
                let uuid = device.uuid_text();
                format!("{}: {name}, sm_{sm}, at {pci}, {uuid}", device.number)
            };
            let lines = seen.devices.iter().map(line).collect();
            (driver, lines, seen.is_software())
        }
    };
    let kernels = match kernels_file::find(settings, is_software) {
        Ok(path) => path.display().to_string(),
        Err(fault) => format!("{}; {}", fault.what, fault.fix),
    };
    [
        fact("CUDA driver", driver),
        own(list("GPUs", devices)),
        fact("GPU kernels", kernels),
    ]
}

/// Interfaces that are up, each with its addresses.
fn interface_lines() -> Vec<String> {
    let found = match interfaces::discover() {
        Ok(found) => found,
        Err(error) => return vec![error.into_what()],
    };
    let mut names: Vec<&str> = found.iter().map(|one| one.name.as_str()).collect();
    // A name stands there once for each of its addresses, not always one after the other.
    let mut known = HashSet::new();
    names.retain(|name| known.insert(*name));
    let of = |name: &&str| {
        let is_it = |one: &&Interface| one.name == **name;
        let addresses = found.iter().filter(is_it);
        let addresses: Vec<String> = addresses.map(|one| one.address.to_string()).collect();
        format!("{name} {}", addresses.join(" "))
    };
    names.iter().map(of).collect()
}

/// Where the system lists RDMA devices.
const RDMA: &str = "/sys/class/infiniband";

/// Lists the RDMA ports of the system, whether kolo can use them or not.
pub fn rdma_ports() -> Vec<String> {
    ports_of(Path::new(RDMA))
}

/// Lists the InfiniBand ports of the system that are up, with the subnet of each.
pub fn rdma_subnets() -> Vec<String> {
    subnets_of(Path::new(RDMA))
}

/// The first half of the first GID is the prefix of the subnet.
fn subnets_of(folder: &Path) -> Vec<String> {
    let lines = ports_of(folder).into_iter();
    let is_up = |line: &String| line.contains(": ACTIVE InfiniBand,");
    let subnet = |line: String| {
        let (name, _) = line.split_once(':')?;
        let (device, port) = name.split_once(" port ")?;
        let file = folder.join(device).join("ports").join(port).join("gids/0");
        let gid = std::fs::read_to_string(file).ok()?;
        let prefix: Vec<&str> = gid.trim().split(':').take(4).collect();
        Some(format!("{name} {}", prefix.join(":")))
    };
    lines.filter(is_up).filter_map(subnet).collect()
}

fn rdma_devices(folder: &Path) -> Vec<String> {
    let lines = ports_of(folder);
    if lines.is_empty() {
        vec!["none".into()]
    } else {
        lines
    }
}

fn ports_of(folder: &Path) -> Vec<String> {
    let named = |folder: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    };
    let text = |path: &Path| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.trim().rsplit(": ").next().unwrap_or("").to_owned()
    };
    let mut lines = Vec::new();
    for device in named(folder) {
        let ports = folder.join(&device).join("ports");
        for port in named(&ports) {
            let at = ports.join(&port);
            let of = |file: &str| text(&at.join(file));
            lines.push(format!(
                "{device} port {port}: {} {}, {}",
                of("state"),
                of("link_layer"),
                of("rate")
            ));
        }
    }
    lines
}

/// A limit of this process, such as `RLIMIT_NOFILE`; `None`: there is none.
pub fn limit(resource: libc::__rlimit_resource_t) -> Option<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a place for the limit.
    let code = unsafe { libc::getrlimit(resource, &mut limit) };
    (code == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// Limits of the system that kolo's memory and connections stand before.
fn limits() -> Vec<Fact> {
    let bytes = |name: &'static str, limit: Option<u64>| Fact {
        value: json!(limit),
        ..fact(name, limit.map_or("unlimited".into(), amount))
    };
    let files = limit(libc::RLIMIT_NOFILE);
    vec![
        bytes("locked memory", limit(libc::RLIMIT_MEMLOCK)),
        bytes("address space", limit(libc::RLIMIT_AS)),
        bytes("file size", limit(libc::RLIMIT_FSIZE)),
        Fact {
            value: json!(files),
            ..fact(
                "open files",
                files.map_or("unlimited".into(), |n| n.to_string()),
            )
        },
        shared_memory(),
        yama(),
    ]
}

/// Size and free space of /dev/shm, if there is one.
pub fn dev_shm() -> Option<(u64, u64)> {
    // SAFETY: all members may be zero.
    let mut about: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: a path that ends with a zero byte, and a place for the answer.
    let code = unsafe { libc::statvfs(c"/dev/shm".as_ptr(), &mut about) };
    (code == 0).then(|| {
        (
            about.f_blocks * about.f_frsize,
            about.f_bavail * about.f_frsize,
        )
    })
}

/// The size of /dev/shm: kolo's own files in memory do not count there, those of others do.
fn shared_memory() -> Fact {
    let size = dev_shm().map(|(size, _)| size);
    Fact {
        value: json!(size),
        ..fact("/dev/shm", size.map_or("not there".into(), amount))
    }
}

/// `kernel.yama.ptrace_scope`, where there is yama.
pub fn ptrace_scope() -> Option<u32> {
    let text = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    text.ok().and_then(|text| text.trim().parse().ok())
}

/// Who may read the memory of whom.
fn yama() -> Fact {
    let scope = ptrace_scope();
    let words = match scope {
        None => "no yama: processes of a user may read each other's memory".to_owned(),
        Some(0) => "0: processes of a user may read each other's memory".to_owned(),
        Some(1) => "1: only where a process lets others (KOLO_CMA_PTRACER)".to_owned(),
        Some(more) => format!("{more}: no process may read another one's memory"),
    };
    Fact {
        value: json!(scope),
        ..fact("ptrace scope", words)
    }
}

/// The host, up to the first dot.
pub fn host() -> String {
    let name = topo::host_name();
    name.split('.').next().unwrap_or(&name).to_owned()
}

/// The name of the processor, as the kernel knows it.
pub fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.trim().to_string())
    });
    name.unwrap_or_else(|| std::env::consts::ARCH.to_string())
}

/// All processors of this machine, as a list.
pub fn cpus() -> String {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    text.trim().to_owned()
}

/// This machine, as a file of measured times names it.
pub fn machine() -> TunedOn {
    let cpus = topo::CpuSet::parse_list(&cpus()).map_or(1, |set| set.len() as u32);
    TunedOn {
        processor: processor(),
        cpus: cpus.max(1),
    }
}

/// The release of the kernel.
pub fn kernel() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    text.trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rdma_devices_are_read_from_the_system() {
        let folder = std::env::temp_dir().join(format!("kolo-facts-{}", std::process::id()));
        assert_eq!(rdma_devices(&folder), ["none"]);
        let port = folder.join("mlx5_0/ports/1");
        std::fs::create_dir_all(&port).unwrap();
        std::fs::write(port.join("state"), "4: ACTIVE\n").unwrap();
        std::fs::write(port.join("link_layer"), "InfiniBand\n").unwrap();
        std::fs::write(port.join("rate"), "200 Gb/sec (4X HDR)\n").unwrap();
        let lines = rdma_devices(&folder);
        std::fs::create_dir_all(port.join("gids")).unwrap();
        std::fs::write(
            port.join("gids/0"),
            "fec0:0000:0000:0007:248a:0703:00b1:5a5e\n",
        )
        .unwrap();
        assert_eq!(subnets_of(&folder), ["mlx5_0 port 1 fec0:0000:0000:0007"]);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(
            lines,
            ["mlx5_0 port 1: ACTIVE InfiniBand, 200 Gb/sec (4X HDR)"]
        );
    }
}
