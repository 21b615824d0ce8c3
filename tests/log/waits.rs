//! The table of `KOLO_REPORT=1`: every kind of wait is in it, and so are all ranks.

use super::{LATE, RANKS, drawn, job};
use kolo::comm::RawCalls;
use kolo::comm::{Call, Collective, CommConfig, Communicator, RedOp, Stream, group};
use kolo::dtype::DataType;
use std::time::{Duration, Instant};

/// How long the late rank is late, each time, after rank 0 has told it that it comes.
const LAG: Duration = Duration::from_millis(60);

/// The rows of waits, and of calls that block.
const ROWS: [&str; 8] = [
    "AllReduce",
    "Barrier",
    "Recv",
    "SendRecv",
    "GroupEnd",
    "Wait",
    "StreamSynchronize",
    "CommFinalize",
];

pub(super) fn message(collective: Collective, place: &mut [f64], peer: u32) -> Call {
    Call {
        collective,
        send: place.as_ptr().cast(),
        recv: place.as_mut_ptr().cast(),
        count: place.len(),
        dtype: DataType::Float64,
        op: RedOp::SUM,
        peer,
    }
}

/// Says how long a call took, as its caller finds it: cores may be few, and ranks may be late by
/// themselves.
fn measured(name: &str, call: impl FnOnce()) {
    let start = Instant::now();
    call();
    eprintln!("measured {name} {:.6}", start.elapsed().as_secs_f64());
}

/// Waits of each kind, in which everybody else is held up by the late rank.
pub fn calls(comm: &Communicator, rank: u32) {
    let late: u32 = std::env::var(LATE).expect(LATE).parse().expect("a rank");
    let lag = || match rank {
        0 => comm.send(&[0_u8], late).unwrap(),
        rank if rank == late => {
            comm.recv(&mut [1_u8], 0).unwrap();
            std::thread::sleep(LAG);
        }
        _ => {}
    };
    let mut place = [1.0_f64; 8];
    // Its ranks meet by calls that the program has not made.
    let part = comm.split(Some(0), 0, &CommConfig::default()).unwrap();
    part.expect("a color").destroy().unwrap();
    lag();
    measured("Barrier", || comm.barrier().unwrap());
    lag();
    measured("AllReduce", || {
        comm.all_reduce_in_place(&mut place, RedOp::SUM).unwrap();
    });
    // Messages go between rank 0 and the late one.
    let peer = match rank {
        0 => Some(late),
        rank if rank == late => Some(0),
        _ => None,
    };
    let Some(peer) = peer else {
        on_streams(comm, &mut place, lag);
        return comm.destroy().unwrap();
    };
    lag();
    match rank {
        0 => measured("Recv", || comm.recv(&mut place, peer).unwrap()),
        _ => comm.send(&place, peer).unwrap(),
    }
    lag();
    let mut other = place;
    measured("SendRecv", || {
        comm.send_recv(&place, peer, &mut other, peer).unwrap();
    });
    lag();
    group::start();
    // SAFETY: both buffers live until the group has ended, and are two.
    unsafe {
        comm.enqueue(&message(Collective::Send, &mut place, peer), None)
            .unwrap();
        comm.enqueue(&message(Collective::Recv, &mut other, peer), None)
            .unwrap();
    }
    measured("GroupEnd", || group::end().unwrap());
    lag();
    let request = Stream::for_one_call().unwrap();
    let way = if rank == 0 {
        Collective::Recv
    } else {
        Collective::Send
    };
    // SAFETY: the buffer lives until the request has ended.
    unsafe {
        comm.enqueue(&message(way, &mut place, peer), Some(&request))
            .unwrap()
    };
    measured("Wait", || request.synchronize().unwrap());
    on_streams(comm, &mut place, lag);
    comm.destroy().unwrap();
}

/// One call on a stream that is waited for, and one that is left to the end.
fn on_streams(comm: &Communicator, place: &mut [f64; 8], lag: impl Fn()) {
    for waits in [true, false] {
        lag();
        let stream = Stream::new().unwrap();
        let call = message(Collective::AllReduce, place, 0);
        // SAFETY: the buffer lives until the call has ended.
        unsafe { comm.enqueue(&call, Some(&stream)).unwrap() };
        if waits {
            measured("StreamSynchronize", || stream.synchronize().unwrap());
        } else {
            measured("CommFinalize", || comm.finalize().unwrap());
        }
    }
}

