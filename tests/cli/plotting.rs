//! Output of `kolo perf` beyond nccl-tests: its head, algorithms, percentiles, and pictures.

use super::*;
use roxmltree::Document;

#[test]
fn the_head_says_what_is_measured_and_no_more() {
    let out = perf("all_reduce --ranks 2 -b 8 -e 64 -f 2 -n 3 -w 2");
    assert!(
        out.starts_with(&format!(
            "# kolo {}: all_reduce among 2 ranks\n\
             # 8 to 64 bytes, each size 2 times the one before\n\
             # 3 timed calls after 2 to warm up; results are checked\n#\n#  Rank  0 Pid ",
            env!("CARGO_PKG_VERSION")
        )),
        "{out}"
    );
    for word in ["nGpus", "agg iters", "graph:", "Group", "devices"] {
        assert!(!out.contains(word), "{word}: {out}");
    }
    let out = perf("reduce_scatter --ranks 4 -b 1K -e 3K -i 1K -n 2 -m 3 -c 0 --split DIV2");
    for words in [
        "among 4 ranks, in groups by DIV 2",
        "1024 to 3072 bytes, each size 1024 bytes more than the one before",
        "2 timed groups of 3 calls after 5 to warm up; results are not checked",
        "#  Rank  2 Group  1 Pid ",
    ] {
        assert!(out.contains(words), "{words}: {out}");
    }
}

/// The word of the last column, for one size.
fn algorithm(variables: &[(&str, &str)], arguments: &str) -> String {
    let mut command = kolo();
    command.arg("perf").args(arguments.split_whitespace());
    command
        .args("-n 2 -w 0 --wide".split(' '))
        .envs(variables.iter().copied());
    let output = command.output().unwrap();
    let out = stdout(&output);
    assert!(output.status.success(), "{}{out}", stderr(&output));
    let row = &rows(&out)[0];
    row.last().cloned().expect("a row")
}

#[test]
fn the_algorithm_is_the_one_that_ran() {
    let small = "all_reduce --ranks 4 -b 8 -e 8";
    let large = "all_reduce --ranks 4 -b 1M -e 1M";
    assert_eq!(algorithm(&[], small), "oneshot");
    for name in ["ring", "tree", "hd"] {
        let forced = [("KOLO_ALGO", name), ("KOLO_DIRECT", "false")];
        assert_eq!(algorithm(&forced, large), name);
    }
    let lines = [
        ("KOLO_ALGO", "ring"),
        ("KOLO_PROTO", "ll"),
        ("KOLO_DIRECT", "false"),
    ];
    assert_eq!(algorithm(&lines, small), "ring/ll");
    // Threads of one process read each other's buffers.
    let direct = [("KOLO_ALGO", "twoshot")];
    assert_eq!(algorithm(&direct, large), "direct");
    assert_eq!(algorithm(&[], "sendrecv --ranks 2 -b 8 -e 8"), "messages");
    assert_eq!(
        algorithm(&[], "alltoall_v --ranks 2 -b 64 -e 64"),
        "messages"
    );
    assert_eq!(algorithm(&[], "all_reduce --ranks 1 -b 8 -e 8"), "copy");
    assert_eq!(
        algorithm(&[], "all_reduce --ranks 2 -b 8 -e 8 -o exactsum"),
        "exact"
    );
}

#[test]
fn percentiles_are_in_order_and_in_the_file() {
    let path = scratch("percentiles.json");
    let file = path.display();
    let out = perf(&format!(
        "alltoall --ranks 2 -b 64 -e 64 -n 9 -w 1 --wide --json {file}"
    ));
    let document: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    std::fs::remove_file(&path).unwrap();
    let side = &document["results"][0]["out_of_place"];
    let of = |key: &str| side["single_us"][key].as_f64().expect("a number");
    let [least, p50, p99, most] = ["least", "p50", "p99", "most"].map(of);
    assert!(
        0.0 < least && least <= p50 && p50 <= p99 && p99 <= most,
        "{side}"
    );
    // The columns are those numbers; there is no all-to-all in place.
    let row = &rows(&out)[0];
    let shown: Vec<f64> = row[13..15]
        .iter()
        .map(|cell| cell.parse().unwrap())
        .collect();
    for (cell, number) in shown.into_iter().zip([p50, p99]) {
        assert!((cell - number).abs() <= 0.06 + number / 1e4, "{out}");
    }
    assert_eq!(row[15..17], ["-", "-"], "{out}");
    assert_eq!(side["algorithm"], row[17].as_str());
}

