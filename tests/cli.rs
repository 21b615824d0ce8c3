//! The program `kolo` as a user runs it, with ranks as threads.

#[path = "cli/config.rs"]
mod config;
mod drawn;
#[path = "cli/effects.rs"]
mod effects;
#[path = "cli/json.rs"]
mod json;
#[path = "cli/mistakes.rs"]
mod mistakes;
#[path = "cli/nccl_tests.rs"]
mod nccl_tests;
#[path = "cli/plotting.rs"]
mod plotting;
#[path = "ports/mod.rs"]
mod ports;
#[path = "cli/routes.rs"]
mod routes;
#[path = "cli/softgpu.rs"]
mod softgpu;
#[path = "cli/tuning.rs"]
mod tuning;

use kolo::dtype::{DataType, ReduceOp};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Collectives that reduce, those with a root, and the others.
const REDUCING: [&str; 6] = [
    "all_reduce",
    "reduce_scatter",
    "reduce",
    "scan",
    "exscan",
    "reduce_scatter_v",
];
const ROOTED: [&str; 6] = [
    "reduce",
    "broadcast",
    "gather",
    "scatter",
    "gather_v",
    "scatter_v",
];
const ALL: &str = "all_reduce all_gather reduce_scatter broadcast reduce alltoall gather scatter
    scan exscan all_gather_v gather_v scatter_v reduce_scatter_v alltoall_v neighbor_allgather
    neighbor_allgather_v neighbor_alltoall neighbor_alltoall_v sendrecv hypercube barrier";

/// Pairs of a type and an operation that a collective has.
fn folds(collective: &str) -> usize {
    let built_in = |except: Option<ReduceOp>| {
        let all = DataType::ALL.iter().flat_map(|dtype| dtype.operations());
        all.filter(|&op| Some(op) != except).count()
    };
    match collective {
        // Exact sums are of two real and two complex types.
        "all_reduce" | "reduce" => built_in(None) + 4,
        "scan" | "exscan" => built_in(Some(ReduceOp::Avg)),
        name if REDUCING.contains(&name) => built_in(None),
        _ => DataType::ALL.len(),
    }
}

/// The program, free of settings and launchers around the test.
fn kolo() -> Command {
    clean(Path::new(env!("CARGO_BIN_EXE_kolo")))
}

fn clean(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if ["KOLO_", "NCCL_", "OMPI_", "PMI", "SLURM_"]
            .iter()
            .any(|p| name.starts_with(p))
        {
            command.env_remove(name);
        }
    }
    command
}

fn run(arguments: &str) -> Output {
    let mut command = kolo();
    command.args(arguments.split_whitespace());
    command.output().expect("the program starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The lines of the table, as words.
fn rows(text: &str) -> Vec<Vec<String>> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_whitespace().map(str::to_string).collect())
        .collect()
}

/// The sum of both columns of wrong elements.
fn wrong(text: &str) -> u64 {
    let cell = |row: &Vec<String>, column: usize| match row[column].as_str() {
        "N/A" => 0,
        number => number.parse::<u64>().expect("a number of wrong elements"),
    };
    rows(text)
        .iter()
        .map(|row| cell(row, 8) + cell(row, 12))
        .sum()
}

fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()))
}

/// A run that must succeed: its output.
fn perf(arguments: &str) -> String {
    let output = run(&format!("perf {arguments}"));
    let (out, err) = (stdout(&output), stderr(&output));
    assert!(output.status.success(), "{arguments}: {err}\n{out}");
    assert_eq!(wrong(&out), 0, "{arguments}: {out}");
    assert!(
        out.contains("# Out of bounds values : 0 OK"),
        "{arguments}: {out}"
    );
    assert!(
        out.contains("# steps: executed == planned"),
        "{arguments}: {out}"
    );
    out
}

