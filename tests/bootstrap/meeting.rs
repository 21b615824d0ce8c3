//! Ranks that do everything right.

use super::support::*;
use kolo::base::Rank;
use kolo::bootstrap::{Bootstrap, Family, NetSettings, UniqueId};
use std::net::{Ipv6Addr, TcpListener};
use std::time::Instant;

#[test]
fn operations_among_threads() {
    within(60, || {
        for nranks in [1, 2, 3, 8] {
            let members = ring(nranks, &settings());
            each(&members, |member| {
                let rank = member.rank().0;
                for round in 0..20u32 {
                    check_exchange(member);
                    let root = Rank(round % nranks);
                    let mut data = vec![rank as u8; 3 + rank as usize];
                    member.broadcast(root, &mut data).unwrap();
                    assert_eq!(data, vec![root.0 as u8; 3 + root.index()]);
                    member.barrier().unwrap();
                }
                // Longer than every socket buffer on the way.
                let mut large = vec![rank as u8; 9 << 20];
                let all = member.all_gather(&large).unwrap();
                assert!(
                    (0..)
                        .zip(all.iter())
                        .all(|(other, part)| part.len() == 9 << 20
                            && part.iter().all(|&byte| byte == other as u8))
                );
                member.broadcast(Rank(nranks - 1), &mut large).unwrap();
                assert!(large.iter().all(|&byte| byte == (nranks - 1) as u8));
            });
        }
    });
}

#[test]
fn ipv6_works_where_the_machine_has_it() {
    let Ok(probe) = TcpListener::bind("[::1]:0") else {
        crate::skip::skip("ipv6", "this machine has none");
        return;
    };
    drop(probe);
    within(20, || {
        let port = Port::take(Ipv6Addr::LOCALHOST);
        // The root on IPv6, the ring on the loopback's IPv4: families need not agree.
        let root = NetSettings {
            comm_id: Some(format!("[::1]:{}", port.number())),
            ..settings()
        };
        let root = NetSettings {
            socket_family: Family::Any,
            ..root
        };
        each(&ring(3, &root), check_exchange);
    });
}

#[test]
fn two_hundred_ranks_come_up() {
    within(60, || {
        let begin = Instant::now();
        let members = ring(200, &settings());
        let up = begin.elapsed();
        each(&members, check_exchange);
        println!(
            "200 ranks: up in {up:?}, all-gather after {:?}",
            begin.elapsed()
        );
    });
}

#[test]
fn leaving_right_after_an_operation_is_no_fault() {
    within(60, || {
        for _ in 0..30 {
            let members = ring(4, &settings());
            std::thread::scope(|scope| {
                for member in members {
                    scope.spawn(move || {
                        check_exchange(&member);
                        member.barrier().unwrap();
                    });
                }
            });
        }
    });
}

#[test]
fn comm_id_with_rank_zero_last_and_twice_in_a_row() {
    within(60, || {
        let port = Port::take(HERE);
        let named = named(&port);
        for _ in 0..3 {
            let id = UniqueId::create(&named).unwrap();
            let mut ranks: Vec<_> = (1..4).map(|r| start(id, r, 4, named.clone())).collect();
            pause(100);
            ranks.insert(0, start(id, 0, 4, named.clone()));
            let members: Vec<_> = ranks
                .into_iter()
                .map(|r| r.join().unwrap().unwrap())
                .collect();
            each(&members, check_exchange);
        }
    });
}
