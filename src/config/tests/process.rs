//! The real environment, read by a process of its own: this test program, started once more.

use super::super::*;
use super::Sandbox;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

/// Runs another process whose environment holds `variables` and nothing else of kolo, and returns
/// what it prints.
fn other_process(variables: &[(&str, &OsStr)]) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--ignored",
        "--exact",
        "--nocapture",
        "config::tests::process::print_settings",
    ]);
    for (name, _) in std::env::vars_os() {
        if name.as_bytes().starts_with(b"KOLO_") || name.as_bytes().starts_with(b"NCCL_") {
            command.env_remove(name);
        }
    }
    let output = command
        .env_remove("XDG_CONFIG_HOME")
        .envs(variables.iter().copied())
        .output();
    String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
}

#[test]
#[ignore = "started by the tests beside it, with an environment made for it"]
fn print_settings() {
    match Settings::load(&[("proto".to_string(), "simple".to_string())]) {
        Ok(settings) => print!("{}", render_table(&settings)),
        Err(error) => println!("{error}"),
    }
}

#[test]
fn environment_home_and_named_file_are_those_of_the_process() {
    let sandbox = Sandbox::new();
    let user = sandbox.write(
        "home/.config/kolo/kolo.toml",
        "algo = \"ring\"\nwait = \"spin\"\n",
    );
    let named = sandbox.write("job.toml", "wait = \"sleep\"\n");
    let home = sandbox.path("home");
    let printed = other_process(&[
        ("HOME", home.as_os_str()),
        ("KOLO_CONFIG", named.as_os_str()),
        ("KOLO_BUFFSIZE", OsStr::new("2M")),
        ("NCCL_DEBUG", OsStr::new("INFO")),
        ("NCCL_NVLS_ENABLE", OsStr::from_bytes(b"\xff")),
        ("KOLO_BLESS", OsStr::new("1")),
    ]);
    let words = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    for row in [
        format!("algo ring user user file file {}", user.display()),
        format!("wait sleep user KOLO_CONFIG file {}", named.display()),
        "buffsize 2M user environment variable KOLO_BUFFSIZE".to_string(),
        "debug info user NCCL alias variable NCCL_DEBUG".to_string(),
        "proto simple user caller the calling program".to_string(),
        "/etc/kolo/kolo.toml (system file)".to_string(),
    ] {
        assert!(words.contains(&row), "{row:?} is missing in:\n{printed}");
    }
}

#[test]
fn faults_of_the_environment_are_told() {
    let printed = other_process(&[("KOLO_BUFSIZE", OsStr::new("2M"))]);
    assert!(
        printed.contains("nearest valid one is KOLO_BUFFSIZE"),
        "{printed}"
    );
    let printed = other_process(&[("KOLO_DEBUG_FILE", OsStr::from_bytes(b"/x\xff"))]);
    assert!(
        printed.contains("KOLO_DEBUG_FILE") && printed.contains("UTF-8"),
        "{printed}"
    );
}
