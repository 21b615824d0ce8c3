//! `kolo softgpu`: runs a program with the software GPU in place of the driver.
//!
//! The program and what it loads find a `libcuda.so.1` whose devices are software, and kolo finds
//! the kernels that these devices know. Then this process becomes the program, so that launchers
//! and signals mean it.

use crate::kernels_file;
use clap::Args;
use kolo::base::{Error, Result};
use kolo::config;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The software GPU.
const DRIVER: &str = "libcuda.so.1";
/// File that it loads in place of machine code.
const KERNELS: &str = "kolo_kernels.softgpu";

pub const HELP: &str = "\
Examples:
  kolo softgpu -n 8 -- kolo perf all_reduce --device cuda -g 8
      eight devices of one process
  mpirun -n 4 kolo softgpu -n 2 -- ./program
      four processes, each with the same two devices

It is for tests where no GPU is at hand, such as those of a CI. It runs programs whose kernels are
kolo's, and refuses all other kernels: kolo's source, compiled for the processor, runs under a
scheduler that draws the order of everything, and reorders memory accesses as GPUs do. What it
computes is what a GPU computes. It is not fast, and how long something takes says nothing of a GPU.

Programs that are linked to libcudart find its driver too, as long as they launch no kernels of
their own. docs/softgpu.md says what is there, and which variables change it.";

/// Which devices, and for what.
#[derive(Args, Debug)]
pub struct SoftgpuArgs {
    /// Devices, which all processes of a host see
    #[arg(short = 'n', long, value_name = "N", default_value_t = 8)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=32))]
    devices: u32,
    /// Number from which all that is drawn follows, to repeat a run; without it, a new one
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Folder of the software GPU, where it is not lib/kolo/softgpu of the installation
    #[arg(long, value_name = "FOLDER")]
    from: Option<PathBuf>,
    /// Write what the software GPU loads as kernels, and run nothing
    #[arg(long, value_name = "FILE", hide = true)]
    write_kernels: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required_unless_present = "write_kernels")]
    program: Vec<OsString>,
}

/// Becomes the program.
///
/// # Errors
/// The software GPU is not installed; the program cannot be started.
pub fn run(args: &SoftgpuArgs) -> Result<()> {
    if let Some(file) = &args.write_kernels {
        return write_kernels(file);
    }
    let folder = folder(args.from.as_deref())?;
    let [program, words @ ..] = args.program.as_slice() else {
        return Err(Error::argument("no program is named", "write it behind --"));
    };
    let mut command = Command::new(program);
    command
        .args(words)
        .env(kolo::cuda::driver::LIBRARY_VARIABLE, folder.join(DRIVER))
        .env("LD_LIBRARY_PATH", search_path(&folder))
        .env("KOLO_KERNELS_FILE", folder.join(KERNELS))
        .env("KOLO_SOFTGPU_DEVICES", args.devices.to_string());
    if let Some(seed) = args.seed {
        command.env("KOLO_SOFTGPU_SEED", seed.to_string());
    }
    // Comes back only where it fails.
    let error = command.exec();
    Err(Error::system(
        format!("{} cannot be started", program.to_string_lossy()),
        &error,
        "give the program's path, or a name that the shell finds",
    ))
}

/// The folder with both files.
fn folder(named: Option<&Path>) -> Result<PathBuf> {
    let folder = named.map(Path::to_path_buf);
    let Some(folder) = folder.or_else(|| config::installed("softgpu")) else {
        return Err(Error::usage(
            "kolo is not installed here, so there is no lib/kolo/softgpu",
            "`make install` (or `make stage`) puts it there; or name its folder: --from FOLDER",
        ));
    };
    let folder = std::path::absolute(&folder).unwrap_or(folder);
    let missing = [DRIVER, KERNELS].into_iter();
    let missing = missing.map(|name| folder.join(name));
    if let Some(missing) = missing.into_iter().find(|path| !path.is_file()) {
        return Err(Error::usage(
            format!("the software GPU lacks {}", missing.display()),
            "install kolo anew (`make install`), or name the folder that has it: --from FOLDER",
        ));
    }
    Ok(folder)
}

/// The folder, and where libraries are looked for otherwise.
fn search_path(folder: &Path) -> OsString {
    let mut path = folder.as_os_str().to_os_string();
    if let Some(others) = std::env::var_os("LD_LIBRARY_PATH").filter(|others| !others.is_empty()) {
        path.push(":");
        path.push(others);
    }
    path
}

/// The image names the places of what host and kernels share: one of another version is refused.
fn write_kernels(file: &Path) -> Result<()> {
    std::fs::write(file, kernels_file::of_software()).map_err(|error| {
        let doing = format!("{} cannot be written", file.display());
        Error::system(doing, &error, "name a file in a folder that you may write")
    })
}
