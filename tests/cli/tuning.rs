//! `kolo explain`, `kolo sim` and `kolo tune`.

use crate::drawn;
use crate::ports::Port;
use crate::{kolo, perf, run, scratch, stderr, stdout, wrong};
use kolo::algo::REGISTRY;
use kolo::plan::Collective;
use kolo::tune::{Measured, ProtocolChoice};

fn ok(arguments: &str) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments}: {}", stderr(&output));
    stdout(&output)
}

fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in:\n{text}");
    }
}

#[test]
fn explain_names_the_choice_the_others_and_the_settings() {
    let text = ok("explain all_reduce 4M -n 64x8");
    has(
        &text,
        &[
            "AllReduce of 4M (count 1048576 x float) on 64 nodes x 8 ranks",
            "chosen      hier, protocol simple",
            "runners-up      protocol  time        times the chosen",
            "  tree          simple    ",
            "  nvlstree      simple    ",
            "  collnet       simple    ",
            "chunking    chunks of up to ",
            "runners-up",
            "estimated",
            "algo            auto                built in",
        ],
    );
    let text = ok("explain all_reduce 8 -n 4");
    has(
        &text,
        &["chosen      oneshot, protocol eager", "one-shot is taken"],
    );
    let text = ok("explain barrier -n 16x4");
    has(&text, &["Barrier on 16 nodes x 4 ranks"]);
    let text = ok("explain all_gather 1M -n 8 -d double");
    has(&text, &["(count 16384 x double)"]);
}

/// The rule that decided is said, with the numbers.
#[test]
fn explain_says_which_rule_decided() {
    let text = ok("explain all_reduce 64M -n 16x8");
    let rule = "times as fast as hier, which would stand otherwise: 1.3 times is enough";
    has(
        &text,
        &["chosen      ring", "why         estimated to be ", rule],
    );
    let text = ok("explain all_reduce 64M -n 8");
    has(&text, &["which was measured for so few ranks of one node"]);
}

/// A protocol that is asked for is chosen, and the runners-up are those over it.
#[test]
fn explain_shows_protocols() {
    let explain = |arguments: &str, protocol: &str| {
        let mut command = kolo();
        command.env("KOLO_PROTO", protocol);
        let output = command.args(arguments.split_whitespace()).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    };
    let text = explain("explain all_reduce 1M -n 4 ", "allreduce:ll128");
    has(
        &text,
        &[
            ", protocol ll128, ",
            "8 slots of 14.9K",
            "the fastest of what proto = allreduce:ll128 (variable KOLO_PROTO) allows",
            "  rd            ll128     ",
        ],
    );
    let text = explain("explain all_reduce 1M -n 4", "ll,simple");
    has(&text, &[", protocol simple, "]);
    // The other protocols of the chosen algorithm are listed too.
    let chosen = text.split("chosen      ").nth(1).unwrap();
    let chosen = chosen.split(',').next().unwrap();
    has(&text, &[&format!("  {chosen:<14}ll        ")]);
    let text = explain("sim all_reduce 64K -n 4 -a ring", "ll");
    has(&text, &["algorithm   ring, protocol ll, 1 channel"]);
}

