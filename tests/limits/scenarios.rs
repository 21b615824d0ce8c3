//! Scenarios that the ranks of a job run.

use super::begun;
use super::job::Context;
use super::large;
use super::skip::skip;
use super::slots;
use kolo::comm::{CommConfig, Communicator, RedOp};
use kolo::transport::memory;

pub fn by_name(name: &str) -> fn(&Context) {
    match name {
        "address_space" => address_space,
        "many_splits" => many_splits,
        "allocate" => allocate,
        "allocate_in_group" => allocate_in_group,
        "files" => files,
        "files_of_one" => files_of_one,
        "splits_without_descriptors" => splits_without_descriptors,
        "many_live" => many_live,
        "many_begun" => begun::many_begun,
        "many_on_nodes" => begun::many_on_nodes,
        "node_of_2" => |context| large::node(context, 2),
        "node_of_16" => |context| large::node(context, 16),
        "node_of_64" => |context| large::node(context, 64),
        "node_of_128" => |context| large::node(context, 128),
        "node_of_192" => |context| large::node(context, 192),
        "small_calls" => slots::small_calls,
        "bounded" => slots::bounded,
        "bounded_threads" => slots::bounded_threads,
        "again_and_again" => again_and_again,
        "orphans" => orphans,
        "group" => group,
        "threads" => threads,
        other => panic!("no scenario {other}"),
    }
}

/// Bytes of address space of this process.
fn address_space_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("proc");
    let pages: u64 = text
        .split(' ')
        .next()
        .and_then(|word| word.parse().ok())
        .expect("a number");
    pages * 4096
}

pub fn limit(what: libc::__rlimit_resource_t, bytes: u64) {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is live.
    unsafe {
        assert_eq!(libc::getrlimit(what, &raw mut limit), 0);
        limit.rlim_cur = bytes.min(limit.rlim_max);
        assert_eq!(libc::setrlimit(what, &raw const limit), 0);
    }
}

/// All ranks of a communicator of this process, one after the other where they need not wait.
pub fn all(comms: &[Communicator], body: impl Fn(&Communicator) + Sync) {
    std::thread::scope(|scope| {
        for comm in comms {
            scope.spawn(|| body(comm));
        }
    });
}

/// A message of `bytes` bytes from rank `from` to rank `to`.
fn message(comm: &Communicator, from: u32, to: u32, bytes: usize) {
    let mut data = vec![0xa5_u8; bytes];
    if comm.rank() == from {
        data.iter_mut()
            .enumerate()
            .for_each(|(at, byte)| *byte = (at % 251) as u8);
        comm.send(&data, to).expect("sent");
    } else if comm.rank() == to {
        comm.recv(&mut data, from).expect("received");
        assert!(
            data.iter()
                .enumerate()
                .all(|(at, byte)| *byte == (at % 251) as u8)
        );
    }
}

fn address_space(_: &Context) {
    /// Stacks and heaps of the threads that make the communicator come and go.
    const ELSE: u64 = 80 << 20;
    let ranks = 32;
    let config = CommConfig::default();
    let first = Communicator::init_all(ranks, &config).expect("init");
    all(&first, |comm| comm.barrier().expect("a barrier"));
    let before = address_space_bytes();
    let comms: Vec<_> = (0..8)
        .map(|_| Communicator::init_all(ranks, &config).expect("init"))
        .collect();
    let made = address_space_bytes() - before;
    // Eight slots of 32 KiB for each rank, and little else: 8 MiB each. By the square of the ranks
    // they would take gigabytes.
    assert!(made < 8 * (12 << 20) + ELSE, "{} MiB", made >> 20);
    let before = address_space_bytes();
    for comms in &comms {
        all(comms, |comm| message(comm, 3, 17, 1 << 20));
    }
    let used = address_space_bytes().saturating_sub(before);
    // One connection each.
    assert!(used < 8 * (6 << 20) + ELSE, "{} MiB", used >> 20);
}

