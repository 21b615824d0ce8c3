//! The software GPU, and tests that run in a process that has it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// After this long a process hangs; it takes seconds.
const LIMIT: Duration = Duration::from_secs(60);

/// Builds the software GPU; its library and what it loads as kernels.
fn built() -> &'static (PathBuf, PathBuf) {
    static BUILT: OnceLock<(PathBuf, PathBuf)> = OnceLock::new();
    BUILT.get_or_init(|| {
        let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let target = scratch.parent().expect("a target folder");
        let (profile, folder) = match cfg!(debug_assertions) {
            true => ("dev", "debug"),
            false => ("release", "release"),
        };
        let status = Command::new(env!("CARGO"))
            .args([
                "build",
                "--quiet",
                "-p",
                "kolo-softgpu",
                "--profile",
                profile,
            ])
            .arg("--target-dir")
            .arg(target)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status();
        assert!(status.expect("cargo").success(), "it does not build");
        let here = scratch.join(format!("softgpu-{}", std::process::id()));
        std::fs::create_dir_all(&here).expect("a folder");
        let driver = here.join("libcuda.so.1");
        let library = target.join(folder).join("libkolo_softgpu.so");
        std::fs::copy(library, &driver).expect("the library");
        let kernels = here.join("kolo_kernels.softgpu");
        let mut command = Command::new(env!("CARGO_BIN_EXE_kolo"));
        command.args(["softgpu", "--write-kernels"]).arg(&kernels);
        assert!(command.status().expect("kolo").success());
        (driver, kernels)
    })
}

/// The folder that `kolo softgpu --from` takes.
pub fn folder() -> &'static Path {
    built().0.parent().expect("a folder")
}

/// The command `kolo`, which sees none of the settings that the tests run with. Devices are quicker
/// with few threads, and do the same steps.
pub fn kolo() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kolo"));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        let is_other = |start: &&str| name.starts_with(*start);
        if ["KOLO_", "NCCL_", "OMPI_", "PMI", "SLURM_"]
            .iter()
            .any(is_other)
        {
            command.env_remove(name);
        }
    }
    command.env("KOLO_NTHREADS", "64");
    command
}

/// `kolo perf` on a host of so many devices, with 100 seconds to live.
pub fn perf(devices: u32) -> Command {
    let mut command = kolo();
    command
        .args(["softgpu", "-n", &devices.to_string(), "--from"])
        .arg(folder())
        .args(["--", "timeout", "100", env!("CARGO_BIN_EXE_kolo"), "perf"]);
    command
}

/// Text that a process has printed, on both streams.
pub fn said(output: &Output) -> String {
    let out = String::from_utf8_lossy(&output.stdout);
    format!("{out}{}", String::from_utf8_lossy(&output.stderr))
}

/// Runs the ignored tests of this program whose names begin so, in a process with four devices and
/// these variables. The text of all that it said.
pub fn run(tests: &str, variables: &[(&str, &str)]) -> String {
    let (library, kernels) = built();
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("KOLO_SOFTGPU_") {
            command.env_remove(name);
        }
    }
    command
        .args(["--ignored", "--test-threads=1", "--nocapture", tests])
        .env("KOLO_CUDA_LIBRARY", library)
        .env("KOLO_KERNELS_FILE", kernels)
        .env("KOLO_SOFTGPU_DEVICES", "4")
        .env_remove("CUDA_VISIBLE_DEVICES")
        .envs(variables.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("this program");
    let process = child.id();
    let begin = Instant::now();
    // The pipes are small, so somebody reads them meanwhile.
    let said = std::thread::scope(|scope| {
        let mut pipes = (child.stdout.take(), child.stderr.take());
        let read = |pipe: &mut dyn std::io::Read| {
            let mut text = Vec::new();
            let _ = pipe.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        };
        let out = scope.spawn(move || read(pipes.0.as_mut().expect("a pipe")));
        let err = scope.spawn(move || read(pipes.1.as_mut().expect("a pipe")));
        while child.try_wait().expect("a child").is_none() {
            if begin.elapsed() > LIMIT {
                let _ = child.kill();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        out.join().expect("a reader") + &err.join().expect("a reader")
    });
    let status = child.wait().expect("a child");
    assert!(
        status.success() && !said.contains(" 0 passed"),
        "{tests} in process {process}, after {:?}: {status}\n{said}",
        begin.elapsed()
    );
    said
}
