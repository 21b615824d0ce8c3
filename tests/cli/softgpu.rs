//! `kolo softgpu`: what the program that it becomes finds in its environment.

use super::*;

/// A folder with the two files, which nobody loads here.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    for name in ["libcuda.so.1", "kolo_kernels.softgpu"] {
        std::fs::write(folder.join(name), "").unwrap();
    }
    folder
}

#[test]
fn the_program_finds_the_driver_the_kernels_and_the_devices() {
    let folder = folder("softgpu-env");
    let mut command = kolo();
    command.args(["softgpu", "-n", "3", "--seed", "77", "--from"]);
    command.arg(&folder).args(["--", "env"]);
    let output = command.env("LD_LIBRARY_PATH", "/opt/x").output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let said = stdout(&output);
    let at = folder.display();
    for line in [
        format!("KOLO_CUDA_LIBRARY={at}/libcuda.so.1"),
        format!("LD_LIBRARY_PATH={at}:/opt/x"),
        format!("KOLO_KERNELS_FILE={at}/kolo_kernels.softgpu"),
        "KOLO_SOFTGPU_DEVICES=3".to_owned(),
        "KOLO_SOFTGPU_SEED=77".to_owned(),
    ] {
        assert!(said.lines().any(|one| one == line), "{line}: {said}");
    }
}

#[test]
fn the_process_becomes_the_program() {
    let folder = folder("softgpu-exec");
    let mut command = kolo();
    command.arg("softgpu").arg("--from").arg(&folder);
    command.args(["--", "sh", "-c", "echo $$ -n; exit 7"]);
    let child = command.stdout(std::process::Stdio::piped()).spawn();
    let child = child.unwrap();
    let process = child.id();
    let output = child.wait_with_output().unwrap();
    assert_eq!(stdout(&output), format!("{process} -n\n"));
    assert_eq!(output.status.code(), Some(7));
}

#[test]
fn what_is_missing_is_one_sentence() {
    let bare = folder("softgpu-bare");
    std::fs::remove_file(bare.join("kolo_kernels.softgpu")).unwrap();
    let bare = bare.to_str().unwrap();
    let whole = folder("softgpu-whole");
    let whole = whole.to_str().unwrap();
    for (arguments, code, words) in [
        (vec!["--", "true"], 1, "is no lib/kolo/softgpu"),
        (
            vec!["--from", bare, "--", "true"],
            1,
            "softgpu-bare/kolo_kernels.softgpu. Remedy: install kolo anew",
        ),
        (
            vec!["--from", whole, "--", "/nonexistent/program"],
            1,
            "/nonexistent/program cannot be started: ",
        ),
        (vec!["-n", "33", "--", "true"], 2, "33 is not in 1..=32"),
        (vec![], 2, "required arguments"),
    ] {
        let output = kolo().arg("softgpu").args(&arguments).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
}
