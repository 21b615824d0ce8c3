//! `kolo doctor`: what is wrong on the nodes of a job, one line each with its fix.
//!
//! **Problem.** What keeps a job from working, or makes it slow, mostly lies outside of it: a
//! limit, a cable, a firewall, another version on one node. Errors then name what failed, not why.
//!
//! **Idea.** Every rank gathers facts ([`facts`], [`gather`]) and sends them to all; the lowest
//! rank of each node also tries connections to other nodes ([`trials`]). A check is a pure function
//! of these facts ([`limits`], [`network`], [`placement`], [`software`], [`mpi`], [`gpus`],
//! [`leftovers`], [`ways`]) and gives findings. Rank 0 prints them.
//!
//! The exit code is 0 where nothing was found and 1 where something was.

mod cache;
mod facts;
mod finding;
mod gather;
mod gather_files;
mod gather_gpus;
mod gather_left;
mod gather_network;
mod gpus;
mod leftovers;
mod libfabric;
mod limits;
mod linked;
mod mpi;
mod network;
mod placement;
#[cfg(test)]
mod samples;
mod search;
mod software;
mod trials;
mod ways;

use crate::ways::RankWays;
use crate::{launcher, out};
use clap::Args;
use facts::{Gathered, HostBoot, NodeFacts, NodeSeen, RankFacts, Trials};
use finding::Finding;
use gather::ThisRank;
use kolo::base::{Error, Rank, Result};
use kolo::bootstrap::{Bootstrap, NetSettings, launch};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

pub const HELP: &str = "\
Examples:
  srun -N 8 --ntasks-per-node=2 kolo doctor
      what is wrong on 8 nodes, and between them? One line for each finding, with its fix
  mpirun -n 16 kolo doctor ./model
      the same, and whether this mpirun fits the MPI that the program is linked to
  kolo doctor --node
      this node alone, in one line and without network, for HealthCheckProgram of Slurm and for NHC

The exit code is 0 if nothing was found, 1 if something was, 2 for a mistake in the options.";

/// The subject that is looked at.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// A program that will be started in the same way: is it of this launcher's MPI?
    program: Option<PathBuf>,
    /// This node alone: one line, within a second, and no other node is asked
    #[arg(long)]
    node: bool,
    /// Print JSON in place of text
    #[arg(long)]
    json: bool,
}

/// How long the ranks may take to find each other.
const MEET_LIMIT: Duration = Duration::from_secs(10);

type Check = fn(&Gathered) -> Vec<Finding>;

/// Those that one node can be asked: what keeps kolo from working there, whatever jobs do. What a
/// job changes is no fault of the node, which a health check would drain.
const OF_NODE: [Check; 8] = [
    network::interfaces,
    limits::memlock,
    limits::files,
    limits::processes,
    limits::shm,
    software::settings,
    software::tuner,
    mpi::mpi,
];

/// The others, in the order in which one mends things.
const OF_JOB: [Check; 25] = [
    limits::shm_free,
    network::mtu,
    network::speed,
    network::reach,
    network::names,
    network::clocks,
    ways::networks,
    limits::yama,
    ways::refused,
    limits::remove_ipc,
    placement::uneven,
    placement::binding,
    software::hcas,
    ways::fabrics,
    ways::devices,
    libfabric::libfabric,
    software::builds,
    software::shape,
    software::secret,
    gpus::driver,
    gpus::visible,
    gpus::kernels,
    gpus::apart,
    gpus::reach,
    leftovers::leftovers,
];

fn all_findings(job: &Gathered) -> Vec<Finding> {
    let checks = OF_NODE.iter().chain(&OF_JOB);
    checks.flat_map(|check| check(job)).collect()
}

/// Runs the command.
pub fn run(args: &DoctorArgs) -> ExitCode {
    let mut here = ThisRank::look(args.program.as_deref(), args.node);
    if args.node {
        return alone(args, &here);
    }
    // The driver may take longer than a health check has.
    here.rank.gpus = gather_gpus::look(&here.settings);
    let net = NetSettings::from(&here.settings);
    let limit = net.meet_limit.unwrap_or(MEET_LIMIT).min(MEET_LIMIT);
    let net = NetSettings {
        meet_limit: Some(limit),
        start_limit: limit,
        connect_limit: net.connect_limit.min(limit),
        // What keeps ranks from meeting becomes a finding.
        warn: Arc::new(|_| ()),
        ..net
    };
    let met = launch::from_environment(&net).and_then(|launch| launch.connect(&net));
    let done = met.and_then(|ranks| together(&*ranks, args, &here));
    match done {
        Ok(found) => exit(found),
        Err(error) => apart(args, &here, &error),
    }
}

