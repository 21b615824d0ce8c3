//! Every option of the programs of nccl-tests has its effect: which calls are made, in which order,
//! with which addresses, and what of their times is shown. `KOLO_DEBUG=trace` tells it.

use super::nccl_tests::{good, links, measured};
use super::*;
use crate::ports::Port;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// One that hangs has ended long before.
const LIMIT: Duration = Duration::from_secs(60);

/// A call of rank 0, as the log tells it.
#[derive(Clone, Debug)]
struct Called {
    /// With its number, where calls have one: `AllReduce #3`.
    name: String,
    /// `perf` is measured, over `perf-team` ranks meet and tell each other times.
    comm: String,
    text: String,
}

impl Called {
    fn of(line: &str) -> Option<Called> {
        let (before, after) = line.split_once(" of rank 0 of ")?;
        let (_, name) = before.rsplit_once(": ")?;
        let (_, text) = after.split_once(" in ")?;
        let end = text.find([':', ';', ' ']).unwrap_or(text.len());
        Some(Called {
            name: name.to_string(),
            comm: text[..end].to_string(),
            text: text[end..].to_string(),
        })
    }

    fn is_measured(&self) -> bool {
        self.comm == "perf"
    }

    /// Value behind a word.
    fn after(&self, word: &str) -> &str {
        let found = self.text.split_once(word);
        let (_, rest) = found.unwrap_or_else(|| panic!("{word} in {self:?}"));
        rest.split([' ', ',', ';']).next().unwrap_or("")
    }

    fn number(&self) -> u64 {
        let (_, number) = self.name.split_once('#').expect("a number");
        number.parse().expect("a number")
    }

    fn count(&self) -> u64 {
        self.after(": ").parse().expect("a count")
    }

    fn address(&self, word: &str) -> u64 {
        let digits = self.after(word).trim_start_matches("0x");
        u64::from_str_radix(digits, 16).expect("an address")
    }
}

/// All calls of rank 0, in the order in which they ended.
fn all_calls(line: &str, variables: &[(&str, &str)]) -> Vec<Called> {
    let mut words = line.split_whitespace();
    let mut command = clean(&links().join(words.next().expect("a program")));
    command.args(words).env("KOLO_DEBUG", "trace");
    let output = command.envs(variables.iter().copied()).output().unwrap();
    let err = stderr(&output);
    assert!(
        output.status.code().is_some_and(|code| code <= 1),
        "{line}: {err}"
    );
    err.lines().filter_map(Called::of).collect()
}

/// The measured ones, in the order in which they were made.
fn calls(line: &str) -> Vec<Called> {
    let mut calls = all_calls(line, &[]);
    calls.retain(Called::is_measured);
    calls.sort_by_key(Called::number);
    calls
}

#[test]
fn warming_up_and_cycles_are_of_each_type_operation_and_root() {
    let line = "reduce_perf -t 2 -b 1K -e 2K -f 2 -w 3 -n 4 -c 2 -r all -N 2";
    let found: Vec<(u64, String)> = calls(line)
        .iter()
        .map(|call| (call.count(), call.after("root ").to_string()))
        .collect();
    let mut wanted = Vec::new();
    for root in ["0", "1"] {
        let mut some = |count, calls| {
            wanted.extend((0..calls).map(|_| (count, root.to_string())));
        };
        some(512, 3);
        some(256, 3);
        for _cycle in 0..2 {
            // Out of place and in place, an untimed call each, the timed ones, and the checks.
            some(256, 2 * (1 + 4 + 2));
            some(512, 2 * (1 + 4 + 2));
        }
    }
    assert_eq!(found, wanted);
    let line = "all_reduce_perf -t 2 -b 64 -e 128 -f 2 -w 1 -n 1 -c 0 -d half -o all";
    let found: Vec<(u64, String)> = calls(line)
        .iter()
        .map(|call| (call.count(), call.after("x half, ").to_string()))
        .collect();
    let mut ops: Vec<String> = found.iter().map(|(_, op)| op.clone()).collect();
    ops.dedup();
    assert!(ops.len() >= 5, "{ops:?}");
    for calls in found.chunks(10) {
        let counts: Vec<u64> = calls.iter().map(|(count, _)| *count).collect();
        assert_eq!(counts, [64, 32, 32, 32, 32, 32, 64, 64, 64, 64]);
        assert!(calls.iter().all(|(_, op)| *op == calls[0].1), "{calls:?}");
    }
}

