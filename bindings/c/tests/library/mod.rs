//! The library under its installed names, for tests that are not written in Rust.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Builds libkolo and gives the folder that holds it under its installed name. Cargo builds no
/// cdylib for the tests of its own package, so this asks for it.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let target = temporary.parent().unwrap();
        let (profile, folder) = match cfg!(debug_assertions) {
            true => ("dev", "debug"),
            false => ("release", "release"),
        };
        let status = Command::new(env!("CARGO"))
            .args([
                "build",
                "--quiet",
                "-p",
                "kolo-c",
                "--profile",
                profile,
                "--target-dir",
            ])
            .arg(target)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .unwrap();
        assert!(status.success(), "libkolo does not build");
        let installed = temporary.join(concat!("lib-", env!("CARGO_CRATE_NAME")));
        std::fs::create_dir_all(&installed).unwrap();
        for name in ["libkolo.so", "libkolo.so.0"] {
            std::fs::copy(target.join(folder).join("libkolo.so"), installed.join(name)).unwrap();
        }
        installed
    })
}
