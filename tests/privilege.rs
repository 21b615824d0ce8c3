//! A program with more rights than its user does not believe the environment: `kolo` as a
//! set-user-ID program, started by somebody else.

#[path = "skip/mod.rs"]
mod skip;

use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Owns nothing anywhere.
const NOBODY: u32 = 65_534;

/// One copy at a time: a program that is being written cannot be started, and a child of another
/// test would hold the file open.
static ONE: Mutex<()> = Mutex::new(());

/// A folder that everybody may enter, with a copy of `kolo`.
struct Copy(PathBuf);

impl Copy {
    fn new(name: &str, mode: u32) -> Copy {
        let folder = std::env::temp_dir().join(format!("kolo-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&folder, open).unwrap();
        let copy = Copy(folder);
        std::fs::copy(env!("CARGO_BIN_EXE_kolo"), copy.program()).unwrap();
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(copy.program(), mode).unwrap();
        copy
    }

    fn program(&self) -> PathBuf {
        self.0.join("kolo")
    }

    /// Runs `kolo info --config` for a user whose variables and files set options, and returns what
    /// it says.
    fn settings(&self) -> String {
        let home = self.0.join("home");
        std::fs::create_dir_all(home.join(".config/kolo")).unwrap();
        let write = |path: &Path, text: &str| std::fs::write(path, text).unwrap();
        write(&home.join(".config/kolo/kolo.toml"), "spin_count = 4321\n");
        write(&self.0.join("named.toml"), "yield_count = 5432\n");
        let mut command = Command::new(self.program());
        command
            .args(["info", "--config"])
            .env_clear()
            .env("HOME", &home)
            .env("KOLO_CONFIG", self.0.join("named.toml"))
            .env("KOLO_BUFFSIZE", "65536")
            .env("NCCL_ALGO", "tree")
            .current_dir("/");
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn is_root() -> bool {
    // SAFETY: plain system call.
    unsafe { libc::geteuid() == 0 }
}

/// Words that each of the four ways to set an option leaves in the output.
const WORDS: [&str; 4] = ["4321", "5432", "KOLO_BUFFSIZE", "NCCL_ALGO"];

#[test]
fn an_ordinary_program_believes_the_environment() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let said = Copy::new("plain", 0o755).settings();
    for word in WORDS {
        assert!(said.contains(word), "{word}:\n{said}");
    }
}

/// Only root can make a program that somebody else starts with more rights.
#[test]
fn a_set_user_id_program_does_not() {
    if !is_root() {
        skip::skip(
            "root",
            "a set-user-ID program of somebody else cannot be made",
        );
        return;
    }
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    for mode in [0o4755, 0o2755] {
        let copy = Copy::new("raised", mode);
        // Changing the owner takes the bits away, so they are set again.
        chown(copy.program(), Some(0), Some(0)).unwrap();
        let bits = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(copy.program(), bits).unwrap();
        let said = copy.settings();
        for word in WORDS {
            assert!(!said.contains(word), "{mode:o}, {word}:\n{said}");
        }
        assert!(
            said.contains("buffsize"),
            "it says its settings all the same:\n{said}"
        );
    }
}