#[test]
fn timed_calls_walk_through_buffers_that_are_shifted() {
    let timed = |more: &str| -> Vec<u64> {
        let line = format!("all_reduce_perf -t 2 -b 1K -e 4K -f 4 -w 0 -n 6 -c 0 {more}");
        let calls = calls(&line);
        // The first size, out of place: one untimed call, then the timed ones.
        assert!(calls[..7].iter().all(|call| call.count() == 256));
        for call in &calls[..7] {
            assert_ne!(call.address("send "), call.address("recv "), "{call:?}");
        }
        for call in &calls[7..14] {
            assert_eq!(call.address("send "), call.address("recv "), "in place");
        }
        let of = |word: &'static str| calls[1..7].iter().map(move |call| call.address(word));
        let starts = |addresses: &mut dyn Iterator<Item = u64>| -> Vec<u64> {
            let all: Vec<u64> = addresses.collect();
            all.iter().map(|address| address - all[0]).collect()
        };
        let walked = [0, 1024, 2048, 3072, 0, 1024];
        assert_eq!(starts(&mut of("send ")), walked, "{line}");
        assert_eq!(starts(&mut of("recv ")), walked, "{line}");
        of("send ").take(1).chain(of("recv ").take(1)).collect()
    };
    // In bytes away from a cache line.
    let shifts = |more: &str| -> Vec<u64> { timed(more).iter().map(|at| at % 64).collect() };
    assert_eq!(shifts(""), [0, 0]);
    assert_eq!(shifts("-u 3"), [12, 12]);
}

/// Calls of rank 0 of the first size, out of place, as marks: `.` is a measured call, `|` a meeting
/// of all ranks.
fn rhythm(line: &str) -> String {
    let all = all_calls(line, &[]);
    let marks = all.iter().filter_map(|call| {
        let meets = call.comm == "perf-team" && call.name.starts_with("Barrier");
        match (call.is_measured(), meets) {
            (true, _) => Some('.'),
            (_, true) => Some('|'),
            _ => None,
        }
    });
    let marks: String = marks.collect();
    // Before the measurements ranks meet too.
    marks[marks.find('.').expect("a call") - 1..].to_string()
}

#[test]
fn all_ranks_meet_before_time_is_taken_and_with_z_after_each_call() {
    let line = "broadcast_perf -t 2 -b 1K -e 1K -w 1 -n 3 -c 0";
    // Twice one to warm up; then an untimed call, a meeting, and the timed ones, twice.
    assert_eq!(rhythm(&format!("{line} -y 1")), "|...|....|...");
    for way in [1, 2, 3] {
        let found = rhythm(&format!("{line} -z {way}"));
        assert_eq!(found, "|...|.|.|.|.|.|.|.|", "-z {way}");
    }
}

#[test]
fn calls_are_on_streams_or_in_groups_as_is_asked() {
    let all_are = |line: &str, words: &str| {
        let all = all_calls(line, &[]);
        let measured: Vec<_> = all.iter().filter(|call| call.is_measured()).collect();
        let with = |call: &&&Called| call.text.contains(words);
        (measured.len(), measured.iter().filter(with).count())
    };
    let line = "all_reduce_perf -t 2 -b 1K -e 1K -w 0 -n 2";
    let stream = " on a stream; ";
    assert_eq!(all_are(line, stream), (8, 8));
    for blocks in ["-y 1", "--stream_null 1", "-z 1", "-z 3"] {
        assert_eq!(
            all_are(&format!("{line} {blocks}"), stream),
            (8, 0),
            "{blocks}"
        );
    }
    // Two timed iterations of three calls, in place too; and two that are not timed, each.
    let grouped = format!("{line} -m 3");
    assert_eq!(all_are(&grouped, " in a group of 3; "), (16, 12));
}

#[test]
fn checking_stops_at_the_first_wrong_round() {
    let line = "all_reduce_perf -t 2 -b 8 -e 8 -d int32 -w 0 -n 1 -c 5 -y 1";
    let measured = |flip: &str| {
        let all = all_calls(line, &[("KOLO_FAULT_FLIP", flip)]);
        all.into_iter().filter(Called::is_measured).count()
    };
    // An untimed call, a timed one, and five that are checked; on both sides.
    assert_eq!(measured("1000:0:0"), 14);
    // The second of the checks is wrong.
    assert_eq!(measured("3:0:0"), 11);
    let output = {
        let mut words = line.split(' ');
        let mut command = clean(&links().join(words.next().unwrap()));
        command.args(words).env("KOLO_FAULT_FLIP", "3:0:0");
        command.output().unwrap()
    };
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(wrong(&stdout(&output)), 1, "{}", stdout(&output));
}

