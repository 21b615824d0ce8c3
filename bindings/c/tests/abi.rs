//! The library as a C program meets it: its name, its symbols, and the programs in `tests/abi`.

mod library;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn output(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{text}\n{errors}",
        output.status
    );
    text
}

fn compile_and_run(program: &str) {
    let binary = compile(program);
    let said = output(Command::new("timeout").arg("300").arg(&binary));
    assert_eq!(said.trim(), format!("{program}: ok"));
}

fn compile(program: &str) -> PathBuf {
    compile_as(program, program, &["-g"])
}

/// The program under this name, compiled with these words.
fn compile_as(name: &str, program: &str, words: &[&str]) -> PathBuf {
    let library = library::folder();
    let binary = library.join(name);
    output(
        Command::new("cc")
            .args([
                "-std=gnu11",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-pthread",
                "-I",
            ])
            .arg(root().join("include"))
            .args(words)
            .arg(root().join(format!("../../tests/abi/{program}.c")))
            .arg("-o")
            .arg(&binary)
            .arg("-L")
            .arg(library)
            .arg("-lkolo")
            .arg(format!("-Wl,-rpath,{}", library.display())),
    );
    binary
}

/// The program that ignores all errors, compiled once for several tests.
fn ignoring() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compile("ignored"))
}

/// Runs the program that ignores all errors, so many times in a loop: its end, and what it wrote to
/// standard error.
fn ignore(times: &str, settings: &[(&str, &str)]) -> (Output, Vec<String>) {
    let output = Command::new("timeout")
        .args(["300".as_ref(), ignoring().as_os_str(), times.as_ref()])
        .env_remove("KOLO_DEBUG")
        .envs(settings.iter().copied())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let lines = errors.lines().map(str::to_owned).collect();
    (output, lines)
}

#[test]
fn errors_that_nobody_looks_at_are_seen() {
    let (output, lines) = ignore("5", &[]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.ends_with("ignored: ok\n"),
        "{said}"
    );
    let null =
        "AllReduce: the receive buffer is NULL but count is 4. Remedy: pass a receive buffer";
    let expected = [
        ("ERROR", "MemFree: "),
        ("ERROR", null),
        ("ERROR", null),
        ("ERROR", "Broadcast: root 7 "),
        (
            "WARN",
            "4 more calls have failed for the same reason as AllReduce: the receive buffer",
        ),
        ("ERROR", "Barrier: "),
    ];
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
    for (line, (level, words)) in lines.iter().zip(expected) {
        assert!(
            line.contains(&format!(" {level} kolo ")) && line.contains(words),
            "{line}"
        );
        assert!(!line.contains('\x1b'), "colours in a pipe: {line:?}");
    }
    assert!(lines[5].contains("destroyed"), "{}", lines[5]);
    let (_, lines) = ignore("1", &[]);
    assert!(
        !lines.iter().any(|line| line.contains("more call")),
        "{lines:#?}"
    );
    let (output, lines) = ignore("5", &[("KOLO_DEBUG", "none")]);
    assert!(output.status.success() && lines.is_empty(), "{lines:#?}");
}

#[test]
fn the_first_error_ends_the_process_where_that_is_asked_for() {
    use std::os::unix::process::ExitStatusExt;
    let output = Command::new(ignoring())
        .arg("5")
        .env("KOLO_ERRORS", "abort")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        output.status.signal(),
        Some(6),
        "{}: {errors}",
        output.status
    );
    let lines: Vec<&str> = errors.lines().collect();
    assert_eq!(lines.len(), 2, "{errors}");
    assert!(lines[0].starts_with("kolo: MemFree: "), "{errors}");
    assert!(lines[1].contains("KOLO_ERRORS is abort"), "{errors}");
}

/// The two sentences of `tests/abi/place.c`, with the lines of their calls.
fn places(name: &str, words: &[&str], errors: &str) -> [(String, String); 2] {
    let binary = compile_as(name, "place", words);
    let said = output(Command::new(binary).env("KOLO_ERRORS", errors));
    let mut lines = said.lines().map(|line| {
        let (line, sentence) = line.split_once(' ').expect(line);
        (line.to_owned(), sentence.to_owned())
    });
    [lines.next().expect("one"), lines.next().expect("two")]
}

