//! The programs of nccl-tests, as people type them: names, options, variables, and what is printed.

use super::*;
use std::collections::BTreeSet;
use std::sync::OnceLock;

const PROGRAMS: [&str; 11] = [
    "all_reduce_perf",
    "all_gather_perf",
    "reduce_scatter_perf",
    "broadcast_perf",
    "reduce_perf",
    "alltoall_perf",
    "alltoallv_perf",
    "gather_perf",
    "scatter_perf",
    "sendrecv_perf",
    "hypercube_perf",
];

/// A folder with links to kolo by the names of all programs.
pub fn links() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = scratch("links");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        for program in PROGRAMS {
            let link = folder.join(program);
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kolo"), link).unwrap();
        }
        folder
    })
}

/// `all_reduce_perf -b 8 -e 8`, with variables.
fn start(line: &str, variables: &[(&str, &str)]) -> Output {
    let mut words = line.split_whitespace();
    let program = words.next().expect("a program");
    let mut command = clean(&links().join(program));
    command.args(words).envs(variables.iter().copied());
    command.output().expect("it starts")
}

/// One that must succeed.
pub fn good(line: &str, variables: &[(&str, &str)]) -> String {
    let output = start(line, variables);
    let (out, err) = (stdout(&output), stderr(&output));
    assert!(output.status.success(), "{line}: {err}\n{out}");
    assert!(
        out.contains("# Out of bounds values : 0 OK"),
        "{line}: {out}"
    );
    assert!(err.is_empty(), "{line}: {err}");
    out
}

