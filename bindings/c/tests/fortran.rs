//! Runs `tests/fortran/run.sh` with the Fortran compilers of this machine.

mod library;
#[path = "../../../tests/skip/mod.rs"]
mod skip;

use kolo_core::dtype::DataType;
use std::path::Path;
use std::process::Command;

fn run_with(compiler: &str) {
    if Command::new(compiler).arg("--version").output().is_err() {
        skip::skip("fortran-compiler", &format!("there is no {compiler}"));
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fortran/run.sh");
    let output = Command::new(script)
        .env("FC", compiler)
        .env("LIBDIR", library::folder())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{compiler}: {errors}");
}

#[test]
fn gfortran_programs_run() {
    run_with("gfortran");
}

#[test]
fn flang_programs_run() {
    run_with("flang-new-19");
}

/// Names that Fortran does not have: no sentence that a Fortran program gets speaks of them.
const C_ONLY: &[&str] = &[
    "CommGetAsyncError",
    "CommGetRoute",
    "CommInitAll",
    "DescribeError",
    "GetErrorString",
    "GetSetting",
    "MemAlloc",
    "MemAllocDevice",
    "MemFree",
    "QuietWhile",
    "RedOpCreatePreMulSum",
    "RedOpDestroy",
    "ReportError",
    "TranslateLog",
    "uint32",
    "uint64",
    "bfloat16",
    "f8e4m3",
    "f8e5m2",
];

#[test]
fn every_call_and_type_has_a_name_in_fortran() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let words = folder.join("../fortran/kolo_fortran_words.c");
    let words = std::fs::read_to_string(words).unwrap();
    let header = std::fs::read_to_string(folder.join("include/kolo.h")).unwrap();
    let calls = header.split(|c: char| !c.is_alphanumeric() && c != '(' && c != '_');
    let calls = calls.filter_map(|word| word.split_once('(')?.0.strip_prefix("kolo"));
    let types = DataType::ALL.iter().map(|dtype| dtype.name());
    let mut count = 0;
    for name in calls.chain(types).filter(|name| !C_ONLY.contains(name)) {
        let entry = format!("{{\"{name}\", \"");
        assert!(words.contains(&entry), "no {name} in kolo_fortran_words.c");
        count += 1;
    }
    assert!(count > 30, "only {count} names found");
}