#[test]
fn every_collective_type_operation_and_root_is_right() {
    let of = |collective| {
        let can = |&ranks: &usize| collective != "hypercube" || ranks != 3;
        let each = (1..=4).filter(can).map(|ranks| (collective, ranks));
        each.collect()
    };
    for (collective, ranks) in drawn::of_each("perf", ALL.split_whitespace().map(of), 2) {
        let out = perf(&format!(
            "{collective} --ranks {ranks} -b 8 -e 8K -f 32 -n 1 -w 0 -d all -o all -r all --wide"
        ));
        let (types_and_ops, roots, sizes) = match collective {
            "barrier" => (1, 1, 1),
            name => (
                folds(name),
                if ROOTED.contains(&name) { ranks } else { 1 },
                3,
            ),
        };
        let table = rows(&out);
        assert_eq!(
            table.len(),
            types_and_ops * roots * sizes,
            "{collective} {ranks}"
        );
        // Two sides, percentiles of both, and what did the work.
        let width = |row: &Vec<String>| row.len() == 18;
        assert!(table.iter().all(width), "{collective} {ranks}: {out}");
    }
}

#[test]
fn sizes_that_need_several_slots_and_rounds() {
    for collective in ALL.split_whitespace() {
        perf(&format!("{collective} --ranks 2 -b 3M -e 3M -n 1 -w 1"));
    }
}

#[test]
fn groups_streams_splits_shifted_buffers_and_other_clocks() {
    perf("all_reduce --ranks 3 -b 8 -e 64K -f 64 -n 4 -w 1 -m 3 -a 3");
    perf("all_gather --ranks 2 -b 8 -e 64K -f 64 -n 4 -w 1 -z 0 -p 1 -u 1 -N 2");
    perf("hypercube --ranks 4 -b 1K -e 64K -f 64 -n 4 -w 1 -z 0");
    perf("sendrecv --ranks 2 -b 8 -e 64K -f 64 -n 4 -w 1 -m 2 -C 1 -a 0");
    perf("alltoall_v --ranks 3 -b 8 -e 64K -f 64 -n 4 -w 1 -m 3 -u 1");
    perf("reduce_scatter_v --ranks 3 -b 8 -e 64K -f 64 -n 4 -w 1 -z 0 -R 1");
    perf("exscan --ranks 3 -b 8 -e 64K -f 64 -n 4 -w 1 -z 0 -m 2");
    perf("neighbor_alltoall --ranks 4 -b 8 -e 64K -f 64 -n 4 -w 1 -z 0 -m 2 --split-mask 1");
    perf("all_reduce --ranks 3 -b 8 -e 1M -f 64 -n 2 -w 1 -z 0 -o exactsum -d double");
    let out = perf("reduce_scatter --ranks 4 -b 1K -e 3K -i 1K -n 2 -w 1 --split-mask 1 -S 1");
    assert_eq!(rows(&out).len(), 3);
    assert!(out.contains("Group  1"), "{out}");
}

#[test]
fn without_check_there_is_no_verdict_on_elements() {
    let out = perf("all_reduce --ranks 2 -b 64 -e 64 -n 1 -w 0 -c 0");
    assert_eq!(rows(&out)[0][8], "N/A");
    assert_eq!(rows(&out)[0][12], "N/A");
}

#[test]
fn the_file_holds_what_the_table_shows() {
    let path = scratch("perf.json");
    let file = path.display();
    let out = perf(&format!(
        "all_reduce --ranks 2 -b 8 -e 8K -f 32 -n 1 -w 0 --json {file}"
    ));
    let text = std::fs::read_to_string(&path).expect("the file is there");
    std::fs::remove_file(&path).expect("it can be removed");
    let document: Value = serde_json::from_str(&text).expect("valid JSON");
    let results = document["results"].as_array().expect("a list");
    assert_eq!(results.len(), rows(&out).len());
    for (result, row) in results.iter().zip(rows(&out)) {
        assert_eq!(result["size"].to_string(), row[0]);
        assert_eq!(result["out_of_place"]["wrong"], 0);
        assert!(
            result["in_place"]["time_us"]
                .as_f64()
                .is_some_and(|time| time > 0.0)
        );
    }
    let environment = &document["environment"];
    assert_eq!(environment["nranks"], 2);
    assert_eq!(environment["ranks"].as_array().map(Vec::len), Some(2));
    assert_eq!(environment["settings"]["buffsize"], "1M");
    assert_eq!(document["steps"]["equal"], true);
}

