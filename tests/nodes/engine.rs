//! Tests of the engine of connections between nodes, under real collectives.

use super::support::{AbortOnPanic, input, made, ranks, sum};
use crate::alone::alone;
use kolo::comm::Inspect;
use kolo::comm::{Communicator, RedOp};
use kolo::plan::Direction;
use kolo::proxy::net::trace::{Event, Phase};
use std::sync::Mutex;

fn appended(events: &[Event]) -> Vec<(Direction, u32)> {
    let appended = events.iter().filter(|event| event.phase == Phase::Appended);
    appended
        .map(|event| (event.direction, event.peer.0))
        .collect()
}

/// An NVLS tree: a head inside of its tree has six connections, and appends six operations for a
/// call: from both children, to the parent, to both children, from the parent. So the receives are
/// posted before the sends have ended.
#[test]
fn heads_of_a_tree_append_six_operations_in_order() {
    // Nodes of 1, 2, 4 and 8 ranks would hide the trees: every rank is a node here.
    let heads = Mutex::new(0);
    let settings = [("algo", "nvlstree")];
    let comms = super::support::made_on(7, &settings, |rank| rank);
    let recording = std::sync::Barrier::new(comms.len());
    std::thread::scope(|scope| {
        for comm in &comms {
            let (heads, recording) = (&heads, &recording);
            scope.spawn(move || {
                let _guard = AbortOnPanic(comm);
                comm.record_network();
                recording.wait();
                let (send, mut recv) = (input(comm.rank() as usize, 5000, 0), vec![0; 5000]);
                comm.all_reduce(&send, &mut recv, RedOp::SUM).unwrap();
                assert!((0..5000).all(|e| recv[e] == sum(7, e, 0)));
                let ops = appended(&comm.network_events());
                use Direction::{Recv, Send};
                for ops_of in ops.chunks(6).filter(|ops| ops.len() == 6) {
                    let (first, second, parent) = (ops_of[0].1, ops_of[1].1, ops_of[2].1);
                    let six = [
                        (Recv, first),
                        (Recv, second),
                        (Send, parent),
                        (Send, first),
                        (Send, second),
                        (Recv, parent),
                    ];
                    if ops_of == six && first != second && second != parent {
                        *heads.lock().unwrap() += 1;
                    }
                }
            });
        }
    });
    let heads = heads.into_inner().unwrap();
    assert!(heads >= 2, "{heads} heads inside of a tree of seven nodes");
    comms.iter().for_each(|comm| comm.destroy().unwrap());
}

/// A large message: every phase keeps its conditions, and the counts are those of the plan.
#[test]
fn a_large_message_passes_all_phases() {
    const COUNT: usize = 100_000;
    let recording = std::sync::Barrier::new(2);
    let check = |comm: &Communicator| {
        comm.record_network();
        recording.wait();
        if comm.rank() == 0 {
            comm.send(&input(0, COUNT, 1), 1).unwrap();
        } else {
            let mut data = vec![-1i64; COUNT];
            comm.recv(&mut data, 0).unwrap();
            assert_eq!(data, input(0, COUNT, 1));
        }
        comm.barrier().unwrap();
        let other = 1 - comm.rank();
        let events = comm.network_events();
        let way = [Direction::Send, Direction::Recv][comm.rank() as usize];
        let slots = (COUNT * 8).div_ceil(8192) as u64;
        let of = |phase: Phase| {
            let of = events
                .iter()
                .filter(|e| e.direction == way && e.phase == phase);
            of.map(|e| e.count).collect::<Vec<_>>()
        };
        assert_eq!(of(Phase::Appended)[0], slots, "the plan knows");
        let (mut posted, mut transmitted, mut done) = (0, 0, 0);
        for event in events.iter().filter(|e| e.direction == way) {
            assert_eq!(event.peer.0, other);
            match event.phase {
                Phase::Posted => posted = event.count,
                Phase::Transmitted => transmitted = event.count,
                Phase::Done => done = event.count,
                _ => {}
            }
            let ordered = done <= transmitted && transmitted <= posted && posted <= done + 8;
            assert!(ordered, "{event:?} of {events:?}");
        }
        assert!(*of(Phase::Transmitted).last().unwrap() >= slots);
    };
    // The barrier behind the message is on its connection, too.
    ranks(2, &[("buffsize", "64K"), ("max_nchannels", "1")], check);
}

/// Connections are made by the calls that need them, and by no others.
#[test]
fn connections_are_made_on_first_use() {
    ranks(6, &[], |comm| {
        assert_eq!(comm.network_connections().0, 0);
        let (me, other) = (comm.rank(), comm.rank() ^ 1);
        let (mine, mut theirs) = (input(me as usize, 10, 0), vec![0i64; 10]);
        if me % 2 == 0 {
            comm.send(&mine, other).unwrap();
            comm.recv(&mut theirs, other).unwrap();
        } else {
            comm.recv(&mut theirs, other).unwrap();
            comm.send(&mine, other).unwrap();
        }
        assert_eq!(theirs, input(other as usize, 10, 0));
        assert_eq!(comm.network_connections(), (1, 1));
    });
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn mapped() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains("kolo")).count()
}

