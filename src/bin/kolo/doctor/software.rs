//! Checks of software: which builds, which settings, which file of measured times.

use super::facts::{Gathered, RankFacts};
use super::finding::{Finding, WithFix, differing, of_difference, on_nodes, told};
use std::collections::BTreeMap;

/// RDMA ports that are not the same on all nodes.
pub fn hcas(job: &Gathered) -> Vec<Finding> {
    let shown = |ports: &[String]| match ports {
        [] => "none".to_string(),
        ports => ports.join(", "),
    };
    let groups = differing(job, |node| Some(shown(&node.facts.hcas)));
    let fix = "check cables and `ibstat` on these nodes, or leave devices out with KOLO_IB_HCA";
    groups
        .map(|groups| of_difference("RDMA devices", &groups, "ports differ", fix.into()))
        .into_iter()
        .collect()
}

/// kolo's files that are not the same on all nodes.
pub fn builds(job: &Gathered) -> Vec<Finding> {
    let mut names: Vec<&String> = job
        .nodes
        .iter()
        .flat_map(|n| n.facts.builds.keys())
        .collect();
    names.sort();
    names.dedup();
    let found = names.into_iter().filter_map(|name| {
        let value = |build: Option<&String>| build.cloned().unwrap_or("none".into());
        let groups = differing(job, |node| Some(value(node.facts.builds.get(name))))?;
        let fix = "install the same kolo on all nodes, and let LD_LIBRARY_PATH and PATH name it";
        let what = format!("{name} is not the same");
        Some(of_difference("build", &groups, &what, fix.into()))
    });
    found.collect()
}

/// Variables that are no options, and other faults of the settings.
pub fn settings(job: &Gathered) -> Vec<Finding> {
    on_nodes(job, "settings", |node| {
        job.ranks_of(node)
            .flat_map(|rank| {
                rank.settings
                    .iter()
                    .filter(|fault| !is_of_gpus(rank, fault))
            })
            .cloned()
            .collect()
    })
}

/// Whether the check of GPUs tells it: it knows what devices there are.
fn is_of_gpus(rank: &RankFacts, (what, _): &WithFix) -> bool {
    let kernels = rank.gpus.kernels.as_ref();
    kernels.is_some_and(|(fault, _)| what.ends_with(fault.as_str()))
}

/// A file of a secret by which ranks cannot prove who they are.
pub fn secret(job: &Gathered) -> Vec<Finding> {
    on_nodes(job, "secret file", |node| {
        job.ranks_of(node)
            .filter_map(|rank| rank.secret.clone())
            .collect()
    })
}

/// Options that all ranks must agree on, and do not.
pub fn shape(job: &Gathered) -> Vec<Finding> {
    let mut keys: Vec<&String> = job
        .ranks
        .iter()
        .flat_map(|rank| rank.shape.keys())
        .collect();
    keys.sort();
    keys.dedup();
    let mut found = Vec::new();
    for key in keys {
        let mut groups: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
        for rank in &job.ranks {
            let (value, source) = rank.shape.get(key).cloned().unwrap_or_default();
            let nodes = groups.entry((value, source)).or_default();
            if !nodes.contains(&rank.host) {
                nodes.push(rank.host.clone());
            }
        }
        let mut values: Vec<&String> = groups.keys().map(|(value, _)| value).collect();
        values.dedup();
        if values.len() < 2 {
            continue;
        }
        let shown = groups
            .iter()
            .map(|((value, source), nodes)| (format!("\"{value}\" by {source}"), nodes.clone()));
        found.push(Finding {
            check: "settings",
            nodes: Vec::new(),
            what: format!("{key} must be one: {}", told(&shown.collect::<Vec<_>>())),
            fix: "set it for all ranks (mpirun -x NAME, -genv), or in the file of the site".into(),
        });
    }
    found
}

/// Measured times that are not of this machine.
pub fn tuner(job: &Gathered) -> Vec<Finding> {
    on_nodes(job, "tuner file", |node| {
        let rank = job.ranks_of(node).next();
        let Some(tuner) = rank.and_then(|rank| rank.tuner.as_ref()) else {
            return Vec::new();
        };
        let anew = "measure anew with `kolo tune`, or unset KOLO_TUNER_FILE";
        if let Some(fault) = &tuner.fault {
            return vec![(fault.clone(), anew.into())];
        }
        let here = (node.facts.processor.as_str(), count(&node.facts.cpus));
        match &tuner.machine {
            Some((processor, cpus)) if (processor.as_str(), *cpus) != here => vec![(
                format!(
                    "{} was measured on another machine ({processor}, {cpus} CPUs; here {}, {})",
                    tuner.path, here.0, here.1
                ),
                anew.into(),
            )],
            _ => Vec::new(),
        }
    })
}

fn count(cpus: &str) -> u32 {
    kolo::topo::CpuSet::parse_list(cpus).map_or(0, |set| set.len() as u32)
}

