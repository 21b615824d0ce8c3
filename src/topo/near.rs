//! Which processors are near the network devices of a rank.
//!
//! **Problem.** A thread that feeds a network card from the other socket sends every byte over the
//! link between the sockets. Networks name their devices by paths in the system's tree of devices,
//! the machine knows them by their bus addresses.
//!
//! **Idea.** The last bus address in the path that the machine lists is the device. A machine that
//! was described without devices leaves the answer to the system. A device that is near all
//! processors alike, as in most virtual machines, says nothing.

use super::hardware::Machine;
use super::{CpuSet, RankPlace};
use std::path::Path;

/// The PUs near the network devices at `pci_paths` (paths below `/sys/devices`), for threads of the
/// rank at `me`: those near its own PUs; else those on its packages; else all. None where nothing
/// is known, or nothing prefers some PUs to others. A pure function: `told` is asked about paths of
/// which the machine lists no device ([`Machine::told_near`]).
pub fn near_devices(
    machine: &Machine,
    me: &RankPlace,
    pci_paths: &[&str],
    told: &dyn Fn(&str) -> Option<CpuSet>,
) -> Option<CpuSet> {
    let near = |path: &&str| listed(machine, path).or_else(|| told(path));
    let tells = |cpus: &CpuSet| !cpus.is_empty() && cpus != machine.cpus();
    let devices: Vec<CpuSet> = pci_paths
        .iter()
        .filter_map(near)
        .map(|cpus| cpus.intersection(machine.cpus()))
        .filter(tells)
        .collect();
    let packages = machine
        .packages()
        .filter(|package| package.cpus.intersects(&me.cpus))
        .fold(CpuSet::new(), |all, package| all.union(&package.cpus));
    let beside = |around: &CpuSet| {
        let these = devices.iter().filter(|cpus| cpus.intersects(around));
        these.fold(CpuSet::new(), |all, cpus| all.union(cpus))
    };
    let choices = [&me.cpus, &packages, machine.cpus()];
    let nearest = choices
        .map(beside)
        .into_iter()
        .find(|cpus| !cpus.is_empty());
    nearest.filter(tells)
}

/// Looks the device up in the machine's own list. Behind the address of the device itself may stand
/// what the system made of it (`virtio2`).
fn listed(machine: &Machine, pci_path: &str) -> Option<CpuSet> {
    pci_path.rsplit('/').find_map(|part| {
        let is_it = |bus: &String| bus.eq_ignore_ascii_case(part);
        let mut devices = machine.devices.iter();
        let device = devices.find(|device| device.bus_id.as_ref().is_some_and(is_it))?;
        Some(device.cpus.clone())
    })
}

/// Asks the system about a device of this machine: at its place in the tree, or above it.
pub(super) fn in_tree(pci_path: &Path) -> Option<CpuSet> {
    let mut folders = pci_path.ancestors();
    let text = folders.find_map(|at| std::fs::read_to_string(at.join("local_cpulist")).ok())?;
    CpuSet::parse_list(text.trim()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_searched_upwards() {
        let root = std::env::temp_dir().join(format!("kolo-near-{}", std::process::id()));
        let device = root.join("pci0000:00/0000:00:03.0");
        std::fs::create_dir_all(device.join("virtio2")).unwrap();
        assert_eq!(in_tree(&device.join("virtio2")), None);
        std::fs::write(device.join("local_cpulist"), "8-15,40-47\n").unwrap();
        let near = CpuSet::parse_list("8-15,40-47").unwrap();
        assert_eq!(in_tree(&device.join("virtio2")), Some(near.clone()));
        assert_eq!(in_tree(&device), Some(near));
        assert_eq!(in_tree(&root.join("pci0000:00")), None);
        std::fs::write(device.join("local_cpulist"), "many\n").unwrap();
        assert_eq!(in_tree(&device), None);
        std::fs::remove_dir_all(root).unwrap();
    }
}
