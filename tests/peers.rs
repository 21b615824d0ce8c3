//! The driver of `benches/peers`: what it makes of known times. Nothing is measured and no MPI is
//! started.

use std::process::Command;

#[path = "within/mod.rs"]
mod within;

#[test]
fn known_times_give_known_tables() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/known.py");
    let run = within::within(60, move || Command::new("python3").arg(script).output());
    let run = run.expect("python3 starts");
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}");
    assert!(said.contains("Ran 21 tests"), "{said}");
}
