//! Collecting what the processes of a job say: those of this node, and through lookouts the others.

use super::seen::{AroundSeen, BoardSeen, ProcessSeen, RankSeen};
use super::threads;
use crate::base::{Code, Error, Result, clock};
use crate::proxy::inquiry::Inquiry;
use crate::proxy::inquiry::asking::{self, ServicePlace};
use crate::topo::short_host_name;
use crate::transport::segment::Nonce;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long a process may take to say what it does: one that is not stopped takes 20 ms.
const OWN: Duration = Duration::from_millis(300);
/// How long the answers of other nodes may take.
const AROUND: Duration = Duration::from_millis(900);
/// Communicators whose lookouts are asked, at most: mostly the first one knows all nodes.
const MOST_AROUND: usize = 8;

/// Which job is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pick {
    /// The only one of this user on this node.
    Only,
    /// The one that its launcher calls so.
    Job(String),
    /// The one of this process.
    Process(u32),
}

/// A job, as it was seen.
#[derive(Clone, Debug, Default)]
pub struct JobSeen {
    pub processes: Vec<ProcessSeen>,
    /// Boards of communicators, by their numbers.
    pub boards: BTreeMap<String, Vec<BoardSeen>>,
    /// Places of processes that speak for their nodes, and did not answer.
    pub silent: Vec<String>,
}

/// A process of this node, and where it can be asked.
type Local = (ServicePlace, ProcessSeen);

/// All processes of this user on this node that use kolo.
///
/// # Errors
/// The system does not list them.
fn locals() -> Result<Vec<Local>> {
    let addresses = asking::addresses().map_err(|error| {
        let what = "cannot list the sockets of this machine (/proc/net/unix)";
        Error::system(what, &error, "mount /proc on this node")
    })?;
    let host = short_host_name();
    let said = asking::ask(&addresses, Inquiry::Own, OWN);
    let seen = said.into_iter().map(|said| {
        let text = said.text.as_deref().unwrap_or_default();
        let told = postcard::from_bytes(text).ok();
        let process = told.unwrap_or_else(|| ProcessSeen {
            host: host.clone(),
            pid: said.from.pid,
            threads: threads::first_of(said.from.pid).into_iter().collect(),
            silent: true,
            ..ProcessSeen::default()
        });
        (said.from, process)
    });
    Ok(seen.collect())
}

/// All processes of this user on this node that use kolo; none where the system does not tell.
pub fn node() -> Vec<ProcessSeen> {
    let all = locals().unwrap_or_default();
    all.into_iter().map(|(_, process)| process).collect()
}

/// Those of the job that has the communicator, and those that did not answer, which may be.
pub fn of_job(processes: Vec<ProcessSeen>, nonce: Nonce) -> Vec<ProcessSeen> {
    let comm = name_of(nonce);
    let jobs = jobs(&processes.iter().collect::<Vec<_>>());
    let has_it = |at: &usize| processes[*at].ranks.iter().any(|rank| rank.comm == comm);
    let job = jobs.into_iter().find(|job| job.iter().any(has_it));
    let members: BTreeSet<usize> = job.into_iter().flatten().collect();
    let all = processes.into_iter().enumerate();
    let kept = all.filter(|(at, process)| process.silent || members.contains(at));
    kept.map(|(_, process)| process).collect()
}

/// Text of a communicator's number.
pub fn name_of(nonce: Nonce) -> String {
    format!("{:032x}", nonce.0)
}

fn nonce_of(name: &str) -> Option<Nonce> {
    u128::from_str_radix(name, 16).ok().map(Nonce)
}

/// The jobs of these processes: those that share communicators. One that has none yet is of the job
/// that its launcher calls by the same name, if there is one such job. Who does not answer is of
/// none.
pub fn jobs(processes: &[&ProcessSeen]) -> Vec<Vec<usize>> {
    let answered = || processes.iter().enumerate().filter(|(_, it)| !it.silent);
    let mut jobs: Vec<(BTreeSet<&str>, Vec<usize>)> = Vec::new();
    for (at, process) in answered().filter(|(_, it)| !it.ranks.is_empty()) {
        let comms = process.ranks.iter().map(|rank| rank.comm.as_str());
        let mut keys: BTreeSet<&str> = comms.collect();
        let mut members = vec![at];
        jobs.retain_mut(|(known, others)| {
            let is_same = !known.is_disjoint(&keys);
            if is_same {
                keys.append(known);
                members.append(others);
            }
            !is_same
        });
        jobs.push((keys, members));
    }
    let mut jobs: Vec<Vec<usize>> = jobs.into_iter().map(|(_, members)| members).collect();
    let mut new: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, process) in answered().filter(|(_, it)| it.ranks.is_empty()) {
        let Some(name) = process.job.as_deref() else {
            jobs.push(vec![at]);
            continue;
        };
        let is_it = |job: &&mut Vec<usize>| {
            job.iter()
                .any(|at| processes[*at].job.as_deref() == Some(name))
        };
        let mut same: Vec<&mut Vec<usize>> = jobs.iter_mut().filter(is_it).collect();
        if let [job] = same.as_mut_slice() {
            job.push(at);
        } else {
            new.entry(name).or_default().push(at);
        }
    }
    jobs.extend(new.into_values());
    jobs.iter_mut().for_each(|job| job.sort_unstable());
    jobs
}