fn exit(found: bool) -> ExitCode {
    ExitCode::from(u8::from(found))
}

/// This node alone, in one line.
fn alone(args: &DoctorArgs, here: &ThisRank) -> ExitCode {
    let job = gather::job_of_one(here, true);
    let found: Vec<Finding> = OF_NODE.iter().flat_map(|check| check(&job)).collect();
    if args.json {
        out::json(&document(&job, &found));
    } else {
        out::line(&in_one_line(&here.rank.host, &found, &mpi::notes(&job)));
    }
    exit(!found.is_empty())
}

fn in_one_line(host: &str, found: &[Finding], notes: &[String]) -> String {
    let bare = |one: &Finding| {
        let nodes = Vec::new();
        Finding {
            nodes,
            ..one.clone()
        }
        .short()
    };
    let mut words: Vec<String> = found.iter().map(bare).collect();
    if words.is_empty() {
        words.push(nothing(notes).into());
    }
    words.extend_from_slice(notes);
    format!("{host}: {}", words.join("; "))
}

/// The words where there is no finding: a program of which nothing is known has not been found to
/// be right.
fn nothing(unknown: &[String]) -> &'static str {
    match unknown {
        [] => "nothing found",
        _ => "nothing found, but not everything is known",
    }
}

/// Lines of no fault.
fn notes(job: &Gathered) -> Vec<String> {
    let of_others = [
        libfabric::notes(job),
        gpus::notes(job),
        leftovers::notes(job),
    ];
    [mpi::notes(job), of_others.concat()].concat()
}

/// The ranks have not met: one process of each node says why, and what is so on its node.
fn apart(args: &DoctorArgs, here: &ThisRank, error: &Error) -> ExitCode {
    if !launcher::speaks_for_node() {
        return exit(true);
    }
    let job = gather::job_of_one(here, false);
    let mut found = vec![Finding {
        check: "meeting",
        nodes: vec![here.rank.host.clone()],
        what: format!("the ranks have not met: {}", error.what),
        fix: error.remedy.to_string(),
    }];
    found.extend(OF_NODE.iter().flat_map(|check| check(&job)));
    print(args, &job, &found);
    exit(true)
}

/// All ranks tell each other their facts; whether something was found, on rank 0. Each rank knows
/// who is where; rank 0 alone reads what all ranks say, and the lowest rank of a node what nodes
/// say, as in a large job that is much.
fn together(ranks: &dyn Bootstrap, args: &DoctorArgs, here: &ThisRank) -> Result<bool> {
    let (me, speaks) = (ranks.rank().0 as usize, ranks.rank() == Rank(0));
    let seat = (here.rank.host.clone(), here.rank.boot.clone());
    let seats: Vec<HostBoot> = told(ranks, Some(&seat), true)?;
    let all: Vec<RankFacts> = told(ranks, Some(&here.rank), speaks)?;
    let plugin = gather_files::plugin_on_disk;
    let (mine, mark) = RankWays::look(ranks.rank(), Some(&here.settings), plugin);
    let ways = crate::ways::gather(ranks, &mine, &mark)?;
    let nodes = facts::nodes_of(&seats);
    let place = nodes.iter().position(|of_node| of_node[0] == me);
    let several = nodes.len() > 1;
    let asked = place.map(|_| gather::node(here, several));
    let (facts, listeners) = asked.unzip();
    let before = kolo::base::clock::shown();
    let mut said: Vec<NodeFacts> = told(ranks, facts.as_ref(), place.is_some())?;
    let after = kolo::base::clock::shown();
    let mut known = |of_node: &Vec<usize>| NodeSeen {
        name: seats[of_node[0]].0.clone(),
        ranks: of_node.clone(),
        facts: taken(&mut said, of_node[0]),
        trials: Trials::default(),
    };
    let mut nodes: Vec<NodeSeen> = nodes.iter().map(&mut known).collect();
    let tried = place.map(|place| Trials {
        clock: (before, after),
        ..trials::of(place, &nodes)
    });
    let mut tried: Vec<Trials> = told(ranks, tried.as_ref(), speaks)?;
    drop(listeners);
    let mut found = false;
    if speaks {
        for node in &mut nodes {
            node.trials = taken(&mut tried, node.ranks[0]);
        }
        facts::settle(&mut nodes);
        let job = Gathered {
            ranks: all,
            nodes,
            ways,
        };
        let findings = all_findings(&job);
        print(args, &job, &findings);
        found = !findings.is_empty();
    }
    // A launcher may end all processes as soon as one has left with an error.
    ranks.barrier()?;
    Ok(found)
}

/// The text that stands there; nothing where this rank has not read it.
fn taken<T: Default>(all: &mut [T], at: usize) -> T {
    all.get_mut(at).map(std::mem::take).unwrap_or_default()
}

