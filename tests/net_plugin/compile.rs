//! Makes the plugins of this folder.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The plugin of a source file, as `libnccl-net-NAME.so`; every test has its own, so that none
/// waits for another.
pub fn compile(source: &str, name: &str, version: u32, flags: &[&str]) -> PathBuf {
    // Tests of several crates come here.
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let mut folders = above.map(|it| it.join("tests/net_plugin"));
    let folder = folders.find(|it| it.is_dir()).expect("the folder");
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("libnccl-net-{name}.so"));
    let output = Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-O1", "-shared", "-fPIC"])
        .arg(format!("-DVERSION={version}"))
        .args(flags)
        .arg(folder.join(source))
        .arg("-o")
        .arg(&file)
        .output()
        .expect("the C compiler can be started");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    file
}