/// Communicators of four processes, far more than would fit if each took all it may ever use.
fn many_splits(context: &Context) {
    let parent = context.join(&[]).expect("init");
    limit(libc::RLIMIT_AS, address_space_bytes() + (256 << 20));
    let mut children = Vec::new();
    for round in 0..40_u32 {
        let child = parent.split(Some(0), 0, &CommConfig::default());
        let child = child.expect("room").expect("a color");
        message(&child, round % 4, (round + 1) % 4, 100_000);
        children.push(child);
    }
    let mut sum = vec![f64::from(parent.rank()); 10];
    children[39]
        .all_reduce_in_place(&mut sum, RedOp::SUM)
        .expect("a sum");
    assert_eq!(sum, vec![6.0; 10]);
}

fn allocate(_: &Context) {
    limit(libc::RLIMIT_FSIZE, 1 << 20);
    let error = memory::allocate(16 << 20).expect_err("too large");
    assert!(
        error.what.contains("limit on file sizes, 1048576 bytes"),
        "{error}"
    );
    assert!(error.what.contains("16777216 bytes"), "{error}");
    assert!(error.remedy.contains("ulimit -f"), "{error}");
    memory::free(memory::allocate(1 << 20).expect("just so")).expect("once");
}

fn allocate_in_group(_: &Context) {
    let error = memory::allocate(256 << 20).expect_err("too large");
    assert!(
        error
            .what
            .contains("memory that peers can map needs 268435456 bytes"),
        "{error}"
    );
    assert!(error.what.contains("limit of 100663296 bytes"), "{error}");
    assert!(error.remedy.contains("more memory"), "{error}");
    memory::free(memory::allocate(8 << 20).expect("room")).expect("once");
}

/// The limit comes when the communicator is there, and before the first large message.
fn files(context: &Context) {
    let comm = context.join(&[("direct", "off")]).expect("init");
    message(&comm, 0, 1, 8);
    comm.barrier().expect("a barrier");
    limit(libc::RLIMIT_FSIZE, 1 << 20);
    let mut data = vec![1_u8; 1 << 20];
    let result = match context.rank {
        0 => comm.send(&data, 1),
        _ => comm.recv(&mut data, 0),
    };
    let error = result.expect_err("too large").to_string();
    assert!(
        error.contains("limit on file sizes, 1048576 bytes"),
        "{error}"
    );
    assert!(
        error.contains("the connection from rank 0 to rank 1"),
        "{error}"
    );
}

/// Only rank 0 has the limit. It sends, blocking and not, each time on another communicator.
fn files_of_one(context: &Context) {
    let overrides = [("direct", "off")];
    let parent = context.join(&overrides).expect("init");
    let config = CommConfig {
        overrides: vec![("direct".into(), "off".into())],
        ..CommConfig::default()
    };
    let split = || parent.split(Some(0), 0, &config);
    let comms = [(); 2].map(|()| split().expect("room").expect("a color"));
    parent.barrier().expect("a barrier");
    if context.rank == 0 {
        limit(libc::RLIMIT_FSIZE, 1 << 20);
    }
    for (way, comm) in comms.iter().enumerate() {
        let mut data = vec![1_u8; 1 << 20];
        let result = match (way, context.rank) {
            (0, 0) => comm.send(&data, 1),
            (0, _) => comm.recv(&mut data, 0),
            (_, 0) => comm.scope(|scope| scope.send(&data, 1)),
            _ => comm.scope(|scope| scope.recv(&mut data, 0)),
        };
        let error = result.expect_err("too large").to_string();
        assert!(
            error.contains("limit on file sizes, 1048576 bytes") && error.contains("rank 0"),
            "way {way}: {error}"
        );
    }
    // Whoever leaves first must not be what the other one hears of.
    parent.barrier().expect("nothing has happened to this one");
}

pub fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("proc").count()
}

/// Splits need no descriptor, and so none that there is not.
fn splits_without_descriptors(context: &Context) {
    let parent = context.join(&[]).expect("init");
    let before = descriptors();
    limit(libc::RLIMIT_NOFILE, 0);
    let error = memory::allocate(1).expect_err("no descriptor is left");
    assert!(error.remedy.contains("ulimit -n"), "{error}");
    limit(libc::RLIMIT_NOFILE, before as u64 + 8);
    let split = |parent: &Communicator, color: u32| {
        let child = parent.split(Some(color), 0, &CommConfig::default());
        child.expect("a split").expect("a color")
    };
    let halves = split(&parent, context.rank / 2);
    let children: Vec<_> = (0..50)
        .flat_map(|_| [split(&parent, 0), split(&halves, 1)])
        .collect();
    for child in &children {
        let mut sum = vec![1_u32; 3];
        child
            .all_reduce_in_place(&mut sum, RedOp::SUM)
            .expect("a sum");
        assert_eq!(sum, vec![child.nranks(); 3]);
    }
    // Those of the meeting may go meanwhile.
    assert!(descriptors() <= before, "{} after {before}", descriptors());
}

