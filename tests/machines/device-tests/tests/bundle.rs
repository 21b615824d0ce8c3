//! The bundle: it needs nothing that a machine with glibc lacks, its steps pass on a GPU made of
//! software, and what goes wrong is a line of its own that stops no other step.

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Libraries that each Linux with glibc has.
const SYSTEM: [&str; 8] = [
    "linux-vdso.so.1",
    "libc.so.6",
    "libm.so.6",
    "libgcc_s.so.1",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
    "ld-linux-x86-64.so.2",
];
/// Bytes of the tar file at most.
const MOST: u64 = 64 << 20;

/// The bundle as the script makes it, unpacked in another place than it was made in.
fn bundle() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let scratch = scratch.join("gpu-bundle-test");
        let _ = std::fs::remove_dir_all(&scratch);
        let folder = scratch.join("made/gpu-bundle");
        let elsewhere = scratch.join("unpacked");
        std::fs::create_dir_all(&elsewhere).expect("a folder");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("bundle.sh");
        let mut make = Command::new(script);
        make.arg(env!("CARGO_BIN_EXE_kolo-device-tests"))
            .arg(&folder);
        is_well(&make.output().expect("the script"));
        let tar = folder.with_extension("tar");
        let bytes = tar.metadata().expect("the tar file").len();
        assert!((1 << 20..MOST).contains(&bytes), "{bytes} bytes");
        let mut unpack = Command::new("tar");
        unpack.arg("-xf").arg(&tar).arg("-C").arg(&elsewhere);
        is_well(&unpack.output().expect("tar"));
        std::fs::remove_dir_all(scratch.join("made")).expect("the first place goes");
        elsewhere.join("gpu-bundle")
    })
}

fn is_well(output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
}

/// The bundle's script with these words, on one device of software. What it said, line by line.
fn run(words: &[&str], variables: &[(&str, &str)]) -> (Vec<Value>, bool) {
    let here = bundle().parent().expect("a folder");
    let name = format!("{:?}", std::thread::current().id());
    let folder = here.join(name.replace(['(', ')'], "-"));
    std::fs::create_dir_all(&folder).expect("a folder");
    let _ = std::fs::remove_file(folder.join("results.jsonl"));
    let kernels = folder.join("kolo_kernels.softgpu");
    std::fs::write(&kernels, kolo_softgpu::image()).expect("the image");
    let program = std::env::current_exe().expect("a program");
    let mut command = Command::new(bundle().join("run.sh"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("KOLO_") {
            command.env_remove(name);
        }
    }
    command
        .args(words)
        .env_remove("CUDA_VISIBLE_DEVICES")
        .env_remove("CUDA_DEVICE_MAX_CONNECTIONS")
        .env_remove("LD_LIBRARY_PATH")
        .env("OUT", &folder)
        .env(
            "KOLO_CUDA_LIBRARY",
            program.with_file_name("libkolo_softgpu.so"),
        )
        .env("KOLO_KERNELS_FILE", &kernels)
        .env("KOLO_SOFTGPU_DEVICES", "1")
        .env("KOLO_NTHREADS", "64")
        .envs(variables.iter().copied());
    if variables.contains(&("KOLO_KERNELS_FILE", "")) {
        command.env_remove("KOLO_KERNELS_FILE");
    }
    let output = command.output().expect("the script");
    let said = String::from_utf8(output.stdout).expect("text");
    let kept = std::fs::read_to_string(folder.join("results.jsonl")).expect("results");
    assert_eq!(said, kept, "the file holds what was printed");
    let errors = String::from_utf8_lossy(&output.stderr);
    let line = |line: &str| {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}\n{errors}"))
    };
    (said.lines().map(line).collect(), output.status.success())
}

fn names(lines: &[Value]) -> Vec<&str> {
    lines
        .iter()
        .map(|line| line["step"].as_str().expect("a name"))
        .collect()
}

