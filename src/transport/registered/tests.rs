//! What is moved keeps its content, is seen by peers, and goes back.

use super::fenced::{FencedPages, PAGE, PRIVATE, SHARED, map_at};
use super::*;
use crate::base::alone::alone;
use crate::transport::memory::Mapping;
use std::sync::atomic::AtomicBool;

/// Maps a buffer as a peer does.
fn seen(start: *const u8, bytes: usize) -> (Mapping, *mut u8) {
    let found = find(start, bytes).expect("registered");
    let mapping = match found.window {
        0 => Mapping::open(&found.file).unwrap(),
        window => {
            let first = (start as usize - found.offset) as u64;
            Mapping::open_part(&found.file, first, window).unwrap()
        }
    };
    let place = mapping.at(found.offset, bytes).expect("inside").cast_mut();
    (mapping, place)
}

#[test]
fn content_is_kept_seen_by_peers_and_put_back() {
    let large = (16 << 20) / PAGE + 3;
    for (seed, (pages, from, to)) in [
        (1, 0, 4096),
        (1, 17, 18),
        (7, 100, 20_000),
        (2, 4095, 4097),
        (large, 0, large * PAGE),
    ]
    .into_iter()
    .enumerate()
    {
        let pages = FencedPages::new(pages);
        pages.fill(seed as u64);
        let (start, bytes) = (pages.at(from), to - from);
        assert!(find(start, 1).is_none());
        let number = register(start, bytes).unwrap();
        pages.has(seed as u64);
        let (_mapping, peer) = seen(start, bytes);
        for at in [0, bytes / 2, bytes - 1] {
            // SAFETY: inside the peer's mapping.
            unsafe {
                assert_eq!(*peer.add(at), pages.read(from + at));
                pages.write(from + at, 42);
                assert_eq!(peer.add(at).read_volatile(), 42);
                peer.add(at).write_volatile(43);
            }
            assert_eq!(pages.read(from + at), 43);
        }
        assert!(find(start, bytes + 1).is_none(), "longer than registered");
        assert_eq!(pages.rights(from / PAGE), "rw-s");
        pages.fill(seed as u64 + 100);
        let before = ended();
        assert!(deregister(number).unwrap() && ended() != before && !is_live(number));
        pages.has(seed as u64 + 100);
        assert_eq!(pages.rights(from / PAGE), "rw-p");
        // SAFETY: still mapped by the peer.
        unsafe { peer.write_volatile(9) };
        pages.has(seed as u64 + 100);
        assert!(!deregister(number).unwrap(), "twice");
    }
}

#[test]
fn pages_go_back_when_no_registration_holds_them() {
    let pages = FencedPages::new(20);
    pages.fill(3);
    let first = register(pages.at(10), 10 * PAGE - 10).unwrap();
    let second = register(pages.at(5 * PAGE), 10 * PAGE).unwrap();
    let third = register(pages.at(9 * PAGE), 10).unwrap();
    let again = register(pages.at(10), 10 * PAGE - 10).unwrap();
    let shared = || {
        (0..20)
            .filter(|&page| pages.rights(page) == "rw-s")
            .collect::<Vec<_>>()
    };
    assert_eq!(shared(), (0..15).collect::<Vec<_>>());
    assert!(deregister(first).unwrap());
    assert_eq!(shared(), (0..15).collect::<Vec<_>>());
    assert!(deregister(again).unwrap());
    assert_eq!(shared(), (5..15).collect::<Vec<_>>());
    assert!(deregister(second).unwrap());
    assert_eq!(shared(), [9]);
    assert!(find(pages.at(9 * PAGE), 10).is_some());
    assert!(find(pages.at(9 * PAGE), 11).is_none());
    assert!(deregister(third).unwrap() && shared().is_empty());
    pages.has(3);
}

#[test]
fn two_buffers_may_share_a_page_of_the_heap() {
    let mut boxes: Vec<Vec<u8>> = (0..40).map(|at| vec![at; 3000]).collect();
    let one = |bytes: &Vec<u8>| register(bytes.as_ptr(), bytes.len()).unwrap();
    let numbers: Vec<u64> = boxes.iter().map(one).collect();
    for (at, bytes) in boxes.iter_mut().enumerate() {
        let (_mapping, peer) = seen(bytes.as_ptr(), 3000);
        bytes[2999] = 200;
        // SAFETY: inside the peer's mapping.
        let (first, last) = unsafe { (*peer, peer.add(2999).read_volatile()) };
        assert_eq!((first, last), (at as u8, 200));
    }
    for number in numbers {
        assert!(deregister(number).unwrap());
    }
    for (at, bytes) in boxes.iter().enumerate() {
        assert!(bytes[..2999].iter().all(|&byte| byte == at as u8) && bytes[2999] == 200);
    }
}