/// Runs a line, and returns the results that it writes by `-J`.
pub fn measured(line: &str, variables: &[(&str, &str)]) -> Value {
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let file = scratch(&format!("tool-{number}.json"));
    good(&format!("{line} -J {}", file.display()), variables);
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn head_and_table_are_those_of_nccl_tests() {
    let out = good("all_reduce_perf -b 8 -e 32 -f 2 -g 2 -n 3 -w 2 -m 2", &[]);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(
        lines[0],
        "# nThread 1 nGpus 2 minBytes 8 maxBytes 32 step: 2(factor) warmup iters: 2 iters: 3 agg \
         iters: 2 validation: 1 graph: 0"
    );
    assert_eq!(lines[1..3], ["#", "# Using devices"]);
    for rank in 0..2 {
        let words: Vec<&str> = lines[3 + rank].split_whitespace().collect();
        let rank = rank.to_string();
        assert_eq!(
            words[..6],
            ["#", "Rank", &rank, "Group", "0", "Pid"],
            "{out}"
        );
        assert_eq!((words[7], words[9]), ("on", "device"), "{out}");
        assert!(
            words[6].parse::<u32>().is_ok() && words[10] == rank,
            "{out}"
        );
        assert_eq!(words[11], "[cores", "{out}");
    }
    let heads = lines.iter().position(|line| line.contains("out-of-place"));
    let heads = heads.expect("column heads");
    assert_eq!(
        lines[heads + 1],
        "#       size         count      type   redop    root     time   algbw   busbw #wrong     \
         time   algbw   busbw #wrong"
    );
    assert_eq!(
        lines[heads + 2],
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            \
         (us)  (GB/s)  (GB/s)"
    );
    let first = "           8             2     float     sum      -1  ";
    assert!(lines[heads + 3].starts_with(first), "{out}");
    let table = rows(&out);
    assert_eq!(table.len(), 3);
    for (row, size) in table.iter().zip(["8", "16", "32"]) {
        assert_eq!((row.len(), row[0].as_str()), (13, size), "{out}");
        assert_eq!((row[8].as_str(), row[12].as_str()), ("0", "0"), "{out}");
    }
    // The columns stand below their heads: times end where `time` does.
    let end = |line: &str| line[..lines[heads + 1].find(" time").unwrap() + 5].to_string();
    for line in &lines[heads + 3..heads + 6] {
        assert_eq!(
            end(line).chars().last().map(|c| c.is_ascii_digit()),
            Some(true),
            "{out}"
        );
    }
    assert!(
        out.contains("\n# Avg bus bandwidth    : ") && !out.contains("# steps"),
        "{out}"
    );
}

/// Every program measures what its name says, with its bus factor.
#[test]
fn every_program_has_its_bus_factor() {
    for program in PROGRAMS {
        for ranks in [2u32, 3, 4] {
            if program == "hypercube_perf" && ranks == 3 {
                continue;
            }
            let n = f64::from(ranks);
            let factor = match program {
                "all_reduce_perf" => 2.0 * (n - 1.0) / n,
                "broadcast_perf" | "reduce_perf" | "sendrecv_perf" | "hypercube_perf" => 1.0,
                _ => (n - 1.0) / n,
            };
            let line = format!("{program} -t {ranks} -b 12K -e 12K -n 1 -w 0");
            let document = measured(&line, &[]);
            let name = document["collective"]
                .as_str()
                .unwrap()
                .replace("l_v", "lv");
            assert_eq!(format!("{name}_perf"), program);
            for row in document["results"].as_array().unwrap() {
                let side = &row["out_of_place"];
                let number = |key: &str| side[key].as_f64().expect("a number");
                let found = number("busbw") / number("algbw");
                assert!((found - factor).abs() < 1e-9, "{line}: {found}");
                let mut rate = row["size"].as_f64().unwrap() / 1e3 / number("time_us");
                if program == "hypercube_perf" {
                    // The own block is in neither bandwidth.
                    rate *= (n - 1.0) / n;
                }
                assert!((number("algbw") / rate - 1.0).abs() < 1e-9, "{line}");
            }
            let average = document["average_bus_bandwidth"].as_f64().unwrap();
            let all = document["results"].as_array().unwrap().iter();
            let both = all.flat_map(|row| [&row["out_of_place"], &row["in_place"]]);
            let rates: Vec<f64> = both.filter_map(|side| side["busbw"].as_f64()).collect();
            let mean = rates.iter().sum::<f64>() / rates.len() as f64;
            assert!((average / mean - 1.0).abs() < 1e-9, "{line}");
        }
    }
}

#[test]
fn what_is_switched_on_is_announced_before_the_table() {
    let before = |out: &str, words: &str| {
        let table = out.find("out-of-place").expect("a table");
        out.find(words).is_some_and(|at| at < table)
    };
    let plain = good("reduce_scatter_perf -t 2 -b 1K -e 1K -n 2 -w 1", &[]);
    assert!(
        !plain.contains("Enabled") && !plain.contains("cputime"),
        "{plain}"
    );
    let out = good(
        "reduce_scatter_perf -t 2 -b 1K -e 1K -n 2 -w 1 -z 1 -p 1 -C 1",
        &[],
    );
    assert!(before(&out, "# Blocking Enabled: "), "{out}");
    assert!(before(&out, "# Parallel Init Enabled: "), "{out}");
    let heads = "    root  cputime   algbw   busbw #wrong  cputime   algbw   busbw #wrong\n";
    assert!(out.contains(heads), "{out}");
    let out = good(
        "reduce_perf -t 2 -b 1K -e 1K -n 1 -G 3 -D 1 -V 2 -x 1 -y 1",
        &[],
    );
    let ignored: Vec<&str> = out
        .lines()
        .filter(|line| line.contains("ignored"))
        .collect();
    assert_eq!(ignored.len(), 1, "{out}");
    for option in ["-G 3", "-D 1", "-V 2", "-x 1"] {
        assert!(ignored[0].contains(option), "{out}");
    }
    assert!(before(&out, "# -y 1: ") && before(&out, "ignored"), "{out}");
}

#[test]
fn options_go_together_as_in_nccl_tests() {
    let sizes = |line: &str| -> Vec<String> {
        let out = good(&format!("all_reduce_perf -t 2 -n 1 -w 0 {line}"), &[]);
        rows(&out).into_iter().map(|row| row[0].clone()).collect()
    };
    // A factor goes before a step; 1 is none; long names may be cut.
    assert_eq!(sizes("-b 8 -e 64 -i 8 -f 4"), ["8", "32"]);
    assert_eq!(sizes("-b 8 -e 24 -i 8 -f 1"), ["8", "16", "24"]);
    assert_eq!(sizes("--minbytes=8 --maxb 16 --stepf 2"), ["8", "16"]);
    assert_eq!(sizes("-b8 -e16 -f2 -N 2"), ["8", "16", "8", "16"]);
    let out = good("sendrecv_perf -b 8 -e 8 -n 1 -w 0 -t 3 -g 2 -c 0 -a 2", &[]);
    assert_eq!(rows(&out)[0][8], "N/A", "{out}");
    assert!(
        out.contains("# nThread 3 nGpus 2 ") && out.contains("#  Rank  5 "),
        "{out}"
    );
    let out = good(
        "broadcast_perf -t 3 -b 8 -e 8 -n 1 -w 0 -r all -S 1 -T 60 -u 1 -R 1",
        &[],
    );
    let roots: Vec<String> = rows(&out).into_iter().map(|row| row[4].clone()).collect();
    assert_eq!(roots, ["0", "1", "2"], "{out}");
    // The time of day is two words more.
    assert!(rows(&out).iter().all(|row| row.len() == 15), "{out}");
}

#[test]
fn all_means_the_types_and_operations_of_nccl() {
    let out = good(
        "all_reduce_perf -t 2 -b 64 -e 64 -n 1 -w 0 -d all -o all",
        &[],
    );
    let table = rows(&out);
    let column =
        |at: usize| -> BTreeSet<String> { table.iter().map(|row| row[at].clone()).collect() };
    let set = |words: &str| -> BTreeSet<String> {
        words.split_whitespace().map(str::to_string).collect()
    };
    let types = "int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 f8e4m3 f8e5m2";
    assert_eq!(column(2), set(types));
    assert_eq!(column(3), set("sum prod max min avg mulsum"));
    assert_eq!(table.len(), 12 * 6);
}

#[test]
fn a_size_beyond_memory_is_cut_and_said_so() {
    let total = std::fs::read_to_string("/proc/meminfo").unwrap();
    let total = total
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .unwrap()
        << 10;
    for (checks, parts) in [(1, 3), (0, 2)] {
        let line =
            format!("all_reduce_perf -t 2 -b 8 -e 1000T -f 1000000000000 -n 1 -w 0 -c {checks}");
        let output = start(&line, &[]);
        let out = stdout(&output);
        assert!(output.status.success(), "{}", stderr(&output));
        let (_, most) = out
            .split_once("# Reducing maxBytes to ")
            .expect("it is cut");
        let (most, _) = most
            .split_once(" due to memory limitation\n")
            .expect("and why");
        assert!(out.contains(&format!(" maxBytes {most} step: ")), "{out}");
        let most: u64 = most.parse().unwrap();
        // Each of two ranks has so many parts of what is there, of which some stays free.
        let reserve = (1 << 30).min(total / 4);
        assert!(most > 8 && most <= (total - reserve) / 2 / parts, "{out}");
        assert_eq!(rows(&out).len(), 1, "{out}");
    }
    let fits = good("all_reduce_perf -t 2 -b 8 -e 8 -n 1 -w 0", &[]);
    assert!(!fits.contains("Reducing"), "{fits}");
}

#[test]
fn variables_that_say_nothing_are_refused() {
    for (variable, value) in [
        ("NCCL_TESTS_SPLIT", "BY 2"),
        ("NCCL_TESTS_SPLIT_MASK", "x"),
        ("NCCL_TESTS_DEVICE", "gpu"),
        ("NCCL_TESTS_MIN_BW", "fast"),
    ] {
        let line = "all_reduce_perf -t 4 -b 1K -e 1K -n 1 -w 0";
        let output = start(line, &[(variable, value)]);
        assert_eq!(output.status.code(), Some(2), "{variable}");
        assert!(stderr(&output).contains(variable), "{}", stderr(&output));
        assert!(output.stdout.is_empty(), "{}", stdout(&output));
    }
}

#[test]
fn devices_are_numbered_and_the_bandwidth_is_judged() {
    let line = "all_gather_perf -t 2 -b 1K -e 1K -n 1 -w 0";
    let devices = |variables: &[(&str, &str)]| -> Vec<String> {
        let out = good(line, variables);
        let ranks = out.lines().filter(|line| line.starts_with("#  Rank"));
        ranks
            .map(|line| line.split_whitespace().nth(10).unwrap().to_string())
            .collect()
    };
    assert_eq!(devices(&[]), ["0", "1"]);
    assert_eq!(devices(&[("NCCL_TESTS_DEVICE", "3")]), ["3", "4"]);
    let judged = |least: &str| {
        let output = start(line, &[("NCCL_TESTS_MIN_BW", least)]);
        let out = stdout(&output);
        let average = out
            .lines()
            .find(|line| line.starts_with("# Avg bus"))
            .unwrap();
        let verdict = average.rsplit(' ').next().unwrap().to_string();
        (output.status.code(), verdict)
    };
    assert_eq!(judged("1e9"), (Some(1), "FAILED".to_string()));
    assert_eq!(judged("1e-9"), (Some(0), "OK".to_string()));
    assert!(!good(line, &[]).contains("bandwidth    : OK"));
}

#[test]
fn memory_is_reported_by_what_it_is_taken_for() {
    let line = "all_reduce_perf -t 2 -b 16M -e 16M -n 1 -w 0 -c 0 -M 1";
    let out = good(line, &[]);
    let taken = |what: &str| -> f64 {
        let row = out
            .lines()
            .find(|line| line.split_whitespace().nth(1) == Some(what));
        let row = row.unwrap_or_else(|| panic!("{what}: {out}"));
        row.split_whitespace().nth(2).unwrap().parse().unwrap()
    };
    // Two buffers of each of two ranks.
    let buffers = taken("buffers");
    assert!((63.0..80.0).contains(&buffers), "{out}");
    assert!(
        taken("start") > 1.0 && taken("communicators") < 63.0,
        "{out}"
    );
    assert!(!good("all_reduce_perf -b 8 -e 8 -n 1", &[]).contains("Memory"));
}

#[test]
fn single_iterations_are_shown_without_those_that_are_skipped() {
    let line = "broadcast_perf -t 2 -b 64 -e 64 -w 0 -n 5 -I 1";
    let shown = |more: &str| -> Vec<String> {
        let out = good(&format!("{line} {more}"), &[]);
        let of = |line: &&str| line.contains("single iterations");
        out.lines().filter(of).map(str::to_string).collect()
    };
    let all = shown("");
    assert_eq!(all.len(), 2, "{all:?}");
    assert!(all[0].contains("out-of-place: 5 single") && all[1].contains("in-place: 5 single"));
    assert!(shown("-K 2")[0].contains(": 3 single"));
    assert!(shown("-K 5").is_empty());
    for line in all {
        let number = |name: &str| -> f64 {
            let (_, rest) = line.split_once(name).unwrap();
            rest.split_whitespace().next().unwrap().parse().unwrap()
        };
        let [least, p50] = [number("least "), number("p50 ")];
        let [p99, most] = [number("p99 "), number("most ")];
        assert!(
            0.0 < least && least <= p50 && p50 <= p99 && p99 == most,
            "{line}"
        );
    }
}

#[test]
fn mistakes_are_refused_as_in_kolo_perf() {
    for (line, says) in [
        ("all_reduce_perf all_reduce", "unexpected argument"),
        ("all_reduce_perf -b", "--minbytes"),
        (
            "reduce_perf -t 2 -r 2",
            "kolo: reduce_perf: root 2 is none of the 2 ranks",
        ),
        ("hypercube_perf -t 3", "1, 2, 4, 8"),
    ] {
        let output = start(line, &[]);
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(
            stderr(&output).contains(says),
            "{line}: {}",
            stderr(&output)
        );
        assert!(output.stdout.is_empty(), "{line}: {}", stdout(&output));
    }
    let help = start("scatter_perf --help", &[]);
    assert!(help.status.success());
    for word in [
        "Usage: scatter_perf [OPTIONS]",
        "--cudagraph",
        "NCCL_TESTS_MIN_BW",
    ] {
        assert!(stdout(&help).contains(word), "{}", stdout(&help));
    }
}

/// Wrong elements of the first line, out of place and in place, with a bit flipped in the slot of
/// this number that rank 0 publishes from this call on.
fn flipped_in(call: u32, slot: u32, options: &str) -> [u64; 2] {
    let flip = format!("{call}:0:{slot}");
    // What the number of slots follows from.
    let variables = [
        ("KOLO_FAULT_FLIP", flip.as_str()),
        ("KOLO_ALGO", "ring"),
        ("KOLO_MAX_NCHANNELS", "1"),
        ("KOLO_BUFFSIZE", "1M"),
        ("KOLO_DIRECT", "false"),
    ];
    let line = format!("reduce_scatter_perf -t 2 -d int32 {options}");
    let output = start(&line, &variables);
    let out = stdout(&output);
    let row = &rows(&out)[0];
    let found = [8, 12].map(|column| row[column].parse::<u64>().expect("a number"));
    let all = wrong(&out);
    assert_eq!(output.status.code(), Some(i32::from(all > 0)), "{out}");
    assert!(
        out.contains(&format!("# Out of bounds values : {all} ")),
        "{out}"
    );
    found
}

/// Warm-up at the greatest size, then at the least; then of each size out of place an untimed call,
/// the timed ones, the checked ones, and the same in place. Only in checked calls a flipped bit is
/// seen, so they tell where they stand.
#[test]
fn calls_come_in_the_order_of_nccl_tests() {
    let checked = |options: &str, calls: std::ops::Range<u32>| -> Vec<(u32, [bool; 2])> {
        let seen = calls.map(|call| (call, flipped_in(call, 0, options)));
        let seen = seen.map(|(call, [apart, same])| (call, [apart > 0, same > 0]));
        seen.filter(|(_, sides)| *sides != [false; 2]).collect()
    };
    // Twice three to warm up, then 1 + 2 + 2 out of place, and as many in place.
    let options = "-b 64K -e 64K -w 3 -n 2 -c 2";
    let [apart, same] = [[true, false], [false, true]];
    assert_eq!(
        checked(options, 4..17),
        [(9, apart), (10, apart), (14, same), (15, same)]
    );
    // A group of three in an iteration.
    assert_eq!(checked("-b 64K -e 64K -w 0 -n 1 -m 3", 0..6), [(4, apart)]);
    // Slots of a call of the least size: the first of the third call is the first one to be seen.
    let sizes = "-b 64K -e 4M -f 64 -n 1";
    let only = "-b 64K -e 64K -n 1 -w 0";
    let third = (0..40).find(|&slot| flipped_in(0, slot, only) != [0, 0]);
    let third = third.expect("a slot of the checked call");
    let slots = third / 2;
    // The second warm-up takes as many, so it is that of the least size.
    let options = format!("{sizes} -w 1");
    assert_eq!(flipped_in(1, 3 * slots - 1, &options), [0, 0]);
    assert_ne!(flipped_in(1, 3 * slots, &options)[0], 0);
}