/// That all passed, and which.
fn all_passed(words: &[&str], variables: &[(&str, &str)], wanted: &[&str]) -> Vec<Value> {
    let (lines, is_good) = run(words, variables);
    for line in &lines {
        assert_eq!(line["ok"], true, "{line}");
        assert!(line["seconds"].as_f64().is_some_and(|s| s >= 0.0), "{line}");
    }
    assert!(is_good);
    assert_eq!(names(&lines), wanted);
    lines
}

#[test]
fn its_programs_need_only_what_every_linux_has() {
    let folder = bundle();
    let of = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).expect("a folder");
        entries
            .map(|entry| entry.expect("an entry").path())
            .collect()
    };
    let mut files = of(&folder.join("lib"));
    let here: BTreeSet<String> = files
        .iter()
        .map(|file| file.file_name().expect("a name").to_string_lossy().into())
        .collect();
    files.push(folder.join("kolo-device-tests"));
    let mut seen = BTreeSet::new();
    for file in &files {
        // Libraries of libraries are found by the program, which stands for them, too.
        let output = Command::new("ldd").arg(file).output().expect("ldd");
        is_well(&output);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        for line in said.lines() {
            let mut words = line.split_whitespace();
            let name = words
                .next()
                .expect("a name")
                .rsplit('/')
                .next()
                .expect("it");
            let path = words.nth(1).unwrap_or_default();
            let is_ours = here.contains(name);
            assert!(
                SYSTEM.contains(&name) || is_ours,
                "{}: {line}",
                file.display()
            );
            if is_ours && file.ends_with("kolo-device-tests") {
                let path = Path::new(path).canonicalize().expect("a file");
                let lib = folder.join("lib").canonicalize().expect("a folder");
                assert!(path.starts_with(lib), "{line} is not the bundle's");
                seen.insert(name.to_string());
            }
        }
    }
    assert_eq!(seen, here, "what is in lib/ is what is needed");
}

#[test]
fn correctness_passes_on_a_gpu_made_of_software() {
    let only = "--only=facts,litmus,pairs-1-,pairs-2-,graphs,abort,processes";
    let wanted = [
        "facts",
        "litmus-lines",
        "litmus-answers",
        "litmus-grids",
        "litmus-usual-grids",
        "litmus-processes",
        "pairs-1-simple",
        "pairs-1-ll",
        "pairs-1-ll128",
        "pairs-2-simple",
        "pairs-2-ll",
        "pairs-2-ll128",
        "graphs",
        "abort",
        "processes",
    ];
    let lines = all_passed(&["correctness", "--small", only], &[], &wanted);
    let device = &lines[0]["figures"]["devices"][0];
    assert_eq!(device["name"], "kolo software GPU");
    assert_eq!(device["resident blocks"], 16);
    let queues = |line: &Value| line["figures"]["CUDA_DEVICE_MAX_CONNECTIONS"].clone();
    assert_eq!(queues(&lines[0]), "32");
    assert!(queues(&lines[4]).is_null(), "{}", lines[4]);
    for pairs in &lines[9..12] {
        let figures = &pairs["figures"];
        assert!(figures["calls"].as_u64() > Some(100), "{pairs}");
        assert!(figures["algorithms"].as_u64() > Some(15), "{pairs}");
    }
    assert_eq!(lines[12]["figures"]["replays"], 40);
    assert_eq!(lines[13]["figures"]["kernels waited"], true);
}

/// Where lines come in parts, the litmus test sees it: it also moves lines by vectors of 16 bytes,
/// which the software GPU lets land one by one.
#[test]
fn the_litmus_test_sees_lines_that_come_in_parts() {
    let mut torn = 0;
    for _ in 0..5 {
        let words = ["correctness", "--small", "--only=litmus-lines"];
        let lines = all_passed(&words, &[], &["litmus-lines"]);
        let figures = lines[0]["figures"].as_object().expect("figures");
        assert_eq!(figures.len(), 8, "four ways, two paths");
        let seen = |how: &str, what: &str| -> u64 {
            let paths = figures.iter().filter(|(name, _)| name.starts_with(how));
            paths
                .map(|(_, seen)| seen[what].as_u64().expect("a number"))
                .sum()
        };
        assert_eq!(seen("Lines128,", "torn"), 0);
        assert!(seen("Lines128,", "changes") >= 2 * 128);
        torn += seen("Lines128ByVectors,", "torn");
        if torn > 0 {
            return;
        }
    }
    panic!("no line of vectors was seen in parts");
}

