//! Buffers that ranks of one process register: nothing is moved, and calls are what they were. And
//! what a hook of this process hears where pages are moved.

use crate::support::{input, ranks, sum};
use kolo::base::Code;
use kolo::comm::{RedOp, RegisteredBuffer};
use kolo::transport::{memory, registered};
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

const COUNT: usize = 70_001;

/// Whether the page of an address is shared.
fn is_shared(address: usize) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let hex = |word: &str| usize::from_str_radix(word, 16).unwrap();
    let line = maps.lines().find(|line| {
        let (range, _) = line.split_once(' ').unwrap();
        let (start, end) = range.split_once('-').unwrap();
        (hex(start)..hex(end)).contains(&address)
    });
    line.unwrap().split(' ').nth(1).unwrap().ends_with('s')
}

#[test]
fn ranks_of_one_process_need_no_pages_moved() {
    ranks(3, &[], |comm| {
        let (rank, nranks) = (comm.rank() as usize, comm.nranks() as usize);
        let mut send = input(rank, COUNT, 0);
        let mut recv = vec![-99; COUNT];
        let start: *const i64 = send.as_mut_ptr();
        let bytes = COUNT * size_of::<i64>();
        // SAFETY: this thread owns the buffers, which nobody writes meanwhile.
        let (first, again, second) = unsafe {
            (
                comm.register(start.cast(), bytes).unwrap(),
                comm.register(start.cast(), bytes).unwrap(),
                comm.register(recv.as_ptr().cast(), bytes).unwrap(),
            )
        };
        assert!(!is_shared(start as usize) && first != again);
        for iteration in 0..3 {
            send.copy_from_slice(&input(rank, COUNT, iteration));
            recv.fill(-99);
            comm.all_reduce(&send, &mut recv, RedOp::SUM).unwrap();
            let expected = (0..COUNT).map(|element| sum(nranks, element, iteration));
            assert!(recv.iter().copied().eq(expected), "iteration {iteration}");
        }
        comm.deregister(first).unwrap();
        let wrong = [first, RegisteredBuffer::from_number(0)];
        for wrong in wrong {
            let error = comm.deregister(wrong).unwrap_err();
            assert_eq!(error.code, Code::InvalidArgument);
            assert!(error.what.contains("no registration"), "{error}");
        }
        comm.deregister(again).unwrap();
        // SAFETY: as above.
        let refused = unsafe { comm.register(std::ptr::null(), 1) };
        assert!(refused.unwrap_err().what.contains("NULL"));
        // What is left ends with the communicator.
        let _ = second;
    });
}

/// Calls that [`mremap`] has heard of: where, and how many bytes.
static HEARD: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

/// A hook, as libraries have that pin memory for a network. As that of UCX before 1.15 it does not
/// know that there may be a new address.
#[unsafe(no_mangle)]
extern "C" fn mremap(start: usize, bytes: usize, new_bytes: usize, flags: libc::c_int) -> isize {
    if flags & libc::MREMAP_FIXED != 0 {
        return -1;
    }
    HEARD.lock().unwrap().push((start, bytes));
    // SAFETY: what the caller wants, who has not named another address.
    unsafe { libc::syscall(libc::SYS_mremap, start, bytes, new_bytes, flags) as isize }
}

/// Calls of `pread` and `pwrite` by threads that move pages, and of `open` in children of fork.
static HOOKED: AtomicUsize = AtomicUsize::new(0);
/// The process of the tests; 0 as long as nobody counts.
static PROCESS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static MOVES: Cell<bool> = const { Cell::new(false) };
}

/// As profilers of files have: it may take a lock, and that of malloc.
#[unsafe(no_mangle)]
extern "C" fn pread(file: i32, to: usize, bytes: usize, from: i64) -> isize {
    HOOKED.fetch_add(usize::from(MOVES.get()), Ordering::Relaxed);
    // SAFETY: what the caller wants.
    unsafe { libc::syscall(libc::SYS_pread64, file, to, bytes, from) as isize }
}

#[unsafe(no_mangle)]
extern "C" fn pwrite(file: i32, from: usize, bytes: usize, to: i64) -> isize {
    HOOKED.fetch_add(usize::from(MOVES.get()), Ordering::Relaxed);
    // SAFETY: what the caller wants.
    unsafe { libc::syscall(libc::SYS_pwrite64, file, from, bytes, to) as isize }
}

#[unsafe(no_mangle)]
extern "C" fn open(path: usize, flags: i32, mode: u32) -> i32 {
    let process = PROCESS.load(Ordering::Relaxed);
    if process != 0 && process != std::process::id() {
        // SAFETY: ends the child, whose status says so.
        unsafe { libc::_exit(77) };
    }
    // SAFETY: what the caller wants.
    unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path, flags, mode) as i32 }
}

#[test]
fn no_hook_of_a_profiler_runs_while_pages_move_or_in_a_child() {
    let buffer: Vec<u8> = (0..300_001).map(|at| (at % 251) as u8).collect();
    MOVES.set(true);
    let number = registered::register(buffer.as_ptr(), buffer.len()).unwrap();
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    let mut status = -1;
    // SAFETY: the child leaves at once.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::_exit(0);
        }
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
    }
    PROCESS.store(0, Ordering::Relaxed);
    assert!(registered::deregister(number).unwrap());
    MOVES.set(false);
    assert_eq!((status, HOOKED.load(Ordering::Relaxed)), (0, 0));
}

#[test]
fn hooks_hear_of_pages_that_change_and_have_no_part_in_it() {
    let buffer: Vec<u8> = (0..300_001).map(|at| (at % 251) as u8).collect();
    let (start, last) = (buffer.as_ptr() as usize, buffer.len() - 1);
    let heard = || {
        let all = std::mem::take(&mut *HEARD.lock().unwrap());
        let of = |byte| {
            all.iter()
                .any(|&(from, bytes)| (from..from + bytes).contains(&byte))
        };
        // The first and the last page hold other data too, and stay.
        [8192, last / 2, last - 8192].map(|at| of(start + at))
    };
    let number = registered::register(buffer.as_ptr(), buffer.len()).unwrap();
    assert!(is_shared(start + last / 2) && heard() == [true; 3]);
    let found = memory::find(buffer.as_ptr(), buffer.len()).unwrap();
    assert!(!found.may_be_written, "peers only read what was registered");
    assert!(registered::deregister(number).unwrap());
    assert!(!is_shared(start + last / 2) && heard() == [true; 3]);
    let is_kept = |(at, &byte): (usize, &u8)| byte == (at % 251) as u8;
    assert!(buffer.iter().enumerate().all(is_kept));
}
