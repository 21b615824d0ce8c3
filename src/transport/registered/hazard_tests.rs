//! What programs do beside the rules, or at the wrong moment.

use super::fenced::{FencedPages, PAGE, PRIVATE, SHARED, map_at};
use super::*;
use crate::base::sync::AtomicU32;
use std::sync::atomic::AtomicBool;

#[test]
fn what_was_freed_and_given_out_again_is_not_found() {
    let pages = FencedPages::new(8);
    pages.fill(21);
    let number = register(pages.at(100), 7 * PAGE).unwrap();
    assert!(find(pages.at(100), 7 * PAGE).is_some() && find(pages.at(3 * PAGE), 9).is_some());
    // As malloc does for a large block: free, and malloc gives the same addresses.
    map_at(pages.at(0) as usize, 8 * PAGE, PRIVATE, None);
    pages.fill(22);
    assert!(find(pages.at(100), 7 * PAGE).is_none() && find(pages.at(3 * PAGE), 9).is_none());
    assert!(is_live(number));
    let again = register(pages.at(100), 7 * PAGE).unwrap();
    pages.has(22);
    assert!(find(pages.at(100), 7 * PAGE).is_some());
    map_at(pages.at(4 * PAGE) as usize, PAGE, PRIVATE, None);
    let part = |page: usize, pages_of_it| find(pages.at(page * PAGE), pages_of_it * PAGE);
    assert!(part(1, 3).is_some() && part(1, 4).is_none() && part(5, 2).is_some());
    assert!(deregister(number).unwrap() && deregister(again).unwrap());
    assert_eq!(pages.rights(0), "rw-p");
}

#[test]
fn a_file_of_the_program_that_was_unmapped_is_not_found() {
    let file = room::memory_file(c"a program's").unwrap();
    room::grow(&file, 8 * PAGE as u64).unwrap();
    room::seal(&file, libc::F_SEAL_SHRINK).unwrap();
    let pages = FencedPages::of(SHARED, 8 * PAGE, Some(&file));
    let number = register(pages.at(100), 6 * PAGE).unwrap();
    let found = find(pages.at(2 * PAGE), 3 * PAGE).unwrap();
    assert_eq!((found.offset, found.window), (2 * PAGE, 0));
    map_at(pages.at(0) as usize, 8 * PAGE, PRIVATE, None);
    pages.fill(23);
    assert!(find(pages.at(2 * PAGE), 3 * PAGE).is_none());
    assert!(deregister(number).unwrap());
    pages.has(23);
}

/// Forks, changes byte `note` here, and says what the child then reads there.
fn in_the_child(pages: &FencedPages, note: usize) -> u8 {
    let before = pages.read(note);
    let step = map_at(0, PAGE, SHARED, None).cast::<AtomicU32>();
    // SAFETY: a number in memory that parent and child share.
    let step = unsafe { &*step };
    // SAFETY: the child reads memory, and leaves by _exit, or by the alarm.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        // SAFETY: ends this process.
        unsafe {
            libc::alarm(20);
            while step.load(Ordering::Acquire) == 0 {
                libc::usleep(100);
            }
            libc::_exit(i32::from(pages.read(note)));
        }
    }
    pages.write(note, before.wrapping_add(1));
    step.store(1, Ordering::Release);
    let mut status = -1;
    // SAFETY: `status` is a live integer; `child` is this process's child.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    pages.write(note, before);
    assert!(libc::WIFEXITED(status), "the child ended with {status}");
    libc::WEXITSTATUS(status) as u8
}

#[test]
fn who_forks_while_pages_move_has_copies_of_what_lies_beside() {
    const PAGES: usize = (96 << 20) / PAGE;
    let pages = FencedPages::new(PAGES);
    (0..PAGES).for_each(|page| pages.write(page * PAGE, 1));
    let (first, last) = (5, PAGES * PAGE - 5);
    pages.write(first, 77);
    pages.write(last, 78);
    let (moves, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    // Until the page of `note` is mapped so, or it is too late.
    let wait = |note: usize, rights: &str| {
        while !ended.load(Ordering::Acquire) && pages.rights(note / PAGE) != rights {
            std::hint::spin_loop();
        }
    };
    std::thread::scope(|scope| {
        let forker = scope.spawn(|| {
            wait(first, "rw-s");
            let one = in_the_child(&pages, first);
            while !moves.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            // The first page has gone back, and the last is on the file still.
            wait(first, "rw-p");
            (one, in_the_child(&pages, last))
        });
        let number = register(pages.at(100), PAGES * PAGE - 200).unwrap();
        ended.store(true, Ordering::Release);
        std::thread::sleep(std::time::Duration::from_millis(200));
        ended.store(false, Ordering::Release);
        moves.store(true, Ordering::Release);
        assert!(deregister(number).unwrap());
        ended.store(true, Ordering::Release);
        assert_eq!(forker.join().unwrap(), (77, 78));
    });
}

#[test]
fn pages_that_were_left_are_copied_for_children_too() {
    let (pages, other) = (FencedPages::new(4), FencedPages::new(1));
    pages.fill(24);
    let note = pages.read(5);
    leave(register(pages.at(100), 3 * PAGE).unwrap());
    // Others tell the handler anew.
    let number = register(other.at(0), 1).unwrap();
    assert_eq!(in_the_child(&pages, 5), note);
    assert!(deregister(number).unwrap());
    assert_eq!(in_the_child(&pages, 5), note);
    pages.has(24);
}
