//! Where the threads of a process run, and what further communicators cost it: as the system says.

use super::job::Context;
use super::scenarios::{Sum, bind, join, split, wants};
use kolo::comm::Inspect;
use kolo::comm::{Communicator, RedOp, Stream};
use kolo::topo::CpuSet;
use std::path::PathBuf;

/// Each rank of a process has a processor of its own.
pub const APART: &str = "KOLO_TEST_APART";

/// The processors that a thread may use, by its folder in /proc.
fn allowed(task: PathBuf) -> CpuSet {
    let status = std::fs::read_to_string(task.join("status")).expect("a status");
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    CpuSet::parse_list(list.expect("a list").trim()).expect("a list of processors")
}

/// The processors of each thread of this process that has this name.
fn named(name: &str) -> Vec<CpuSet> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("threads");
    let tasks = tasks.map(|task| task.expect("a thread").path());
    let is_it = |task: &PathBuf| {
        let comm = std::fs::read_to_string(task.join("comm"));
        comm.is_ok_and(|comm| comm.trim() == name)
    };
    tasks.filter(is_it).map(allowed).collect()
}

/// There is one thread of this name, and it may use these processors. One that was just made takes
/// its name, and goes where it belongs, by itself.
fn is_alone(name: &str, cpus: &CpuSet) {
    let all = [cpus.clone()];
    let mut looks = 0;
    while named(name) != all && looks < 2000 {
        std::thread::sleep(std::time::Duration::from_millis(5));
        looks += 1;
    }
    assert_eq!(named(name), all, "{name}");
}

fn own() -> CpuSet {
    allowed(PathBuf::from("/proc/thread-self"))
}

/// A call on a stream, and so a progress thread.
fn streamed(comm: &Communicator) {
    let stream = Stream::new().expect("a stream");
    Sum::begin(comm, RedOp::SUM, 1000, &stream).end();
}

/// Service and progress thread are where it was decided for all ranks of the process.
pub fn placed(context: &Context) {
    let before = own();
    if wants(APART) {
        let all: Vec<u32> = before.iter().collect();
        bind(all[context.rank as usize % all.len()]);
    }
    let comm = join(context);
    let mine = own();
    streamed(&comm);
    comm.barrier().expect("a barrier");
    let decided = &comm.pinning().cpus;
    for name in ["kolo service", "kolo progress"] {
        is_alone(name, decided);
    }
    assert_eq!(own(), mine, "the program's thread stays where it is");
    if !wants(APART) && before.len() > 1 {
        // One core for all ranks, and another one is free.
        assert!(!decided.intersects(&mine), "{decided} and {mine}");
    }
    comm.barrier().expect("a barrier");
    comm.destroy().expect("destroy");
}

/// The threads have the binding of the rank that made them.
pub fn left_alone(context: &Context) {
    let comm = join(context);
    streamed(&comm);
    assert!(comm.pinning().cpus.is_empty(), "{}", comm.pinning());
    for name in ["kolo service", "kolo progress"] {
        is_alone(name, &own());
    }
    comm.destroy().expect("destroy");
}

/// Some blocking calls; few, as each may cost a turn of a core that is shared with others.
fn small(comm: &Communicator) {
    for round in 0..10 {
        let mut data = [i64::from(comm.rank()) + round];
        comm.all_reduce_in_place(&mut data, RedOp::SUM).unwrap();
        let n = i64::from(comm.nranks());
        assert_eq!(data, [n * (n - 1) / 2 + n * round]);
        comm.barrier().unwrap();
    }
}

/// Threads, descriptors, and sockets among them.
fn held() -> (usize, usize, usize) {
    let entries = |of: &str| std::fs::read_dir(of).expect("a folder of /proc");
    let links = entries("/proc/self/fd").filter_map(|entry| {
        let link = std::fs::read_link(entry.expect("an entry").path());
        link.ok()
    });
    let links: Vec<PathBuf> = links.collect();
    let is_socket = |link: &&PathBuf| link.to_string_lossy().starts_with("socket:");
    let sockets = links.iter().filter(is_socket).count();
    (entries("/proc/self/task").count(), links.len(), sockets)
}

/// The children of a communicator, each used in every way: all ranks, and every second one.
fn children(comm: &Communicator) -> Vec<Communicator> {
    let half = Some(comm.rank() % 2);
    let part = comm.split(half, 0, &Default::default());
    let made = vec![
        split(comm),
        part.expect("a split").expect("a member"),
        split(comm),
    ];
    for child in &made {
        small(child);
        streamed(child);
    }
    made
}

/// Children of a communicator are moved by its threads and reach its peers as it does.
pub fn shared(context: &Context) {
    let comm = join(context);
    small(&comm);
    streamed(&comm);
    // What the parent itself needs for a split, such as connections between nodes, it keeps.
    for child in children(&comm) {
        child.destroy().expect("destroy");
    }
    comm.barrier().expect("a barrier");
    let before = held();
    let made = children(&comm);
    comm.barrier().expect("a barrier");
    let meanwhile = held();
    comm.barrier().expect("a barrier");
    assert_eq!(meanwhile.0, before.0, "threads");
    if !wants(super::scenarios::NODES) {
        assert_eq!(meanwhile, before, "descriptors, and sockets among them");
    }
    made.iter()
        .for_each(|child| child.destroy().expect("destroy"));
    drop(made);
    comm.barrier().expect("a barrier");
    // Lookouts of nodes leave when all others have, which their service threads hear of.
    let mut looks = 0;
    while held() > before && looks < 2000 {
        std::thread::sleep(std::time::Duration::from_millis(5));
        looks += 1;
    }
    let after = held();
    let is_left = after.0 != before.0 || after.1 > before.1 || after.2 > before.2;
    assert!(!is_left, "{before:?} and {after:?}");
    comm.barrier().expect("a barrier");
    comm.destroy().expect("destroy");
}
