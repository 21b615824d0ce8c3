//! Ranks that are threads of one process: they speak with one voice.

use super::support::*;
use kolo::base::{Code, Rank};
use kolo::bootstrap::{Bootstrap, NetSettings, TcpRing};
use std::time::Duration;

type ProcessOf = fn(u32) -> u32;

fn by(process_of: ProcessOf) -> NetSettings {
    NetSettings {
        process_of: Some(process_of),
        ..settings()
    }
}

/// Part of a rank in a round, of a length of its own.
fn part(rank: u32, round: u32, longest: u32) -> Vec<u8> {
    let length = (rank * 7919 + round * 104_729) % longest;
    (0..length)
        .map(|at| (rank * 31 + round * 7 + at) as u8)
        .collect()
}

#[test]
fn every_rank_hears_all_wherever_they_are() {
    let all: [(u32, ProcessOf); 6] = [
        (5, |_| 0),
        (8, |rank| rank / 4),
        (9, |rank| rank % 3),
        // One process of one rank, between those of another.
        (5, |rank| u32::from(rank == 2)),
        (7, |rank| rank.isqrt()),
        (6, |rank| 9 - rank / 2),
    ];
    within(60, move || {
        for (nranks, process_of) in all {
            each(&ring(nranks, &by(process_of)), |member| {
                let rank = member.rank().0;
                for (round, longest) in (0..).zip([1, 90, 70_000, 2, 300_000]) {
                    let gathered = member.all_gather(&part(rank, round, longest)).unwrap();
                    let right = (0..nranks).map(|rank| part(rank, round, longest));
                    assert!(gathered.iter().cloned().eq(right), "rank {rank}");
                    let root = (round * 3) % nranks;
                    let mut data = part(rank, round + 9, longest);
                    member.broadcast(Rank(root), &mut data).unwrap();
                    assert!(data == part(root, round + 9, longest), "rank {rank}");
                    member.barrier().unwrap();
                }
            });
        }
    });
}

/// Bytes and packets that the loopback of this network has carried.
fn carried() -> [u64; 2] {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("lo:"));
    let mut numbers = line
        .unwrap()
        .split_whitespace()
        .map(|word| word.parse().unwrap());
    [numbers.next().unwrap(), numbers.next().unwrap()]
}

/// Sockets of this process.
fn sockets() -> usize {
    let links = std::fs::read_dir("/proc/self/fd").unwrap();
    let links = links.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    links
        .filter(|link| link.to_string_lossy().starts_with("socket:"))
        .count()
}

/// Frames of an exchange grow with the number of processes, not of ranks: of P each gets P - 1.
#[test]
fn frames_and_sockets_are_those_of_processes() {
    if !has_own_process("together::frames_and_sockets_are_those_of_processes") {
        return;
    }
    if !own_network() {
        crate::skip::skip("own_network", "no network of its own can be made here");
        return;
    }
    const PART: usize = 100;
    let few = sockets();
    let kinds: [(u64, ProcessOf); 3] = [(16, |rank| rank), (4, |rank| rank / 4), (1, |_| 0)];
    for (processes, process_of) in kinds {
        let members = ring(16, &by(process_of));
        let links = if processes == 1 { 0 } else { processes };
        // The root hangs up on its own thread.
        while sockets() as u64 > few as u64 + 2 * links {
            pause(1);
        }
        each(&members, |member| member.barrier().unwrap());
        let before = carried();
        each(&members, |member| {
            let all = member.all_gather(&[member.rank().0 as u8; PART]).unwrap();
            assert!(
                (0..)
                    .zip(all.iter())
                    .all(|(rank, part)| *part == [rank; PART])
            );
        });
        let after = carried();
        let [bytes, packets] = [0, 1].map(|at| after[at] - before[at]);
        let frames = processes * (processes - 1);
        // A header, a seal, and for each rank its number and the length; a packet and its
        // acknowledgement have 54 to 66 bytes more.
        let frame = 32 + 16 + 2 + 16 / processes * (PART as u64 + 2);
        println!("{processes} processes: {bytes} bytes, {packets} packets, {frames} frames");
        assert!(packets <= 2 * frames, "{packets} packets");
        assert!(bytes <= frames * (frame + 2 * 66), "{bytes} bytes");
        assert!(bytes >= frames * frame, "{bytes} bytes");
    }
}

/// All errors of ranks that take part while `offends` does something else.
fn errors(members: &[TcpRing], offender: u32, offends: impl Fn(&TcpRing) + Sync) -> Vec<String> {
    let results = each(members, |member| match member.rank() {
        Rank(rank) if rank == offender => {
            offends(member);
            None
        }
        _ => Some(member.barrier().unwrap_err().to_string()),
    });
    results.into_iter().flatten().collect()
}

#[test]
fn a_rank_that_leaves_is_named_in_its_process_and_in_others() {
    within(30, || {
        let mut members = ring(6, &by(|rank| rank / 3));
        each(&members, check_exchange);
        drop(members.remove(4));
        for text in errors(&members, 99, |_| ()) {
            assert!(text.contains("has left"), "{text}");
            // Others know a process by its lowest rank.
            assert!(text.contains("rank 4") || text.contains("rank 3"), "{text}");
        }
    });
}

#[test]
fn a_late_thread_is_named() {
    within(30, || {
        let limited = NetSettings {
            timeout: Some(Duration::from_secs(3)),
            ..by(|rank| rank / 3)
        };
        let members = ring(6, &limited);
        let results = each(&members, |member| match member.rank() {
            Rank(4) => None,
            _ => Some(member.barrier().unwrap_err()),
        });
        for error in results.iter().flatten() {
            // Of those who find it at the same time the first one is heard.
            let late = error.peer.unwrap();
            let (code, text) = (error.code, error.to_string());
            assert!(code == Code::Timeout && [3, 4].contains(&late.0), "{text}");
            assert!(text.contains("has not called it"), "{text}");
        }
        // Within its process it is known which thread is late.
        let own = results[5].as_ref().unwrap();
        assert!(
            own.to_string().contains("rank 4") || own.peer == Some(Rank(3)),
            "{own}"
        );
    });
}

#[test]
fn ranks_that_call_something_else_are_named() {
    within(30, || {
        let calls_other = |member: &TcpRing| {
            member.broadcast(Rank(0), &mut vec![1]).unwrap_err();
        };
        let members = ring(6, &by(|rank| rank / 3));
        for text in errors(&members, 4, calls_other) {
            assert!(text.contains("called broadcast from root 0"), "{text}");
        }
        // The root differs between processes, and within none.
        let members = ring(6, &by(|rank| rank / 3));
        let roots = |member: &TcpRing| member.broadcast(Rank(member.rank().0 / 3), &mut vec![1]);
        for result in each(&members, roots) {
            let text = result.unwrap_err().to_string();
            assert!(
                text.contains("from root 0") && text.contains("from root 1"),
                "{text}"
            );
        }
    });
}