fn refused(start: *const u8, bytes: usize, words: &str) {
    let error = register(start, bytes).expect_err(words);
    assert_eq!(error.code, crate::base::Code::InvalidArgument);
    assert!(error.what.contains(words), "{words}: {error}");
    assert!(find(start, bytes).is_none());
}

#[test]
fn what_may_not_be_moved_is_refused_with_its_reason() {
    static CONSTANT: [u8; 9000] = [7; 9000];
    let on_stack = [1_u8; 9000];
    refused(on_stack.as_ptr(), 9000, "stack");
    refused(CONSTANT.as_ptr(), 9000, "file");
    refused(std::ptr::null::<u8>().wrapping_add(8192), 10, "not mapped");
    refused(usize::MAX as *const u8, 10, "address space");
    refused(on_stack.as_ptr(), usize::MAX, "address space");
    let pages = FencedPages::new(8);
    refused(pages.at(0), 8 * PAGE + 1, "rights ---p");
    type Change = fn(*mut libc::c_void) -> i32;
    // SAFETY: each changes pages of the test.
    let changes: [(Change, &str); 5] = unsafe {
        [
            (
                |at| libc::mprotect(at, PAGE, libc::PROT_READ),
                "rights r--p",
            ),
            (|at| libc::mlock(at, PAGE), "mlock"),
            (
                |at| libc::madvise(at, PAGE, libc::MADV_DONTFORK),
                "DONTFORK",
            ),
            (
                |at| libc::madvise(at, PAGE, libc::MADV_WIPEONFORK),
                "WIPEONFORK",
            ),
            (|at| libc::munmap(at, PAGE), "not mapped"),
        ]
    };
    for (change, words) in changes {
        let pages = FencedPages::new(8);
        pages.fill(5);
        assert_eq!(change(pages.at(4 * PAGE).cast()), 0);
        refused(pages.at(8), 6 * PAGE, words);
        assert_eq!(pages.rights(0), "rw-p", "{words}: nothing is moved");
    }
    let shared = FencedPages::of(SHARED, 4 * PAGE, None);
    refused(shared.at(0), 100, "cut short");
    // A file that could be cut short, and one that could not.
    let file = room::memory_file(c"a program's").unwrap();
    room::grow(&file, 8 * PAGE as u64).unwrap();
    let mapped = FencedPages::of(SHARED, 8 * PAGE, Some(&file));
    refused(mapped.at(100), 8000, "cut short");
    room::seal(&file, libc::F_SEAL_SHRINK).unwrap();
    mapped.fill(8);
    let number = register(mapped.at(100), 8000).unwrap();
    let (_mapping, peer) = seen(mapped.at(100), 8000);
    // SAFETY: inside the peer's mapping.
    unsafe { peer.write_volatile(77) };
    assert_eq!(mapped.read(100), 77);
    assert!(deregister(number).unwrap());
    assert_eq!(mapped.rights(0), "rw-s", "it stays the program's");
}

/// Runs `body` in a child of fork(), and says with which number it ended.
fn in_a_child(body: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child only reads and writes memory, and leaves by _exit.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        // SAFETY: ends this process, if it hangs; leaves without destructors.
        unsafe {
            libc::alarm(20);
            libc::_exit(body());
        }
    }
    let mut status = -1;
    // SAFETY: `status` is a live integer; `child` is this process's child.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFEXITED(status), "the child ended with {status}");
    libc::WEXITSTATUS(status)
}

#[test]
fn a_child_of_fork_reads_what_was_there_and_writes_its_own() {
    let pages = FencedPages::new(6);
    pages.fill(11);
    let number = register(pages.at(100), 6 * PAGE - 200).unwrap();
    let step = map_at(0, PAGE, SHARED, None).cast::<AtomicU32>();
    // SAFETY: a number in memory that parent and child share.
    let step = unsafe { &*step };
    let edge = pages.read(5);
    let outcome = in_a_child(|| {
        let mut random = fastrand::Rng::with_seed(11);
        let same = (0..pages.bytes).all(|at| pages.read(at) == random.u8(..));
        (0..pages.bytes).for_each(|at| pages.write(at, 99));
        step.store(1, Ordering::Release);
        i32::from(!same)
    });
    assert_eq!((outcome, step.load(Ordering::Acquire)), (0, 1));
    pages.has(11);
    // What lies beside the buffer is as it was at the moment of the fork.
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            while step.load(Ordering::Acquire) != 2 {
                std::thread::yield_now();
            }
            pages.write(5, edge.wrapping_add(1));
            step.store(3, Ordering::Release);
        });
        in_a_child(|| {
            step.store(2, Ordering::Release);
            while step.load(Ordering::Acquire) != 3 {
                std::thread::yield_now();
            }
            i32::from(pages.read(5) != edge)
        })
    });
    assert_eq!(outcome, 0);
    pages.write(5, edge);
    assert!(deregister(number).unwrap());
    pages.has(11);
}