/// The words of each rank, if this one `reads` it, else an empty list; a rank without words
/// sends nothing, and counts as one with the facts of nothing.
fn told<T: Serialize + DeserializeOwned + Default>(
    ranks: &dyn Bootstrap,
    mine: Option<&T>,
    reads: bool,
) -> Result<Vec<T>> {
    let text = mine.map(serde_json::to_vec).transpose();
    let text = text.map_err(|error| Error::internal(format!("facts cannot be sent: {error}")))?;
    let all = ranks.all_gather(&text.unwrap_or_default())?;
    if !reads {
        return Ok(Vec::new());
    }
    let read = |(rank, bytes): (usize, &Vec<u8>)| match bytes.as_slice() {
        [] => Ok(T::default()),
        bytes => serde_json::from_slice(bytes).map_err(|error| {
            Error::usage(
                format!("what rank {rank} says cannot be read: {error}"),
                "let all ranks use the same version of kolo",
            )
        }),
    };
    all.iter().enumerate().map(read).collect()
}

fn print(args: &DoctorArgs, job: &Gathered, found: &[Finding]) {
    if args.json {
        out::json(&document(job, found));
        return;
    }
    for one in found {
        out::line(&one.line());
    }
    for line in [notes(job), ways::lines(job)].concat() {
        out::report(&format!("kolo doctor: {line}"));
    }
    out::report(&format!(
        "kolo doctor: {} on {}: {}",
        out::counted(job.ranks.len(), "rank"),
        out::counted(job.nodes.len(), "node"),
        match found.len() {
            0 => nothing(&mpi::notes(job)).into(),
            count => out::counted(count, "finding"),
        }
    ));
}

fn document(job: &Gathered, found: &[Finding]) -> serde_json::Value {
    let names: Vec<&str> = job.nodes.iter().map(|node| node.name.as_str()).collect();
    json!({
        "ranks": job.ranks.len(),
        "nodes": names,
        "findings": found,
        "notes": notes(job),
        "ways": job.ways.groups(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use samples::healthy;

    #[test]
    fn nothing_is_found_on_a_healthy_job() {
        for (nodes, per_node) in [(1, 1), (1, 8), (2, 2), (8, 4), (100, 1)] {
            assert_eq!(
                all_findings(&healthy(nodes, per_node)),
                [],
                "{nodes}x{per_node}"
            );
        }
    }

    /// The words of all ranks are many in a large job.
    #[test]
    fn a_rank_reads_what_others_say_only_where_it_wants_it() {
        let ranks = kolo::bootstrap::ThreadsBootstrap::group(3);
        let read: Vec<Vec<u32>> = std::thread::scope(|scope| {
            let threads: Vec<_> = ranks
                .iter()
                .map(|rank| {
                    let me = rank.rank().0;
                    let mine = (me != 1).then_some(me + 7);
                    scope.spawn(move || told(rank, mine.as_ref(), me == 0).unwrap())
                })
                .collect();
            threads.into_iter().map(|it| it.join().unwrap()).collect()
        });
        assert_eq!(read, [vec![7, 0, 9], vec![], vec![]]);
    }

    #[test]
    fn a_node_alone_says_one_line() {
        let mut job = healthy(1, 1);
        assert_eq!(in_one_line("node1", &[], &[]), "node1: nothing found");
        job.nodes[0].facts.shm = None;
        job.ranks[0].files = Some(99);
        let found: Vec<Finding> = OF_NODE.iter().flat_map(|check| check(&job)).collect();
        let line = in_one_line("node1", &found, &[]);
        assert!(
            line.starts_with("node1: open files: a process may have 99"),
            "{line}"
        );
        assert!(line.contains("; /dev/shm: there is none"), "{line}");
        assert!(!line.contains('\n'));
        let notes = ["MPI: ./run.sh: it is a script".to_string()];
        let line = in_one_line("node1", &[], &notes);
        assert!(line.ends_with("; MPI: ./run.sh: it is a script"), "{line}");
        assert!(!line.contains("nothing found;"), "{line}");
    }

    #[test]
    fn json_has_nodes_checks_and_fixes() {
        let mut job = healthy(2, 1);
        job.nodes[1].facts.shm = None;
        let document = document(&job, &all_findings(&job));
        assert_eq!(document["nodes"], json!(["node1", "node2"]));
        assert_eq!(document["findings"][0]["check"], "/dev/shm");
        assert_eq!(document["findings"][0]["nodes"], json!(["node2"]));
        assert!(
            document["findings"][0]["fix"]
                .as_str()
                .unwrap()
                .contains("mount")
        );
    }
}
