//! Ranks in several processes, each with a software GPU of its own: memory of devices and of the
//! host that processes share, and what is left when one of them dies.
//!
//! A test starts its own program once for each process, which runs the same test as one of them.

use super::calls::{COLLECTIVES, draw};
use super::ranks::{DEVICES, POISON, Rank, ranks, software_gpu, sum};
use kolo::bootstrap::UniqueId;
use kolo::comm::{Call, Collective, CommConfig, CommDevice, Communicator, RedOp};
use kolo::cuda::{Context, OwnStream};
use kolo::dtype::DataType;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Which process this is; the test's own has none.
const PART: &str = "KOLO_TEST_PART";
/// Where the processes of a test find the id.
const FOLDER: &str = "KOLO_TEST_FOLDER";
/// Nobody waits longer, whatever goes wrong.
const LIMIT: Duration = Duration::from_secs(100);

/// Whether this process is part of a test, and where the id is.
pub fn part() -> Option<(u32, PathBuf)> {
    let part = std::env::var(PART).ok()?.parse().expect("a number");
    Some((part, std::env::var_os(FOLDER).expect("a folder").into()))
}

/// The id that the first process has made.
fn id(part: u32, folder: &Path) -> UniqueId {
    let (file, hidden) = (folder.join("id"), folder.join("id.new"));
    if part == 0 {
        let id = Communicator::unique_id().expect("an id");
        std::fs::write(&hidden, id.as_bytes()).expect("a file");
        std::fs::rename(&hidden, &file).expect("a name");
        return id;
    }
    let begun = Instant::now();
    loop {
        if let Ok(bytes) = std::fs::read(&file) {
            return UniqueId::from_bytes(bytes.try_into().expect("128 bytes")).expect("an id");
        }
        assert!(begun.elapsed() < LIMIT, "no process has made an id");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs `test`, of this file, in so many processes with these variables; all end well but those of
/// `killed`.
fn in_processes(test: &str, processes: u32, variables: &[(&str, &str)], killed: Option<u32>) {
    run_in_processes(("processes", test), processes, variables, killed);
}

/// Runs a test of any file of this program in processes.
pub fn run_in_processes(
    (file, test): (&str, &str),
    processes: u32,
    variables: &[(&str, &str)],
    killed: Option<u32>,
) {
    let folder = std::env::temp_dir().join(format!("kolo-gpu-{}-{test}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let program = std::env::current_exe().expect("a program");
    let start = |part: u32| -> Child {
        let mut command = Command::new(&program);
        command.args(["--exact", &format!("{file}::{test}"), "--nocapture"]);
        command.env(PART, part.to_string()).env(FOLDER, &folder);
        command.envs(variables.iter().copied());
        command.spawn().expect("a process")
    };
    let mut all: Vec<Child> = (0..processes).map(start).collect();
    let begun = Instant::now();
    let mut ended = vec![None; all.len()];
    while ended.iter().any(Option::is_none) && begun.elapsed() < LIMIT {
        for (child, ended) in all.iter_mut().zip(&mut ended) {
            *ended = ended.or(child.try_wait().expect("a child"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    for child in &mut all {
        let _ = child.kill();
        let _ = child.wait();
    }
    let _ = std::fs::remove_dir_all(&folder);
    for (part, ended) in (0..).zip(ended) {
        let ended = ended.unwrap_or_else(|| panic!("process {part} of {test} did not end"));
        let is_killed = killed == Some(part);
        assert_eq!(
            ended.success(),
            !is_killed,
            "process {part} of {test}: {ended}"
        );
    }
}

fn join(id: &UniqueId, nranks: u32, rank: u32) -> Rank {
    join_on(id, nranks, rank, rank % DEVICES)
}

fn join_on(id: &UniqueId, nranks: u32, rank: u32, device: u32) -> Rank {
    join_as(id, (nranks, rank), &on_device(device))
}

fn on_device(device: u32) -> CommConfig {
    CommConfig {
        device: CommDevice::Cuda(device),
        ..CommConfig::default()
    }
}

fn join_as(id: &UniqueId, (nranks, rank): (u32, u32), config: &CommConfig) -> Rank {
    let comm = Communicator::init_rank(nranks, id, rank, config).expect("a communicator");
    let CommDevice::Cuda(device) = config.device else {
        panic!("no device");
    };
    let context = Context::of(device).expect("a device");
    let stream = OwnStream::new(&context).expect("a stream");
    Rank {
        comm,
        context,
        stream,
    }
}

/// Every collective once or twice, with what the host gives beside it.
fn check_all(rank: &Rank, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    for collective in COLLECTIVES {
        for _ in 0..2 {
            draw(collective, rank.comm.nranks(), &mut random).check(rank);
        }
    }
    rank.has_done_its_steps();
}

#[test]
fn processes_share_the_memory_of_devices() {
    let Some((part, folder)) = part() else {
        return in_processes("processes_share_the_memory_of_devices", 3, &[], None);
    };
    software_gpu();
    let id = id(part, &folder);
    let rank = join(&id, 3, part);
    check_all(&rank, 5);
    rank.comm.destroy().expect("a clean end");
}

/// Two processes of two threads each: some neighbours are near, some are not.
#[test]
fn threads_and_processes_mix() {
    let Some((part, folder)) = part() else {
        return in_processes("threads_and_processes_mix", 2, &[], None);
    };
    software_gpu();
    let id = id(part, &folder);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let id = &id;
            scope.spawn(move || {
                // Neighbours in the ring are in the other process.
                let rank = join(id, 4, part + 2 * thread);
                check_all(&rank, 6);
                rank.comm.destroy().expect("a clean end");
            });
        }
    });
}

/// Where devices do not reach each other, data passes through memory of the host: between threads
/// and between processes.
#[test]
fn devices_that_do_not_reach_each_other_use_memory_of_the_host() {
    let name = "devices_that_do_not_reach_each_other_use_memory_of_the_host";
    let Some((part, folder)) = part() else {
        return in_processes(name, 2, &[("KOLO_SOFTGPU_PEERS", "0")], None);
    };
    software_gpu();
    let near = Context::of(0).expect("a device");
    assert!(
        !near
            .reaches(&Context::of(1).expect("a device"))
            .expect("an answer")
    );
    let id = id(part, &folder);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let id = &id;
            scope.spawn(move || {
                let rank = join(id, 4, 2 * part + thread);
                check_all(&rank, 7);
                rank.comm.destroy().expect("a clean end");
            });
        }
    });
}

/// Two sockets with links between some devices of both: some neighbours reach each other, of one
/// process and of two, and some do not.
#[test]
fn some_devices_reach_each_other_and_some_do_not() {
    const PLACES: (&str, &str) = (
        "KOLO_SOFTGPU_TOPOLOGY",
        concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../topologies/dgx1_v100.xml"
        ),
    );
    /// Of each rank; those of another socket are linked where they differ by 4.
    const ON: [u32; 4] = [0, 5, 1, 4];
    let Some((part, folder)) = part() else {
        let name = "some_devices_reach_each_other_and_some_do_not";
        return in_processes(name, 2, &[PLACES], None);
    };
    software_gpu();
    for (one, other, near) in [(0, 1, false), (0, 2, true), (0, 3, true), (1, 2, true)] {
        let [one, other] = [ON[one], ON[other]].map(|it| Context::of(it).expect("a device"));
        let reaches = [one.reaches(&other), other.reaches(&one)];
        assert_eq!(reaches.map(|it| it.expect("an answer")), [near; 2]);
    }
    let id = id(part, &folder);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let id = &id;
            scope.spawn(move || {
                let number = part + 2 * thread;
                let rank = join_on(id, 4, number, ON[number as usize]);
                check_all(&rank, 9);
                rank.comm.destroy().expect("a clean end");
            });
        }
    });
}

