//! Tests that moved memory keeps its content, is seen by peers, and goes back.

use super::fenced::{FencedPages, PAGE, PRIVATE, SHARED, map_at};
use super::*;
use crate::base::alone::alone;
use crate::transport::memory::Mapping;
use std::sync::atomic::AtomicBool;

/// Maps a buffer as a peer does, when its owner has shown it.
fn seen(start: *const u8, bytes: usize) -> ((Mapping, FoundPages), *const u8) {
    let found = find(start, bytes).expect("registered");
    let mapping = match found.window {
        0 => Mapping::open(&found.file).unwrap(),
        window => {
            let first = start as usize - found.offset;
            let window = first..first + window;
            Mapping::of_registration(&found.file, &window, found.number).unwrap()
        }
    };
    let all = start as usize..start as usize + bytes;
    found.edges.iter().for_each(|edge| edge.show(&all).unwrap());
    let place = mapping.at(found.offset, bytes).expect("inside");
    ((mapping, found), place)
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
        (large, 9, large * PAGE - 5),
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
            let found = unsafe { peer.add(at).read_volatile() };
            assert_eq!(found, pages.read(from + at));
            pages.write(from + at, 42);
            let (_again, other) = seen(start, bytes);
            // SAFETY: as above.
            unsafe {
                assert_eq!(peer.add(at).read_volatile(), 42);
                assert_eq!(other.add(at).read_volatile(), 42);
            }
        }
        assert!(find(start, bytes + 1).is_none(), "longer than registered");
        pages.fill(seed as u64 + 100);
        let before = ended();
        assert!(deregister(number).unwrap() && ended() != before && !is_live(number));
        pages.has(seed as u64 + 100);
        assert_eq!(pages.rights(from / PAGE), "rw-p");
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
    assert_eq!(shared(), (1..15).collect::<Vec<_>>());
    assert!(deregister(first).unwrap());
    assert_eq!(shared(), (1..15).collect::<Vec<_>>());
    assert!(deregister(again).unwrap());
    assert_eq!(shared(), (5..15).collect::<Vec<_>>());
    assert!(deregister(second).unwrap());
    assert!(shared().is_empty(), "ten bytes need no page");
    assert!(find(pages.at(9 * PAGE), 10).is_some());
    assert!(find(pages.at(9 * PAGE), 11).is_none());
    assert!(deregister(third).unwrap());
    pages.has(3);
}

#[test]
fn two_buffers_may_share_a_page_of_the_heap() {
    let mut boxes: Vec<Vec<u8>> = (0..40).map(|at| vec![at; 3000]).collect();
    let one = |bytes: &Vec<u8>| register(bytes.as_ptr(), bytes.len()).unwrap();
    let numbers: Vec<u64> = boxes.iter().map(one).collect();
    for (at, bytes) in boxes.iter_mut().enumerate() {
        bytes[2999] = 200;
        let (_mapping, peer) = seen(bytes.as_ptr(), 3000);
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

/// Alone, since mappings of tests beside it could come to lie in the hole that it makes.
#[test]
fn what_may_not_be_moved_is_refused_with_its_reason() {
    alone(
        "transport::registered::tests::alone_with_what_may_not_be_moved",
        &[],
    );
}

#[test]
#[ignore = "the body of a test that needs a process of its own"]
fn alone_with_what_may_not_be_moved() {
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
    refused(shared.at(0), 4 * PAGE, "cut short");
    // A file that could be cut short, and one that could not.
    let file = room::memory_file(c"a program's").unwrap();
    room::grow(&file, 8 * PAGE as u64).unwrap();
    let mapped = FencedPages::of(SHARED, 8 * PAGE, Some(&file));
    refused(mapped.at(100), 20_000, "cut short");
    room::seal(&file, libc::F_SEAL_SHRINK).unwrap();
    mapped.fill(8);
    let number = register(mapped.at(100), 20_000).unwrap();
    let (_mapping, peer) = seen(mapped.at(100), 20_000);
    mapped.write(100, 77);
    // SAFETY: inside the peer's mapping.
    assert_eq!(unsafe { peer.read_volatile() }, 77);
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
    let outcome = in_a_child(|| {
        let mut random = fastrand::Rng::with_seed(11);
        let same = (0..pages.bytes).all(|at| pages.read(at) == random.u8(..));
        (0..pages.bytes).for_each(|at| pages.write(at, 99));
        step.store(1, Ordering::Release);
        i32::from(!same)
    });
    assert_eq!((outcome, step.load(Ordering::Acquire)), (0, 1));
    pages.has(11);
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

/// Alone, since mappings of tests beside it could come to lie in the hole that it makes.
#[test]
fn what_the_program_has_put_there_itself_is_left_alone() {
    alone("transport::registered::tests::alone_with_a_hole", &[]);
}

#[test]
#[ignore = "the body of a test that needs a process of its own"]
fn alone_with_a_hole() {
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
fn what_was_left_is_private_and_can_be_registered_again() {
    let pages = FencedPages::new(5000);
    pages.fill(14);
    let whole = || register(pages.at(8), 5000 * PAGE - 16).unwrap();
    leave(whole());
    pages.has(14);
    assert_eq!((&*pages.rights(1), &*pages.rights(4998)), ("rw-p", "rw-p"));
    assert!(find(pages.at(0), 1).is_none());
    for _ in 0..2 {
        let number = whole();
        assert_eq!(pages.rights(1), "rw-s");
        let (_mapping, peer) = seen(pages.at(PAGE), PAGE);
        // SAFETY: inside the peer's mapping.
        assert_eq!(unsafe { *peer }, pages.read(PAGE));
        leave(number);
    }
    pages.has(14);
    let number = whole();
    assert!(deregister(number).unwrap());
    pages.has(14);
    let page = pages.at(PAGE) as usize;
    assert_eq!(
        areas::plain(&(page..page + PAGE)).unwrap()[0].name,
        "",
        "anonymous"
    );
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
    refused(other.at(0), PAGE, "realloc");
    assert!(deregister(number).unwrap());
}

/// Who aborts does so at whatever moment: other threads may be writing.
#[test]
fn who_writes_while_a_registration_is_left_loses_nothing() {
    const PAGES: usize = 700;
    let pages = FencedPages::new(PAGES);
    let stop = AtomicBool::new(false);
    let file = new_file().unwrap();
    let ours = areas::identity(&file).unwrap();
    let start = pages.at(0) as usize;
    let all = start..start + pages.bytes;
    let write = || {
        let mut written: Vec<u8> = (0..PAGES).map(|at| pages.read(at * PAGE + 1)).collect();
        for at in (0..PAGES).cycle() {
            assert_eq!(pages.read(at * PAGE + 1), written[at], "page {at}");
            if stop.load(Ordering::Relaxed) {
                break;
            }
            written[at] = written[at].wrapping_add(1);
            pages.write(at * PAGE + 1, written[at]);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..10 {
            exchange::onto(&file, &all).unwrap();
            let first = pages.read(1);
            let writer = scope.spawn(write);
            while pages.read(1) == first {
                std::thread::yield_now();
            }
            exchange::settle(&file, &all).unwrap();
            stop.store(true, Ordering::Relaxed);
            writer.join().unwrap();
            stop.store(false, Ordering::Relaxed);
            let shown = exchange::in_place(&all, ours).unwrap();
            assert!(shown.iter().all(|(_, _, is_shared)| !is_shared));
            // A fault of the writer that came too late may have taken an empty page.
            assert!(room::taken(&file).unwrap() <= PAGE as u64);
        }
    });
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