#[test]
fn the_time_that_counts_is_that_of_the_ranks_that_are_named() {
    for (average, ranks) in (0..4).zip([3, 2, 3, 3]) {
        let line = format!("all_gather_perf -t {ranks} -b 64K -e 64K -n 3 -w 0 -a {average}");
        let document = measured(&line, &[]);
        for side in ["out_of_place", "in_place"] {
            let side = &document["results"][0][side];
            let all: Vec<f64> = side["ranks_us"]
                .as_array()
                .expect("times of all ranks")
                .iter()
                .map(|time| time.as_f64().expect("a time"))
                .collect();
            assert_eq!(all.len(), ranks, "{side}");
            let (mut least, mut most) = (f64::INFINITY, 0f64);
            for &time in &all {
                (least, most) = (least.min(time), most.max(time));
            }
            let mean = all.iter().sum::<f64>() / ranks as f64;
            let wanted = [all[0], mean, least, most][average];
            let shown = side["time_us"].as_f64().expect("a time");
            assert!((shown / wanted - 1.0).abs() < 1e-9, "-a {average}: {side}");
        }
    }
}

/// Calls on a stream are issued long before they are complete; bandwidths, their average and what
/// is judged by it do not change with what is shown.
#[test]
fn bandwidths_are_those_of_completion_whatever_time_is_shown() {
    let line = "all_reduce_perf -t 2 -b 16M -e 16M -n 3 -w 1 -c 0 -a 2 -C 1";
    let file = scratch("cputime.json");
    let out = good(&format!("{line} -J {}", file.display()), &[]);
    let document: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    std::fs::remove_file(&file).unwrap();
    let row = &rows(&out)[0];
    let mut bandwidths = Vec::new();
    for (side, column) in [("out_of_place", 5), ("in_place", 9)] {
        let side = &document["results"][0][side];
        let number = |key: &str| side[key].as_f64().expect("a number");
        let (issued, complete) = (number("cputime_us"), number("time_us"));
        assert!(issued * 2.0 < complete, "{side}");
        let shown: f64 = row[column].parse().unwrap();
        assert!(
            (shown - issued).abs() <= 0.01 * issued + 0.5,
            "{row:?} {side}"
        );
        let rate = 16_777_216.0 / 1e3 / complete;
        assert!((number("algbw") / rate - 1.0).abs() < 1e-9, "{side}");
        let table: f64 = row[column + 1].parse().unwrap();
        assert!((table - rate).abs() < 0.006, "{row:?} {side}");
        bandwidths.push(number("busbw"));
    }
    let mean = (bandwidths[0] + bandwidths[1]) / 2.0;
    let average = document["average_bus_bandwidth"].as_f64().unwrap();
    assert!((average / mean - 1.0).abs() < 1e-9, "{document}");
    // Nobody is fast enough for what issuing alone would promise.
    let promised = bandwidths[0]
        * document["results"][0]["out_of_place"]["time_us"]
            .as_f64()
            .unwrap()
        / document["results"][0]["out_of_place"]["cputime_us"]
            .as_f64()
            .unwrap();
    let least = format!("{}", 10.0 * promised.max(mean));
    let mut words = line.split(' ');
    let mut command = clean(&links().join(words.next().unwrap()));
    let judged = command
        .args(words)
        .env("NCCL_TESTS_MIN_BW", least)
        .output()
        .unwrap();
    assert_eq!(judged.status.code(), Some(1), "{}", stdout(&judged));
    // A call that blocks is issued when it is complete.
    let document = measured("all_reduce_perf -t 2 -b 1M -e 1M -n 3 -c 0 -z 1 -C 1", &[]);
    let side = &document["results"][0]["out_of_place"];
    let [issued, complete] = ["cputime_us", "time_us"].map(|key| side[key].as_f64().unwrap());
    assert!(issued <= complete && issued > 0.9 * complete, "{side}");
}

/// Processes that meet without a launcher, in order.
fn processes(line: &str, count: u32, variables: &[(&str, &str)]) -> Vec<Child> {
    let port = Port::take(Ipv4Addr::LOCALHOST);
    let secret = scratch(&format!("secret-{}", port.number()));
    std::fs::write(&secret, [7; 32]).unwrap();
    std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o600)).unwrap();
    let start = |rank: u32| {
        let mut words = line.split_whitespace();
        let mut command = clean(&links().join(words.next().expect("a program")));
        command
            .args(words)
            .env("KOLO_RANK", rank.to_string())
            .env("KOLO_NRANKS", count.to_string())
            .env("KOLO_SECRET_FILE", &secret)
            .env("KOLO_COMM_ID", format!("127.0.0.1:{}", port.number()))
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().expect("it starts")
    };
    (0..count).map(start).collect()
}