#[test]
fn advice_to_forget_pages_is_not_followed_while_they_are_registered() {
    let pages = FencedPages::new(4);
    pages.fill(12);
    let number = register(pages.at(0), 4 * PAGE).unwrap();
    // SAFETY: pages of the test.
    let forget = || unsafe { libc::madvise(pages.at(0).cast(), 4 * PAGE, libc::MADV_DONTNEED) };
    assert_eq!(forget(), 0);
    pages.has(12);
    assert!(deregister(number).unwrap());
    pages.has(12);
    assert_eq!(forget(), 0);
    assert!((0..4 * PAGE).all(|at| pages.read(at) == 0));
}

#[test]
fn what_the_program_has_put_there_itself_is_left_alone() {
    let pages = FencedPages::new(12);
    pages.fill(13);
    let number = register(pages.at(0), 12 * PAGE).unwrap();
    map_at(pages.at(4 * PAGE) as usize, 2 * PAGE, PRIVATE, None);
    pages.write(4 * PAGE, 21);
    // SAFETY: pages of the test.
    let gone = unsafe { libc::munmap(pages.at(8 * PAGE).cast(), PAGE) };
    assert_eq!(gone, 0);
    let error = register(pages.at(7 * PAGE), 2 * PAGE).unwrap_err();
    assert!(error.what.contains("not mapped"), "{error}");
    assert!(in_a_child(|| i32::from(pages.read(4 * PAGE))) == 21);
    assert!(deregister(number).unwrap());
    assert_eq!((pages.read(4 * PAGE), pages.read(5 * PAGE)), (21, 0));
    let page = pages.at(8 * PAGE) as usize;
    assert!(areas::plain(&(page..page + PAGE)).unwrap().is_empty());
    assert_eq!([0, 3, 4, 7, 9, 11].map(|at| pages.rights(at)), ["rw-p"; 6]);
}

#[test]
fn what_was_left_stays_usable_and_can_be_registered_again() {
    let pages = FencedPages::new(4);
    pages.fill(14);
    leave(register(pages.at(0), 4 * PAGE).unwrap());
    pages.has(14);
    assert_eq!(pages.rights(0), "rw-s");
    assert!(find(pages.at(0), 1).is_none());
    let number = register(pages.at(0), 2 * PAGE).unwrap();
    let (_mapping, peer) = seen(pages.at(0), PAGE);
    // SAFETY: inside the peer's mapping.
    assert_eq!(unsafe { *peer }, pages.read(0));
    assert!(deregister(number).unwrap());
    assert_eq!((&*pages.rights(0), &*pages.rights(2)), ("rw-p", "rw-s"));
    pages.has(14);
    let start = pages.at(0) as usize;
    drop(pages);
    let other = FencedPages::new(1);
    let number = register(other.at(0), 1).unwrap();
    let inside = |left: &&LeftPages| left.pages.start < start + 4 * PAGE && start < left.pages.end;
    assert!(lock(&LIVE).left.iter().find(inside).is_none(), "swept");
    assert!(deregister(number).unwrap());
}

#[test]
fn moved_memory_is_refused_with_the_word_realloc() {
    let (pages, other) = (FencedPages::new(2), FencedPages::new(2));
    pages.fill(15);
    let number = register(pages.at(0), 2 * PAGE).unwrap();
    let how = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    let target = other.at(0).cast::<libc::c_void>();
    // SAFETY: pages of the test.
    let moved = unsafe { libc::mremap(pages.at(0).cast(), 2 * PAGE, 2 * PAGE, how, target) };
    assert_eq!(moved, target);
    other.has(15);
    refused(other.at(0), 10, "realloc");
    assert!(deregister(number).unwrap());
}

/// Moves pages to and fro while another thread writes into them, after `prepare` on the thread that
/// moves; says whether that holds writers back, and how many writes were lost.
fn lost_writes(prepare: fn()) -> (bool, usize) {
    const PAGES: usize = 700;
    let pages = FencedPages::new(PAGES);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let (mut written, mut lost) = ([0_u8; PAGES], 0);
            for at in (0..PAGES).cycle() {
                // Byte 1 of each page is this thread's alone.
                let found = pages.read(at * PAGE + 1);
                assert!(found < 100, "what nobody wrote");
                lost += usize::from(found != written[at]);
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                written[at] = (written[at] + 1) % 100;
                pages.write(at * PAGE + 1, written[at]);
            }
            lost
        });
        let mover = scope.spawn(|| {
            prepare();
            let tight = is_tight();
            for round in 0..40 {
                pages.write(700 * PAGE - 1, round);
                let number = register(pages.at(0), PAGES * PAGE).unwrap();
                assert!(deregister(number).unwrap());
                assert_eq!(pages.read(700 * PAGE - 1), round, "the mover's own");
            }
            tight
        });
        let tight = mover.join();
        stop.store(true, Ordering::Relaxed);
        let lost = writer.join().unwrap();
        (tight.unwrap(), lost)
    })
}