/// Runs with one bit flipped in one slot, and says how many elements were wrong.
fn flipped(flip: &str, arguments: &str) -> u64 {
    let mut command = kolo();
    command.env("KOLO_FAULT_FLIP", flip).arg("perf");
    // What the number of slots follows from.
    command
        .env("KOLO_MAX_NCHANNELS", "1")
        .env("KOLO_BUFFSIZE", "1M")
        .env("KOLO_DIRECT", "false");
    let output = command
        .args(arguments.split_whitespace())
        .output()
        .expect("it starts");
    let text = stdout(&output);
    let found = wrong(&text);
    assert_eq!(output.status.success(), found == 0, "{text}");
    assert_eq!(text.contains("FAILED"), found > 0, "{text}");
    found
}

/// With `-n 1 -w 0` each side of a line makes three calls: untimed, timed, checked. So call 2 is
/// the one whose result is looked at. Messages have no call number: all slots of rank 0 count, and
/// one slot carries a message of 64 KiB. The last slot that a ring publishes carries a final
/// result to one rank alone; so does the line of the one-shot path when there are two ranks.
#[test]
fn one_flipped_bit_is_one_wrong_element() {
    let options = "--ranks 2 -n 1 -w 0 -d int32";
    let message = |slot: u32| {
        flipped(
            &format!("0:0:{slot}"),
            &format!("sendrecv {options} -b 64K -e 64K"),
        )
    };
    assert_eq!([0, 1, 2, 3].map(message), [0, 0, 1, 0]);
    let ring = |call: u32| {
        flipped(
            &format!("{call}:0:3"),
            &format!("all_reduce {options} -b 256K -e 256K"),
        )
    };
    assert_eq!([1, 2, 3].map(ring), [0, 1, 0]);
    let line = |call: u32| {
        flipped(
            &format!("{call}:1:0"),
            &format!("all_reduce {options} -b 8 -e 8"),
        )
    };
    assert_eq!([1, 2, 5, 6].map(line), [0, 1, 1, 0]);
}

/// A described machine.
fn machine(name: &str) -> String {
    format!(
        "{}/../../../tests/topologies/{name}",
        env!("CARGO_MANIFEST_DIR")
    )
}

