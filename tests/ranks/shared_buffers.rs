//! Memory that peers can map, with an owner, in the calls that take slices.

use crate::support::{input, ranks, sum};
use kolo::{RedOp, SharedBuffer};

#[test]
fn a_call_in_place_on_a_buffer_that_peers_can_map() {
    ranks(3, &[], |comm| {
        let (rank, nranks) = (comm.rank() as usize, comm.nranks() as usize);
        for count in [0, 1, 1000, 70_001] {
            let mut data = SharedBuffer::<i64>::zeroed(count).unwrap();
            for iteration in 0..3 {
                data.copy_from_slice(&input(rank, count, iteration));
                comm.all_reduce_in_place(&mut data, RedOp::SUM).unwrap();
                let expected = (0..count).map(|element| sum(nranks, element, iteration));
                assert!(data.iter().copied().eq(expected), "{count}, {iteration}");
            }
        }
    });
}

#[test]
fn calls_of_a_scope_move_beside_each_other() {
    ranks(2, &[], |comm| {
        let (rank, count) = (comm.rank() as usize, 5000);
        let other = 1 - comm.rank();
        let mut mine = SharedBuffer::<i64>::zeroed(count).unwrap();
        let mut theirs = SharedBuffer::<i64>::zeroed(count).unwrap();
        let mut most = SharedBuffer::<i32>::zeroed(count).unwrap();
        mine.copy_from_slice(&input(rank, count, 1));
        most.fill(rank as i32 - 7);
        comm.scope(|scope| {
            scope.send_recv(&mine, other, &mut theirs, other)?;
            scope.all_reduce_in_place(&mut most, RedOp::MAX)
        })
        .unwrap();
        assert_eq!(*theirs, *input(1 - rank, count, 1));
        assert!(most.iter().all(|&one| one == -6));
    });
}
