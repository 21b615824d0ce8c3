//! Inputs that a user may hand to kolo by a variable or an argument: files that are none, machines
//! that other programs described, words of other libraries.

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The program, free of settings and launchers around the test.
fn kolo(variables: &[(&str, &str)], arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kolo"));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        let ours = ["KOLO_", "NCCL_", "OMPI_", "PMI", "SLURM_"];
        if ours.iter().any(|beginning| name.starts_with(beginning)) {
            command.env_remove(name);
        }
    }
    command.envs(variables.iter().copied()).args(arguments);
    command.output().expect("the program starts")
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A folder of this test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("kolo-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn fifo(path: &Path) -> String {
    let name = CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: `name` ends with NUL and lives until the call is over.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    path.to_str().unwrap().to_owned()
}

/// A device has no end, and nobody writes into the FIFO.
#[test]
fn files_that_are_none_are_refused() {
    let folder = Folder::new("inputs-files");
    let fifo = fifo(&folder.0.join("fifo"));
    let perf = [
        "perf",
        "barrier",
        "--ranks",
        "1",
        "--iters",
        "1",
        "--warmup_iters",
        "0",
    ];
    for (variable, arguments) in [
        ("KOLO_TUNER_FILE", &perf[..]),
        ("KOLO_GRAPH_FILE", &perf[..]),
        ("KOLO_CONFIG", &perf[..]),
        ("KOLO_TOPO_FILE", &["topo"]),
        ("KOLO_GRAPH_FILE", &["topo"]),
    ] {
        for (path, kind) in [("/dev/zero", "a device"), (fifo.as_str(), "a FIFO")] {
            let output = kolo(&[(variable, path)], arguments);
            let said = errors(&output);
            assert!(!output.status.success(), "{variable}={path}: {said}");
            let words = format!("it is {kind}, and a regular file is wanted");
            assert!(
                said.contains(&words) && said.contains(path),
                "{variable}: {said}"
            );
        }
    }
}

/// Levels that a declaration hides are levels all the same.
#[test]
fn a_deep_file_does_not_take_the_program_down() {
    let folder = Folder::new("inputs-deep");
    let hidden = "<!DOCTYPE t [<!ATTLIST a b CDATA \"<!--\">]>";
    let file = folder.file("deep.xml", &(hidden.to_owned() + &"<a>".repeat(2_000_000)));
    let output = kolo(&[("KOLO_TOPO_FILE", &file)], &["topo"]);
    let said = errors(&output);
    assert!(output.status.code().is_some(), "killed: {said}");
    assert!(said.contains("deep.xml, line 1: "), "{said}");
}

#[test]
fn a_strange_machine_is_shown_with_warnings_and_refused_strictly() {
    let folder = Folder::new("inputs-strange");
    let text = "<system version=\"2\">\n<cpu numaid=\"0\">\n<toaster dev=\"0\"/>\n\
                <pci busid=\"a\" class=\"0x030200\"><gpu dev=\"0\" sm=\"80\"/></pci>\n\
                <pci busid=\"b\" class=\"0x030200\"><gpu dev=\"1\" sm=\"80\"/></pci>\n\
                </cpu></system>";
    let file = folder.file("box.xml", text);
    let shown = kolo(&[], &["topo", "--file", &file]);
    let said = errors(&shown);
    assert!(shown.status.success(), "{said}");
    let warnings: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("warning"))
        .collect();
    assert_eq!(warnings.len(), 1, "{said}");
    assert!(
        warnings[0].contains("box.xml, line 3, <toaster dev=\"0\">: "),
        "{said}"
    );
    assert!(String::from_utf8_lossy(&shown.stdout).contains("2 GPUs"));
    let refused = kolo(&[], &["topo", "--strict", "--file", &file]);
    assert!(!refused.status.success());
    assert!(errors(&refused).contains("line 3, <toaster dev=\"0\">: "));
}

#[test]
fn the_version_is_told_in_one_line() {
    let perf = [
        "perf",
        "barrier",
        "--ranks",
        "2",
        "--iters",
        "1",
        "--warmup_iters",
        "0",
    ];
    for variable in ["KOLO_DEBUG", "NCCL_DEBUG"] {
        let output = kolo(&[(variable, "VERSION")], &perf);
        assert!(output.status.success(), "{}", errors(&output));
        let version = format!("kolo {}", env!("CARGO_PKG_VERSION"));
        let said = errors(&output);
        let lines: Vec<&str> = said
            .lines()
            .filter(|line| line.ends_with(&version))
            .collect();
        assert_eq!(lines.len(), 1, "{said}");
    }
    let quiet = kolo(&[], &perf);
    assert_eq!(errors(&quiet), "");
}

#[test]
fn every_algorithm_that_is_offered_is_taken() {
    let output = kolo(
        &[],
        &["sim", "all_reduce", "1M", "-n", "8", "-a", "ordered"],
    );
    assert!(output.status.success(), "{}", errors(&output));
}

/// Variables of NCCL's that say something about GPUs are understood, and wrong words refused.
#[test]
fn words_of_other_libraries() {
    for level in ["LOC", "PIX", "pxb", "PHB", "SYS", "0", "4", "5"] {
        let output = kolo(&[("NCCL_NET_GDR_LEVEL", level)], &["info", "--config"]);
        assert!(output.status.success(), "{level}: {}", errors(&output));
    }
    let wrong = kolo(&[("NCCL_NET_GDR_LEVEL", "FAR")], &["info", "--config"]);
    assert!(!wrong.status.success());
    for (word, means) in [("LL", "ll"), ("LL128", "ll128"), ("^LL", "^ll")] {
        let output = kolo(&[("NCCL_PROTO", word)], &["info", "--config"]);
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = shown.lines().find(|line| line.contains("NCCL_PROTO"));
        let line = line.unwrap_or_else(|| panic!("{shown}{}", errors(&output)));
        assert!(
            line.split_whitespace().any(|w| w == means),
            "{word}: {line}"
        );
    }
}
