//! `kolo topo` and the other commands that look at GPUs, on the software GPU.

use crate::ports::Port;
use crate::softgpu::folder;
use serde_json::Value;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// `kolo` with these words on a host of so many software GPUs, which sees no other library for
/// management than the one in `nvml`.
fn kolo(devices: u32, words: &str, nvml: Option<&Path>) -> Command {
    let mut command = on_gpus(devices, nvml);
    command.arg(env!("CARGO_BIN_EXE_kolo"));
    command.args(words.split_whitespace());
    command
}

/// `kolo softgpu` for a host of so many devices; a program and its words follow.
fn on_gpus(devices: u32, nvml: Option<&Path>) -> Command {
    let program = env!("CARGO_BIN_EXE_kolo");
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        let is_other = |start: &&str| name.starts_with(*start);
        if ["KOLO_", "NCCL_", "OMPI_", "PMI", "SLURM_", "CUDA_"]
            .iter()
            .any(is_other)
        {
            command.env_remove(name);
        }
    }
    command.env("LD_LIBRARY_PATH", nvml.unwrap_or(no_nvml()));
    command
        .args(["softgpu", "-n", &devices.to_string(), "--from"])
        .arg(folder())
        .args(["--", "timeout", "60"]);
    command
}

fn said(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Runs a command that must succeed, and returns what it prints on both streams.
fn right(mut command: Command) -> (String, String) {
    let output = command.output().expect("kolo");
    let both = said(&output);
    assert!(output.status.success(), "{command:?}: {both:?}");
    both
}

fn document(command: Command) -> Value {
    serde_json::from_str(&right(command).0).expect("JSON")
}

/// A folder with a file of the library's name that is none: it hides that of a machine with GPUs.
fn no_nvml() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nvml-none");
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("libnvidia-ml.so.1"), "").expect("a file");
        folder
    })
}

/// A folder with the library for management of `nvml.c`.
fn nvml(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/cuda/nvml.c");
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-Wall", "-Werror", "-o"]);
    compile.arg(folder.join("libnvidia-ml.so.1")).arg(source);
    assert!(compile.status().expect("a compiler").success());
    folder
}

/// Value of `FAKE_NVML` where NVML has the driver's devices.
fn same(devices: &Value) -> String {
    let word = |device: &Value, key: &str| device[key].as_str().expect("a text").to_owned();
    let device = |device: &Value| format!("{} {}", word(device, "pci"), word(device, "uuid"));
    let all: Vec<String> = devices.as_array().unwrap().iter().map(device).collect();
    all.join(",")
}

#[test]
fn the_machine_has_the_drivers_devices() {
    let (text, warnings) = right(kolo(3, "topo", None));
    let line = |at: usize| {
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("  GPU/{at} ")));
        line.unwrap_or_else(|| panic!("GPU {at}: {text}"))
    };
    for at in 0..3 {
        for words in [
            format!("0000:1{at}:00.0"),
            "kolo software GPU".to_owned(),
            "nearest port".to_owned(),
            "; reaches all others".to_owned(),
        ] {
            assert!(line(at).contains(&words), "{words}: {text}");
        }
    }
    let unknown = "  NVLinks are unknown: libnvidia-ml.so.1 cannot be loaded\n";
    assert!(text.contains(unknown), "{text}");
    assert!(
        text.contains("  0  GPU/0 GPU/1 GPU/2\n"),
        "ranks sit on them: {text}"
    );
    let lacking = "lists no GPU where the driver has device 0 (0000:10:00.0), 1 (0000:11:00.0), 2";
    assert!(warnings.contains(lacking), "{warnings}");
    assert_eq!(warnings.lines().count(), 1, "{warnings}");

    let mut apart = kolo(2, "topo", None);
    apart.env("KOLO_SOFTGPU_PEERS", "0");
    let (text, _) = right(apart);
    assert_eq!(text.matches("; reaches no other\n").count(), 2, "{text}");
}

#[test]
fn nvml_tells_of_links() {
    let nvml = nvml("nvml-links");
    let bare = document(kolo(4, "topo --json", None));
    let devices = &bare["gpus"]["devices"];
    assert_eq!(devices[0]["nvlinks"], Value::Array(Vec::new()));
    let mut command = kolo(4, "topo --json", Some(&nvml));
    command.env("FAKE_NVML", same(devices));
    let told = document(command);
    let gpus = &told["gpus"];
    assert_eq!(gpus["nvlinks_unknown"], Value::Null);
    for (at, other) in [(0, 1), (1, 0), (2, 3), (3, 2)] {
        // Two links to the switch, and one that both ends tell of; four fifths of 25 GB/s each.
        let wanted = serde_json::json!([format!("GPU/{other} 20"), "NVS/0 40"]);
        let mut links = gpus["devices"][at]["nvlinks"].clone();
        links.as_array_mut().unwrap().sort_by_key(Value::to_string);
        assert_eq!(links, wanted, "device {at}: {gpus}");
    }
}

