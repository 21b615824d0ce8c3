//! Checks of what a node gives to processes: limits, /dev/shm, who may read whose memory.

use super::facts::{Gathered, NodeSeen, RankFacts};
use super::finding::{Finding, WithFix, differing, of_difference, on_nodes};
use crate::out::amount;

/// Locked memory that RDMA needs at least: registered buffers of one rank.
const LEAST_LOCKED: u64 = 1 << 30;
/// Open files below which a rank of a small job may lack some.
const LEAST_FILES: u64 = 1024;
/// Open files that a rank may need for each other rank, and besides.
const FILES_PER_RANK: u64 = 4;
const FILES_BESIDES: u64 = 256;
/// Processes and threads below which a user's jobs may lack some, and for each rank of a node.
const LEAST_PROCESSES: u64 = 1024;
const THREADS_PER_RANK: u64 = 16;
/// /dev/shm below which an MPI beside kolo, or another job, may find no room.
const LEAST_SHM: u64 = 256 << 20;
const LEAST_FREE_SHM: u64 = 64 << 20;

/// Where a limit is set. (Without the last one, Slurm gives tasks what the shell has that submits.)
const LIMITS: &str = "in /etc/security/limits.conf, in the unit of slurmd (systemctl edit slurmd), \
                      and `PropagateResourceLimitsExcept=MEMLOCK,NOFILE,NPROC` in slurm.conf, so \
                      that tasks get those of slurmd";

/// The least limit of a node's ranks; `None`: no rank has one.
fn least(job: &Gathered, node: &NodeSeen, of: impl Fn(&RankFacts) -> Option<u64>) -> Option<u64> {
    job.ranks_of(node).filter_map(of).min()
}

/// Locked memory: too little for RDMA, or less than on other nodes.
pub fn memlock(job: &Gathered) -> Vec<Finding> {
    let of = |node: &NodeSeen| least(job, node, |rank| rank.memlock);
    let fix = || format!("set `memlock unlimited` {LIMITS} (LimitMEMLOCK=infinity)");
    let mut found = on_nodes(job, "memlock", |node| match of(node) {
        Some(bytes) if bytes < LEAST_LOCKED && !node.facts.hcas.is_empty() => vec![(
            format!(
                "only {} may be locked, and RDMA registers its buffers",
                amount(bytes)
            ),
            fix(),
        )],
        _ => Vec::new(),
    });
    let shown = |node: &NodeSeen| Some(of(node).map_or("no limit".into(), amount));
    if found.is_empty()
        && let Some(groups) = differing(job, shown)
    {
        found.push(of_difference(
            "memlock",
            &groups,
            "locked memory differs",
            fix(),
        ));
    }
    found
}

/// Open files, for as many connections as there may be.
pub fn files(job: &Gathered) -> Vec<Finding> {
    let ranks = job.ranks.len() as u64;
    let needed = LEAST_FILES.max(FILES_BESIDES + FILES_PER_RANK * ranks);
    on_nodes(job, "open files", |node| {
        let limit = least(job, node, |rank| rank.files);
        let what = ("a process", "open files");
        too_few(limit, needed, what, "nofile", "LimitNOFILE")
    })
}

/// Processes and threads.
pub fn processes(job: &Gathered) -> Vec<Finding> {
    on_nodes(job, "processes", |node| {
        let limit = least(job, node, |rank| rank.processes);
        let needed = LEAST_PROCESSES.max(THREADS_PER_RANK * node.ranks.len() as u64);
        let what = ("the user", "processes and threads");
        too_few(limit, needed, what, "nproc", "LimitNPROC")
    })
}

/// `who` may have too few of `what`.
fn too_few(
    limit: Option<u64>,
    needed: u64,
    (who, what): (&str, &str),
    word: &str,
    unit: &str,
) -> Vec<WithFix> {
    match limit {
        Some(limit) if limit < needed => vec![(
            format!("{who} may have {limit} {what}, and this job may need {needed}"),
            format!(
                "set `{word} {}` or more {LIMITS} ({unit})",
                needed.next_power_of_two()
            ),
        )],
        _ => Vec::new(),
    }
}

/// The size of /dev/shm.
pub fn shm(job: &Gathered) -> Vec<Finding> {
    let mount = "as root `mount -o remount,size=50% /dev/shm`, and `size=50%` for it in \
                 /etc/fstab, so that it lasts; start a container with --shm-size=1g";
    on_nodes(job, "/dev/shm", |node| match node.facts.shm {
        None => vec![(
            "there is none, and MPI beside kolo needs it".into(),
            "as root `mount -t tmpfs -o mode=1777 tmpfs /dev/shm`, and the same in /etc/fstab"
                .into(),
        )],
        Some((size, _)) if size < LEAST_SHM => vec![(
            format!(
                "it has {}; an MPI beside kolo needs at least {}",
                amount(size),
                amount(LEAST_SHM)
            ),
            mount.into(),
        )],
        Some(_) => Vec::new(),
    })
}

/// The free space of /dev/shm. Any job may fill it, and empties it again when it ends.
pub fn shm_free(job: &Gathered) -> Vec<Finding> {
    on_nodes(job, "/dev/shm", |node| match node.facts.shm {
        Some((size, free)) if size >= LEAST_SHM && free < LEAST_FREE_SHM => vec![(
            format!("only {} of {} are free", amount(free), amount(size)),
            "remove what dead jobs have left there, and as root what those of others have \
             (`leftovers` names it; share/kolo/slurm/epilog.sh UID removes what is of one user)"
                .into(),
        )],
        _ => Vec::new(),
    })
}

