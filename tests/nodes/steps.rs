//! Step by step under real calls: who has operations at all, which phases follow which, how the
//! settings of taking over show, and what people see of a job that hangs.

use super::support::{AbortOnPanic, input, made_on, sum};
use crate::alone::alone;
use kolo::comm::Inspect;
use kolo::comm::RawCalls;
use kolo::comm::{Call, Collective, Communicator, RedOp, Stream, group};
use kolo::dtype::DataType;
use kolo::plan::Direction;
use kolo::proxy::net::trace::{Event, Phase};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A bound on what others do at their own pace.
const LIMIT: Duration = Duration::from_secs(60);
/// With a buffer of 64 KiB.
const SLOT_BYTES: usize = 8192;

fn each(comms: &[Communicator], body: impl Fn(&Communicator) + Sync) {
    std::thread::scope(|scope| {
        for comm in comms {
            scope.spawn(|| {
                let _guard = AbortOnPanic(comm);
                body(comm);
            });
        }
    });
    comms.iter().for_each(|comm| comm.destroy().unwrap());
}

/// Operations to send and to receive that each rank has for three all-reduces, and what they sum.
fn operations(algo: &str, nodes: u32, per_node: u32) -> Vec<[u64; 2]> {
    const COUNT: usize = 50_000;
    let settings = [
        ("algo", algo),
        ("max_nchannels", "1"),
        ("buffsize", "64K"),
        ("direct", "false"),
    ];
    let nranks = nodes * per_node;
    let comms = made_on(nranks, &settings, |rank| rank / per_node);
    let counted = std::sync::Mutex::new(vec![[0; 2]; nranks as usize]);
    each(&comms, |comm| {
        let taken = || comm.network_picture().unwrap().taken;
        comm.barrier().unwrap();
        let before = taken();
        for iteration in 0..3 {
            let send = input(comm.rank() as usize, COUNT, iteration);
            let mut recv = vec![-1; COUNT];
            comm.all_reduce(&send, &mut recv, RedOp::SUM).unwrap();
            assert!((0..COUNT).all(|e| recv[e] == sum(nranks as usize, e, iteration)));
        }
        let after = taken();
        let of_rank = [after[0] - before[0], after[1] - before[1]];
        counted.lock().unwrap()[comm.rank() as usize] = of_rank;
    });
    counted.into_inner().unwrap()
}

/// A ring of three ranks a node: one hands the data out of the node, one takes them in, and the one
/// between them has nothing to do with the network.
#[test]
fn ranks_inside_of_a_ring_append_nothing() {
    let counted = operations("ring", 3, 3);
    for node in counted.chunks(3) {
        let mut node = node.to_vec();
        node.sort_unstable();
        assert_eq!(node, [[0, 0], [0, 3], [3, 0]], "of {counted:?}");
    }
}

/// A tree of four nodes with two ranks each has three edges, each of them up and down. In a node at
/// the end of one edge, the rank behind the head has nothing to do with it; a node where all three
/// meet shares them out.
#[test]
fn ranks_behind_the_head_of_a_tree_append_nothing() {
    let counted = operations("tree", 4, 2);
    let mut nodes: Vec<_> = counted.chunks(2).map(|node| (node[0], node[1])).collect();
    nodes.sort_unstable();
    let (calls, three) = ([3, 3], [6, 6]);
    let end = (calls, [0, 0]);
    assert_eq!(nodes, [end, end, end, (three, calls)], "{counted:?}");
}

fn message(data: &[i64], peer: u32) -> Call {
    Call {
        collective: Collective::Send,
        send: data.as_ptr().cast(),
        recv: std::ptr::null_mut(),
        count: data.len(),
        dtype: DataType::Int64,
        op: RedOp::SUM,
        peer,
    }
}

/// Begins to send what rank 1 waits for.
fn send<'a>(comm: &Communicator, data: &'a [i64]) -> (Stream, &'a [i64]) {
    let stream = Stream::new().unwrap();
    // SAFETY: the data live until the stream was synchronised, by the tests' own order.
    unsafe { comm.enqueue(&message(data, 1), Some(&stream)) }.unwrap();
    (stream, data)
}

