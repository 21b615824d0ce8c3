//! Tests with programs that break the rules, or do things at the wrong moment.

use super::fenced::{FencedPages, PAGE, PRIVATE, SHARED, map_at};
use super::*;
use crate::base::sync::AtomicU32;

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

/// Forks, changes all bytes here, and says how many of them the child then finds changed.
fn changed_in_the_child(pages: &FencedPages) -> usize {
    let shared = map_at(0, PAGE, SHARED, None).cast::<AtomicU32>();
    // SAFETY: two numbers in memory that parent and child share.
    let [step, changed] = unsafe { [&*shared, &*shared.add(1)] };
    let before: Vec<u8> = (0..pages.bytes).map(|at| pages.read(at)).collect();
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
            let differs = |at: &usize| pages.read(*at) != before[*at];
            let count = (0..pages.bytes).filter(differs).count();
            changed.store(count as u32, Ordering::Release);
            (0..pages.bytes).for_each(|at| pages.write(at, 7));
            libc::_exit(0);
        }
    }
    (0..pages.bytes).for_each(|at| pages.write(at, before[at].wrapping_add(1)));
    step.store(1, Ordering::Release);
    let mut status = -1;
    // SAFETY: `status` is a live integer; `child` is this process's child.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child did not end well");
    for (at, byte) in before.into_iter().enumerate() {
        assert_eq!(
            pages.read(at),
            byte.wrapping_add(1),
            "the child has written here"
        );
        pages.write(at, byte);
    }
    changed.load(Ordering::Acquire) as usize
}

/// The program frees a buffer after an abort, and its memory is given out again.
#[test]
fn no_page_that_was_left_changes_under_a_child() {
    let (pages, other) = (FencedPages::new(9), FencedPages::new(1));
    pages.fill(24);
    leave(register(pages.at(100), 8 * PAGE).unwrap());
    assert_eq!(changed_in_the_child(&pages), 0);
    // Others tell the handler anew.
    let number = register(other.at(0), PAGE).unwrap();
    assert_eq!(changed_in_the_child(&pages), 0);
    assert!(deregister(number).unwrap());
    assert_eq!(changed_in_the_child(&pages), 0);
    pages.has(24);
}

#[test]
fn what_the_system_takes_before_it_refuses_is_not_lost() {
    let pages = FencedPages::new(9);
    pages.fill(25);
    let whole = || register(pages.at(100), 8 * PAGE);
    // The old pages are gone when the system refuses to put the file there.
    hooks::FAILS.set(1);
    let number = whole().unwrap();
    pages.has(25);
    // Nor can they go back; they are private all the same.
    hooks::FAILS.set(1);
    assert!(deregister(number).unwrap());
    pages.has(25);
    assert_eq!(pages.rights(3), "rw-p");
    assert_eq!(changed_in_the_child(&pages), 0);
    // Nor be made private: then children have copies.
    let number = whole().unwrap();
    hooks::FAILS.set(0b101);
    let error = deregister(number).unwrap_err();
    assert!(error.what.contains("memory of its own"), "{error}");
    pages.has(25);
    assert_eq!(pages.rights(3), "rw-s");
    assert!(find(pages.at(200), 1).is_none());
    assert_eq!(changed_in_the_child(&pages), 0);
    // The next registration tries again.
    let number = whole().unwrap();
    pages.has(25);
    assert!(deregister(number).unwrap());
    pages.has(25);
    assert_eq!(pages.rights(3), "rw-p");
    assert_eq!(changed_in_the_child(&pages), 0);
}

/// A page of these that the program lets nobody write, and its rights.
fn closed(pages: &FencedPages, rights: libc::c_int) {
    // SAFETY: a page of the test.
    let code = unsafe { libc::mprotect(pages.at(3 * PAGE).cast(), PAGE, rights) };
    assert_eq!(code, 0);
}

#[test]
fn what_the_program_has_closed_stays_closed_where_the_system_refuses() {
    let pages = FencedPages::new(9);
    pages.fill(26);
    let whole = || register(pages.at(100), 8 * PAGE);
    for (refuses, rights) in [(0, "r--p"), (1, "r--p"), (0b11, "r--s")] {
        let number = whole().unwrap();
        closed(&pages, libc::PROT_READ);
        hooks::REFUSES.set(refuses);
        let gone = deregister(number);
        assert_eq!((gone.is_ok(), hooks::REFUSES.get()), (refuses != 0b11, 0));
        pages.has(26);
        assert_eq!(pages.rights(3), rights, "{refuses}");
        closed(&pages, libc::PROT_READ | libc::PROT_WRITE);
    }
    // What is left is tried again.
    let number = whole().unwrap();
    assert!(deregister(number).unwrap());
    pages.has(26);
    assert_eq!([2, 3, 4].map(|page| pages.rights(page)), ["rw-p"; 3]);
}

/// Else a write would end the program.
#[test]
fn pages_that_cannot_be_opened_for_their_copies_are_left() {
    let pages = FencedPages::new(4);
    pages.fill(27);
    let start = pages.at(0) as usize;
    let all = start..start + 4 * PAGE;
    let file = new_file().unwrap();
    exchange::onto(&file, &all).unwrap();
    closed(&pages, libc::PROT_READ);
    exchange::settle(&file, &all).unwrap();
    assert_eq!(pages.rights(3), "r--p");
    for refuses in [1, 0b10] {
        hooks::REFUSES.set(refuses);
        let error = exchange::settle(&file, &all).unwrap_err();
        let words = ["memory of its own", "can be written now"][refuses as usize / 2];
        assert!(error.what.contains(words), "{error}");
        pages.has(27);
    }
    assert_eq!(pages.rights(3), "rw-p");
}
