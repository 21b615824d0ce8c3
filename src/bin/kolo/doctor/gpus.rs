//! Checks of GPUs: driver, kernels, which devices ranks see, and whether these reach each other.

use super::facts::{DriverState, Gathered, GpuFacts, NodeSeen};
use super::finding::{Finding, WithFix, list, on_nodes};
use crate::gpus::VISIBLE;
use crate::out::counted;
use std::collections::BTreeSet;

/// Remedy that lets ranks see all devices of their node.
const SEE_ALL: &str = "let each task see all devices of its node and choose one by SLURM_LOCALID: \
                       srun --gpu-bind=none";

/// A driver that is there and does not work.
pub fn driver(job: &Gathered) -> Vec<Finding> {
    on_nodes(job, "GPU driver", |node| {
        let gpus = job.ranks_of(node).map(|rank| &rank.gpus);
        let fault = |gpus: &GpuFacts| match gpus.state {
            DriverState::Failing => Some((gpus.why.clone(), gpus.fix.clone())),
            _ => None,
        };
        gpus.filter_map(fault).collect()
    })
}

/// Kernels that are missing, or of no use to these devices.
pub fn kernels(job: &Gathered) -> Vec<Finding> {
    on_nodes(job, "GPU kernels", |node| {
        let gpus = job.ranks_of(node).map(|rank| &rank.gpus);
        let gpus = gpus.filter(|gpus| !gpus.devices.is_empty());
        gpus.filter_map(|gpus| gpus.kernels.clone()).collect()
    })
}

/// `CUDA_VISIBLE_DEVICES` that hides all devices, or names some that are not there.
pub fn visible(job: &Gathered) -> Vec<Finding> {
    on_nodes(job, VISIBLE, |node| {
        let gpus = job.ranks_of(node).map(|rank| &rank.gpus);
        gpus.filter_map(of_visible).collect()
    })
}

fn of_visible(gpus: &GpuFacts) -> Option<WithFix> {
    let list = gpus.visible.as_deref()?;
    let asked = matches!(gpus.state, DriverState::Ready | DriverState::NoDevice);
    let names = list.split(',').filter(|name| !name.trim().is_empty());
    let (named, seen) = (names.count(), gpus.devices.len());
    let what = match (named, seen) {
        _ if !asked => return None,
        (0, 0) => format!("{VISIBLE} is empty, and hides all devices"),
        (_, 0) => format!("{VISIBLE}={list} names no device of this node"),
        (named, seen) if seen < named => format!(
            "{VISIBLE}={list} names {named} devices, and {} seen: what follows a name that means \
             none is hidden",
            match seen {
                1 => "1 is".to_owned(),
                _ => format!("{seen} are"),
            }
        ),
        _ => return None,
    };
    let fix = format!("unset {VISIBLE}, or name devices that `nvidia-smi -L` lists");
    Some((what, fix))
}

/// Ranks of a node that see different devices: they cannot use the memory of each other's.
pub fn apart(job: &Gathered) -> Vec<Finding> {
    on_nodes(job, "GPUs of ranks", |node| {
        let sets = seen_by(job, node);
        let [first, others @ ..] = sets.as_slice() else {
            return Vec::new();
        };
        let Some((rank, _)) = others.iter().find(|(_, set)| set != &first.1) else {
            return Vec::new();
        };
        let what = format!(
            "ranks {} and {rank} see different devices, so data between these pass through memory \
             of the host",
            first.0
        );
        let options = job.ranks_of(node).flat_map(|rank| &rank.gpus.slurm);
        let options: BTreeSet<&str> = options.map(String::as_str).collect();
        let options: Vec<&str> = options.into_iter().collect();
        let fix = if options.is_empty() {
            format!("{SEE_ALL}, or the same {VISIBLE} for all ranks of a node")
        } else {
            format!("{SEE_ALL} in place of {}", options.join(" and "))
        };
        vec![(what, fix)]
    })
}

/// Devices of one rank that do not reach each other's memory.
pub fn reach(job: &Gathered) -> Vec<Finding> {
    on_nodes(job, "GPU peers", |node| {
        let gpus = job.ranks_of(node).map(|rank| &rank.gpus);
        let Some(far) = gpus.map(|gpus| &gpus.far).find(|far| !far.is_empty()) else {
            return Vec::new();
        };
        let what = format!(
            "devices do not reach each other's memory, and their data pass through that of the \
             host: {}",
            list(far)
        );
        let fix = "see `nvidia-smi topo -p2p r`; switch off ACS of the PCI bridges and the IOMMU \
                   (`intel_iommu=off` or `amd_iommu=off`, or pass-through), or use devices that do";
        vec![(what, fix.into())]
    })
}

/// Devices that each rank sees, with its number; ranks that see none are left out.
fn seen_by(job: &Gathered, node: &NodeSeen) -> Vec<(usize, BTreeSet<String>)> {
    let of = |&rank: &usize| {
        let seen: BTreeSet<String> = job.ranks.get(rank)?.gpus.devices.iter().cloned().collect();
        (!seen.is_empty()).then_some((rank, seen))
    };
    node.ranks.iter().filter_map(of).collect()
}

