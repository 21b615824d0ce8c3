//! `bindings/fortran/kolo_calls.inc` is what the program prints, and each interface body has its
//! function in C.

#[path = "../../../../tests/skip/mod.rs"]
mod skip;

use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs the program and returns its output.
fn printed() -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_kolo-fortran-interfaces")).output();
    let output = output.expect("the program that cargo has just built");
    assert!(output.status.success());
    String::from_utf8(output.stdout).expect("text")
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn kolo_calls_inc_is_not_stale() {
    let (path, fresh) = (folder().join("kolo_calls.inc"), printed());
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == fresh,
        "kolo_calls.inc is stale: run make interfaces"
    );
    assert!(fresh.lines().all(|line| line.len() <= 100));
}

/// The two sides are separate programs to their compilers: nothing else compares their names.
#[test]
fn every_body_has_its_function() {
    let library = std::env::temp_dir().join(format!("kolo_bodies_{}", std::process::id()));
    std::fs::create_dir_all(&library).unwrap();
    let mut symbols = String::new();
    for part in [
        "kolo_fortran",
        "kolo_fortran_blocks",
        "kolo_fortran_control",
        "kolo_fortran_op",
        "kolo_fortran_pair",
    ] {
        let object = library.join(format!("{part}.o"));
        let compiled = Command::new("cc")
            .args(["-std=gnu11", "-c", "-I"])
            .arg(folder().join("../c/include"))
            .arg(folder().join(format!("{part}.c")))
            .arg("-o")
            .arg(&object)
            .status();
        // ISO_Fortran_binding.h comes with gfortran.
        if !compiled.is_ok_and(|status| status.success()) {
            skip::skip("fortran-binding", "no C compiler has ISO_Fortran_binding.h");
            return;
        }
        let output = Command::new("nm").arg(&object).output().unwrap();
        symbols.push_str(&String::from_utf8_lossy(&output.stdout));
    }
    std::fs::remove_dir_all(&library).unwrap();
    let defined: std::collections::BTreeSet<&str> = symbols
        .lines()
        .filter_map(|line| line.split_once(" T ").map(|(_, name)| name))
        .collect();
    let mut text = printed();
    text.push_str(&std::fs::read_to_string(folder().join("kolo.f90")).unwrap());
    let bound: std::collections::BTreeSet<&str> = text
        .split("bind(C, name=\"kolo_f_")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    assert!(bound.len() > 200, "{}", bound.len());
    for name in bound {
        assert!(
            defined.contains(format!("kolo_f_{name}").as_str()),
            "kolo_f_{name}"
        );
    }
}
