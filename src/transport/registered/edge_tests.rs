//! Data that share a page with a registered buffer are never on the file.

use super::fenced::{FencedPages, PAGE};
use super::*;
use crate::base::alone::alone;
use std::sync::mpsc::channel;

#[test]
fn a_page_is_on_the_file_only_if_all_of_it_is_registered() {
    const PAGES: usize = 24;
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let pages = FencedPages::new(PAGES);
    pages.fill(seed);
    let mut live: Vec<(u64, Range<usize>)> = Vec::new();
    for _ in 0..200 {
        if live.len() > 4 || (!live.is_empty() && random.u8(..4) == 0) {
            let (number, _) = live.swap_remove(random.usize(..live.len()));
            assert!(deregister(number).unwrap());
        } else {
            let start = random.usize(..PAGES * PAGE);
            let bytes = match random.u8(..4) {
                0 => random.usize(1..2 * PAGE),
                1 => random.usize(1..20),
                _ => random.usize(1..PAGES * PAGE),
            };
            let bytes = bytes.min(PAGES * PAGE - start);
            let number = register(pages.at(start), bytes).unwrap();
            live.push((number, start..start + bytes));
        }
        for page in 0..PAGES {
            let (start, end) = (page * PAGE, (page + 1) * PAGE);
            let holds = |(_, one): &(u64, Range<usize>)| one.start <= start && end <= one.end;
            let rights = if live.iter().any(holds) {
                "rw-s"
            } else {
                "rw-p"
            };
            assert_eq!(pages.rights(page), rights, "page {page} of {live:?}");
        }
        assert!(
            live.iter()
                .all(|(_, one)| find(pages.at(one.start), one.len()).is_some())
        );
    }
    live.into_iter()
        .for_each(|(number, _)| assert!(deregister(number).unwrap()));
    pages.has(seed);
}

/// The C library resets the locks of its arenas in a child, before any handler of the child runs.
/// The lock of a thread's arena lies at the start of its heap, and so beside the first large block.
#[test]
#[ignore = "the body of a test that needs a process of its own"]
fn alone_malloc_beside_a_buffer() {
    // SAFETY: sets a bound of malloc, in a process that is a test's.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 30) };
    let ((tell, told), (forked, go_on)) = (channel(), channel());
    let thread = std::thread::spawn(move || {
        let buffer = vec![1_u8; 1 << 20];
        let number = register(buffer.as_ptr(), buffer.len()).unwrap();
        tell.send(()).unwrap();
        go_on.recv().unwrap();
        for bytes in 3000..4000 {
            drop(std::hint::black_box(vec![0_u8; bytes]));
        }
        assert!(deregister(number).unwrap());
    });
    told.recv().unwrap();
    // SAFETY: the child leaves at once.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::_exit(0);
        }
        assert_eq!(libc::waitpid(child, std::ptr::null_mut(), 0), child);
    }
    forked.send(()).unwrap();
    thread.join().unwrap();
}

#[test]
fn malloc_works_after_a_fork_with_a_registered_block() {
    alone(
        "transport::registered::edge_tests::alone_malloc_beside_a_buffer",
        &[],
    );
}