#[test]
fn topo_plans_described_nodes_and_draws_them() {
    let (svg, graph) = (scratch("topo.svg"), scratch("topo.toml"));
    let (box_file, svg_name) = (machine("dgx_a100.xml"), svg.display());
    for alias in ["--file", "--xml", "--topo-file"] {
        let output = run(&format!("topo {alias} {box_file} -n 8x8 --svg {svg_name}"));
        assert!(output.status.success(), "{}", stderr(&output));
        let text = stdout(&output);
        for line in [
            "Rings: 8 of 24 GB/s, on each of 8 nodes",
            "NVL 240",
            "Channels: 16",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
    let picture = std::fs::read_to_string(&svg).unwrap();
    assert!(picture.starts_with("<svg ") && picture.contains("8 nodes with 8 ranks, 64 in all"));
    // What is dumped loads again, by option and by variable, and gives the same.
    let graph_name = graph.display();
    let dumped = run(&format!(
        "topo --file {box_file} -n 2x8 --graph-dump-file {graph_name}"
    ));
    let loaded = run(&format!(
        "topo --file {box_file} -n 2x8 --graph-file {graph_name}"
    ));
    assert!(loaded.status.success(), "{}", stderr(&loaded));
    let rings = |output: &Output| {
        let text = stdout(output);
        let (_, after) = text.split_once("Rings: ").expect("rings are listed");
        let (rings, _) = after
            .split_once("Channels: ")
            .expect("channels are counted");
        rings.to_owned()
    };
    assert_eq!(rings(&dumped), rings(&loaded));
    let text = std::fs::read_to_string(&graph).unwrap();
    std::fs::write(&graph, text.replacen("order = [0, 2,", "order = [0, 0,", 1)).unwrap();
    let mut command = kolo();
    command.env("KOLO_GRAPH_FILE", &graph);
    let output = command
        .args(["topo", "--file", &box_file, "-n", "2x8"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(
        text.contains("ring 0: rank 0 stands in it twice") && text.contains("line 11"),
        "{text}"
    );
    std::fs::remove_file(&svg).unwrap();
    std::fs::remove_file(&graph).unwrap();
}

/// The order that rings have at init, where it is not that of the ranks.
#[test]
fn explain_shows_the_order_of_rings() {
    let file = scratch("explain.toml");
    let text = "version = 1\nranks = 4\nring_bandwidth = 8.0\ntree_bandwidth = 8.0\n\
                [[ring]]\norder = [3, 1, 0, 2]\n[[tree]]\nchain = [0, 1, 2, 3]\n";
    std::fs::write(&file, text).unwrap();
    let explained = |nodes: &str| {
        let mut command = kolo();
        command.env("KOLO_GRAPH_FILE", &file);
        command.args(["explain", "all_reduce", "4M", "-n", nodes]);
        command.output().unwrap()
    };
    let text = stdout(&explained("1x4"));
    assert!(text.contains("\nring        0 2 3 1\n"), "{text}");
    let output = explained("1x8");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("line 2"), "{}", stderr(&output));
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn topo_says_what_does_not_fit() {
    let pcie = machine("pcie_4gpu.xml");
    for (arguments, says) in [
        (format!("topo --file {pcie} -n 2x5"), "5 ranks for 4 GPUs"),
        (format!("topo --file {pcie} -n 0x4"), "no number of nodes"),
        (format!("topo --file {pcie} -n 2x"), "no number of nodes"),
        (
            format!("topo --file {pcie} --svg /nowhere/x.svg"),
            "/nowhere/x.svg cannot be written",
        ),
        (
            format!("topo --file {pcie} --graph-file /nowhere/g.toml"),
            "/nowhere/g.toml",
        ),
    ] {
        let output = run(&arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments}");
        assert!(
            stderr(&output).contains(says),
            "{arguments}: {}",
            stderr(&output)
        );
    }
}

/// A file in the form of GPU libraries says nothing of cores: ranks still start with it.
#[test]
fn ranks_start_with_a_file_of_either_form() {
    for name in ["cloud_tree_only.xml", "laptop.xml"] {
        let mut command = kolo();
        command.env("NCCL_TOPO_FILE", machine(name));
        let arguments = "perf all_reduce --ranks 2 -b 8 -e 8 -n 1 -w 0";
        let output = command.args(arguments.split(' ')).output().unwrap();
        assert!(output.status.success(), "{name}: {}", stderr(&output));
    }
}

#[test]
fn help_info_topo_and_version() {
    for (arguments, says) in [
        ("help", "Measure a collective"),
        ("--help", "Show the machine"),
        ("help perf", "--compare"),
        ("help explain", "64x8"),
        ("help sim", "--plot"),
        ("help tune", "kolo tune --ranks 4"),
        ("help settings", "KOLO_BUFFSIZE=SIZE"),
        ("info --options", "KOLO_BUFFSIZE=SIZE"),
        ("info --config", "/etc/kolo/kolo.toml"),
        ("info", "instruction set"),
        ("topo", "core"),
        ("topo -n 2x3", "Rings: 1 of"),
        ("help topo", "--svg"),
        ("version", env!("CARGO_PKG_VERSION")),
        ("--version", env!("CARGO_PKG_VERSION")),
    ] {
        let output = run(arguments);
        assert!(output.status.success(), "{arguments}: {}", stderr(&output));
        assert!(
            stdout(&output).contains(says),
            "{arguments}: {}",
            stdout(&output)
        );
        // A list of words that is empty is none.
        assert!(!stdout(&output).contains("ne of ."), "{arguments}");
    }
}