/// The kernels of the others leave, and they hear who has died.
#[test]
fn the_death_of_a_rank_ends_the_kernels_of_the_others() {
    let name = "the_death_of_a_rank_ends_the_kernels_of_the_others";
    let Some((part, folder)) = part() else {
        return in_processes(name, 3, &[], Some(2));
    };
    let end = || {
        // SAFETY: the process ends here.
        unsafe { libc::raise(libc::SIGKILL) };
    };
    let error = third_of_three_ends((part, &folder), end);
    assert!(error.contains("rank 2"), "{error}");
}

/// So do they where it has ended with status 0, which is no error before.
#[test]
fn the_end_of_a_rank_ends_the_kernels_that_wait_for_it() {
    let name = "the_end_of_a_rank_ends_the_kernels_that_wait_for_it";
    let Some((part, folder)) = part() else {
        return in_processes(name, 3, &[], None);
    };
    let error = third_of_three_ends((part, &folder), || std::process::exit(0));
    let words = "has ended with status 0 without taking part in this call";
    assert!(
        error.contains("rank 2 on ") && error.contains(words),
        "{error}"
    );
}

/// Of messages too: those that came before the end are whole, those that come no more fail.
#[test]
fn the_end_of_a_rank_ends_the_messages_that_wait_for_it() {
    let name = "the_end_of_a_rank_ends_the_messages_that_wait_for_it";
    messages_of_an_ended_rank(name, false);
}

/// So it is where the ranks are on nodes of their own.
#[test]
fn the_end_of_a_rank_elsewhere_ends_the_messages_that_wait_for_it() {
    let name = "the_end_of_a_rank_elsewhere_ends_the_messages_that_wait_for_it";
    messages_of_an_ended_rank(name, true);
}