/// Output of process 0, where all succeed.
fn said_by_the_first(line: &str, count: u32, variables: &[(&str, &str)]) -> String {
    let ends = processes(line, count, variables)
        .into_iter()
        .map(|child| child.wait_with_output().expect("an end"));
    let mut ends: Vec<Output> = ends.collect();
    for output in &ends {
        assert!(output.status.success(), "{line}: {}", stderr(output));
    }
    stdout(&ends.remove(0))
}

#[test]
fn groups_are_those_of_the_variables() {
    let line = "all_reduce_perf -t 2 -b 1K -e 1K -n 1 -w 0";
    for (set, groups) in [
        (&[("NCCL_TESTS_SPLIT_MASK", "0x1")] as &[_], "0 0 1 1 0 0"),
        (&[("NCCL_TESTS_SPLIT_MASK", "2")], "0 0 0 0 2 2"),
        // In base 16, and before the words.
        (
            &[
                ("NCCL_TESTS_SPLIT_MASK", "10"),
                ("NCCL_TESTS_SPLIT", "MOD 2"),
            ],
            "0 0 0 0 0 0",
        ),
        (&[("NCCL_TESTS_SPLIT", "OR 1")], "1 1 1 1 3 3"),
        (&[("NCCL_TESTS_SPLIT", "/2")], "0 0 0 0 1 1"),
    ] {
        let out = said_by_the_first(line, 3, set);
        let ranks = out.lines().filter(|line| line.starts_with("#  Rank"));
        let seen: Vec<&str> = ranks
            .map(|line| line.split_whitespace().nth(4).unwrap())
            .collect();
        assert_eq!(seen.join(" "), groups, "{set:?}: {out}");
    }
    // A group of two has another factor than four ranks; --split is about ranks.
    for (split, factor) in [("MOD 2", 1.0), ("DIV 4", 1.5)] {
        let output = scratch("groups.json");
        let mut command = clean(&links().join("all_reduce_perf"));
        command.args(["-t", "4", "-b", "1K", "-e", "1K", "-n", "1", "-w", "0"]);
        command.args(["--split", split, "-J"]).arg(&output);
        assert!(command.output().unwrap().status.success());
        let document: Value =
            serde_json::from_str(&std::fs::read_to_string(&output).unwrap()).unwrap();
        std::fs::remove_file(&output).unwrap();
        let side = &document["results"][0]["out_of_place"];
        let found = side["busbw"].as_f64().unwrap() / side["algbw"].as_f64().unwrap();
        assert!((found - factor).abs() < 1e-9, "{split}: {found}");
    }
}

/// The communicator over which times and barriers go is not the user's, and nothing is told of it.
#[test]
fn at_info_nothing_is_told_of_other_communicators_than_the_measured_ones() {
    for (split, parts) in [("", 1), (" --split MOD2", 2)] {
        let mut command = kolo();
        let line = format!("perf all_reduce --ranks 4 -b 8 -e 8 -n 1 -w 0{split}");
        command.args(line.split(' ')).env("KOLO_DEBUG", "info");
        let said = stderr(&command.output().unwrap());
        for words in ["transports: ", "waiting: ", "channels: ", "AllReduce: "] {
            assert_eq!(said.matches(words).count(), parts, "{words}: {said}");
        }
        let ranks = format!("communicator perf: {} ranks on 1 node", 4 / parts);
        assert_eq!(said.matches(&ranks).count(), parts, "{said}");
    }
}

/// Of two processes that measure for ever, one is stopped: the other waits so long, and no longer.
#[test]
fn a_call_waits_for_no_rank_longer_than_is_asked_for() {
    let mut both = processes("all_reduce_perf -b 8 -e 8 -n 1 -N 0 -T 1", 2, &[]);
    let mut first = both.remove(0);
    let mut second = both.remove(0);
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(first.stdout.take().unwrap()));
    let is_row = |line: &std::io::Result<String>| line.as_ref().unwrap().starts_with("  ");
    assert!(lines.any(|line| is_row(&line)), "a line of the table");
    // SAFETY: plain call; the process is a child that was not waited for.
    assert_eq!(unsafe { libc::kill(second.id() as i32, libc::SIGSTOP) }, 0);
    let start = Instant::now();
    let rest = std::thread::spawn(move || lines.count());
    let ended = loop {
        match first.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if start.elapsed() > LIMIT => break None,
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    second.kill().unwrap();
    second.wait().unwrap();
    if ended.is_none() {
        first.kill().unwrap();
    }
    let said = first.wait_with_output().unwrap();
    rest.join().unwrap();
    assert_eq!(ended.and_then(|status| status.code()), Some(1));
    assert!(stderr(&said).contains("rank 1"), "{}", stderr(&said));
}
