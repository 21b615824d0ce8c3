//! Job scripts for GPUs, with an `srun` that starts as many tasks as the script asks for: each of
//! them finds the software GPU.

use crate::ports::Port;
use crate::softgpu::folder;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Starts the tasks, and writes down how it was called.
const SRUN: &str = r#"#!/bin/bash
echo "$@" > "$TEST_RECORD"
while [[ $1 == -* ]]; do shift; done
for ((task = 0; task < TEST_TASKS; task++)); do
    SLURM_LOCALID=$task KOLO_RANK=$task KOLO_NRANKS=$TEST_TASKS "$@" &
    tasks+=($!)
done
for task in "${tasks[@]}"; do wait "$task" || exit 1; done
"#;

/// Value of an option by which the script asks something of Slurm.
fn asks(script: &str, option: &str) -> String {
    let start = format!("#SBATCH {option}=");
    let line = script.lines().find_map(|line| line.strip_prefix(&start));
    line.unwrap_or_else(|| panic!("{option}: {script}"))
        .to_owned()
}

/// Runs a script with `kolo perf` and these options as its program. Returns what it printed, and
/// how it called `srun`.
fn run(name: &str, tasks: &str, options: &str) -> (String, String) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../slurm/jobs");
    let here: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&here).expect("a folder");
    std::fs::write(here.join("srun"), SRUN).expect("a program");
    let mode = PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(here.join("srun"), mode).expect("its mode");
    let secret = here.join("secret");
    std::fs::write(&secret, [9; 32]).expect("a file");
    let mode = PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&secret, mode).expect("its mode");
    let port = Port::take(Ipv4Addr::LOCALHOST);
    let record = here.join("record");
    let program = env!("CARGO_BIN_EXE_kolo");
    let mut command = Command::new("timeout");
    command.args(["100", "bash"]).arg(source.join(name));
    command
        .args([program, "softgpu", "-n", "4", "--from"])
        .arg(folder());
    command.args(["--", program, "perf"]);
    command.args(options.split_whitespace());
    let path = std::env::var("PATH").expect("a path");
    let output = command
        .env("PATH", format!("{}:{path}", here.display()))
        .env("TEST_RECORD", &record)
        .env("TEST_TASKS", tasks)
        .env("SLURM_CPUS_PER_TASK", "4")
        .env("KOLO_SECRET_FILE", &secret)
        .env("KOLO_COMM_ID", format!("127.0.0.1:{}", port.number()))
        .output()
        .expect("bash");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{name}: {said}");
    assert!(said.contains("# Out of bounds values : 0 OK"), "{said}");
    let record = std::fs::read_to_string(record).expect("srun was called");
    (said, record)
}

fn script(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../slurm/jobs")
        .join(name);
    std::fs::read_to_string(path).expect("the script")
}

/// Every rank has a device of its own.
fn has_devices_apart(said: &str, count: u32) {
    for rank in 0..count {
        let has = |line: &str| {
            line.contains(&format!("#  Rank {rank:>2} "))
                && line.contains(&format!(" device {rank} at 0000:"))
        };
        assert!(said.lines().any(has), "rank {rank}: {said}");
    }
}

#[test]
fn a_task_for_each_gpu() {
    let text = script("gpu.sbatch");
    let tasks = asks(&text, "--ntasks-per-node");
    assert_eq!(asks(&text, "--gres"), format!("gpu:{tasks}"));
    assert_eq!(
        asks(&text, "--nodes"),
        "1",
        "devices of one node are connected"
    );
    let options = "all_reduce -g 1 -b 1K -e 1K -n 2 -w 1 --device cuda";
    let (said, srun) = run("gpu.sbatch", &tasks, options);
    has_devices_apart(&said, tasks.parse().expect("a number"));
    let words: Vec<&str> = srun.split_whitespace().collect();
    assert!(words.contains(&"--gpu-bind=none"), "{srun}");
    assert!(!srun.contains("--gpus-per-task"), "{srun}");
}

#[test]
fn one_process_for_all_gpus() {
    let text = script("gpu-one-process.sbatch");
    let tasks = asks(&text, "--ntasks");
    assert_eq!(tasks, "1");
    assert_eq!(asks(&text, "--gres"), "gpu:4");
    let options = "all_reduce -g 4 -b 1K -e 1K -n 2 -w 1 --device cuda";
    let (said, srun) = run("gpu-one-process.sbatch", &tasks, options);
    has_devices_apart(&said, 4);
    let words: Vec<&str> = srun.split_whitespace().collect();
    for word in ["--gpu-bind=none", "--cpus-per-task=4", "--ntasks=1"] {
        assert!(words.contains(&word), "{word}: {srun}");
    }
}
