//! `kolo perf --device cuda`: data go to devices and come back, and each result is looked at.

use crate::ports::Port;
use crate::softgpu::{self, folder, said};
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

/// `kolo perf` with these options on a host of so many devices.
fn perf(devices: u32, options: &str) -> Command {
    let mut command = softgpu::perf(devices);
    command
        .args(options.split_whitespace())
        .args(["--device", "cuda"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs it where all results must be right, and returns what it prints.
fn right(devices: u32, options: &str) -> String {
    let output = perf(devices, options).output().expect("kolo");
    let said = said(&output);
    assert!(output.status.success(), "{options}: {said}");
    assert!(said.contains("# Out of bounds values : 0 OK"), "{said}");
    assert!(said.contains("# steps: executed == planned"), "{said}");
    said
}

/// Lines of the table.
fn rows(said: &str) -> usize {
    said.lines().filter(|line| line.starts_with(' ')).count()
}

#[test]
fn every_collective_is_right_on_devices() {
    for collective in [
        "all_reduce",
        "all_gather",
        "reduce_scatter",
        "broadcast",
        "reduce",
        "alltoall",
        "gather",
        "scatter",
        "sendrecv",
        "hypercube",
        "alltoall_v",
        "barrier",
    ] {
        let said = right(4, &format!("{collective} -g 4 -b 4 -e 4K -f 32 -n 2 -w 1"));
        let wanted = if collective == "barrier" { 1 } else { 3 };
        assert_eq!(rows(&said), wanted, "{said}");
    }
}

#[test]
fn all_types_and_operations_that_have_kernels() {
    let said = right(2, "all_reduce -g 2 -b 64 -e 64 -n 1 -w 0 -d all -o all");
    // 12 types with sum, prod, max, min, avg and mulsum.
    assert_eq!(rows(&said), 72, "{said}");
}

#[test]
fn ranks_have_devices_in_turn() {
    let said = right(
        2,
        "broadcast -t 2 -g 2 -b 64 -e 64 -n 3 -w 1 -r all -m 2 -z 0 -u 1",
    );
    let device = |line: &&str| line.contains("#  Rank ");
    let devices: Vec<&str> = said
        .lines()
        .filter(device)
        .filter_map(|line| line.split_once(" device ")?.1.split(' ').next())
        .collect();
    assert_eq!(devices, ["0", "1", "0", "1"], "{said}");
    assert!(said.contains("kolo software GPU"), "{said}");
}

#[test]
fn graphs_of_the_iterations_are_replayed() {
    let said = right(3, "all_reduce -g 3 -b 8 -e 16K -f 64 -n 3 -w 1 -G 4");
    assert!(
        said.contains("a CUDA graph, which is launched 4 times"),
        "{said}"
    );
    assert_eq!(rows(&said), 2, "{said}");
    let once = right(3, "all_reduce -g 3 -b 8 -e 16K -f 64 -n 3 -w 1 -G 1");
    // Of the steps, those of three more launches of three iterations each are more.
    let steps = |said: &str| -> u64 {
        let line = said.lines().find(|line| line.starts_with("# steps: "));
        let counts = line.and_then(|line| line.split_once('(')?.1.split(',').next());
        counts.and_then(|count| count.parse().ok()).expect("counts")
    };
    assert!(steps(&said) > steps(&once), "{said}{once}");
}

#[test]
fn processes_of_a_host_share_its_devices_out() {
    let port = Port::take(Ipv4Addr::LOCALHOST);
    let secret = folder().join("secret");
    std::fs::write(&secret, [7; 32]).expect("a file");
    let own = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&secret, own).expect("its mode");
    let start = |rank: &str| {
        let mut command = perf(4, "all_reduce -g 2 -b 1K -e 1K -n 2 -w 1");
        command
            .env("KOLO_RANK", rank)
            .env("KOLO_NRANKS", "2")
            .env("KOLO_SECRET_FILE", &secret)
            .env("KOLO_COMM_ID", format!("127.0.0.1:{}", port.number()));
        command.spawn().expect("kolo")
    };
    let both = ["0", "1"].map(start);
    let [first, second] = both.map(|child| child.wait_with_output().expect("an end"));
    let text = said(&first);
    assert!(first.status.success(), "{text}");
    assert!(second.status.success(), "{}", said(&second));
    assert!(text.contains("# Out of bounds values : 0 OK"), "{text}");
    for (rank, device) in (0..4).zip(0..4) {
        let has = |line: &str| {
            line.contains(&format!("#  Rank {rank:>2} "))
                && line.contains(&format!(" device {device} at 0000:"))
        };
        assert!(text.lines().any(has), "rank {rank}: {text}");
    }
}

#[test]
fn what_cannot_be_is_one_sentence() {
    let fails = |mut command: Command| {
        let output = command.output().expect("kolo");
        assert!(!output.status.success());
        said(&output)
    };
    let text = fails(perf(2, "all_reduce -g 2 -b 64 -e 64 -d complex64"));
    assert!(
        text.contains("the kernels have no sum of complex64"),
        "{text}"
    );
    let mut command = perf(2, "all_reduce -g 2");
    command.env("CUDA_VISIBLE_DEVICES", "");
    let text = fails(command);
    assert!(text.contains("CUDA_VISIBLE_DEVICES"), "{text}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_kolo"));
    command
        .args(["perf", "all_reduce", "-t", "2", "--device", "cuda"])
        .env("KOLO_CUDA_LIBRARY", "libcuda-of-nobody.so.1");
    let output = command.output().expect("kolo");
    let text = said(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(
        text.starts_with("kolo: perf: no CUDA driver: libcuda-of"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1, "{text}");
}

/// Values of the file for one line, out of place.
fn measured(options: &str) -> serde_json::Value {
    let file = folder().join(format!("z-{}.json", options.len()));
    right(2, &format!("{options} --json {}", file.display()));
    let text = std::fs::read_to_string(&file).expect("the file");
    let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    document["results"][0]["out_of_place"].clone()
}

/// Bandwidths come from completion, and calls that are waited for one by one are issued only when
/// the last one is complete.
#[test]
fn issuing_is_a_time_of_its_own_unless_calls_are_waited_for() {
    let line = "all_reduce -g 2 -b 256K -e 256K -n 4 -w 1 -a 2 -C 1";
    let times = |side: &serde_json::Value| {
        let number = |key: &str| side[key].as_f64().expect("a number");
        let rate = 262_144.0 / 1e3 / number("time_us");
        assert!((number("algbw") / rate - 1.0).abs() < 1e-9, "{side}");
        (number("cputime_us"), number("time_us"))
    };
    let (issued, complete) = times(&measured(&format!("{line} -z 0")));
    assert!(issued * 2.0 < complete, "{issued} {complete}");
    for way in 1..=3 {
        let (issued, complete) = times(&measured(&format!("{line} -z {way}")));
        assert!(issued > 0.9 * complete, "-z {way}: {issued} {complete}");
    }
}

#[test]
fn whoever_measures_host_memory_beside_gpus_is_told() {
    let words =
        "# Host memory is measured: `--device cuda` measures that of the 3 GPUs seen here\n";
    let line = [
        "all_reduce",
        "--ranks",
        "2",
        "-b",
        "8",
        "-e",
        "8",
        "-n",
        "1",
    ];
    let said = |device: &[&str]| {
        let output = softgpu::perf(3)
            .args(line)
            .args(device)
            .output()
            .expect("kolo");
        assert!(output.status.success(), "{}", said(&output));
        said(&output)
    };
    let of_host = said(&[]);
    assert_eq!(of_host.matches(words).count(), 1, "{of_host}");
    assert!(!said(&["--device", "cuda"]).contains("Host memory"));
}

/// Lines of the log and of the report about calls on devices: each call once, with what the
/// device's own table has chosen. That of the host would take lines of 64 bytes for the small one.
#[test]
fn calls_on_devices_are_told_once_and_as_the_device_runs_them() {
    let options = "all_reduce -g 2 -n 1 -w 0 -m 2 -b 64 -e 288K -f 4608";
    let output = perf(2, options)
        .envs([
            ("KOLO_DEBUG", "trace"),
            ("KOLO_REPORT", "1"),
            ("KOLO_ALGO", "allreduce:ring"),
        ])
        .output()
        .expect("kolo");
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    let told = |words: &str| {
        let is_one =
            |line: &&str| line.contains(" of rank 0 of 2 in perf: ") && line.contains(words);
        said.lines().filter(is_one).count()
    };
    // Of each size on both sides a call, a group of two, and one that is checked.
    for (count, way) in [
        ("16", "ring, protocol ll, form kernel; "),
        ("73728", "ring, protocol simple, "),
    ] {
        let single = format!(": {count} x float, sum, ");
        assert_eq!(told(&single), 8, "{said}");
        let is_right = |line: &&str| {
            line.contains(&single) && line.contains(&format!(" on a stream of the device; {way}"))
        };
        let right = said.lines().filter(is_right).count();
        assert_eq!(right, 16, "of both ranks: {way} {said}");
    }
    assert_eq!(
        told(" in a group of 2 on a stream of the device; "),
        8,
        "{said}"
    );
    let row = |line: &&str| line.starts_with("  AllReduce ") && line.contains("KiB");
    let row: Vec<&str> = said
        .lines()
        .find(row)
        .expect("a row")
        .split_whitespace()
        .collect();
    assert_eq!(row[3], "16", "calls of both ranks: {row:?}");
    assert!(
        row.contains(&"ring,") && row.contains(&"simple,"),
        "{row:?}"
    );
}