/// Seconds and the longest milliseconds of a row of the table.
fn of_row(lines: &[String], name: &str) -> f64 {
    let is_it = |line: &&String| line.split_whitespace().next() == Some(name);
    let rows: Vec<&String> = lines.iter().filter(is_it).collect();
    let seconds = |row: &&String| {
        let numbers = row.split_whitespace().filter(|word| word.contains('.'));
        numbers.filter_map(|word| word.parse::<f64>().ok()).next()
    };
    rows.iter().filter_map(seconds).sum()
}

#[test]
fn all_waits_are_counted_and_the_late_rank_is_named() {
    let cases = [false, true].map(|nodes| (1..RANKS).map(|late| (nodes, late)).collect());
    for (nodes, late) in drawn::of_each("late ranks", cases, 1) {
        let late_text = late.to_string();
        let said = job("waits", &[("KOLO_REPORT", "1"), (LATE, &late_text)], nodes);
        let lines = &said[0];
        let mut waited = 0.0;
        for name in ROWS {
            let took = lines.iter().find_map(|line| {
                let took = line.strip_prefix("measured ")?.strip_prefix(name)?;
                took.trim().parse::<f64>().ok()
            });
            let took = took.unwrap_or_else(|| panic!("{name}: {lines:#?}"));
            let found = of_row(lines, name);
            assert!(found >= 0.9 * took - 0.001, "{name}: {found} s: {lines:#?}");
            waited += took;
        }
        // Once for the part, and once for all; nothing that is inside of another entry.
        let of = |name| {
            lines
                .iter()
                .filter(move |line| line.starts_with(name))
                .count()
        };
        let found = [
            "  CommSplit ",
            "  CommDestroy ",
            "  AllGather ",
            "  CommFinalize ",
        ]
        .map(of);
        assert_eq!(found, [1, 1, 0, 1], "{lines:#?}");
        let row = lines
            .iter()
            .find(|line| line.starts_with("  CommFinalize "));
        let calls = row.and_then(|row| row.split_whitespace().nth(2));
        assert_eq!(calls, Some("1"), "{lines:#?}");
        // Whoever comes just before the late rank waits for a part of the lag only, now and then.
        assert!(waited > 2.0 * LAG.as_secs_f64(), "{waited} s: {lines:#?}");
        let of_all = lines
            .iter()
            .find(|line| line.contains(" over the 3 ranks: least "));
        let of_all = of_all.unwrap_or_else(|| panic!("late {late}: {lines:#?}"));
        let least = of_all.split("least ").nth(1).unwrap();
        assert!(
            least.contains(&format!("(rank {late} on ")),
            "late {late}: {lines:#?}"
        );
        let number = |word: &str| -> f64 {
            let rest = of_all.split(word).nth(1).unwrap();
            rest.split_whitespace()
                .next()
                .unwrap()
                .trim_end_matches(',')
                .parse()
                .unwrap()
        };
        let (least, mean, most) = (number("least "), number("mean "), number("most "));
        assert!(least < mean && mean < most, "{of_all}");
        assert!(most >= 0.9 * waited, "{of_all}");
        for (rank, others) in said.iter().enumerate().skip(1) {
            let is_own = |line: &String| line.starts_with("measured ");
            assert!(
                others.iter().all(is_own),
                "rank {rank} speaks too: {others:#?}"
            );
        }
    }
}

/// Rank 2 leaves when the process of rank 0 has ended, which must not wait for it for long.
pub fn runs_on(comm: &Communicator, rank: u32) {
    let mut process = [std::process::id()];
    comm.broadcast(&mut process, 0).unwrap();
    comm.barrier().unwrap();
    // One that has ended is a zombie until the test has waited for it.
    let runs = || {
        let state = std::fs::read_to_string(format!("/proc/{}/stat", process[0]));
        state.is_ok_and(|state| !state.contains(") Z "))
    };
    let start = Instant::now();
    while rank == 2 && runs() {
        assert!(start.elapsed() < Duration::from_secs(60), "rank 0 waits");
        std::thread::sleep(Duration::from_millis(5));
    }
    comm.destroy().unwrap();
}

#[test]
fn a_rank_that_runs_on_is_named() {
    let said = job("runs on", &[("KOLO_REPORT", "1")], false);
    let text = said[0].join("\n");
    assert!(
        text.contains("had not ended when this was written: rank 2 on "),
        "{text}"
    );
}