#[test]
fn what_nvml_and_the_driver_see_otherwise_is_one_line() {
    let nvml = nvml("nvml-other");
    let bare = document(kolo(2, "topo --json", None));
    let strange = same(&bare["gpus"]["devices"]).replace("GPU-", "MIG-");
    let mut command = kolo(2, "topo", Some(&nvml));
    command.env("FAKE_NVML", strange);
    let (text, warnings) = right(command);
    assert!(!text.contains("NVLink "), "{text}");
    let line = "device 0, 1 is another one for NVML, by its UUID";
    assert_eq!(warnings.matches(line).count(), 1, "{warnings}");
    let mut command = kolo(2, "topo", Some(&nvml));
    command
        .env("FAKE_NVML", same(&bare["gpus"]["devices"]))
        .env("KOLO_SOFTGPU_PEERS", "0");
    let (_, warnings) = right(command);
    let line = "an NVLink between devices 0 and 1, which do not reach each other";
    assert_eq!(warnings.matches(line).count(), 1, "{warnings}");
}

/// The file numbers the devices the other way round than the driver does, and knows their links.
#[test]
fn a_topology_file_knows_what_nvml_does_not_tell() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("two-linked.xml");
    let gpu = |dev: u32, bus: &str, other: &str| {
        format!(
            "<pci busid='{bus}' class='0x030200'><gpu dev='{dev}' sm='90'>\
             <nvlink target='{other}' count='4' tclass='0x030200'/></gpu></pci>"
        )
    };
    let (one, two) = ("0000:11:00.0", "0000:10:00.0");
    let text = format!(
        "<system><cpu numaid='0' affinity='3' arch='x86_64' vendor='x'>{}{}<pci \
         busid='0000:20:00.0' class='0x020700'><nic><net name='mlx5_0' dev='0' \
         speed='100000'/></nic></pci></cpu></system>",
        gpu(0, one, two),
        gpu(1, two, one)
    );
    std::fs::write(&file, text).expect("a file");
    let with_file = |devices: u32, words: &str| {
        let mut command = kolo(devices, words, None);
        command.env("KOLO_TOPO_FILE", &file);
        command
    };
    let told = document(with_file(2, "topo --json"));
    for (at, pci) in [(0, two), (1, one)] {
        let gpu = &told["gpus"]["devices"][at];
        assert_eq!(gpu["pci"], pci, "{told}");
        assert_eq!(gpu["ports"], serde_json::json!(["mlx5_0 (PHB)"]));
        let link = format!("GPU/{} 80", 1 - at);
        assert_eq!(gpu["nvlinks"], serde_json::json!([link]));
    }
    let (_, warnings) = right(with_file(1, "topo"));
    let line = "two-linked.xml lists GPUs that the driver does not have: 0000:11:00.0";
    assert!(warnings.contains(line), "{warnings}");
    // A file that is named on the command line may be of any machine.
    let path = file.to_str().unwrap();
    let (text, warnings) = right(kolo(1, &format!("topo --file {path}"), None));
    assert!(!text.contains("software GPU"), "{text}");
    assert_eq!(warnings, "");
}

/// Starts a command and gives its findings, as pairs of check and words, and its notes.
fn examined(mut command: Command) -> (Vec<(String, String)>, Vec<String>) {
    let output = command.output().expect("kolo");
    let both = said(&output);
    let told: Value = serde_json::from_str(&both.0).unwrap_or_else(|error| {
        panic!("{error}: {both:?}");
    });
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let findings = told["findings"].as_array().expect("findings").iter();
    let finding = |one: &Value| {
        let words = format!("{}; fix: {}", text(&one["what"]), text(&one["fix"]));
        (text(&one["check"]), words)
    };
    let notes = told["notes"].as_array().expect("notes").iter();
    let found: Vec<(String, String)> = findings.map(finding).collect();
    let of_gpus = |(check, _): &(String, String)| check.contains("GPU") || check.contains("CUDA");
    (
        found.into_iter().filter(of_gpus).collect(),
        notes.map(text).collect(),
    )
}

/// The one finding of a command.
fn finding(command: Command) -> (String, String) {
    let (found, _) = examined(command);
    match found.as_slice() {
        [one] => one.clone(),
        all => panic!("{all:?}"),
    }
}