/// More communicators live at once than a process may usually have files open.
fn many_live(context: &Context) {
    let parent = context.join(&[]).expect("init");
    let before = descriptors();
    limit(libc::RLIMIT_NOFILE, before as u64 + 8);
    let split = |_| {
        let child = parent.split(Some(0), 0, &CommConfig::default());
        child.expect("a split").expect("a color")
    };
    let children: Vec<_> = (0..1100).map(split).collect();
    for child in children.iter().step_by(100).chain(children.last()) {
        let mut sum = vec![1_u32; 3];
        child
            .all_reduce_in_place(&mut sum, RedOp::SUM)
            .expect("a sum");
        assert_eq!(sum, vec![2; 3]);
    }
    assert!(descriptors() <= before, "{} after {before}", descriptors());
}

/// Bytes of memory files that this process has open.
pub fn bytes_of_files() -> u64 {
    use std::os::unix::fs::MetadataExt;
    let files = std::fs::read_dir("/proc/self/fd").expect("proc");
    let files = files.filter_map(|entry| {
        let path = entry.ok()?.path();
        let target = std::fs::read_link(&path).ok()?;
        target
            .to_string_lossy()
            .contains("memfd:kolo")
            .then_some(())?;
        Some(std::fs::metadata(path).ok()?.blocks() * 512)
    });
    files.sum()
}

/// Children that come and go leave nothing.
fn again_and_again(context: &Context) {
    let parent = context.join(&[]).expect("init");
    let round = |number: u32| {
        // Another color does not matter, and neither does one that has none.
        let color = (context.rank != 2).then_some(7 + context.rank / 2 % 2);
        let child = parent.split(color, -(context.rank as i32), &CommConfig::default());
        let Some(child) = child.expect("a split") else {
            return;
        };
        if child.nranks() == 2 {
            message(&child, number % 2, 1 - number % 2, 70_000);
        }
        child.destroy().expect("nothing is in flight");
    };
    let holdings = || (address_space_bytes(), descriptors(), bytes_of_files());
    (0..50).for_each(round);
    parent.barrier().expect("a barrier");
    let before = holdings();
    parent.barrier().expect("a barrier");
    (0..1000).for_each(round);
    parent.barrier().expect("a barrier");
    let after = holdings();
    // The allocator may ask for some more.
    assert!(
        after.0 <= before.0 + (8 << 20),
        "{after:?} after {before:?}"
    );
    assert_eq!(after.1, before.1, "descriptors");
    // A page of the parent's lines, perhaps.
    assert!(
        after.2 <= before.2 + (64 << 10),
        "{after:?} after {before:?}"
    );
    parent.barrier().expect("a barrier");
}

/// A child lives longer than its parent, and still hears of a death. Rank 3 of the parent is rank
/// 0 of the child, and dies.
fn orphans(context: &Context) {
    let parent = context.join(&[]).expect("init");
    let split = |parent: &Communicator| {
        let child = parent.split(Some(0), -(parent.rank() as i32), &CommConfig::default());
        child.expect("a split").expect("a color")
    };
    let child = split(&parent);
    // Turned round twice: rank 3 is the last again.
    let grandchild = split(&child);
    let left = split(&parent);
    left.destroy().expect("nothing is in flight");
    parent.destroy().expect("nothing is in flight");
    drop(parent);
    assert_eq!(
        (child.rank(), grandchild.rank()),
        (3 - context.rank, context.rank)
    );
    let mut sum = vec![context.rank; 5];
    child
        .all_reduce_in_place(&mut sum, RedOp::SUM)
        .expect("a sum");
    assert_eq!(sum, vec![6; 5]);
    grandchild.barrier().expect("a barrier");
    // Nobody is in the one before any more when somebody leaves this one.
    let arrived = child.barrier();
    if context.rank == 3 {
        // SAFETY: ends the process without goodbye, as a crash would.
        unsafe { libc::_exit(0) };
    }
    let error = arrived.and_then(|()| child.barrier());
    let error = error.expect_err("rank 0 is dead").to_string();
    assert!(error.contains("rank 0 died"), "{error}");
    let error = grandchild
        .barrier()
        .expect_err("rank 3 is dead")
        .to_string();
    assert!(error.contains("rank 3 died"), "{error}");
    assert!(
        left.async_error()
            .expect_err("it was destroyed")
            .to_string()
            .contains("destroyed")
    );
}