/// Collects what the job does.
///
/// # Errors
/// There is none, or more than one and none was chosen.
pub fn job(pick: &Pick) -> Result<JobSeen> {
    let all = locals()?;
    let members = chosen(&all, pick)?;
    let (mine, silent): (Vec<_>, Vec<_>) = all
        .into_iter()
        .enumerate()
        .filter(|(at, (_, process))| members.contains(at) || process.silent)
        .map(|(_, local)| local)
        .partition(|(_, process)| !process.silent);
    let mut seen = JobSeen {
        processes: mine.iter().map(|(_, process)| process.clone()).collect(),
        ..JobSeen::default()
    };
    seen.processes.extend(silent.into_iter().map(|it| it.1));
    ask_around(&mine, &mut seen);
    read_boards(&mine, &mut seen);
    Ok(seen)
}

/// The processes of the job that is meant.
fn chosen(all: &[Local], pick: &Pick) -> Result<Vec<usize>> {
    let processes: Vec<&ProcessSeen> = all.iter().map(|(_, process)| process).collect();
    let mut jobs = jobs(&processes);
    let none = |what: String| {
        let remedy = "type it on a node of the job, as the user whose job it is; processes show \
                      themselves when they make their first communicator";
        Error::new(Code::InvalidArgument, what, remedy)
    };
    match pick {
        Pick::Only if jobs.len() > 1 => {
            let shown: Vec<String> = jobs.iter().map(|job| named(&processes, job)).collect();
            let what = format!(
                "{} jobs of this user run on this node: {}",
                jobs.len(),
                shown.join(", ")
            );
            let remedy = "name one: `kolo ras --job ID`, or `kolo ras PID` with one of its \
                          processes";
            return Err(Error::new(Code::InvalidArgument, what, remedy));
        }
        Pick::Only => {}
        Pick::Job(name) => jobs.retain(|job| {
            let of_step = |it: &str| it.split_once('.').is_some_and(|(job, _)| job == name);
            let is_it = |it: &String| it == name || of_step(it);
            job.iter()
                .any(|at| processes[*at].job.as_ref().is_some_and(is_it))
        }),
        Pick::Process(pid) => {
            jobs.retain(|job| job.iter().any(|at| processes[*at].pid == *pid));
            let silent = |it: &&ProcessSeen| it.pid == *pid && it.silent;
            if jobs.is_empty() && processes.iter().any(silent) {
                let what = format!("process {pid} does not answer: it is stopped, or has no core");
                let remedy = "name another process of its job, which knows about this one";
                return Err(Error::new(Code::Timeout, what, remedy));
            }
        }
    }
    let what = match pick {
        Pick::Only => "no process of this user on this node uses kolo".to_owned(),
        Pick::Job(name) => format!("no process of job {name} on this node uses kolo"),
        Pick::Process(pid) => format!("process {pid} does not use kolo, or is of another user"),
    };
    jobs.into_iter().next().ok_or_else(|| none(what))
}

/// A job, in words.
fn named(processes: &[&ProcessSeen], job: &[usize]) -> String {
    let first = processes[job[0]];
    let name = match &first.job {
        Some(name) => format!("job {name}, "),
        None => String::new(),
    };
    format!("{name}PID {} ({})", first.pid, first.program)
}

/// Has lookouts tell of the other nodes: those of the communicator on the most nodes first.
fn ask_around(mine: &[Local], seen: &mut JobSeen) {
    let posts = mine.iter().flat_map(|(found, process)| {
        let posts = process.ranks.iter();
        let posts = posts.filter(|rank| rank.is_lookout);
        posts.map(move |rank| (found, rank))
    });
    let mut posts: Vec<(&ServicePlace, &RankSeen)> = posts.collect();
    posts.sort_by_key(|(_, rank)| std::cmp::Reverse((rank.nodes, rank.nranks)));
    let start = clock::now();
    for (found, post) in posts.into_iter().take(MOST_AROUND) {
        // A node that does not answer holds up the first question alone.
        if start.past(AROUND) || answered(seen, &post.comm) >= post.nranks as usize {
            continue;
        }
        let Some(nonce) = nonce_of(&post.comm) else {
            continue;
        };
        let question = Inquiry::Around(nonce);
        let said = asking::ask(&[found.address], question, AROUND);
        let text = said.into_iter().find_map(|said| said.text);
        let around: Option<AroundSeen> = text.and_then(|text| parsed(&text));
        let around = around.unwrap_or_default();
        for process in around.processes {
            let known = |it: &ProcessSeen| (&it.host, it.pid) == (&process.host, process.pid);
            if !seen.processes.iter().any(known) {
                seen.processes.push(process);
            }
        }
        seen.silent.extend(around.silent);
    }
    seen.silent.sort();
    seen.silent.dedup();
}