/// Whether a process may read the memory of another one, where the settings want it.
pub fn yama(job: &Gathered) -> Vec<Finding> {
    on_nodes(job, "ptrace_scope", |node| {
        let scope = node.facts.yama.unwrap_or(0);
        let several = node.ranks.len() > 1;
        if !several || !node.facts.wants_cma || scope == 0 {
            return Vec::new();
        }
        match scope {
            1 if node.facts.lets_cma => Vec::new(),
            1 => vec![(
                "it is 1, so that ranks cannot read each other's buffers (CMA)".into(),
                "KOLO_CMA_PTRACER=any, or sysctl kernel.yama.ptrace_scope=0; KOLO_CMA=off does \
                 without"
                    .into(),
            )],
            more => vec![(
                format!("it is {more}, so that ranks cannot read each other's buffers (CMA)"),
                "sysctl kernel.yama.ptrace_scope=0 on the nodes; KOLO_CMA=off does without".into(),
            )],
        }
    })
}

/// Whether logind takes segments from running jobs.
pub fn remove_ipc(job: &Gathered) -> Vec<Finding> {
    on_nodes(job, "RemoveIPC", |node| match node.facts.removes_ipc {
        false => Vec::new(),
        true => vec![(
            "logind removes a user's segments in /dev/shm when his last login ends, also those \
             of a running MPI job"
                .into(),
            "set RemoveIPC=no in /etc/systemd/logind.conf, and systemctl restart systemd-logind"
                .into(),
        )],
    })
}

#[cfg(test)]
mod tests {
    use super::super::samples::{healthy, lines};
    use super::*;

    #[test]
    fn locked_memory_is_missed_by_rdma_and_where_nodes_differ() {
        let mut job = healthy(2, 2);
        for rank in &mut job.ranks {
            rank.memlock = Some(64 << 10);
        }
        assert_eq!(memlock(&job), [], "without RDMA nothing is locked");
        job.nodes[1].facts.hcas = vec!["mlx5_0 port 1: ACTIVE".into()];
        let found = lines(&memlock(&job));
        assert!(found.starts_with("memlock: node2: only 64 KiB"), "{found}");
        assert!(found.contains("memlock unlimited"), "{found}");
        assert!(found.contains("PropagateResourceLimitsExcept=MEMLOCK,"));
        let mut job = healthy(3, 2);
        job.ranks[5].memlock = Some(8 << 20);
        let found = lines(&memlock(&job));
        assert!(found.contains("node3: locked memory differs: no limit on node1, node2; 8 MiB"));
    }

    #[test]
    fn open_files_are_counted_against_the_job() {
        let mut job = healthy(2, 2);
        job.ranks[3].files = Some(256);
        let found = lines(&files(&job));
        assert!(
            found.starts_with("open files: node2: a process may have 256"),
            "{found}"
        );
        assert!(found.contains("nofile 1024"), "{found}");
        job.ranks[3].files = Some(1024);
        assert_eq!(files(&job), []);
        // The same limit is too low in a larger job.
        let mut job = healthy(2, 1000);
        job.ranks[0].files = Some(1024);
        assert!(
            lines(&files(&job)).contains("may need 8256"),
            "{}",
            lines(&files(&job))
        );
    }

    #[test]
    fn processes_are_counted_against_the_node() {
        let mut job = healthy(2, 128);
        job.ranks[0].processes = Some(1500);
        assert!(lines(&processes(&job)).contains("nproc 2048"));
        job.ranks[0].processes = Some(2048);
        assert_eq!(processes(&job), []);
    }

    #[test]
    fn a_small_or_full_dev_shm_is_told() {
        let mut job = healthy(2, 1);
        job.nodes[1].facts.shm = Some((64 << 20, 64 << 20));
        assert!(lines(&shm(&job)).starts_with("/dev/shm: node2: it has 64 MiB"));
        assert_eq!(shm_free(&job), []);
        job.nodes[1].facts.shm = Some((1 << 30, 1 << 20));
        assert!(lines(&shm_free(&job)).contains("only 1 MiB of 1 GiB are free"));
        assert_eq!(shm(&job), [], "a job may fill it");
        job.nodes[1].facts.shm = None;
        assert!(lines(&shm(&job)).contains("mount -t tmpfs"));
    }

    #[test]
    fn memory_that_may_not_be_read_is_told_where_it_is_wanted() {
        let mut job = healthy(1, 2);
        job.nodes[0].facts.yama = Some(1);
        assert!(lines(&yama(&job)).contains("KOLO_CMA_PTRACER=any"));
        job.nodes[0].facts.lets_cma = true;
        assert_eq!(yama(&job), []);
        job.nodes[0].facts.yama = Some(2);
        assert!(lines(&yama(&job)).contains("it is 2"));
        job.nodes[0].facts.wants_cma = false;
        assert_eq!(yama(&job), []);
    }

    #[test]
    fn logind_that_removes_segments_is_told() {
        let mut job = healthy(2, 1);
        assert_eq!(remove_ipc(&job), []);
        job.nodes[0].facts.removes_ipc = true;
        assert!(lines(&remove_ipc(&job)).starts_with("RemoveIPC: node1: logind removes"));
    }
}
