//! Communicators over RDMA: two processes, each a node with a device of its own.
//!
//! The parent makes the unique id, starts the processes, breaks what is to be broken, and compares
//! the counters of the devices. It runs in the virtual machine of `tests/softroce`; elsewhere each
//! test says that it is skipped.

use super::{checked, lasting, machine, support};
use kolo::base::Code;
use kolo::bootstrap::{NetSettings, UniqueId};
use kolo::comm::RawCalls;
use kolo::comm::{Communicator, RedOp};
use machine::{Undo, counted_both};
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Tells a process its part: node, ranks of each node, unique id, and what to do.
const NODE: &str = "KOLO_TEST_NODE";
const RANKS: &str = "KOLO_TEST_RANKS";
const ID: &str = "KOLO_TEST_ID";
const TASK: &str = "KOLO_TEST_TASK";

const FEW: &[usize] = &[1, 1000, 20_001];
const MANY: &[usize] = &[0, 1, 7, 1000, 4097, 70_000];

/// Word for what ranks do besides the collectives of [`FEW`] or [`MANY`].
const LOOP: &str = "loop";

/// Words for messages from and into memory that stays where it is: every kind of call, and calls
/// that are broken off, by somebody else or by rank 0.
const LASTING: &str = "lasting";
const LASTING_LOOP: &str = "lasting loop";
const LASTING_ABORT: &str = "lasting abort";

/// A process that is a node.
struct Node {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Node {
    fn start(
        number: usize,
        ranks: &[usize; 2],
        id: &str,
        task: &str,
        env: &[(&str, &str)],
    ) -> Node {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["verbs::node", "--exact", "--ignored", "--nocapture"])
            .env(NODE, number.to_string())
            .env(RANKS, format!("{} {}", ranks[0], ranks[1]))
            .env(ID, id)
            .env(TASK, task)
            .env("KOLO_NET", "verbs")
            .env("KOLO_IB_HCA", format!("=rxe{number}"))
            .env("KOLO_SOCKET_IFNAME", "=lo")
            .env("KOLO_DEBUG", "info")
            .envs(env.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Node { child, lines }
    }

    /// The next line that begins with this word, without it.
    fn hear(&mut self, word: &str) -> String {
        for line in &mut self.lines {
            let line = line.unwrap();
            println!("    {line}");
            if let Some(rest) = line.strip_prefix(word) {
                return rest.trim().to_string();
            }
        }
        panic!("the process ended without \"{word}\"");
    }