/// Something that one rank has done, and others wait for.
#[derive(Default)]
struct Mark(AtomicU32);

impl Mark {
    fn set(&self) {
        self.0.store(1, Ordering::SeqCst);
    }

    /// Waits, unless the rank that should set it has failed.
    fn wait(&self, comm: &Communicator) {
        let start = Instant::now();
        while self.0.load(Ordering::SeqCst) == 0 {
            comm.async_error().unwrap();
            assert!(start.elapsed() < LIMIT);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn counts(events: &[Event], way: Direction, phase: Phase) -> Vec<u64> {
    let same = |event: &&Event| event.direction == way && event.phase == phase;
    events
        .iter()
        .filter(same)
        .map(|event| event.count)
        .collect()
}

/// Checks a sending engine at every event: 8 slots are posted before anything is transmitted, as
/// many again as are done, and before the next is transmitted.
fn check_sender(events: &[Event], slots: u64) {
    let (mut posted, mut transmitted, mut done) = (0, 0, 0);
    for event in events.iter().filter(|e| e.direction == Direction::Send) {
        let (count, room) = (event.count, slots.min(done + 8));
        match event.phase {
            Phase::Posted => {
                assert!(
                    count == posted + 1 && count <= room,
                    "{event:?} of {events:?}"
                );
                posted = count;
            }
            Phase::Transmitted => {
                assert!(
                    count == transmitted + 1 && posted == room,
                    "{event:?} of {events:?}"
                );
                transmitted = count;
            }
            Phase::Done => {
                assert!(
                    count == done + 1 && count <= transmitted,
                    "{event:?} of {events:?}"
                );
                done = count;
            }
            _ => {}
        }
    }
    assert_eq!((posted, transmitted, done), (slots, slots, slots));
}

/// The receiver posts 8 slots and no more before the program has taken what is in them; each slot
/// passes all its phases in order.
fn check_receiver(events: &[Event], slots: u64) {
    let mut now = [0_u64; 5];
    for event in events.iter().filter(|e| e.direction == Direction::Recv) {
        let phase = match event.phase {
            Phase::Posted => 0,
            Phase::Received => 1,
            Phase::Flushed => 2,
            Phase::Transmitted => 3,
            Phase::Done => 4,
            _ => continue,
        };
        assert_eq!(event.count, now[phase] + 1, "{event:?} of {events:?}");
        now[phase] = event.count;
        let ordered = now.windows(2).all(|pair| pair[1] <= pair[0]);
        assert!(ordered && now[0] <= now[4] + 8, "{event:?} of {events:?}");
    }
    assert_eq!(now[1..4], [slots; 3], "{events:?}");
}

/// Between two communicators over sockets, while the receiver is late: eight slots are transmitted,
/// eight more are posted, and there it stays; then the rest, step by step.
#[test]
fn traces_of_many_steps_come_from_the_network() {
    const SLOTS: u64 = 40;
    const COUNT: usize = SLOTS as usize * SLOT_BYTES / 8;
    let comms = made_on(2, &[("buffsize", "64K")], |rank| rank);
    let (stuck, taken) = (Mark::default(), Mark::default());
    let recording = Barrier::new(comms.len());
    each(&comms, |comm| {
        comm.record_network();
        // What one rank sends must not arrive before the other one takes notes.
        recording.wait();
        let data = input(0, COUNT, 3);
        if comm.rank() == 1 {
            let mut found = vec![-1_i64; COUNT];
            stuck.wait(comm);
            comm.recv(&mut found, 0).unwrap();
            assert_eq!(found, data);
            taken.set();
            check_receiver(&comm.network_events(), SLOTS);
            return;
        }
        let (stream, _data) = send(comm, &data);
        let mut events = Vec::new();
        let start = Instant::now();
        while counts(&events, Direction::Send, Phase::Posted).len() < 16 {
            assert!(start.elapsed() < LIMIT, "{events:?}");
            events.extend(comm.network_events());
            std::thread::yield_now();
        }
        for _ in 0..200 {
            // Whoever asks a stream drives.
            assert!(!stream.query().unwrap());
            std::thread::yield_now();
        }
        events.extend(comm.network_events());
        let of = |phase| counts(&events, Direction::Send, phase);
        assert_eq!(of(Phase::Appended), [SLOTS]);
        assert_eq!(of(Phase::Posted), (1..=16).collect::<Vec<_>>());
        assert_eq!(of(Phase::Transmitted), (1..=8).collect::<Vec<_>>());
        assert_eq!(of(Phase::Done), (1..=8).collect::<Vec<_>>());
        let first = |phase| {
            events
                .iter()
                .position(|event| event.phase == phase)
                .unwrap()
        };
        let all = counts(
            &events[..first(Phase::Transmitted)],
            Direction::Send,
            Phase::Posted,
        );
        assert_eq!(all, (1..=8).collect::<Vec<_>>(), "posted to 8 first");
        stuck.set();
        stream.synchronize().unwrap();
        taken.wait(comm);
        events.extend(comm.network_events());
        check_sender(&events, SLOTS);
    });
}

/// Messages of one launch share the slots that may be on their way: of five, each has three of the
/// sixteen, until one of them is through.
#[test]
fn messages_of_a_launch_share_what_may_be_on_its_way() {
    const PEERS: usize = 5;
    const SLOTS: u64 = 20;
    const COUNT: usize = SLOTS as usize * SLOT_BYTES / 8;
    let settings = [("buffsize", "64K"), ("max_nchannels", "1")];
    let comms = made_on(PEERS as u32 + 1, &settings, |rank| rank);
    each(&comms, |comm| {
        let me = comm.rank() as usize;
        if me == 0 {
            comm.record_network();
        }
        let block = |from: usize, to: usize| input(from * 8 + to, COUNT, 4);
        let sent: Vec<i64> = (0..=PEERS).flat_map(|to| block(me, to)).collect();
        let mut found = vec![-1; sent.len()];
        comm.all_to_all(&sent, &mut found).unwrap();
        let wanted: Vec<i64> = (0..=PEERS).flat_map(|from| block(from, me)).collect();
        assert_eq!(found, wanted);
        if me != 0 {
            return;
        }
        let events = comm.network_events();
        let (mut posted, mut done) = ([0; PEERS], [0; PEERS]);
        let mut most = 0;
        for event in events.iter().filter(|e| e.direction == Direction::Send) {
            let peer = event.peer.index() - 1;
            match event.phase {
                Phase::Posted => posted[peer] = event.count,
                Phase::Done => done[peer] = event.count,
                _ => continue,
            }
            if done.contains(&SLOTS) {
                break;
            }
            most = most.max(posted[peer] - done[peer]);
        }
        assert_eq!(most, 3, "{events:?}");
    });
}

/// With one operation at a time, and a look only when there is nothing else, each message is
/// through before the next one is taken over; as kolo is set, all are taken over first.
#[test]
fn the_settings_of_taking_over_have_their_effect() {
    for (batch, every, alone) in [("1", "1000000", true), ("16", "8", false)] {
        let settings = [("proxy_append_batch", batch), ("proxy_append_every", every)];
        let comms = made_on(4, &settings, |rank| rank);
        each(&comms, |comm| {
            const COUNT: usize = 100;
            if comm.rank() != 0 {
                let mut found = vec![-1_i64; COUNT];
                comm.recv(&mut found, 0).unwrap();
                assert_eq!(found, input(comm.rank() as usize, COUNT, 5));
                return;
            }
            comm.record_network();
            let data = [1, 2, 3].map(|peer| input(peer, COUNT, 5));
            group::start();
            for (data, peer) in data.iter().zip(1..) {
                let call = message(data, peer);
                // SAFETY: the data live until the group has ended.
                unsafe { comm.enqueue(&call, None) }.unwrap();
            }
            group::end().unwrap();
            let events = comm.network_events();
            let of: Vec<Phase> = events
                .iter()
                .map(|event| event.phase)
                .filter(|phase| matches!(phase, Phase::Appended | Phase::Done))
                .collect();
            use Phase::{Appended, Done};
            match alone {
                true => assert_eq!(of, [Appended, Done, Appended, Done, Appended, Done]),
                false => assert_eq!(of, [Appended, Appended, Appended, Done, Done, Done]),
            }
        });
    }
}

#[test]
fn a_signal_shows_what_is_under_way() {
    alone("steps::alone_asked_by_a_signal", &[]);
}

#[test]
fn the_warning_of_a_late_rank_shows_it_too() {
    alone("steps::alone_and_late", &[]);
}

/// Where the log of this process goes, and what it says by now.
struct Log(std::path::PathBuf);

impl Log {
    fn new(name: &str) -> Log {
        let folder = std::env::var_os("CARGO_TARGET_TMPDIR").map(std::path::PathBuf::from);
        let folder = folder.unwrap_or_else(std::env::temp_dir);
        Log(folder.join(format!("kolo-{name}-{}", std::process::id())))
    }

    fn path(&self) -> String {
        self.0.to_string_lossy().into_owned()
    }

    /// Waits until it says all of this.
    fn wait_for(&self, parts: &[&str]) {
        let start = Instant::now();
        loop {
            let text = std::fs::read_to_string(&self.0).unwrap_or_default();
            if parts.iter().all(|part| text.contains(part)) {
                return;
            }
            assert!(start.elapsed() < LIMIT, "{parts:?} in {text}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
#[ignore = "the body of a test that needs a process of its own"]
fn alone_asked_by_a_signal() {
    const COUNT: usize = 40 * SLOT_BYTES / 8;
    let log = Log::new("asked");
    let path = log.path();
    let settings = [
        ("buffsize", "64K"),
        ("dump_signal", "12"),
        ("debug_file", path.as_str()),
    ];
    let comms = made_on(2, &settings, |rank| rank);
    let seen = Mark::default();
    each(&comms, |comm| {
        let data = input(0, COUNT, 3);
        if comm.rank() == 1 {
            let mut found = vec![-1_i64; COUNT];
            seen.wait(comm);
            comm.recv(&mut found, 0).unwrap();
            assert_eq!(found, data);
            return;
        }
        let (stream, _data) = send(comm, &data);
        let start = Instant::now();
        let is_stuck = || {
            let live = comm.network_picture().unwrap().live;
            live.first()
                .is_some_and(|op| (op.posted, op.done) == (16, 8))
        };
        while !is_stuck() {
            assert!(start.elapsed() < LIMIT);
            std::thread::yield_now();
        }
        // SAFETY: the signal has a handler.
        unsafe { libc::kill(libc::getpid(), libc::SIGUSR2) };
        log.wait_for(&[
            "rank 0 over socket: 1 operations under way, 0 wait",
            "send to rank 1 on channel 1, 40 slots of up to 8192 bytes: 16 posted, 16 filled, 8 \
             transmitted, 8 done",
            "rank 1 over socket: 0 operations under way, 0 wait",
        ]);
        seen.set();
        stream.synchronize().unwrap();
    });
    // A communicator that is gone is not shown.
    drop(comms);
    // SAFETY: as above.
    unsafe { libc::kill(libc::getpid(), libc::SIGUSR2) };
    log.wait_for(&["this process has no connections between nodes"]);
}

#[test]
#[ignore = "the body of a test that needs a process of its own"]
fn alone_and_late() {
    let log = Log::new("late");
    let path = log.path();
    let settings = [
        ("debug", "trace"),
        ("warn_after", "1"),
        ("debug_file", path.as_str()),
    ];
    let comms = made_on(2, &settings, |rank| rank);
    each(&comms, |comm| {
        if comm.rank() == 1 {
            let mut found = vec![-1_i64; 100];
            comm.recv(&mut found, 0).unwrap();
            assert_eq!(found, input(0, 100, 4));
            return;
        }
        log.wait_for(&[
            "has waited 1 s for rank 0",
            "meanwhile rank 1 over socket: 1 operations under way",
            "receive from rank 0 on channel 1, 1 slots of up to",
            "not connected yet",
        ]);
        comm.send(&input(0, 100, 4), 1).unwrap();
    });
}
