//! Buffers that ranks of one process register: nothing is moved, and calls are what they were.

use crate::support::{input, ranks, sum};
use kolo::base::Code;
use kolo::comm::{RedOp, RegisteredBuffer};

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