/// Its own process: other tests open files too.
#[test]
fn nothing_is_left_and_nobody_runs() {
    alone("engine::alone_open_and_close", &[]);
}

/// Large payload that is only copied needs no slot at either end, in place or not; what is folded
/// does, and so does what is small.
#[test]
fn large_copies_go_straight() {
    use Direction::{Recv, Send};
    const COUNT: usize = 300_000;
    let straight = |comm: &Communicator, way: Direction| {
        let events = comm.network_events();
        let of = |phase| {
            let same = |e: &&Event| e.phase == phase && e.direction == way;
            events.iter().filter(same).count()
        };
        (of(Phase::Straight), of(Phase::Transmitted))
    };
    let recording = std::sync::Barrier::new(2);
    ranks(2, &[("algo", "rd")], |comm| {
        comm.record_network();
        recording.wait();
        let (rank, peer) = (comm.rank(), 1 - comm.rank());
        for iteration in 0..5 {
            let send = input(rank as usize, COUNT, iteration);
            let mut recv = vec![0; COUNT];
            let (sent, received) = match rank {
                0 => {
                    comm.send(&send, peer).unwrap();
                    let sent = straight(comm, Send);
                    comm.recv(&mut recv, peer).unwrap();
                    (sent, straight(comm, Recv))
                }
                _ => {
                    comm.recv(&mut recv, peer).unwrap();
                    let received = straight(comm, Recv);
                    comm.send(&send, peer).unwrap();
                    (straight(comm, Send), received)
                }
            };
            assert!(recv == input(peer as usize, COUNT, iteration));
            assert!(
                sent.0 == sent.1 && sent.0 >= 10,
                "all go straight: {sent:?}"
            );
            // What is here before the reader waits for it lies in a slot.
            assert!(received.0 > 0, "some come straight: {received:?}");
            comm.all_reduce(&send, &mut recv, RedOp::SUM).unwrap();
            assert!((0..COUNT).all(|e| recv[e] == sum(2, e, iteration)));
            let (sent, all) = straight(comm, Send);
            assert!(sent == all, "the input goes straight: {sent} of {all}");
            let mut data = send;
            comm.all_reduce_in_place(&mut data, RedOp::SUM).unwrap();
            assert!((0..COUNT).all(|e| data[e] == sum(2, e, iteration)));
            let (sent, _) = straight(comm, Send);
            assert!(sent == 0, "what is written again does not: {sent}");
            comm.all_reduce(&data[..100], &mut recv[..100], RedOp::SUM)
                .unwrap();
            assert!(straight(comm, Send).0 == 0, "nor what is small");
        }
    });
}

fn use_it() {
    let comms = made(4, &[]);
    std::thread::scope(|scope| {
        for comm in &comms {
            scope.spawn(|| {
                let mut data = input(comm.rank() as usize, 3000, 2);
                comm.all_reduce_in_place(&mut data, RedOp::SUM).unwrap();
                assert!((0..3000).all(|e| data[e] == sum(4, e, 2)));
            });
        }
    });
    comms.iter().for_each(|comm| comm.destroy().unwrap());
}

#[test]
#[ignore = "the body of a test that needs a process of its own"]
fn alone_open_and_close() {
    use_it();
    let before = settled();
    for _ in 0..5 {
        use_it();
    }
    // A thread that has ended, and may have been joined, is listed for a moment more; what it
    // holds may go with it.
    let mut after = holdings();
    for _ in 0..200 {
        if after == before {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(25));
        after = holdings();
    }
    assert_eq!(after, before, "files, mappings, threads");
    // Idle communicators take no time.
    let comms = made(4, &[]);
    let start = cpu_ticks();
    std::thread::sleep(std::time::Duration::from_secs(2));
    let ticks = cpu_ticks() - start;
    assert!(ticks <= 2, "{ticks} hundredths of a second in two seconds");
    comms.iter().for_each(|comm| comm.destroy().unwrap());
}

/// Open files, mappings, threads.
fn holdings() -> (usize, usize, usize) {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().count();
    (open_files(), mapped(), threads)
}

/// Holdings when they have not changed for a while.
fn settled() -> (usize, usize, usize) {
    let (mut last, mut calm) = (holdings(), 0);
    for _ in 0..1000 {
        std::thread::sleep(std::time::Duration::from_millis(10));
        let now = holdings();
        calm = if now == last { calm + 1 } else { 0 };
        last = now;
        if calm == 20 {
            return now;
        }
    }
    panic!("{last:?} still changes after ten seconds");
}

fn cpu_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields = stat.rsplit(')').next().unwrap().split_whitespace();
    fields
        .skip(11)
        .take(2)
        .map(|field| field.parse::<u64>().unwrap())
        .sum()
}