    /// All that it still says; it must end well.
    fn end(mut self) -> Vec<String> {
        let said: Vec<String> = (&mut self.lines).map(|line| line.unwrap()).collect();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {said:?}");
        said
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts both nodes.
fn start(ranks: [usize; 2], task: &str, env: &[(&str, &str)]) -> [Node; 2] {
    let settings = NetSettings {
        socket_ifname: Some("=lo".into()),
        ..NetSettings::default()
    };
    let id = UniqueId::create(&settings).unwrap();
    let id: String = id.as_bytes().iter().map(|b| format!("{b:02x}")).collect();
    [0, 1].map(|number| Node::start(number, &ranks, &id, task, env))
}

/// A process of a test, which says what it has to do.
#[test]
#[ignore = "the body of other tests"]
fn node() {
    let text = |name: &str| std::env::var(name).expect(name);
    let node: usize = text(NODE).parse().unwrap();
    let ranks: Vec<usize> = text(RANKS).split(' ').map(|n| n.parse().unwrap()).collect();
    let hex = text(ID);
    let byte = |at: usize| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap();
    let id = UniqueId::from_bytes(std::array::from_fn(byte)).unwrap();
    let task = text(TASK);
    let small = [("buffsize", "64K")];
    let lasts = task.starts_with(LASTING);
    let config = support::on_node(node, if lasts { &[] } else { &small });
    let first = if node == 0 { 0 } else { ranks[0] };
    std::thread::scope(|scope| {
        for rank in first..first + ranks[node] {
            let (id, config, task) = (&id, &config, &task);
            let all = (ranks[0] + ranks[1]) as u32;
            scope.spawn(move || {
                let comm = Communicator::init_rank(all, id, rank as u32, config).unwrap();
                assert_eq!(comm.network_name(), Some("verbs"));
                match task.as_str() {
                    LOOP => until_it_breaks(&comm),
                    LASTING => support::with(&comm, lasting::everything),
                    LASTING_LOOP => lasting::until_it_breaks(comm, false),
                    LASTING_ABORT => lasting::until_it_breaks(comm, rank == 0),
                    "many" => support::with(&comm, |comm| checked::everything(comm, MANY)),
                    _ => support::with(&comm, |comm| checked::everything(comm, FEW)),
                }
            });
        }
    });
}

/// Adds up until that fails, and says how.
fn until_it_breaks(comm: &Communicator) {
    let mut data = vec![1.0f64; 5000];
    for round in 0.. {
        data.fill(1.0);
        match comm.all_reduce_in_place(&mut data, RedOp::SUM) {
            Ok(()) => assert!(data.iter().all(|&sum| sum == f64::from(comm.nranks()))),
            Err(error) => {
                assert_eq!(error.code, Code::RemoteError, "{error}");
                println!("broken: {error}");
                let _ = comm.destroy();
                return;
            }
        }
        if round == 20 && comm.rank() == 0 {
            println!("adding up");
        }
    }
}

/// The counters of both devices must have moved by what the collectives need, both ways.
fn carries(ranks: [usize; 2], task: &str, counts: &[usize], env: &[(&str, &str)]) {
    let there = checked::least_bytes(counts, (ranks[0], ranks[1]));
    let back = checked::least_bytes(counts, (ranks[1], ranks[0]));
    counted_both(there, back, || {
        for node in start(ranks, task, env) {
            node.end();
        }
    });
}

#[test]
fn carries_everything_between_two_pairs() {
    if machine::is_here() {
        carries([2, 2], "many", MANY, &[]);
    }
}

#[test]
fn carries_everything_over_several_queue_pairs() {
    if machine::is_here() {
        let settings = [
            ("KOLO_IB_QPS_PER_CONNECTION", "3"),
            ("KOLO_IB_SPLIT_DATA_ON_QPS", "1"),
        ];
        carries([1, 1], "many", MANY, &settings);
    }
}

/// Nothing is copied from and into memory that is registered or of koloMemAlloc; and nothing of
/// the devices is left.
#[test]
fn memory_that_lasts_is_read_where_it_lies() {
    if !machine::is_here() {
        return;
    }
    let regions = || machine::command("rdma resource show mr").lines().count();
    let before = regions();
    for node in start([1, 1], LASTING, &[]) {
        node.end();
    }
    assert_eq!(regions(), before);
}

/// Threads of one process are the nodes, and channels spread over both devices.
#[test]
fn carries_everything_over_two_rails() {
    if !machine::is_here() {
        return;
    }
    let settings = [
        ("net", "verbs"),
        ("socket_ifname", "=lo"),
        ("buffsize", "64K"),
        ("min_nchannels", "2"),
    ];
    counted_both(1 << 20, 1 << 20, || {
        support::threads(&[0, 1, 1], &settings, |comm| {
            assert_eq!(comm.network_name(), Some("verbs"));
            checked::everything(comm, MANY);
        });
    });
}

#[test]
#[ignore = "the body of another test"]
fn node_without_device() {
    let members = kolo::bootstrap::ThreadsBootstrap::group(2);
    std::thread::scope(|scope| {
        for (node, member) in members.into_iter().enumerate() {
            scope.spawn(move || {
                let config = support::on_node(node, &[("net", "verbs"), ("socket_ifname", "=lo")]);
                let made = Communicator::init_bootstrap(Box::new(member), &config);
                let error = made.expect_err("there is no such device").to_string();
                for part in ["KOLO_NET=verbs", "rxe0 is not in KOLO_IB_HCA"] {
                    assert!(error.contains(part), "{part}: {error}");
                }
            });
        }
    });
}

/// Tests that are run often.
mod short {
    use super::*;

    #[test]
    fn carries_everything() {
        if machine::is_here() {
            carries([1, 2], "few", FEW, &[]);
        }
    }

    /// Without a device there is an error with the reason, and no other network instead.
    #[test]
    fn falls_back_to_nothing() {
        if !machine::is_here() {
            return;
        }
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["verbs::node_without_device", "--exact", "--ignored"])
            .env("KOLO_IB_HCA", "=mlx5_0")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

/// Links and peers that fail.
mod faults {
    use super::*;

    /// Returns a node's words about the end, and after how long they came.
    fn broken(node: &mut Node, since: Instant) -> (String, Duration) {
        let said = node.hear("broken:");
        (said, since.elapsed())
    }

    #[test]
    fn a_port_that_stays_down_is_named() {
        if !machine::is_here() {
            return;
        }
        let settings = [("KOLO_IB_TIMEOUT", "14"), ("KOLO_NET_LINK_TIMEOUT", "3")];
        let mut nodes = start([1, 1], LOOP, &settings);
        nodes[0].hear("adding up");
        let start = Instant::now();
        let _undo = Undo::after(&["ip link set s0 down"], &["ip link set s0 up"]);
        for (me, node) in nodes.iter_mut().enumerate() {
            // Whoever notices first tells the other.
            let (said, took) = broken(node, start);
            println!("    node {me} after {took:?}");
            assert!(took < Duration::from_secs(12), "{took:?}");
            for part in [
                "no data pass to or from rank",
                &*format!("rank {}", 1 - me),
                "rxe0 port 1",
                "Remedy",
            ] {
                assert!(said.contains(part), "{part}: {said}");
            }
        }
        for node in nodes {
            node.end();
        }
    }

    #[test]
    fn a_peer_that_is_killed_is_named() {
        if !machine::is_here() {
            return;
        }
        let [mut stays, mut goes] = start([1, 1], LOOP, &[("KOLO_IB_TIMEOUT", "14")]);
        stays.hear("adding up");
        goes.child.kill().unwrap();
        let start = Instant::now();
        let (said, took) = broken(&mut stays, start);
        println!("    after {took:?}");
        assert!(took < Duration::from_secs(10), "{took:?}");
        for part in ["rank 1", "Remedy"] {
            assert!(said.contains(part), "{part}: {said}");
        }
        stays.end();
    }

    fn regions() -> usize {
        machine::command("rdma resource show mr").lines().count()
    }

    /// In the middle of messages that are read from where they lie.
    #[test]
    fn a_peer_that_is_killed_while_it_lends() {
        if !machine::is_here() {
            return;
        }
        let before = regions();
        let settings = [("KOLO_IB_TIMEOUT", "14")];
        let [mut stays, mut goes] = start([1, 1], LASTING_LOOP, &settings);
        stays.hear("on our way");
        goes.child.kill().unwrap();
        let (said, took) = broken(&mut stays, Instant::now());
        assert!(took < Duration::from_secs(10), "{took:?}");
        assert!(said.contains("rank 1"), "{said}");
        stays.end();
        drop(goes);
        assert_eq!(regions(), before);
    }

    #[test]
    fn an_abort_while_messages_are_read() {
        if !machine::is_here() {
            return;
        }
        let before = regions();
        let mut nodes = start([1, 1], LASTING_ABORT, &[]);
        for node in &mut nodes {
            let (said, took) = broken(node, Instant::now());
            assert!(took < Duration::from_secs(30), "{took:?}: {said}");
        }
        for node in nodes {
            node.end();
        }
        assert_eq!(regions(), before);
    }
}