#[test]
fn grids_that_do_not_fit_at_once_are_told() {
    let only = "--only=litmus-grids,litmus-usual-grids";
    let words = ["correctness", "--small", only];
    let (lines, is_good) = run(&words, &[("KOLO_SOFTGPU_BLOCKS", "15")]);
    assert!(!is_good);
    assert_eq!(lines[1]["ok"], true, "a fact, and no fault");
    let failed = serde_json::json!([16]);
    assert_eq!(lines[1]["figures"]["not at once"], failed);
    let error = lines[0]["error"].as_str().expect("an error");
    assert!(error.contains("[16] (of 15 blocks)"), "{error}");
    let notes = lines[0]["notes"].as_str().expect("notes");
    assert!(notes.ends_with("16 grids of 1 blocks"), "{notes}");
}

/// A program in the place of NVIDIA's checker: it runs what it is given, or finds something.
#[test]
fn the_checker_runs_around_a_step_where_it_is_installed() {
    use std::os::unix::fs::PermissionsExt;
    let words = ["correctness", "--small", "--only=checker"];
    let folder = bundle().parent().expect("a folder").join("checker");
    std::fs::create_dir_all(&folder).expect("a folder");
    let checker = folder.join("compute-sanitizer");
    let path = format!(
        "{}:{}",
        folder.display(),
        std::env::var("PATH").expect("it")
    );
    let put = |text: &str| {
        std::fs::write(&checker, text).expect("a file");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&checker, mode).expect("a mode");
    };
    let wanted = ["checker-fold", "checker-pairs-2-ll"];
    let asked = "--tool memcheck --error-exitcode 86";
    put(&format!(
        "#!/bin/sh\n[ \"$1 $2 $3 $4\" = '{asked}' ] || exit 9\nshift 4\nexec \"$@\"\n"
    ));
    let lines = all_passed(&words, &[("PATH", &path)], &wanted);
    assert_eq!(lines[1]["figures"]["around"], "pairs-2-ll");
    put("#!/bin/sh\necho Invalid __global__ read\nexit 86\n");
    let (lines, is_good) = run(&words, &[("PATH", &path)]);
    assert!(!is_good);
    let error = lines[0]["error"].as_str().expect("an error");
    assert!(error.contains("Invalid __global__ read"), "{error}");
}

/// With a library in NCCL's place that counts what it is asked for: the two take turns.
#[test]
fn timing_runs_beside_a_library_in_the_place_of_nccl() {
    let here = bundle().parent().expect("a folder");
    let library = here.join("libnccl-of-the-test.so");
    let counts = here.join("counts");
    let _ = std::fs::remove_file(&counts);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nccl.c");
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-Wall", "-Werror", "-o"]);
    is_well(&compile.arg(&library).arg(source).output().expect("cc"));
    let variables = [
        ("KOLO_TEST_NCCL", library.to_str().expect("a path")),
        ("NCCL_OF_THE_TEST_COUNTS", counts.to_str().expect("a path")),
    ];
    let words = ["timing", "--small", "--only=all-reduce-4"];
    let lines = all_passed(&words, &variables, &["all-reduce-4"]);
    let figures = &lines[0]["figures"];
    assert_eq!(figures["NCCL"], 23_003);
    let sizes = figures["sizes"].as_array().expect("sizes");
    let bytes: Vec<u64> = sizes
        .iter()
        .filter_map(|row| row["bytes"].as_u64())
        .collect();
    assert_eq!(bytes, [8, 64, 512, 4096, 32_768]);
    for row in sizes {
        for name in ["kolo us", "NCCL us"] {
            let of = |what: &str| row[name][what].as_f64().expect("a time");
            assert!(0.0 < of("least") && of("least") <= of("median"), "{row}");
            assert!(of("median") <= of("most"), "{row}");
        }
        assert!(row["kolo/NCCL"].as_f64().is_some_and(|ratio| ratio > 0.0));
    }
    // For each size one call before, and five times two; on each of four ranks.
    let said = std::fs::read_to_string(&counts).expect("counts");
    let mut said: Vec<&str> = said.lines().collect();
    said.sort_unstable();
    let rank = |rank| {
        format!(
            "rank {rank} of 4: 55 calls, {} floats, ctas 24",
            11 * (37_448 / 4)
        )
    };
    assert_eq!(said, [0, 1, 2, 3].map(rank));
}