/// How many ranks of the communicator have told of themselves.
fn answered(seen: &JobSeen, comm: &str) -> usize {
    let ranks = seen.processes.iter().flat_map(|process| &process.ranks);
    ranks.filter(|rank| rank.comm == comm).count()
}

/// Reads the boards of communicators of which some ranks have not told of themselves.
fn read_boards(mine: &[Local], seen: &mut JobSeen) {
    let mut asked: BTreeSet<&str> = BTreeSet::new();
    for (found, process) in mine {
        for rank in &process.ranks {
            let lacks = answered(seen, &rank.comm) < rank.nranks as usize;
            let Some(nonce) = nonce_of(&rank.comm).filter(|_| lacks) else {
                continue;
            };
            if !asked.insert(&rank.comm) {
                continue;
            }
            let said = asking::ask(&[found.address], Inquiry::Boards(nonce), OWN);
            let text = said.into_iter().find_map(|said| said.text);
            let boards: Option<Vec<BoardSeen>> = text.and_then(|text| parsed(&text));
            match boards.filter(|boards| !boards.is_empty()) {
                Some(boards) => drop(seen.boards.insert(rank.comm.clone(), boards)),
                // Another process may answer.
                None => drop(asked.remove(rank.comm.as_str())),
            }
        }
    }
}

fn parsed<T: serde::de::DeserializeOwned>(text: &[u8]) -> Option<T> {
    postcard::from_bytes(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, job: Option<&str>, comms: &[&str]) -> ProcessSeen {
        let rank = |comm: &&str| RankSeen {
            comm: (*comm).to_owned(),
            ..RankSeen::default()
        };
        ProcessSeen {
            pid,
            job: job.map(str::to_owned),
            ranks: comms.iter().map(rank).collect(),
            ..ProcessSeen::default()
        }
    }

    #[test]
    fn processes_that_share_a_communicator_or_a_name_are_a_job() {
        let mut silent = process(9, None, &[]);
        silent.silent = true;
        let all = [
            process(1, None, &["a"]),
            process(2, None, &["b", "c"]),
            silent,
            process(3, Some("7"), &["d"]),
            process(4, None, &["a", "b"]),
            process(5, Some("7"), &[]),
            process(6, None, &[]),
            // Two programs of one allocation, and two processes that may be of either.
            process(7, Some("8"), &["e"]),
            process(8, Some("8"), &["f"]),
            process(9, Some("8"), &[]),
            process(10, Some("8"), &[]),
        ];
        let mut found = jobs(&all.iter().collect::<Vec<_>>());
        found.sort();
        let wanted: [&[usize]; 6] = [&[0, 1, 4], &[3, 5], &[6], &[7], &[8], &[9, 10]];
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_node_tells_of_one_job_and_of_those_who_do_not_answer() {
        let comm = |number: u128| name_of(Nonce(number));
        let mut silent = process(9, None, &[]);
        silent.silent = true;
        let all = vec![
            process(1, None, &[&comm(1)]),
            process(2, None, &[&comm(2)]),
            silent,
            process(3, None, &[&comm(1), &comm(3)]),
        ];
        let pids = |nonce: u128| -> Vec<u32> {
            let kept = of_job(all.clone(), Nonce(nonce));
            kept.iter().map(|process| process.pid).collect()
        };
        assert_eq!(pids(3), [1, 9, 3]);
        assert_eq!(pids(2), [2, 9]);
        assert_eq!(nonce_of(&comm(u128::MAX - 3)), Some(Nonce(u128::MAX - 3)));
    }

    #[test]
    fn one_of_several_jobs_must_be_named() {
        let local = |process: ProcessSeen| {
            let found = ServicePlace::of_test(process.pid);
            (found, process)
        };
        let all: Vec<Local> = [
            process(1, Some("7"), &["a"]),
            process(2, Some("8"), &["b"]),
            process(3, None, &["b"]),
        ]
        .map(local)
        .into();
        let error = chosen(&all, &Pick::Only).unwrap_err().to_string();
        assert!(
            error.contains("2 jobs") && error.contains("job 7, PID 1"),
            "{error}"
        );
        assert_eq!(chosen(&all, &Pick::Job("8".into())).unwrap(), [1, 2]);
        assert_eq!(chosen(&all, &Pick::Process(3)).unwrap(), [1, 2]);
        assert_eq!(chosen(&all[..1], &Pick::Only).unwrap(), [0]);
        for pick in [Pick::Job("9".into()), Pick::Process(4)] {
            assert!(chosen(&all, &pick).is_err(), "{pick:?}");
        }
        let error = chosen(&[], &Pick::Only).unwrap_err().to_string();
        assert!(error.contains("no process of this user"), "{error}");
    }
}