#[test]
fn an_error_names_the_communicator_and_where_it_is_asked_for_the_place() {
    const FUNCTIONS: [&str; 2] = ["faulty_step", "faulty_start"];
    let begin = "kolo: rank 0: Send on communicator ocean: a blocking message to oneself";
    for (at, (line, sentence)) in places("place", &["-g"], "backtrace").iter().enumerate() {
        let called = format!(". Called by {} (", FUNCTIONS[at]);
        assert!(sentence.contains(&called), "{sentence}");
        let end = format!("place.c:{line})");
        assert!(sentence.ends_with(&end), "{end}: {sentence}");
        assert!(at > 0 || sentence.starts_with(begin), "{sentence}");
    }
    // Without debug information, and without names.
    for (at, (_, sentence)) in places("bare", &["-g0"], "backtrace").iter().enumerate() {
        let called = format!(". Called by {}+0x", FUNCTIONS[at]);
        let has_it = sentence.contains(&called) && sentence.ends_with(" of bare");
        assert!(has_it, "{sentence}");
    }
    for (_, sentence) in places("stripped", &["-g0", "-s"], "backtrace") {
        let has_it = sentence.contains(". Called at 0x") && sentence.ends_with(" of stripped");
        assert!(has_it, "{sentence}");
    }
    let [(_, named), (_, unnamed)] = places("unasked", &["-g"], "return");
    assert!(named.starts_with(begin), "{named}");
    assert!(!named.contains(". Called ") && !unnamed.contains(". Called "));
}

#[test]
fn the_library_may_be_closed() {
    let library = library::folder();
    let binary = library.join("unload");
    output(
        Command::new("cc")
            .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g", "-I"])
            .arg(root().join("include"))
            .arg(root().join("../../tests/abi/unload.c"))
            .arg("-o")
            .arg(&binary)
            .arg("-ldl"),
    );
    let mut run = Command::new("timeout");
    run.arg("300")
        .arg(&binary)
        .arg(library.join("libkolo.so.0"));
    assert_eq!(output(&mut run).trim(), "unload: ok");
}

#[test]
fn every_call_works_from_c() {
    compile_and_run("calls");
}

#[test]
fn every_type_works_from_c() {
    compile_and_run("types");
}

#[test]
fn blocks_neighbours_and_requests_work_from_c() {
    compile_and_run("blocks");
}

#[test]
fn exchanges_of_two_messages_work_from_c() {
    compile_and_run("messages");
}

#[test]
fn misuse_from_c_is_an_error() {
    compile_and_run("misuse");
}

#[test]
fn communicators_are_begun_without_blocking_and_ended_in_every_phase() {
    compile_and_run("begun");
}

#[test]
fn routes_are_told_to_c() {
    compile_and_run("route");
}

#[test]
fn calls_from_inside_an_operation_are_refused_and_lose_nothing() {
    compile_and_run("inside");
}

#[test]
fn exported_symbols_are_those_of_kolo_h() {
    let library = library::folder().join("libkolo.so");
    let symbols = output(
        Command::new("nm")
            .args(["-D", "--defined-only"])
            .arg(&library),
    );
    let exported: BTreeSet<String> = symbols
        .lines()
        .map(|line| {
            line.rsplit(' ')
                .next()
                .unwrap()
                .split('@')
                .next()
                .unwrap()
                .to_owned()
        })
        .collect();
    let header = std::fs::read_to_string(root().join("include/kolo.h")).unwrap();
    let declared: BTreeSet<String> = header
        .lines()
        .filter(|line| {
            line.starts_with("koloResult_t kolo") || line.starts_with("const char *kolo")
        })
        .map(|line| line.split('(').next().unwrap())
        .map(|line| {
            line.trim_start_matches("koloResult_t ")
                .trim_start_matches("const char *")
        })
        .map(str::to_owned)
        .collect();
    assert!(declared.len() > 30, "{declared:?}");
    assert_eq!(exported, declared);
}

#[test]
fn the_library_names_itself_by_its_interface() {
    let library = library::folder().join("libkolo.so");
    let dynamic = output(Command::new("objdump").arg("-p").arg(library));
    let soname = dynamic
        .lines()
        .find(|line| line.trim_start().starts_with("SONAME"));
    assert_eq!(
        soname.map(|line| line.split_whitespace().collect::<Vec<_>>()),
        Some(vec!["SONAME", "libkolo.so.0"])
    );
}