/// Notes that are no faults, and good to know: a line each.
pub fn notes(job: &Gathered) -> Vec<String> {
    let of_state = |state: DriverState| {
        let is_it = |node: &&NodeSeen| job.ranks_of(node).any(|rank| rank.gpus.state == state);
        let nodes = job.nodes.iter().filter(is_it);
        nodes.map(|node| node.name.clone()).collect::<Vec<_>>()
    };
    let mut lines = Vec::new();
    for (state, words) in [
        (DriverState::Missing, "no CUDA driver"),
        (DriverState::NoDevice, "a CUDA driver that has no device"),
    ] {
        let nodes = of_state(state);
        if !nodes.is_empty() {
            lines.push(format!(
                "GPUs: {}: {words}, which is no fault: communicators on the host need none",
                list(&nodes)
            ));
        }
    }
    for node in &job.nodes {
        let sets = seen_by(job, node);
        let devices: BTreeSet<&String> = sets.iter().flat_map(|(_, set)| set).collect();
        if !devices.is_empty() && devices.len() < node.ranks.len() {
            lines.push(format!(
                "GPUs: {}: {} for {}: if each rank takes one, some share theirs, which is slower \
                 (--ntasks-per-node={} gives each its own)",
                node.name,
                counted(devices.len() as u64, "device"),
                counted(node.ranks.len() as u64, "rank"),
                devices.len()
            ));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::samples::{healthy, lines};
    use super::*;

    /// A job of nodes with two ranks, which see these devices.
    fn seeing(nodes: usize, devices: [&[&str]; 2]) -> Gathered {
        let mut job = healthy(nodes, 2);
        for (rank, facts) in job.ranks.iter_mut().enumerate() {
            let names = devices[rank % 2].iter();
            facts.gpus = GpuFacts {
                state: DriverState::Ready,
                devices: names.map(|name| (*name).to_owned()).collect(),
                ..GpuFacts::default()
            };
        }
        job
    }

    #[test]
    fn a_node_with_gpus_that_work_is_well() {
        let job = seeing(2, [&["a", "b"], &["a", "b"]]);
        for check in [driver, kernels, visible, apart, reach] {
            assert_eq!(check(&job), []);
        }
        assert_eq!(notes(&job), [""; 0]);
    }

    #[test]
    fn a_driver_that_is_missing_is_no_finding_and_one_that_fails_is() {
        let mut job = healthy(2, 1);
        for rank in &mut job.ranks {
            rank.gpus.state = DriverState::Missing;
        }
        assert_eq!(driver(&job), []);
        let told = notes(&job);
        assert_eq!(told.len(), 1);
        let words = "GPUs: node1, node2: no CUDA driver, which is no fault";
        assert!(told[0].starts_with(words), "{told:?}");
        job.ranks[1].gpus = GpuFacts {
            state: DriverState::Failing,
            why: "the driver is that of CUDA 11.0".into(),
            fix: "install a newer one".into(),
            ..GpuFacts::default()
        };
        let words = "GPU driver: node2: the driver is that of CUDA 11.0; fix: install a newer one";
        assert_eq!(lines(&driver(&job)), words);
        assert!(notes(&job)[0].starts_with("GPUs: node1: no"));
    }

    #[test]
    fn kernels_count_where_there_are_devices() {
        let mut job = seeing(1, [&["a"], &["a"]]);
        let fault = (
            "kolo's kernels are not there".to_owned(),
            "get them".to_owned(),
        );
        for rank in &mut job.ranks {
            rank.gpus.kernels = Some(fault.clone());
        }
        let words = "GPU kernels: node1: kolo's kernels are not there; fix: get them";
        assert_eq!(lines(&kernels(&job)), words);
        for rank in &mut job.ranks {
            rank.gpus.devices.clear();
        }
        assert_eq!(kernels(&job), []);
    }

    #[test]
    fn lists_of_visible_devices_that_hide_some_are_told() {
        let told = |list: &str, seen: &[&str], state| {
            let mut job = seeing(1, [seen, seen]);
            for rank in &mut job.ranks {
                rank.gpus.visible = Some(list.into());
                rank.gpus.state = state;
            }
            lines(&visible(&job))
        };
        let none = DriverState::NoDevice;
        assert!(told("", &[], none).contains("is empty, and hides all"));
        assert!(told("7", &[], none).contains("=7 names no device of this node"));
        let part = told("0,9,1", &["a"], DriverState::Ready);
        assert!(
            part.contains("=0,9,1 names 3 devices, and 1 is seen"),
            "{part}"
        );
        assert!(part.contains("fix: unset CUDA_VISIBLE_DEVICES"), "{part}");
        assert_eq!(told("0,1", &["a", "b"], DriverState::Ready), "");
        assert_eq!(told("7", &[], DriverState::Missing), "");
    }

    #[test]
    fn ranks_that_see_their_own_device_only_are_told_with_the_option() {
        let mut job = seeing(1, [&["a"], &["b"]]);
        let told = lines(&apart(&job));
        assert!(
            told.contains("ranks 0 and 1 see different devices"),
            "{told}"
        );
        assert!(told.ends_with("the same CUDA_VISIBLE_DEVICES for all ranks of a node"));
        for rank in &mut job.ranks {
            rank.gpus.slurm = vec!["--gpus-per-task".into()];
        }
        let told = lines(&apart(&job));
        let fix = "srun --gpu-bind=none in place of --gpus-per-task";
        assert!(told.ends_with(fix), "{told}");
        assert_eq!(apart(&seeing(2, [&["a"], &["a"]])), []);
    }

    #[test]
    fn devices_out_of_reach_and_fewer_than_ranks_are_told() {
        let mut job = seeing(2, [&["a"], &["a"]]);
        let told = notes(&job);
        assert_eq!(told.len(), 2);
        assert!(
            told[1].starts_with("GPUs: node2: 1 device for 2 ranks"),
            "{told:?}"
        );
        job.ranks[3].gpus.far = vec!["0 and 1".into(), "0 and 2".into()];
        let told = lines(&reach(&job));
        assert!(
            told.starts_with("GPU peers: node2: devices do not reach"),
            "{told}"
        );
        assert!(
            told.contains("host: 0 and 1, 0 and 2; fix: see `nvidia-smi topo"),
            "{told}"
        );
    }
}
