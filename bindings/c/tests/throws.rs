//! Operations in C++ that throw: the process ends with a sentence that names rank and call.

#[path = "../../../tests/drawn/mod.rs"]
mod drawn;
mod library;

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

fn compile() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let library = library::folder();
    let binary = library.join("throws");
    let output = Command::new("c++")
        .args(["-std=c++11", "-Wall", "-Wextra", "-Werror", "-g"])
        .args([
            "-pthread".as_ref(),
            "-I".as_ref(),
            root.join("include").as_os_str(),
        ])
        .arg(root.join("../../tests/abi/throws.cpp"))
        .args(["-o".as_ref(), binary.as_os_str()])
        .args(["-L".as_ref(), library.as_os_str(), "-lkolo".as_ref()])
        .arg(format!("-Wl,-rpath,{}", library.display()))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    binary
}

/// Short calls, calls of messages and plans have ways of their own to an operation.
const COUNTS: [&str; 3] = ["1", "600", "60000"];

#[test]
fn an_exception_in_an_operation_names_rank_and_call() {
    let binary = compile();
    let ways = ["call", "group", "stream", "request"];
    let cases = ways.map(|way| {
        let with = |n: usize| (way, COUNTS[n % 3], n / 3 % 3, n / 9 == 1);
        (0..18).map(with).collect()
    });
    for (way, count, rank, ends_thread) in drawn::of_each("exceptions", cases, 2) {
        let output = Command::new("timeout")
            .arg("60")
            .arg(&binary)
            .args([&rank.to_string(), way, count])
            .args(ends_thread.then_some("by pthread_exit"))
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        let case = format!("{way} of {count}, rank {rank}, {ends_thread}: {errors}");
        assert_eq!(output.status.signal(), Some(6), "{} {case}", output.status);
        let line = format!("kolo: rank {rank}: AllReduce: the operation of the program has thrown");
        assert!(errors.contains(&line), "{case}");
        assert!(
            errors.contains("Remedy: let the operation catch its exceptions"),
            "{case}"
        );
        assert!(!errors.contains("fatal runtime error"), "{case}");
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said, "printed before\n", "{case}");
    }
}