/// Without a part both run, and names choose among the steps of both.
#[test]
fn names_choose_steps_of_both_parts() {
    let wanted = ["litmus-answers", "copy"];
    all_passed(&["--small", "--only=copy,litmus-a"], &[], &wanted);
}

#[test]
fn timing_passes_on_a_gpu_made_of_software() {
    let only = "--only=copy,fold,frames,queues,host-path,all-reduce-2";
    // So many blocks that the fold's image does not fit the launch itself.
    let variables = [("KOLO_SOFTGPU_BLOCKS", "64")];
    let wanted = [
        "copy",
        "fold",
        "frames",
        "queues-1",
        "queues-8",
        "queues-32",
        "host-path-1",
        "host-path-2",
        "all-reduce-2",
    ];
    let lines = all_passed(&["timing", "--small", only], &variables, &wanted);
    let fold = lines[1]["figures"].as_object().expect("figures");
    for name in ["8 blocks, share of a copy", "64 blocks, share of a copy"] {
        assert!(
            fold[name].as_f64().is_some_and(|share| share > 0.0),
            "{fold:?}"
        );
    }
    let frames = lines[2]["figures"]["frames"].as_array().expect("frames");
    assert_eq!(frames.len(), 3);
    for queues in &lines[3..6] {
        let rows = queues["figures"]["rows"].as_array().expect("rows");
        assert_eq!(rows.len(), 2, "{queues}");
    }
    for host in &lines[6..8] {
        for row in host["figures"]["sizes"].as_array().expect("sizes") {
            for name in ["us to put", "us a call", "us in a graph"] {
                assert!(row[name].as_f64().is_some_and(|us| us > 0.0), "{row}");
            }
        }
    }
    let sums = &lines[8]["figures"];
    assert_eq!(sums["NCCL"], "libnccl.so.2 was not there");
    assert_eq!(sums["sizes"].as_array().expect("sizes").len(), 5);
}

#[test]
fn a_step_that_takes_too_long_is_killed_and_the_next_one_runs() {
    // All calls of 4 ranks are minutes of a GPU made of software.
    let words = ["correctness", "--limit=3", "--only=pairs-4-ll128,abort"];
    let (lines, is_good) = run(&words, &[]);
    assert!(!is_good);
    assert_eq!(names(&lines), ["pairs-4-ll128", "abort"]);
    assert_eq!(lines[0]["ok"], false);
    let error = lines[0]["error"].as_str().expect("an error");
    assert!(error.starts_with("it did not end within 3 s"), "{error}");
    // Where it was.
    assert!(
        error.contains("4 ranks, [(\"proto\", \"ll128\")"),
        "{error}"
    );
    assert_eq!(lines[1]["ok"], true, "{}", lines[1]);
}

#[test]
fn a_fault_of_the_device_is_told_and_the_next_step_runs() {
    let words = ["correctness", "--small", "--only=facts,pairs-2-simple"];
    let (lines, is_good) = run(&words, &[("KOLO_SOFTGPU_FAULT", "lost:1")]);
    assert!(!is_good);
    assert_eq!(names(&lines), ["facts", "pairs-2-simple"]);
    let error = lines[1]["error"].as_str().expect("an error");
    assert!(
        error.contains("rank ") && error.contains("CUDA_ERROR"),
        "{error}"
    );
}

#[test]
fn without_kernels_it_says_how_to_get_them() {
    let (lines, is_good) = run(
        &["correctness", "--small", "--only=facts"],
        &[("KOLO_KERNELS_FILE", "")],
    );
    assert!(!is_good);
    let error = lines[0]["error"].as_str().expect("an error");
    assert!(error.contains("make kernels"), "{error}");
}