/// Whether this system holds writers back.
fn is_tight() -> bool {
    let pages = FencedPages::new(2);
    pages.fill(0);
    let start = pages.at(0) as usize;
    super::window::Stillness::over(&(start..start + 2 * PAGE)).is_tight()
}

#[test]
fn who_writes_meanwhile_loses_nothing_where_the_system_holds_writers_back() {
    let (tight, lost) = lost_writes(|| ());
    assert!(!tight || lost == 0, "{lost} writes are lost");
    // As most users are: `vm.unprivileged_userfaultfd` may be 0 for them.
    let (still_tight, lost) = lost_writes(|| {
        let nobody = 65_534;
        // SAFETY: changes the user of this thread only, which ends soon. A refusal leaves it.
        unsafe { libc::syscall(libc::SYS_setresuid, nobody, nobody, nobody) };
    });
    assert_eq!(still_tight, tight, "without privileges");
    assert!(
        !tight || lost == 0,
        "{lost} writes are lost without privileges"
    );
}

/// Makes a system call fail with EPERM on this thread, as security filters do.
fn forbid(call: libc::c_long) {
    let step = |code: u32, jf, k| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf,
        k,
    };
    let mut steps = [
        // The number of the call comes first in what the filter is given.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, call as u32),
        step(
            libc::BPF_RET,
            0,
            libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
        ),
        step(libc::BPF_RET, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: steps.len() as u16,
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: the system copies the filter, which holds for this thread only.
    let codes = unsafe {
        [
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
            libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            ),
        ]
    };
    assert_eq!(codes, [0, 0], "{}", std::io::Error::last_os_error());
}

#[test]
fn without_userfaultfd_memory_is_moved_by_the_promise_alone() {
    let (tight, lost) = lost_writes(|| forbid(libc::SYS_userfaultfd));
    assert!(!tight);
    // Lost is what was written in the wrong moment: an older value is there then, and nothing else.
    println!("{lost} writes are lost");
}

#[test]
fn threads_register_what_overlaps_at_once() {
    let pages = FencedPages::new(64);
    pages.fill(16);
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let pages = &pages;
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed + thread);
                for _ in 0..60 {
                    let from = random.usize(..64 * PAGE - 1);
                    let bytes = random.usize(1..64 * PAGE - from);
                    let number = register(pages.at(from), bytes).unwrap();
                    let (_mapping, peer) = seen(pages.at(from), bytes);
                    // SAFETY: inside the peer's mapping.
                    assert_eq!(unsafe { peer.read_volatile() }, pages.read(from));
                    assert!(deregister(number).unwrap());
                }
            });
        }
    });
    pages.has(16);
    assert!((0..64).all(|page| pages.rights(page) == "rw-p"));
}

#[test]
fn what_is_left_of_a_range() {
    let mut random = fastrand::Rng::with_seed(17);
    let mut range = || {
        let start = random.usize(..30);
        start..start + random.usize(..12)
    };
    for _ in 0..1000 {
        let (whole, others) = (range(), [range(), range(), range()]);
        let rest = without(&whole, others.iter());
        let holds = |at: &usize| others.iter().any(|other| other.contains(at));
        let expected: Vec<usize> = whole.clone().filter(|at| !holds(at)).collect();
        let found: Vec<usize> = rest.iter().flat_map(Clone::clone).collect();
        assert_eq!(found, expected, "{whole:?} without {others:?}");
        assert!(rest.iter().all(|part| !part.is_empty()) || whole.is_empty());
    }
}

#[test]
#[ignore = "the body of a test that needs a process of its own"]
fn alone_under_a_limit() {
    let pages = FencedPages::new(8);
    pages.fill(18);
    let limit = libc::rlimit {
        rlim_cur: 1 << 20,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: sets a limit of this process, which is a test's.
    unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) };
    let error = register(pages.at(0), 8 * PAGE).unwrap_err();
    assert!(
        error.what.contains("limit on file sizes, 1048576"),
        "{error}"
    );
    pages.has(18);
    assert_eq!(pages.rights(0), "rw-p");
}

#[test]
fn a_limit_is_an_error_and_no_signal() {
    alone("transport::registered::tests::alone_under_a_limit", &[]);
}