/// Four ranks in a group of 160 MiB, whose buffers take 64 of them and whose connections would take
/// 24 more in each call, up to 192.
fn group(context: &Context) {
    let overrides = [("direct", "off"), ("buffsize", "64M")];
    let comm = context.join(&overrides).expect("init");
    let small = vec![context.rank; 4];
    let mut got = vec![u32::MAX; 4];
    comm.all_to_all(&small, &mut got).expect("room");
    assert_eq!(got, [0, 1, 2, 3]);
    let block = 2 << 18;
    let send = vec![context.rank; 4 * block];
    let mut recv = vec![u32::MAX; 4 * block];
    // Each call comes to other slots.
    let error = (0..8).find_map(|_| comm.all_to_all(&send, &mut recv).err());
    let error = error.expect("no room").to_string();
    assert!(error.contains("control group"), "{error}");
    assert!(error.contains("the connection from rank"), "{error}");
    assert!(error.contains("limit of 167772160 bytes"), "{error}");
}

/// Has root become a user who has no other process: limits on processes do not bind root, and count
/// all that a user has. Whether it could.
fn become_nobody_else() -> bool {
    let user = 0x4b00_0000 + std::process::id();
    // SAFETY: plain system calls. The last one gives `/proc/self` back to this process.
    unsafe { libc::setresuid(user, user, user) == 0 && libc::prctl(libc::PR_SET_DUMPABLE, 1) == 0 }
}

/// Threads of this process: those of kolo that stay, and the others.
fn threads_now() -> (usize, usize) {
    let tasks = std::fs::read_dir("/proc/self/task")
        .expect("proc")
        .flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    let (kept, others): (Vec<_>, Vec<_>) = names.partition(|name| name.starts_with("kolo "));
    (kept.len(), others.len())
}

/// However many of its threads `init_all` may start, it ends, and leaves nothing behind.
fn threads(_: &Context) {
    let config = CommConfig::default();
    let (_, others) = threads_now();
    // How many ranks, and room for how many threads. Where the user has other processes, whose
    // number may change, there is room for none.
    let mut places = vec![(1, None), (3, None)];
    // SAFETY: a plain system call.
    if unsafe { libc::geteuid() } == 0 {
        if !become_nobody_else() {
            return skip("limit-threads", "root may not become another user here");
        }
        places = vec![(1, Some(0)), (1, Some(1))];
        places.extend((0..=8).map(|room| (3, Some(room))));
    }
    for (ranks, room) in places {
        let (kept, descriptors_before) = (threads_now().0, descriptors());
        let most = room.map_or(1, |room| others + kept + room);
        limit(libc::RLIMIT_NPROC, most as u64);
        let place = format!("{ranks} ranks, room for {room:?}");
        match Communicator::init_all(ranks, &config) {
            Ok(_) => assert!(room >= Some(ranks as usize), "{place}: one each"),
            Err(error) => {
                let error = error.to_string();
                assert!(error.contains("ulimit -u"), "{place}: {error}");
                // The service, and the two that measure stores.
                let besides = if ranks > 1 { 3 } else { 1 };
                assert!(room <= Some(ranks as usize + besides), "{place}: {error}");
            }
        }
        // The system takes a moment to forget a thread.
        let is_gone = |_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            threads_now().1 == others
        };
        assert!((0..10_000).any(is_gone), "{place}: a thread is left");
        if threads_now().0 == kept {
            assert_eq!(descriptors(), descriptors_before, "{place}");
        }
    }
    limit(libc::RLIMIT_NPROC, libc::RLIM_INFINITY);
    let comms = Communicator::init_all(3, &config).expect("room");
    all(&comms, |comm| comm.barrier().expect("a barrier"));
}
