//! The log as a job writes it: who speaks, what a communicator says of itself, the order in which a
//! process starts its parts, and a line for each call. Ranks are processes, whose standard errors
//! are read one by one.

#[path = "log/circles.rs"]
mod circles;
#[path = "net_plugin/compile.rs"]
mod compile;
mod drawn;
#[path = "log/forms.rs"]
mod forms;
#[path = "log/waits.rs"]
mod waits;

use kolo::base::starts::{self, Start};
use kolo::bootstrap::{NetSettings, UniqueId};
use kolo::comm::{CommConfig, Communicator, RedOp};
use std::fs::File;
use std::io::Read;
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};

const RANK: &str = "TEST_LOG_RANK";
const IDS: &str = "TEST_LOG_IDS";
const TASK: &str = "TEST_LOG_TASK";
/// Where the plugin of tests/net_plugin writes what it sees.
const SEEN: &str = "KOLO_TEST_PLUGIN_SEEN";
const LATE: &str = "TEST_LOG_LATE";
const RANKS: u32 = 3;

fn hex(id: &UniqueId) -> String {
    id.as_bytes().iter().map(|b| format!("{b:02x}")).collect()
}

fn id(hex: &str) -> UniqueId {
    let byte = |at: usize| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap();
    UniqueId::from_bytes(std::array::from_fn(byte)).unwrap()
}

/// Runs a task as three processes; what each wrote to standard error.
fn job(task: &str, settings: &[(&str, &str)], nodes: bool) -> Vec<Vec<String>> {
    let net = settings.iter().find(|(name, _)| *name == "KOLO_NET");
    let net = net.map_or("socket", |(_, net)| *net);
    let meeting = NetSettings {
        socket_ifname: Some("=lo".into()),
        ..NetSettings::default()
    };
    let ids = [0; 3].map(|_| hex(&UniqueId::create(&meeting).unwrap()));
    let start = |rank: u32| -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["rank_of_a_job", "--exact", "--ignored", "--nocapture"])
            .env(RANK, rank.to_string())
            .env(IDS, ids.join(" "))
            .env(TASK, task)
            .env("KOLO_SOCKET_IFNAME", "=lo")
            .envs(settings.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if nodes {
            command.env("KOLO_HOSTID", format!("node{}", rank / 2));
            command.env("KOLO_NET", net);
        }
        command.spawn().unwrap()
    };
    let ranks: Vec<Child> = (0..RANKS).map(start).collect();
    let ended = ranks.into_iter().map(|rank| {
        let output = rank.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}: {said}{errors}", output.status);
        errors.lines().map(str::to_owned).collect()
    });
    ended.collect()
}

/// A process of a test.
#[test]
#[ignore = "the body of other tests"]
fn rank_of_a_job() {
    let text = |name: &str| std::env::var(name).expect(name);
    let rank: u32 = text(RANK).parse().unwrap();
    let ids: Vec<UniqueId> = text(IDS).split(' ').map(id).collect();
    let named = |name: &str| CommConfig {
        name: Some(name.into()),
        ..CommConfig::default()
    };
    let join = |at: usize| Communicator::init_rank(RANKS, &ids[at], rank, &named("whole")).unwrap();
    match text(TASK).as_str() {
        "calls" => calls(&join(0), rank),
        "split" => {
            let comm = join(0);
            let color = u32::from(rank > 0);
            let part = comm.split(Some(color), 0, &named("part")).unwrap().unwrap();
            part.destroy().unwrap();
            comm.destroy().unwrap();
        }
        "starts" => {
            // Three communicators at once: each part is started by one of them.
            std::thread::scope(|scope| {
                for at in 0..3 {
                    scope.spawn(move || join(at).destroy().unwrap());
                }
            });
            let order = [Start::Log, Start::Bootstrap, Start::Service, Start::Network];
            assert_eq!(starts::so_far(), order);
        }
        "root" => {
            let service = || {
                threads()
                    .iter()
                    .any(|name| name.starts_with("kolo service"))
            };
            assert_eq!(
                (starts::so_far(), threads().len()),
                (vec![], 2),
                "{:?}",
                threads()
            );
            // Whoever makes an id starts the root, and before it the log.
            Communicator::unique_id().unwrap();
            assert_eq!(starts::so_far(), [Start::Log, Start::Bootstrap]);
            assert!(threads().len() > 2 && !service(), "{:?}", threads());
            let comm = join(0);
            let order = [Start::Log, Start::Bootstrap, Start::Service, Start::Network];
            assert_eq!(starts::so_far(), order);
            assert!(service(), "{:?}", threads());
            comm.destroy().unwrap();
        }
        "network" => {
            let seen = || {
                let path = format!("{}.{}", text(SEEN), std::process::id());
                std::fs::read_to_string(path).unwrap_or_default()
            };
            Communicator::unique_id().unwrap();
            assert_eq!(seen(), "", "the root needs no network");
            let comm = join(0);
            assert_eq!(seen(), "connections: yes, service: yes\n");
            comm.destroy().unwrap();
        }
        "sends first" => circles::sends_first(&join(0), rank),
        "forms" => forms::calls(&join(0), rank),
        "waits" => waits::calls(&join(0), rank),
        "runs on" => waits::runs_on(&join(0), rank),
        "nobody" => nobody_reads(|| calls(&join(0), rank)),
        other => panic!("{other}"),
    }
}