/// `kolo doctor` of one rank, with variables that `kolo softgpu` would overwrite.
fn doctor(devices: u32, variables: &str) -> Command {
    let mut command = on_gpus(devices, None);
    command.arg("env").args(variables.split_whitespace());
    command.args([env!("CARGO_BIN_EXE_kolo"), "doctor", "--json"]);
    command
}

#[test]
fn doctor_names_what_is_wrong_with_gpus() {
    let (found, notes) = examined(doctor(2, ""));
    assert_eq!(found, [], "nothing is wrong");
    assert_eq!(notes, [""; 0]);
    let with = |name: &str, value: &str| {
        let mut command = doctor(2, "");
        command.env(name, value);
        command
    };
    let (check, words) = finding(with("CUDA_VISIBLE_DEVICES", ""));
    assert_eq!(check, "CUDA_VISIBLE_DEVICES");
    assert!(
        words.starts_with("CUDA_VISIBLE_DEVICES is empty"),
        "{words}"
    );
    let (check, words) = finding(with("CUDA_VISIBLE_DEVICES", "1,5"));
    assert_eq!(check, "CUDA_VISIBLE_DEVICES");
    assert!(words.contains("names 2 devices, and 1 is seen"), "{words}");
    let (check, words) = finding(with("KOLO_SOFTGPU_PEERS", "0"));
    assert_eq!(check, "GPU peers");
    assert!(words.contains("0 and 1; fix: "), "{words}");
    let (check, words) = finding(with("KOLO_SOFTGPU_DRIVER", "11030"));
    assert_eq!(check, "GPU driver");
    assert!(
        words.contains("is that of CUDA 11.3; fix: install"),
        "{words}"
    );
    let (check, words) = finding(doctor(1, "KOLO_KERNELS_FILE=/nonexistent/kernels"));
    assert_eq!(check, "GPU kernels");
    assert!(
        words.contains("/nonexistent/kernels: there is no such file; fix: `make"),
        "{words}"
    );
    let (found, notes) = examined(doctor(1, "KOLO_CUDA_LIBRARY=libcuda-of-nobody.so.1"));
    assert_eq!(found, [], "no driver is no fault");
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(
        notes[0].contains("no CUDA driver, which is no fault"),
        "{notes:?}"
    );
}

#[test]
fn doctor_compares_what_ranks_see() {
    let port = Port::take(Ipv4Addr::LOCALHOST);
    let secret = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gpus-secret");
    std::fs::write(&secret, [5; 32]).expect("a file");
    let own = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&secret, own).expect("its mode");
    let rank = |rank: &str, device: &str| {
        let mut command = kolo(2, "doctor --json", None);
        command
            .env("KOLO_RANK", rank)
            .env("KOLO_NRANKS", "2")
            .env("KOLO_SECRET_FILE", &secret)
            .env("KOLO_COMM_ID", format!("127.0.0.1:{}", port.number()))
            .env("SLURM_GPUS_PER_TASK", "1")
            .env("CUDA_VISIBLE_DEVICES", device);
        command
    };
    let other = rank("1", "1").spawn().expect("kolo");
    let (check, words) = finding(rank("0", "0"));
    other.wait_with_output().expect("an end");
    assert_eq!(check, "GPUs of ranks");
    let fix = "srun --gpu-bind=none in place of --gpus-per-task";
    assert!(
        words.contains("ranks 0 and 1 see different") && words.ends_with(fix),
        "{words}"
    );
    let other = rank("1", "1").spawn().expect("kolo");
    let (found, notes) = examined(rank("0", "1"));
    other.wait_with_output().expect("an end");
    assert_eq!(found, []);
    let wanted = "1 device for 2 ranks";
    assert!(notes.len() == 1 && notes[0].contains(wanted), "{notes:?}");
}

#[test]
fn info_lists_driver_devices_and_kernels() {
    let nvml = nvml("nvml-info");
    let told = document(kolo(2, "info --json", Some(&nvml)));
    assert_eq!(told["CUDA_driver"], "CUDA 13.0, driver 550.54.15");
    let line = told["GPUs"][1].as_str().expect("a line");
    assert!(
        line.starts_with("1: kolo software GPU, sm_90, at 0000:11:00.0, GPU-"),
        "{line}"
    );
    let kernels = folder().join("kolo_kernels.softgpu");
    assert_eq!(told["GPU_kernels"], kernels.to_str().unwrap());
    let mut bare = kolo(2, "info", None);
    bare.env("CUDA_VISIBLE_DEVICES", "");
    let (text, _) = right(bare);
    assert!(text.contains("CUDA_ERROR_NO_DEVICE"), "{text}");
    assert!(
        text.lines()
            .any(|line| line.starts_with("GPUs ") && line.ends_with(" none"))
    );
}
