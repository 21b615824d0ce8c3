//! Tests of munge, against a daemon of the tests' own where one is installed.

use super::*;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A `munged` of the test's own, with a key of its own.
pub(crate) struct Daemon {
    child: Child,
    place: PathBuf,
}

impl Daemon {
    /// `None` where munge is not installed, which is told.
    pub fn start(name: &str) -> Option<Daemon> {
        let place = std::env::temp_dir().join(format!("kolo-munge-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join("key"), proof_key()).unwrap();
        // Where Debian keeps daemons is not on every path.
        let mut programs = ["munged", "/usr/sbin/munged"].into_iter();
        let Some(child) = programs.find_map(|program| command(program, &place).spawn().ok()) else {
            crate::base::skip::skip("munge", "there is no munged");
            return None;
        };
        let daemon = Daemon { child, place };
        for _ in 0..500 {
            if Munge::open(Some(&daemon.socket())).is_ok() {
                return Some(daemon);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let error = Munge::open(Some(&daemon.socket())).err().unwrap();
        panic!("munged was started but does not answer: {error}");
    }

    pub fn socket(&self) -> PathBuf {
        self.place.join("socket")
    }
}

/// How the daemon is started with all its files in one place.
fn command(program: &str, place: &Path) -> Command {
    let mut command = Command::new(program);
    let file = |kind: &str| format!("--{kind}-file={}", place.join(kind).display());
    command
        .args([
            "--foreground",
            "--force",
            &file("key"),
            &file("pid"),
            &file("seed"),
        ])
        .arg(file("log"))
        .arg(format!("--socket={}", place.join("socket").display()))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

fn proof_key() -> Vec<u8> {
    crate::trust::proof::random::<128>().unwrap().to_vec()
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.place);
    }
}

#[test]
fn without_a_daemon_the_reason_is_a_sentence() {
    let error = Munge::open(Some(Path::new("/nonexistent/socket")))
        .err()
        .unwrap();
    assert!(error.what.starts_with("munge, "), "{error}");
    assert!(!error.remedy.is_empty());
}

#[test]
fn credentials_open_once_and_unchanged() {
    let Some(daemon) = Daemon::start("credentials") else {
        // Then the fallback is what is left to see.
        assert!(Munge::open(None).is_err());
        return;
    };
    let munge = Munge::open(Some(&daemon.socket())).unwrap();
    let payload: Vec<u8> = (0..=255).collect();
    let credential = munge.encode(&payload).unwrap();
    assert!(credential.starts_with(b"MUNGE:"));
    let mut changed = credential.clone();
    let at = changed.len() / 2;
    changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
    assert!(munge.decode(&changed).is_err());
    assert!(munge.decode(b"MUNGE:nonsense:").is_err() && munge.decode(b"\0").is_err());
    assert_eq!(munge.decode(&credential).unwrap(), payload);
    let again = munge.decode(&credential).unwrap_err();
    assert!(again.what.to_lowercase().contains("replayed"), "{again}");
    // Of a cluster with another key.
    let other = Daemon::start("other").expect("the same program again");
    let other = Munge::open(Some(&other.socket())).unwrap();
    assert!(other.decode(&munge.encode(&payload).unwrap()).is_err());
}
