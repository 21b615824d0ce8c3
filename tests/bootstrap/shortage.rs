//! Tests of what a root holds, and what it does when the process has no file descriptor left. Each
//! test is a process of its own: limits and counts are those of the whole process.

use super::strays::listening_ports;
use super::support::*;
use kolo::bootstrap::UniqueId;
use std::net::TcpStream;
use std::os::unix::fs::FileExt;

/// Threads of this process with this name.
fn threads(name: &str) -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let named = tasks.filter(|task| {
        let comm = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        comm.trim() == name
    });
    named
        .map(|task| task.path().to_str().unwrap().to_string())
        .collect()
}

/// Waits until this process has so many root threads: one names itself when it runs, and ends a
/// moment after its last root.
fn await_roots(count: usize) {
    for _ in 0..2000 {
        if threads("kolo root").len() == count {
            return;
        }
        pause(5);
    }
    panic!(
        "there are {} root threads, not {count}",
        threads("kolo root").len()
    );
}

fn sockets() -> usize {
    let all = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let is_socket = |path| {
        let target = std::fs::read_link(path).unwrap_or_default();
        target.to_string_lossy().starts_with("socket:")
    };
    all.filter(|entry| is_socket(entry.path())).count()
}

/// Ticks of the processor that a thread has used, from its open file: that takes no descriptor.
fn ticks(stat: &std::fs::File) -> u64 {
    let mut bytes = [0; 1024];
    let length = stat.read_at(&mut bytes, 0).unwrap();
    let text = String::from_utf8_lossy(&bytes[..length]);
    let rest = text.rsplit(')').next().unwrap();
    let fields: Vec<&str> = rest.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

fn limit_files(count: u64) {
    // SAFETY: plain system calls on a value of this function.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit.rlim_cur = count;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
    }
}

#[test]
fn a_thousand_unused_ids_share_a_port_and_a_thread() {
    if !has_own_process("shortage::a_thousand_unused_ids_share_a_port_and_a_thread") {
        return;
    }
    let before = sockets();
    let ids: Vec<_> = (0..1000)
        .map(|_| UniqueId::create(&settings()).unwrap())
        .collect();
    assert_eq!(sockets() - before, 1);
    await_roots(1);
    assert!(ids.iter().all(|id| id.address() == ids[0].address()));
    // They are as good as ever: the first, the last, and one between.
    for at in [999, 0, 500] {
        let ranks: Vec<_> = (0..2)
            .map(|rank| start(ids[at], rank, 2, settings()))
            .collect();
        let members: Vec<_> = ranks
            .into_iter()
            .map(|r| r.join().unwrap().unwrap())
            .collect();
        each(&members, check_exchange);
    }
    assert_eq!(threads("kolo root").len(), 1);
}

/// The thread and the port go when no id waits any more, and come again.
#[test]
fn the_last_id_takes_thread_and_port_along() {
    if !has_own_process("shortage::the_last_id_takes_thread_and_port_along") {
        return;
    }
    for _ in 0..3 {
        let id = UniqueId::create(&settings()).unwrap();
        await_roots(1);
        let ranks: Vec<_> = (0..2).map(|rank| start(id, rank, 2, settings())).collect();
        let members: Vec<_> = ranks
            .into_iter()
            .map(|r| r.join().unwrap().unwrap())
            .collect();
        each(&members, check_exchange);
        drop(members);
        await_roots(0);
        // (The port itself may be another program's by now.)
        assert_eq!(listening_ports(), [0; 0]);
    }
}

/// Connections wait in the queue, which stays readable: a root that polled it would spin.
#[test]
fn a_root_without_descriptors_sleeps_and_goes_on_when_there_are_some() {
    let test = "shortage::a_root_without_descriptors_sleeps_and_goes_on_when_there_are_some";
    if !has_own_process(test) {
        return;
    }
    let id = UniqueId::create(&talkative()).unwrap();
    let told = Told::default();
    let first = start(id, 0, 2, told.by(settings()));
    told.wait_for(1);
    let task = threads("kolo root").pop().unwrap();
    let stat = std::fs::File::open(format!("{task}/stat")).unwrap();
    let mut held = Vec::new();
    limit_files(64);
    while let Ok(file) = std::fs::File::open("/dev/null") {
        held.push(file);
    }
    // One descriptor for who knocks; the root has none to accept it with.
    held.pop();
    let knock = TcpStream::connect(id.address()).unwrap();
    pause(300);
    let begin = ticks(&stat);
    pause(1500);
    let used = ticks(&stat) - begin;
    assert!(
        used <= 5,
        "the root used {used} ticks of the processor while it could do nothing"
    );
    drop((held, knock));
    limit_files(1024);
    let second = start(id, 1, 2, settings());
    let members = [first, second].map(|rank| rank.join().unwrap().unwrap());
    each(&members, check_exchange);
}