#[cfg(test)]
mod tests {
    use super::super::facts::TunerFacts;
    use super::super::samples::{healthy, lines};
    use super::*;

    #[test]
    fn rdma_ports_that_differ_are_told() {
        let mut job = healthy(3, 1);
        for node in &mut job.nodes {
            node.facts.hcas = vec!["mlx5_0 port 1: ACTIVE".into()];
        }
        assert_eq!(hcas(&job), []);
        job.nodes[1].facts.hcas = vec!["mlx5_0 port 1: DOWN".into()];
        let found = lines(&hcas(&job));
        assert!(
            found.starts_with("RDMA devices: node2: ports differ: "),
            "{found}"
        );
        job.nodes[1].facts.hcas.clear();
        assert!(lines(&hcas(&job)).contains("none on node2"));
    }

    #[test]
    fn another_build_is_told() {
        let mut job = healthy(3, 1);
        assert_eq!(builds(&job), []);
        let name = "libkolo.so.0".to_string();
        job.nodes[2]
            .facts
            .builds
            .insert(name.clone(), "0.0.9".into());
        let found = lines(&builds(&job));
        assert!(
            found.starts_with("build: node3: libkolo.so.0 is not the same"),
            "{found}"
        );
        job.nodes[2].facts.builds.remove(&name);
        assert!(lines(&builds(&job)).contains("none on node3"));
    }

    #[test]
    fn faults_of_the_settings_stand_once() {
        let mut job = healthy(2, 2);
        let fault = (
            "unknown variable KOLO_ALGOO".to_string(),
            "set KOLO_ALGO".to_string(),
        );
        for rank in &mut job.ranks {
            rank.settings = vec![fault.clone()];
        }
        let found = lines(&settings(&job));
        assert_eq!(
            found,
            "settings: node1, node2: unknown variable KOLO_ALGOO; fix: set KOLO_ALGO"
        );
    }

    #[test]
    fn a_secret_that_cannot_be_used_is_told_with_its_fix() {
        let mut job = healthy(2, 2);
        assert_eq!(secret(&job), []);
        let fault = ("its mode is 0644".to_string(), "`chmod 600 /x`".to_string());
        job.ranks[2].secret = Some(fault.clone());
        job.ranks[3].secret = Some(fault);
        let wanted = "secret file: node2: its mode is 0644; fix: `chmod 600 /x`";
        assert_eq!(lines(&secret(&job)), wanted);
    }

    /// On a node with GPUs two checks look at the same file.
    #[test]
    fn a_file_of_kernels_is_told_once() {
        let mut job = healthy(1, 1);
        let fault = (
            "kolo's kernels are not there: /x".to_string(),
            "fix".to_string(),
        );
        let what = format!("kernels_file (variable KOLO_KERNELS_FILE): {}", fault.0);
        job.ranks[0].settings = vec![(what, "fix".into())];
        assert!(lines(&settings(&job)).contains("KOLO_KERNELS_FILE"));
        job.ranks[0].gpus.kernels = Some(fault);
        assert_eq!(settings(&job), []);
    }

    #[test]
    fn options_that_ranks_must_share_are_compared() {
        let mut job = healthy(2, 1);
        let set = |value: &str, source: &str| (value.to_string(), source.to_string());
        job.ranks[0].shape = [("algo".into(), set("ring", "KOLO_ALGO"))].into();
        job.ranks[1].shape = [("algo".into(), set("ring", "a file"))].into();
        assert_eq!(shape(&job), [], "where it comes from does not matter");
        job.ranks[1].shape = [("algo".into(), set("", "built in"))].into();
        let found = lines(&shape(&job));
        assert!(found.contains("\"ring\" by KOLO_ALGO on node1"), "{found}");
    }

    #[test]
    fn a_tuner_file_of_another_machine_is_told() {
        let mut job = healthy(2, 1);
        let of = |processor: &str, cpus| TunerFacts {
            path: "/etc/kolo/tuner.toml".into(),
            fault: None,
            machine: Some((processor.into(), cpus)),
        };
        job.ranks[1].tuner = Some(of("Sample CPU", 8));
        assert_eq!(tuner(&job), []);
        job.ranks[1].tuner = Some(of("Sample CPU", 64));
        let found = lines(&tuner(&job));
        assert!(
            found.contains("node2: /etc/kolo/tuner.toml was measured on another"),
            "{found}"
        );
        job.ranks[1].tuner = Some(of("Other CPU", 8));
        assert!(lines(&tuner(&job)).contains("Other CPU, 8 CPUs; here Sample CPU, 8"));
        let fault = Some("it has no format".to_string());
        job.ranks[1].tuner = Some(TunerFacts { fault, ..of("", 0) });
        assert!(lines(&tuner(&job)).contains("it has no format; fix: measure anew"));
    }
}
