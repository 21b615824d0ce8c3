//! Tests of mistakes: each is told in a sentence, before anything else, with an exit code that says
//! so.

use super::*;

#[test]
fn mistakes_in_the_options_are_usage_errors() {
    for (arguments, says) in [
        ("perf all_reduse --ranks 2", "did you mean all_reduce?"),
        ("perf", "<COLLECTIVE>"),
        ("perf all_reduce --ranks 0", "--ranks"),
        ("perf all_reduce --ranks 2 -b 1X", "K, M, G or T"),
        (
            "perf all_reduce --ranks 2 -b 2K -e 1K",
            "exceeds the greatest",
        ),
        ("perf all_reduce --ranks 2 -f 0", "--stepfactor"),
        ("perf all_reduce --ranks 2 --split MOD0", "--split"),
        ("perf MPI_Allredce --ranks 2", "did you mean all_reduce?"),
        ("perf all_reduce --ranks 2 --plot x.png", "x.svg"),
        (
            "perf all_reduce --ranks 1 -b 8 -e 8 --json /nowhere/at/all.json",
            "/nowhere/at/all.json",
        ),
        (
            "perf all_reduce --ranks 1 -b 8 -e 8 --plot /nowhere/at/all.svg",
            "/nowhere/at/all.svg",
        ),
        ("plot a.json -o x.png", "x.svg"),
        ("perf all_reduce --ranks 2 -i 0 -b 1 -e 2", "never ends"),
        ("perf all_reduce --ranks 2 -d float17", "f8e5m2"),
        ("perf all_reduce --ranks 2 -o xor", "mulsum"),
        (
            "perf broadcast --ranks 2 -r 2",
            "root 2 is none of the 2 ranks",
        ),
        ("perf hypercube --ranks 3", "1, 2, 4, 8"),
        ("perf all_reduce_v --ranks 2", "all_gather_v"),
        ("perf scan --ranks 2 -o avg", "scan has no operation avg"),
        ("perf exscan --ranks 2 -o exactsum", "no operation exactsum"),
        (
            "perf reduce --ranks 2 -o exactsum -d int32",
            "exactsum does not combine elements of type int32",
        ),
        (
            "perf all_reduce --ranks 2 --compare mpi -b 8 -e 8",
            "start it with mpirun",
        ),
        ("perf all_reduce -q 1", "-q"),
        ("frobnicate", "frobnicate"),
    ] {
        let output = run(arguments);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {text}");
        assert!(text.contains(says), "{arguments}: {text}");
        assert!(output.stdout.is_empty(), "{arguments}: {}", stdout(&output));
        for clumsy in ["kolo: kolo", "ne of .", "use .", "has ."] {
            assert!(!text.contains(clumsy), "{arguments}: {text}");
        }
    }
}

#[test]
fn errors_have_a_sentence_and_code_1() {
    let mut command = kolo();
    let output = command
        .env("KOLO_BUFSIZE", "1M")
        .args(["info", "--config"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("KOLO_BUFFSIZE"),
        "{}",
        stderr(&output)
    );
    let output = run("topo --file /nowhere/machine.xml");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("/nowhere/machine.xml"),
        "{}",
        stderr(&output)
    );
    let mut command = kolo();
    let output = command
        .env("KOLO_BUFSIZE", "1M")
        .args(["perf", "all_reduce", "--ranks", "2"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty(), "{}", stdout(&output));
    let text = stderr(&output);
    assert_eq!(text.matches("KOLO_BUFSIZE").count(), 2, "{text}");
}

#[test]
fn a_launcher_without_its_library_says_where_it_was_looked_for() {
    let mut command = kolo();
    command
        .env("OMPI_COMM_WORLD_SIZE", "1")
        .env("KOLO_MPI_LIBRARY", "/nowhere/libkolo_mpi.so");
    let output = command.args(["perf", "all_reduce"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(
        text.contains("/nowhere/libkolo_mpi.so") && text.contains("openmpi"),
        "{text}"
    );
    for (launcher, rank) in [("PMI_SIZE", "PMI_RANK"), ("KOLO_NRANKS", "KOLO_RANK")] {
        let mut command = kolo();
        command.env(launcher, "2").env(rank, "0");
        command.env("KOLO_MPI_LIBRARY", "/nowhere/libkolo_mpi.so");
        let output = command
            .args(["perf", "all_reduce", "--ranks", "2"])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{launcher}");
        let text = stderr(&output);
        assert!(text.contains("without mpirun"), "{launcher}: {text}");
    }
}
