//! Runs `tests/fortran/run.sh` with the Fortran compilers of this machine.

mod library;

use std::path::Path;
use std::process::Command;

fn run_with(compiler: &str) {
    if Command::new(compiler).arg("--version").output().is_err() {
        eprintln!("skipped: no {compiler} on this machine");
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
