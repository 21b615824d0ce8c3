//! Every collective, with counts of all sizes.

use super::support::{COUNTS, POISON, SIZES, SMALL_BUFFER, input, ranks, sum, value};
use kolo::comm::{CommConfig, RedOp};

#[test]
fn all_reduce() {
    for &n in SIZES {
        ranks(n, SMALL_BUFFER, |comm| {
            let (rank, nranks) = (comm.rank() as usize, n as usize);
            for (i, &count) in COUNTS.iter().enumerate() {
                let send = input(rank, count, i);
                let mut recv = vec![POISON; count];
                comm.all_reduce(&send, &mut recv, RedOp::SUM).unwrap();
                for (e, &got) in recv.iter().enumerate() {
                    assert_eq!(got, sum(nranks, e, i), "rank {rank} element {e} of {count}");
                }
                let mut data = send.clone();
                comm.all_reduce_in_place(&mut data, RedOp::MAX).unwrap();
                for (e, &got) in data.iter().enumerate() {
                    let max = (0..nranks).map(|r| value(r, e, i)).max().unwrap();
                    assert_eq!(got, max, "in place, rank {rank} element {e} of {count}");
                }
            }
        });
    }
}

#[test]
fn broadcast_and_reduce() {
    for &n in SIZES {
        ranks(n, SMALL_BUFFER, |comm| {
            let (rank, nranks) = (comm.rank() as usize, n as usize);
            for (i, &count) in COUNTS.iter().enumerate() {
                let root = i as u32 % n;
                let mut data = vec![POISON; count];
                if rank as u32 == root {
                    data = input(rank, count, i);
                }
                comm.broadcast(&mut data, root).unwrap();
                assert_eq!(
                    data,
                    input(root as usize, count, i),
                    "rank {rank} count {count}"
                );
                let mut recv = vec![POISON; count];
                comm.reduce(&data, &mut recv, RedOp::SUM, root).unwrap();
                for (e, &got) in recv.iter().enumerate() {
                    let want = nranks as i64 * value(root as usize, e, i);
                    let want = if rank as u32 == root { want } else { POISON };
                    assert_eq!(got, want, "rank {rank} element {e} of {count}");
                }
            }
        });
    }
}

#[test]
fn gathers_and_scatters() {
    for &n in SIZES {
        ranks(n, SMALL_BUFFER, |comm| {
            let (rank, nranks) = (comm.rank() as usize, n as usize);
            for (i, &count) in COUNTS.iter().enumerate() {
                let root = (i as u32 + 1) % n;
                let mine = input(rank, count, i);
                let all: Vec<i64> = (0..nranks).flat_map(|r| input(r, count, i)).collect();
                let mut recv = vec![POISON; count * nranks];
                comm.all_gather(&mine, &mut recv).unwrap();
                assert!(recv == all, "all_gather rank {rank} count {count}");
                let mut recv = vec![POISON; count * nranks];
                comm.gather(&mine, &mut recv, root).unwrap();
                let poisoned = vec![POISON; count * nranks];
                let want = if rank as u32 == root { &all } else { &poisoned };
                assert!(recv == *want, "gather rank {rank} count {count}");
                let mut block = vec![POISON; count];
                let send = if rank as u32 == root {
                    all.clone()
                } else {
                    Vec::new()
                };
                comm.scatter(&send, &mut block, root).unwrap();
                assert!(block == mine, "scatter rank {rank} count {count}");
            }
        });
    }
}

#[test]
fn reduce_scatter_and_all_to_all() {
    for &n in SIZES {
        ranks(n, SMALL_BUFFER, |comm| {
            let (rank, nranks) = (comm.rank() as usize, n as usize);
            for (i, &count) in COUNTS.iter().enumerate() {
                let send = input(rank, count * nranks, i);
                let mut recv = vec![POISON; count];
                comm.reduce_scatter(&send, &mut recv, RedOp::SUM).unwrap();
                for (e, &got) in recv.iter().enumerate() {
                    assert_eq!(
                        got,
                        sum(nranks, rank * count + e, i),
                        "rank {rank} element {e}"
                    );
                }
                let mut recv = vec![POISON; count * nranks];
                comm.all_to_all(&send, &mut recv).unwrap();
                for peer in 0..nranks {
                    let theirs = input(peer, count * nranks, i);
                    let want = &theirs[rank * count..][..count];
                    assert!(
                        recv[peer * count..][..count] == *want,
                        "rank {rank} from {peer}"
                    );
                }
            }
        });
    }
}

#[test]
fn send_recv_ring_in_a_scope() {
    for &n in SIZES {
        ranks(n, SMALL_BUFFER, |comm| {
            let rank = comm.rank();
            for (i, &count) in COUNTS.iter().enumerate() {
                let (next, prev) = ((rank + 1) % n, (rank + n - 1) % n);
                let send = input(rank as usize, count, i);
                let back = input(rank as usize, count, i + 1);
                let mut recv = vec![POISON; count];
                let mut recv_back = vec![POISON; count];
                comm.scope(|scope| {
                    scope.send(&send, next)?;
                    scope.send(&back, prev)?;
                    scope.recv(&mut recv, prev)?;
                    scope.recv(&mut recv_back, next)
                })
                .unwrap();
                assert!(recv == input(prev as usize, count, i), "{n} {rank} {count}");
                assert!(
                    recv_back == input(next as usize, count, i + 1),
                    "{n} {rank} {count}"
                );
            }
        });
    }
}

#[test]
fn barrier_holds_everybody() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    for &n in SIZES {
        let entered = AtomicUsize::new(0);
        ranks(n, &[], |comm| {
            for round in 1..=50 {
                entered.fetch_add(1, Ordering::SeqCst);
                comm.barrier().unwrap();
                assert!(entered.load(Ordering::SeqCst) >= round * n as usize);
                comm.barrier().unwrap();
            }
        });
    }
}

#[test]
fn split_by_parity_and_reversed() {
    ranks(5, &[], |comm| {
        let rank = comm.rank();
        let color = (rank != 4).then_some(rank % 2);
        let child = comm
            .split(color, -(rank as i32), &CommConfig::default())
            .unwrap();
        assert_eq!(child.is_some(), rank != 4);
        let Some(child) = child else { return };
        assert_eq!(
            (child.rank(), child.nranks()),
            (1 - rank / 2, 2),
            "order by key"
        );
        let mut data = [i64::from(rank) + 1];
        child.all_reduce_in_place(&mut data, RedOp::SUM).unwrap();
        assert_eq!(data[0], if rank % 2 == 0 { 1 + 3 } else { 2 + 4 });
        child.destroy().unwrap();
    });
}