/// The names of the threads of this process.
fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let name = |task: std::io::Result<std::fs::DirEntry>| {
        let name = std::fs::read_to_string(task.unwrap().path().join("comm"));
        name.unwrap_or_default().trim().to_owned()
    };
    tasks.map(name).collect()
}

/// As in a program in C behind a pipe to a reader that has ended: the signal would end it, and a
/// line that is lost does not.
fn nobody_reads(body: impl FnOnce()) {
    let default = || {
        // SAFETY: all-zero bytes are a valid action, which the call fills.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut action);
            action.sa_sigaction == libc::SIG_DFL
        }
    };
    // SAFETY: this process is the test's own, and its standard error is said nothing else.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        let mut ends = [0; 2];
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        libc::dup2(ends[1], 2);
        libc::close(ends[0]);
        libc::close(ends[1]);
    }
    kolo::comm::logging::warning("nobody hears this");
    kolo::comm::logging::failure("nor this");
    body();
    kolo::base::quiet::tell("nor this");
    assert!(
        default(),
        "what the program does about the signal was changed"
    );
}

#[test]
fn a_line_that_nobody_reads_harms_no_program() {
    for level in ["warn", "trace"] {
        let said = job("nobody", &[("KOLO_DEBUG", level)], false);
        assert!(said.iter().all(Vec::is_empty), "{said:?}");
    }
}

/// One call of each way in which calls are made.
fn calls(comm: &Communicator, rank: u32) {
    let send: Vec<f64> = (0..300).map(|i| f64::from(i * (rank + 2))).collect();
    let mut recv = vec![f64::NAN; 300];
    let sum = |i: u32| f64::from(i * (2 + 3 + 4));
    comm.all_reduce(&send[..1], &mut recv[..1], RedOp::SUM)
        .unwrap();
    comm.all_reduce(&send, &mut recv, RedOp::SUM).unwrap();
    assert!((0..300).zip(&recv).all(|(i, &x)| x == sum(i)));
    comm.broadcast(&mut recv[..7], 2).unwrap();
    comm.barrier().unwrap();
    comm.scope(|scope| scope.all_reduce(&send, &mut recv, RedOp::MAX))
        .unwrap();
    assert!((0..300).zip(&recv).all(|(i, &x)| x == f64::from(i * 4)));
    assert_eq!(comm.sum_exact(&[f64::from(rank)]).unwrap(), 3.0);
    comm.destroy().unwrap();
}

