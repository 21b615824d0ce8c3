//! Messages between nodes from and into memory that stays where it is, and other memory: what
//! arrives, and how many bytes kolo copied for it.

use kolo::comm::{Communicator, Inspect, RegisteredBuffer};
use kolo::transport::memory;
use std::time::Duration;

/// Words of a large message: 1 MiB.
const COUNT: usize = 128 << 10;

const POISON: u64 = 0xeeee_eeee_eeee_eeee;

/// Where the buffers of a rank lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Home {
    /// From `koloMemAlloc`.
    Allocated,
    /// In memory of malloc that is registered with the communicator.
    Registered,
    /// In memory of malloc.
    Heap,
}

use Home::{Allocated, Heap, Registered};

enum Words {
    Allocated(*mut u64, usize),
    Heap(Vec<u64>, Option<RegisteredBuffer>),
}

impl Words {
    fn new(comm: &Communicator, home: Home, count: usize) -> Words {
        if home == Allocated {
            let words: *mut u64 = memory::allocate(8 * count).expect("memory").cast();
            return Words::Allocated(words, count);
        }
        let heap = vec![0; count];
        // SAFETY: the words live until `end`, and nobody else knows of them.
        let register = || unsafe { comm.register(heap.as_ptr().cast(), 8 * count) };
        let registered = (home == Registered).then(|| register().expect("registered"));
        Words::Heap(heap, registered)
    }

    fn get(&mut self) -> &mut [u64] {
        match self {
            // SAFETY: the allocation holds so many words, and only this object knows of it.
            Words::Allocated(words, count) => unsafe {
                std::slice::from_raw_parts_mut(*words, *count)
            },
            Words::Heap(heap, _) => heap,
        }
    }

    fn end(self, comm: &Communicator) {
        match self {
            Words::Allocated(words, _) => memory::free(words.cast()).expect("freed"),
            Words::Heap(_, Some(registered)) => comm.deregister(registered).expect("ended"),
            Words::Heap(..) => {}
        }
    }
}

fn word(rank: u32, element: usize, call: u64) -> u64 {
    call << 48 | u64::from(rank) << 40 | element as u64
}

fn fill(words: &mut [u64], rank: u32, call: u64) {
    for (element, place) in words.iter_mut().enumerate() {
        *place = word(rank, element, call);
    }
}

fn check(words: &[u64], rank: u32, call: u64) {
    let wrong = words.iter().enumerate();
    let mut wrong = wrong.filter(|&(at, &found)| found != word(rank, at, call));
    if let Some((at, found)) = wrong.next() {
        panic!("call {call}, word {at} of rank {rank}: {found:#x}");
    }
}

/// Bytes that this rank copies in a call: of 1 MiB that it sends, and of 1 MiB that it receives.
/// Data that its peer has put into slots come to this rank's.
fn copies((mine, peers): (Home, Home), sends: bool, receives: bool) -> u64 {
    let sent = sends && mine == Heap;
    let received = receives && (mine == Heap || peers == Heap);
    8 * COUNT as u64 * (u64::from(sent) + u64::from(received))
}

/// A message each way, broadcasts from each rank, and what all gather, with these homes of ranks 0
/// and 1. Each is checked, and what kolo copied for it.
fn calls(comm: &Communicator, homes: [Home; 2], call: &mut u64) {
    let me = comm.rank();
    let peer = 1 - me;
    let home = homes[me as usize];
    let both_homes = (home, homes[peer as usize]);
    let mut mine = Words::new(comm, home, COUNT);
    let mut both = Words::new(comm, home, 2 * COUNT);
    let counted = |what: &str, expected: u64, body: &mut dyn FnMut()| {
        let before = comm.network_copied();
        body();
        let copied = comm.network_copied() - before;
        assert_eq!(copied, expected, "{what}, rank {me} of {homes:?}");
    };
    for sender in [0, 1] {
        *call += 1;
        counted(
            "message",
            copies(both_homes, sender == me, sender != me),
            &mut || {
                match sender == me {
                    true => {
                        fill(mine.get(), me, *call);
                        comm.send(mine.get(), peer).unwrap();
                    }
                    false => {
                        mine.get().fill(POISON);
                        comm.recv(mine.get(), peer).unwrap();
                    }
                }
                check(mine.get(), sender, *call);
            },
        );
    }
    for root in [0, 1] {
        *call += 1;
        counted(
            "broadcast",
            copies(both_homes, root == me, root != me),
            &mut || {
                match root == me {
                    true => fill(mine.get(), me, *call),
                    false => mine.get().fill(POISON),
                }
                comm.broadcast(mine.get(), root).unwrap();
                check(mine.get(), root, *call);
            },
        );
    }
    *call += 1;
    counted("all gathered", copies(both_homes, true, true), &mut || {
        fill(mine.get(), me, *call);
        both.get().fill(POISON);
        comm.all_gather(mine.get(), both.get()).unwrap();
        let (first, second) = both.get().split_at(COUNT);
        check(first, 0, *call);
        check(second, 1, *call);
    });
    mine.end(comm);
    both.end(comm);
}