/// Rank 2 of three sends one message to rank 0, which wants two, and takes none of rank 1, whose
/// message is larger than what lies between them.
fn messages_of_an_ended_rank(name: &str, apart: bool) {
    const LARGE: usize = 64 << 20;
    let Some((part, folder)) = part() else {
        return in_processes(name, 3, &[], None);
    };
    software_gpu();
    let mut config = on_device(part);
    if apart {
        let words = [
            ("hostid", format!("node{part}")),
            ("socket_ifname", "=lo".into()),
        ];
        let words = words.map(|(name, value)| (name.to_string(), value));
        config.overrides.extend(words);
    }
    let rank = join_as(&id(part, &folder), (3, part), &config);
    let message = |collective, place: *mut u8, count, peer| Call {
        collective,
        send: place,
        recv: place,
        count,
        dtype: DataType::Uint8,
        op: RedOp::SUM,
        peer,
    };
    let begun = |part: u32| folder.join(format!("begun-{part}"));
    if part == 2 {
        let sent = rank.buffer(&[7; 5000]);
        rank.put(&message(Collective::Send, sent.at(0), 5000, 0))
            .expect("begun");
        rank.stream.synchronize().expect("handed over");
        await_files(&[begun(0), begun(1)]);
        std::process::exit(0);
    }
    let bytes = if part == 0 { 5000 } else { LARGE };
    let buffers = [rank.poisoned(bytes), rank.poisoned(bytes)];
    let calls: &[Call] = match part {
        0 => &[0, 1].map(|i: usize| message(Collective::Recv, buffers[i].at(0), bytes, 2)),
        _ => &[message(Collective::Send, buffers[0].at(0), bytes, 2)],
    };
    for call in calls {
        rank.put(call).expect("begun");
    }
    std::fs::write(begun(part), "").expect("a file");
    // Only the device is waited for, by its own function.
    rank.stream.synchronize().expect("the kernels leave");
    if part == 0 {
        assert!(
            rank.read(&buffers[0]) == [7; 5000],
            "what was sent is whole"
        );
        let nothing = rank.read(&buffers[1]);
        assert!(nothing.iter().all(|&byte| byte == POISON));
    }
    let error = rank.comm.async_error().expect_err("it has stopped");
    let (error, words) = (error.to_string(), "has ended with status 0");
    assert!(
        error.contains("rank 2 on ") && error.contains(words),
        "{error}"
    );
    let _ = rank.comm.destroy();
}

/// Ends rank 2 of three when kernels of the others wait for it, which hear an error.
fn third_of_three_ends((part, folder): (u32, &Path), end: impl FnOnce()) -> String {
    software_gpu();
    let id = id(part, folder);
    let rank = join(&id, 3, part);
    check_all(&rank, 8);
    let words: Vec<u8> = (0..4000u64).flat_map(u64::to_le_bytes).collect();
    let (send, recv) = (rank.buffer(&words), rank.poisoned(words.len()));
    let call = sum(send.at(0), recv.at(0), 4000);
    let begun = |part: u32| folder.join(format!("begun-{part}"));
    if part == 2 {
        // The kernels of the others are there, and wait for this rank.
        await_files(&[begun(0), begun(1)]);
        end();
    }
    rank.put(&call).expect("begun");
    std::fs::write(begun(part), "").expect("a file");
    let got = rank.read(&recv);
    assert!(got.iter().all(|&byte| byte == POISON), "nothing is whole");
    let error = rank.comm.async_error().expect_err("it has stopped");
    let _ = rank.comm.destroy();
    error.to_string()
}

/// Waits until other processes have made all of these.
fn await_files(files: &[PathBuf]) {
    let since = Instant::now();
    while !files.iter().all(|file| file.exists()) {
        assert!(since.elapsed() < LIMIT, "the others have not begun");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Small and large calls take memory of the device within a bound.
#[test]
fn connections_take_little_memory() {
    const MOST: usize = 32 << 20;
    // Tests of the same process would use the same devices meanwhile.
    if part().is_none() {
        return in_processes("connections_take_little_memory", 1, &[], None);
    }
    ranks(&[0, 1, 2, 3, 4, 5, 6, 7], &[], |rank| {
        let free = || rank.context.memory().expect("a number").0;
        let (send, recv) = (rank.buffer(&[1; 400_000]), rank.poisoned(400_000));
        // Nobody is ahead of this rank, or behind it, while it looks.
        let together = || rank.comm.barrier().expect("all ranks");
        together();
        let before = free();
        together();
        for count in [1, 50_000] {
            rank.put(&sum(send.at(0), recv.at(0), count))
                .expect("begun");
            rank.read(&recv);
        }
        together();
        let taken = before - free();
        assert!(taken > 0 && taken <= MOST, "{taken} bytes");
        together();
    });
}