/// Returns the log as it looks on a terminal.
fn on_terminal(settings: &[(&str, &str)]) -> String {
    let (mut ours, mut theirs) = (0, 0);
    // SAFETY: places for two descriptors; name and properties are not asked for.
    let code = unsafe {
        let (name, modes, size) = (std::ptr::null_mut(), std::ptr::null(), std::ptr::null());
        libc::openpty(&mut ours, &mut theirs, name, modes, size)
    };
    assert_eq!(code, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: both were opened above and belong to nobody else.
    let (ours, theirs) = unsafe { (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
    let mut command = Command::new(env!("CARGO_BIN_EXE_kolo"));
    command
        .args(["perf", "barrier", "--ranks", "2", "-n", "1", "-w", "0"])
        .env("KOLO_DEBUG", "info")
        .env_remove("NO_COLOR")
        .envs(settings.iter().copied())
        .stdout(Stdio::null())
        .stderr(Stdio::from(theirs));
    let mut child = command.spawn().unwrap();
    // With it goes our copy of the terminal's other end.
    drop(command);
    let (mut terminal, mut text) = (File::from(ours), Vec::new());
    // A terminal that nobody has open any more gives an error in place of an end.
    let _ = terminal.read_to_end(&mut text);
    assert!(child.wait().unwrap().success());
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn colours_are_for_terminals() {
    let usual = on_terminal(&[]);
    assert!(usual.contains(" \x1b[32mINFO\x1b[0m kolo "), "{usual:?}");
    let plain = on_terminal(&[("NO_COLOR", "1")]);
    assert!(
        // The bar of kolo perf moves the cursor, which is no colour.
        plain.contains(" INFO kolo ") && !plain.contains("\x1b[3"),
        "{plain:?}"
    );
    let file = std::env::temp_dir().join(format!("kolo-log-{}", std::process::id()));
    let none = on_terminal(&[("KOLO_DEBUG_FILE", file.to_str().unwrap())]);
    let written = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(!none.contains(" INFO "), "{none:?}");
    assert!(
        written.contains(" INFO kolo ") && !written.contains('\x1b'),
        "{written:?}"
    );
}

fn of<'a>(lines: &'a [String], words: &str) -> Vec<&'a String> {
    lines.iter().filter(|line| line.contains(words)).collect()
}

#[test]
fn rank_zero_tells_what_was_chosen_and_set() {
    let settings = [("KOLO_DEBUG", "info"), ("KOLO_ALGO", "allreduce:ring")];
    let said = job("calls", &settings, true);
    let host = kolo::topo::host_name();
    let host = host.split('.').next().unwrap();
    let zero = &said[0];
    for words in [
        "communicator whole: 3 ranks on 2 nodes: 2 on ",
        "communicator whole: levels: each node counts as one cache",
        "communicator whole: transports: memory of each node, socket between nodes",
        "communicator whole: network: NET socket: lo 127.0.0.1, KOLO_NET=socket; not plugin: ",
        "communicator whole: waiting: ",
        "communicator whole: channels: 1 to 2",
        "communicator whole: AllReduce: ring, protocol ",
        "communicator whole: Broadcast: ",
        "algo = allreduce:ring (variable KOLO_ALGO)",
        "socket_ifname = =lo (variable KOLO_SOCKET_IFNAME)",
    ] {
        assert_eq!(of(zero, words).len(), 1, "{words}: {zero:#?}");
    }
    let who = format!(" INFO kolo {host} rank 0: ");
    assert!(zero.iter().all(|line| line.contains(&who)), "{zero:#?}");
    assert!(
        !zero.iter().any(|line| line.contains('\x1b')),
        "colours in a pipe"
    );
    for (rank, others) in said.iter().enumerate().skip(1) {
        assert!(others.is_empty(), "rank {rank} speaks too: {others:#?}");
    }
}

#[test]
fn each_part_of_a_split_tells_by_its_own_rank_zero() {
    let said = job("split", &[("KOLO_DEBUG", "info")], false);
    let part = "communicator part: ";
    assert_eq!(
        of(&said[0], &format!("{part}1 rank")).len(),
        1,
        "{:#?}",
        said[0]
    );
    assert_eq!(
        of(&said[1], &format!("{part}2 ranks on 1 node")).len(),
        1,
        "{:#?}",
        said[1]
    );
    // A line names the rank in the first communicator.
    assert!(
        of(&said[1], part)
            .iter()
            .all(|line| line.contains(" rank 1: "))
    );
    assert!(said[2].is_empty(), "{:#?}", said[2]);
}

#[test]
fn parts_start_in_order_and_once() {
    let said = job("starts", &[("KOLO_DEBUG", "trace")], true);
    for lines in said {
        let starts: Vec<&str> = lines
            .iter()
            .filter_map(|line| {
                line.split_once("start ")?
                    .1
                    .split_once(" of this process: ")
            })
            .map(|(number, _)| number)
            .collect();
        assert_eq!(starts, ["1", "2", "3", "4"], "{lines:#?}");
        // Every communicator goes through all parts of its initialisation.
        for part in 1..=8 {
            assert_eq!(
                of(&lines, &format!("init {part} of 8: ")).len(),
                3,
                "{lines:#?}"
            );
        }
    }
    let one = job("calls", &[("KOLO_DEBUG", "trace")], false);
    let parts = one[1]
        .iter()
        .filter_map(|line| line.split_once("init ")?.1.split_once(" of 8"));
    let parts: Vec<&str> = parts.map(|(number, _)| number).collect();
    assert_eq!(parts, ["1", "2", "3", "4", "5", "6", "7", "8"]);
}

/// Making an id is a start: the notes say so when it happens, and what is not needed for it has not
/// been started.
#[test]
fn making_an_id_starts_the_log_and_the_root_and_nothing_else() {
    for lines in job("root", &[("KOLO_DEBUG", "trace")], true) {
        let starts: Vec<&str> = lines
            .iter()
            .filter_map(|line| line.split_once(" of this process: "))
            .map(|(_, part)| part)
            .collect();
        let parts = [
            "settings and log",
            "bootstrap",
            "service thread",
            "network between nodes",
        ];
        assert_eq!(starts, parts, "{lines:#?}");
    }
}

/// The parts themselves, not their notes: a network of the test looks round when it is opened.
#[test]
fn the_network_opens_when_the_ranks_have_met_and_the_service_runs() {
    let library = compile::compile("plugin.c", "log10", 10, &[]);
    let seen = std::env::temp_dir().join(format!("kolo-seen-{}", std::process::id()));
    std::fs::create_dir(&seen).unwrap();
    let path = seen.join("rank");
    let settings = [
        ("KOLO_NET", "plugin"),
        ("KOLO_NET_PLUGIN", library.to_str().unwrap()),
        (SEEN, path.to_str().unwrap()),
    ];
    job("network", &settings, true);
    let files = std::fs::read_dir(&seen).unwrap().count();
    std::fs::remove_dir_all(&seen).unwrap();
    assert_eq!(files, RANKS as usize);
}

#[test]
fn each_call_is_a_line_at_trace() {
    let settings = [("KOLO_DEBUG", "trace"), ("KOLO_ALGO", "broadcast:chain")];
    let said = job("calls", &settings, false);
    for (rank, lines) in said.iter().enumerate() {
        let told = !of(lines, "communicator whole: ").is_empty();
        assert_eq!(told, rank == 0, "what was chosen is told once: {lines:#?}");
        let calls = of(lines, " TRACE kolo ");
        let expected = [
            (
                "AllReduce #1 of",
                ": 1 x double, sum, send 0x",
                "oneshot, protocol eager",
            ),
            (
                "AllReduce #2 of",
                ": 300 x double, sum, send 0x",
                ", protocol ",
            ),
            (
                "Broadcast #3 of",
                ": 7 x double, root 2, send 0x",
                "chain, protocol simple",
            ),
            ("Barrier #4 of", "", "oneshot, protocol eager"),
            (
                "AllReduce #5 of",
                ": 300 x double, max, send 0x",
                " on a stream; ",
            ),
            (
                "AllReduce #6 of",
                ": 1 x double, exact sum, send 0x",
                "exact sum, form one-shot; ",
            ),
        ];
        assert_eq!(calls.len(), expected.len(), "{lines:#?}");
        for (line, (call, arguments, way)) in calls.iter().zip(expected) {
            let whose = format!(": {call} rank {rank} of 3 in whole");
            assert!(line.contains(&whose), "{line}: {whose}");
            assert!(line.contains(arguments) && line.contains(way), "{line}");
            let time = line
                .rsplit("; ")
                .next()
                .and_then(|time| time.strip_suffix(" us"));
            let time: f64 = time.and_then(|time| time.parse().ok()).expect(line);
            assert!(time > 0.0, "{line}");
        }
    }
    // At info nobody pays for it.
    let quiet = job("calls", &[("KOLO_DEBUG", "info")], false);
    assert!(
        quiet
            .iter()
            .all(|lines| of(lines, "AllReduce #").is_empty())
    );
}