/// A terminal, a mail and a page have so many columns; what needs more is asked for.
#[test]
fn a_line_has_at_most_120_characters() {
    let options = "-b 8 -e 4M -f 64 -n 2 -w 0 -d double";
    for (collective, columns) in [("all_reduce --ranks 3", 13), ("alltoall_v --ranks 2", 13)] {
        let out = perf(&format!("{collective} {options}"));
        let longest = out.lines().map(|line| line.chars().count()).max();
        assert!(longest.is_some_and(|longest| longest <= 120), "{out}");
        assert!(rows(&out).iter().all(|row| row.len() == columns), "{out}");
        let wide = perf(&format!("{collective} {options} --wide"));
        assert!(
            rows(&wide).iter().all(|row| row.len() == columns + 5),
            "{wide}"
        );
    }
}

/// One rank more than cores, and one alone.
#[test]
fn ranks_that_share_cores_are_told_of() {
    let cores = std::thread::available_parallelism().unwrap().get();
    let told = |ranks: usize| {
        let out = perf(&format!("barrier --ranks {ranks} -n 1 -w 0"));
        out.contains(&format!("# {ranks} ranks of ")) && out.contains(" share ")
    };
    assert!(told(cores + 1) && !told(1));
}

/// The texts of a picture, and how many marks of points it has.
fn read(path: &Path) -> (Vec<String>, usize) {
    let text = std::fs::read_to_string(path).unwrap();
    std::fs::remove_file(path).unwrap();
    assert!(!text.contains("NaN"), "{text}");
    let document = Document::parse(&text).expect("an SVG");
    assert_eq!(document.root_element().tag_name().name(), "svg");
    let texts = document
        .descendants()
        .filter(|node| node.has_tag_name("text"));
    let texts = texts.filter_map(|node| node.text()).map(str::to_string);
    let is_mark = |node: &roxmltree::Node| {
        let closed = node.attribute("d").is_some_and(|data| data.ends_with('Z'));
        node.has_tag_name("circle") || closed
    };
    let marks = document.descendants().filter(is_mark).count();
    (texts.collect(), marks)
}

#[test]
fn a_picture_shows_time_and_bandwidth() {
    let path = scratch("one.svg");
    let file = path.display();
    perf(&format!(
        "broadcast --ranks 2 -b 1K -e 8K -f 2 -n 2 -w 1 --plot {file}"
    ));
    let (texts, marks) = read(&path);
    for text in [
        "broadcast, 2 ranks",
        "time of a call",
        "bus bandwidth",
        "out of place",
        "in place",
        "size in bytes",
        "8K",
    ] {
        assert!(texts.iter().any(|seen| seen == text), "{text}: {texts:?}");
    }
    // Four sizes, two curves in each of two panels, and a mark of each curve beside both.
    assert_eq!(marks, 4 * 2 * 2 + 2 * 2);
}

#[test]
fn several_runs_share_a_picture() {
    let names = ["ring & star", "tree"];
    let files = names.map(|name| {
        let path = scratch(&format!("{name}.json"));
        let mut command = kolo();
        command.args("perf all_reduce --ranks 2 -b 1K -e 4K -f 2 -n 1 -w 0 --json".split(' '));
        assert!(command.arg(&path).output().unwrap().status.success());
        path
    });
    let picture = scratch("both.svg");
    let mut command = kolo();
    command.arg("plot").args(&files).arg("-o").arg(&picture);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let (texts, marks) = read(&picture);
    for name in names {
        let stands = texts.iter().filter(|text| text.ends_with(name)).count();
        assert_eq!(stands, 2, "{name}: {texts:?}");
    }
    assert_eq!(marks, 3 * 2 * 2 + 2 * 2);
    // What is no such file is named.
    std::fs::write(&files[0], "{}").unwrap();
    let mut command = kolo();
    command.arg("plot").args(&files).arg("-o").arg(&picture);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("star.json holds no results"),
        "{}",
        stderr(&output)
    );
    for file in files {
        std::fs::remove_file(file).unwrap();
    }
    assert!(!picture.exists());
}

#[test]
fn a_simulation_is_no_png() {
    let picture = scratch("sim.png");
    let output = run(&format!("sim broadcast -n 4 --plot {}", picture.display()));
    assert!(!output.status.success() && !picture.exists());
    assert!(stderr(&output).contains("sim.svg"), "{}", stderr(&output));
}

#[test]
fn every_command_knows_the_names_of_other_libraries() {
    for (arguments, says) in [
        (
            "perf MPI_Bcast --ranks 2 -b 8 -e 8 -n 1",
            "broadcast among 2",
        ),
        (
            "perf ncclReduceScatter --ranks 2 -b 8 -e 8 -n 1",
            "reduce_scatter among 2",
        ),
        ("explain MPI_Allreduce 4M -n 2x2", "AllReduce of 4M"),
        ("explain bcast 1K -n 4", "Broadcast of 1K"),
        ("sim ncclAllGather 4K -n 4", "AllGather of 4K"),
    ] {
        let output = run(arguments);
        assert!(output.status.success(), "{arguments}: {}", stderr(&output));
        assert!(
            stdout(&output).contains(says),
            "{arguments}: {}",
            stdout(&output)
        );
    }
}