/// Every pair of homes; then memory that comes and goes.
pub fn everything(comm: &Communicator) {
    let mut call = 0;
    for first in [Allocated, Registered, Heap] {
        for second in [Allocated, Registered, Heap] {
            calls(comm, [first, second], &mut call);
        }
    }
    // The same addresses may come back with other pages.
    for _ in 0..6 {
        calls(comm, [Registered, Allocated], &mut call);
    }
}

/// Calls of many ranks, each on a node of its own, whose messages come in any order, while a reader
/// waits for another one. Nothing is copied.
pub fn many(comm: &Communicator) {
    let (me, ranks) = (comm.rank(), comm.nranks());
    let count = ranks as usize * COUNT;
    let (mut send, mut recv) = (
        Words::new(comm, Allocated, count),
        Words::new(comm, Allocated, count),
    );
    let before = comm.network_copied();
    for root in 0..ranks {
        fill(send.get(), me, 1);
        recv.get().fill(POISON);
        let mine = &send.get()[..COUNT];
        comm.gather(mine, recv.get(), root).unwrap();
        for (rank, block) in (0..ranks).zip(recv.get().chunks(COUNT)) {
            match me == root {
                true => check(block, rank, 1),
                false => assert!(block.iter().all(|&word| word == POISON)),
            }
        }
    }
    recv.get().fill(POISON);
    comm.all_to_all(send.get(), recv.get()).unwrap();
    for (rank, block) in (0..ranks).zip(recv.get().chunks(COUNT)) {
        let first = me as usize * COUNT;
        for (at, &found) in block.iter().enumerate() {
            assert_eq!(found, word(rank, first + at, 1), "word {at} of rank {rank}");
        }
    }
    assert_eq!(comm.network_copied(), before, "rank {me}");
    send.end(comm);
    recv.end(comm);
}

/// Memory that lasts, but is not read where it lies: all of it is copied.
pub fn copies_all(comm: &Communicator) {
    let me = comm.rank();
    let mut words = Words::new(comm, Allocated, COUNT);
    for root in [0, 1] {
        match root == me {
            true => fill(words.get(), me, 7),
            false => words.get().fill(POISON),
        }
        let before = comm.network_copied();
        comm.broadcast(words.get(), root).unwrap();
        assert_eq!(comm.network_copied() - before, 8 * COUNT as u64);
        check(words.get(), root, 7);
    }
    words.end(comm);
}

/// Broadcasts, from each rank in turn, until that fails, and says how; then nobody writes into the
/// buffer any more. `give_up`: this rank aborts in the middle.
pub fn until_it_breaks(comm: Communicator, give_up: bool) {
    let me = comm.rank();
    let mut words = Words::new(&comm, Allocated, 8 * COUNT);
    std::thread::scope(|scope| {
        let comm = &comm;
        let error = (0..).find_map(|round| {
            if give_up && round == 3 {
                scope.spawn(move || {
                    std::thread::sleep(Duration::from_millis(30));
                    comm.abort().expect("aborted");
                });
            }
            let root = round as u32 % 2;
            fill(words.get(), me, round);
            if let Err(error) = comm.broadcast(words.get(), root) {
                return Some(error);
            }
            check(words.get(), root, round);
            if round == 3 && me == 0 {
                println!("on our way");
            }
            None
        });
        let error = error.expect("it has no other end");
        words.get().fill(POISON);
        println!("broken: {error}");
    });
    std::thread::sleep(Duration::from_millis(500));
    assert!(
        words.get().iter().all(|&word| word == POISON),
        "written later"
    );
    words.end(&comm);
}