#[test]
fn explain_says_which_file_and_which_variable_decided() {
    let file = scratch("explain.toml");
    std::fs::write(&file, "algo = \"allreduce:tree;broadcast:^ring\"\n").unwrap();
    let explain = |arguments: &[&str]| {
        let mut command = kolo();
        command
            .env("KOLO_CONFIG", &file)
            .arg("explain")
            .args(arguments);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    };
    let place = format!("file {}", file.display());
    let text = explain(&["all_reduce", "64M", "-n", "8"]);
    has(
        &text,
        &["chosen      tree", &place, "the fastest of what algo ="],
    );
    let text = explain(&["broadcast", "64M", "-n", "8"]);
    assert!(!text.contains("chosen      ring"), "{text}");
    std::fs::remove_file(&file).unwrap();
    let mut command = kolo();
    command.env("KOLO_ALGO", "allreduce:rnig");
    let output = command
        .args(["explain", "all_reduce", "8", "-n", "2"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    has(&stderr(&output), &["KOLO_ALGO", "`rnig`", "`ring`"]);
    let mut command = kolo();
    command.env("KOLO_ALGO", "barrier:ring");
    let output = command
        .args(["explain", "barrier", "-n", "2"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    has(
        &stderr(&output),
        &["Barrier", "ring", "choose from", "oneshot"],
    );
}

/// Of a broadcast in one shot every rank reads the root's line, and by the ring it passes each
/// cache once: ranks dealt in order, in turn, and as a file says, on a machine of four caches.
#[test]
fn sim_counts_by_the_binding_of_ranks() {
    let by = |algorithm: &str, bind: &str, more: &str| {
        let text = ok(&format!(
            "sim broadcast 8 -a {algorithm} {more} --bind {bind}"
        ));
        let level = |name: &str| {
            let line = text
                .lines()
                .find(|line| line.trim_start().starts_with(name));
            let tokens = line.and_then(|line| line.split_whitespace().nth(1));
            tokens.map_or(0, |tokens| tokens.parse::<u32>().expect("a number"))
        };
        ["cache ", "socket ", "node "].map(level)
    };
    let of = |bind: &str, more: &str| by("oneshot", bind, more);
    let counted = "-n 12 --sockets 2 --caches 2";
    assert_eq!(by("ring", "block", counted), [8, 2, 1]);
    assert_eq!(by("ring", "cyclic", counted), [8, 2, 1]);
    assert_eq!(by("binomial", "cyclic", counted), [3, 2, 6]);
    assert_eq!(of("block", counted), [2, 3, 6]);
    assert_eq!(of("cyclic", counted), [2, 3, 6]);
    has(
        &ok("explain all_reduce 1M -n 8 --sockets 2 --bind cyclic"),
        &["ring        0 2 4 6 1 3 5 7"],
    );
    let machine = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../tests/data/topo/amd_l3_clusters.xml"
    );
    let described = format!("-n 6 --machine {machine}");
    assert_eq!(of("block", &described), [1, 4, 0]);
    let file = std::env::temp_dir().join(format!("kolo-bind-{}", std::process::id()));
    std::fs::write(
        &file,
        "# six ranks\n0\n4-5\n1\n2-3 # two cores\n8\n0-3,16-19\n",
    )
    .unwrap();
    let file = file.display().to_string();
    assert_eq!(of(&file, &described), [3, 2, 0]);
    let explained = ok(&format!("explain broadcast 8 {described} --bind {file}"));
    has(
        &explained,
        &["1 socket and 3 last-level caches", "as the file says"],
    );
    for (arguments, says) in [
        (
            format!("-n 7 --machine {machine} --bind {file}"),
            "6 lines for 7 ranks",
        ),
        (
            format!("-n 2 --machine {machine} --bind /nowhere/at/all"),
            "/nowhere/at/all",
        ),
        (
            "-n 2 --machine /nowhere/at/all".to_string(),
            "/nowhere/at/all",
        ),
        (format!("-n 2 --machine {machine} --sockets 2"), "--sockets"),
    ] {
        let output = run(&format!("sim broadcast 8 {arguments}"));
        assert!(!output.status.success(), "{arguments}");
        has(&stderr(&output), &[says]);
    }
    std::fs::write(&file, "0\n99\n").unwrap();
    let output = run(&format!(
        "sim broadcast 8 -n 2 --machine {machine} --bind {file}"
    ));
    has(&stderr(&output), &["line 2", "has the processors 0-31"]);
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn sim_prints_time_links_and_the_critical_path() {
    let text = ok("sim all_reduce 1K -n 4x4 --sockets 2 --nics 2 --leaf 2 --taper 2 -a ring");
    has(
        &text,
        &[
            "algorithm   ring, protocol simple, 1 channel",
            "time        ",
            "estimate    ",
            "  network   ",
            "busiest links",
            "  nic out ",
            "  leaf up ",
            "critical path: ",
            "hand-over (network)",
            "token of rank ",
            "begins",
        ],
    );
    // Every rank sends 2 * 15 chunks in two slices, and a quarter of the ring is network.
    has(&text, &["  cache            480", "  network          240"]);
    assert!(text.lines().count() < 60, "a short list:\n{text}");
    let text = ok("sim barrier -n 20000x1 -a dissemination");
    has(&text, &["20000 nodes x 1 ranks", "estimate    "]);
    let text = ok("sim sendrecv 1M -n 2x1");
    has(&text, &["Send of 1M", "algorithm   bundle"]);
}

#[test]
fn the_plot_is_a_picture_with_a_curve_for_each_algorithm() {
    let file = scratch("plot.svg");
    let out = ok(&format!(
        "sim all_reduce -n 2x4 --plot {} --plot-max 1M",
        file.display()
    ));
    let svg = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    has(
        &svg,
        &[
            "<svg",
            "AllReduce on 2 nodes x 4 ranks",
            ">chosen<",
            ">size in bytes<",
        ],
    );
    for entry in REGISTRY {
        if entry.collective == Collective::AllReduce && entry.most_ranks >= 8 {
            let name = entry.algorithm.name();
            let curve = format!(">{name}<");
            // Between nodes nobody reaches the memory of all.
            assert_eq!(svg.contains(&curve), !entry.one_memory, "{name}");
            assert!(entry.one_memory || out.contains(name), "{name}");
        }
    }
    assert!(svg.trim_end().ends_with("</svg>"));
    let document = roxmltree::Document::parse(&svg).expect("well-formed");
    assert!(document.descendants().count() > 100);
}

#[test]
fn mistakes_in_questions_are_explained() {
    for (arguments, code, says) in [
        ("explain all_reduse 4M -n 8", 2, "did you mean all_reduce?"),
        ("explain all_reduce 4M -n 8y2", 2, "as 64x8"),
        ("explain all_reduce 4M", 2, "--ranks"),
        ("explain hypercube 4M -n 8", 1, "several calls"),
        ("sim alltoall_v 4M -n 8", 1, "bundle of messages"),
        (
            "explain broadcast 4M -n 8 -r 8",
            1,
            "root 8 is none of the 8 ranks",
        ),
        ("sim all_reduce 4M -n 8 -a rign", 1, "did you mean ring?"),
        ("sim broadcast 4M -n 8 -a dissemination", 1, "use one of"),
        (
            "sim all_reduce 1M -n 100000x1 -a ring",
            1,
            "steps, more than",
        ),
        ("sim barrier -n 8 --plot x.svg", 1, "no size to draw"),
        (
            "sim all_reduce -n 8 --plot /nowhere/at/all.svg --plot-max 1K",
            1,
            "/nowhere/at/all.svg",
        ),
        ("tune", 1, "--ranks N"),
        ("tune --ranks 2 -b 0", 1, "sizes from 0"),
    ] {
        let output = run(arguments);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments}: {text}");
        has(&text, &[says]);
    }
}

/// Processes that no MPI has started meet as those of `kolo perf` and `kolo hello` do.
#[test]
fn tune_measures_between_processes_without_mpi() {
    let file = scratch("tune-processes.toml");
    let port = Port::take([127, 0, 0, 1]);
    let start = |rank: &str| {
        let mut command = kolo();
        command
            .env("KOLO_NRANKS", "2")
            .env("KOLO_RANK", rank)
            .env("KOLO_COMM_ID", format!("127.0.0.1:{}", port.number()))
            .args(["tune", "-b", "64", "-e", "64", "-t", "1", "-c", "barrier"])
            .arg("-o")
            .arg(&file)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        command.spawn().unwrap()
    };
    let processes = ["0", "1"].map(start);
    let outputs = processes.map(|process| process.wait_with_output().unwrap());
    for output in &outputs {
        assert!(output.status.success(), "{}", stderr(output));
    }
    has(&stdout(&outputs[0]), &["tuner_file"]);
    assert_eq!(stdout(&outputs[1]), "", "rank 0 speaks for all");
    let text = std::fs::read_to_string(&file).unwrap();
    let measured = Measured::from_toml(&text, "written").unwrap();
    assert!(measured.knows(Collective::Barrier, kolo::plan::Algorithm::Dissemination));
}

#[test]
fn tune_measures_continues_and_is_used() {
    let file = scratch("tune.toml");
    let read = || {
        let text = std::fs::read_to_string(&file).unwrap();
        Measured::from_toml(&text, "written").expect("what it writes it reads")
    };
    let tune = |what: &str| {
        let place = file.display();
        ok(&format!(
            "tune --ranks 2 -e 2K -f 16 -t 1 -o {place} -c {what}"
        ))
    };
    has(&tune("barrier"), &["tuner_file"]);
    let first = read();
    assert!(first.knows(Collective::Barrier, kolo::plan::Algorithm::OneShot));
    let doubling = kolo::plan::Algorithm::RecursiveDoubling;
    for protocol in [
        ProtocolChoice::Simple,
        ProtocolChoice::Ll,
        ProtocolChoice::Ll128,
    ] {
        let time = first.time_ns(Collective::Barrier, (doubling, protocol), 0);
        assert!(time.is_some(), "{}", protocol.name());
    }
    tune("barrier,all_reduce");
    let second = read();
    for series in &first.series {
        assert!(
            second.series.contains(series),
            "known points are kept as they are"
        );
    }
    let reduced = second
        .series
        .iter()
        .filter(|s| s.collective == Collective::AllReduce);
    assert!(reduced.clone().count() >= 3);
    assert!(
        reduced
            .clone()
            .all(|s| (s.nodes, s.per_node) == (1, 2) && s.points.len() == 3)
    );
    let mut command = kolo();
    command.env("KOLO_TUNER_FILE", &file);
    command.args(["explain", "all_reduce", "128", "-n", "2"]);
    let text = stdout(&command.output().unwrap());
    has(&text, &["measured", "variable KOLO_TUNER_FILE"]);
    std::fs::write(&file, "format = 7\n").unwrap();
    let output = run(&format!("tune --ranks 2 -o {}", file.display()));
    assert_eq!(output.status.code(), Some(1));
    has(&stderr(&output), &["`format`"]);
    std::fs::remove_file(&file).unwrap();
}

/// Times that make every composition worth while.
pub fn composing() -> String {
    let mut text = String::from("format = 1\n");
    for entry in REGISTRY {
        let slow = [
            Collective::AllReduce,
            Collective::AllGather,
            Collective::Barrier,
        ];
        let time = if slow.contains(&entry.collective) {
            1e6
        } else {
            1.0
        };
        for ranks in 2..=4 {
            text += &format!(
                "[[series]]\ncollective = \"{}\"\nalgorithm = \"{}\"\nchannels = 1\nnodes = 1\n\
                 ranks_per_node = {ranks}\nsizes = [1, 1048576]\ntimes_us = [{time}, {time}]\n",
                entry.collective.name(),
                entry.algorithm.name()
            );
        }
    }
    text
}

#[test]
fn compositions_compute_what_the_collective_does() {
    let file = scratch("composing.toml");
    std::fs::write(&file, composing()).unwrap();
    let with = |arguments: &str| {
        let mut command = kolo();
        command.env("KOLO_TUNER_FILE", &file);
        let output = command.args(arguments.split_whitespace()).output().unwrap();
        let (out, err) = (stdout(&output), stderr(&output));
        assert!(output.status.success(), "{arguments}: {err}\n{out}");
        out
    };
    for (collective, parts) in [
        ("all_reduce 4K", "Reduce and Broadcast, one after the other"),
        ("all_gather 4K", "Gather and Broadcast, one after the other"),
        ("barrier", "AllReduce, one after the other"),
    ] {
        has(&with(&format!("explain {collective} -n 3")), &[parts]);
    }
    let ways = |ranks| ["-z 1", "-z 0 -m 2"].map(|options| (ranks, options));
    let of = |collective| {
        let each = (2..=4).flat_map(ways);
        each.map(|(ranks, options)| (collective, ranks, options))
            .collect()
    };
    let all = ["all_reduce", "all_gather", "barrier"].map(of);
    for (collective, ranks, options) in drawn::of_each("composed", all, 2) {
        let out = with(&format!(
            "perf {collective} --ranks {ranks} -b 8 -e 512K -f 64 -n 2 -w 1 -d all -o all {options}"
        ));
        assert_eq!(wrong(&out), 0, "{collective} {ranks}: {out}");
        has(&out, &["# steps: executed == planned"]);
    }
    std::fs::remove_file(&file).unwrap();
    // Without the file nothing is composed.
    perf("all_reduce --ranks 3 -b 4K -e 4K -n 1 -w 0");
}
