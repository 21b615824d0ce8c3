//! Links `libkolo_mpi.so` to one family of MPI and to `libkolo.so.0`.
//!
//! The MPI is the one of the compiler wrapper in `MPICC` (as crate `mpi` has it). `libkolo.so.0` is
//! linked by name only: the linker sees an empty library with that name and the one symbol, so
//! that this crate builds before, after or without the real one.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    for file in ["build.rs", "src/shim.c", "src/link.c"] {
        println!("cargo:rerun-if-changed={file}");
    }
    for name in ["MPICC", "CC"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    let mpicc = std::env::var("MPICC").unwrap_or_else(|_| "mpicc".into());
    cc::Build::new()
        .compiler(&mpicc)
        .file("src/shim.c")
        .warnings(true)
        .compile("kolo_mpi_shim");

    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let library = out.join("libkolo.so.0");
    let compiler = cc::Build::new().get_compiler();
    let mut command = Command::new(compiler.path());
    command
        .args([
            "-shared",
            "-fPIC",
            "-nostdlib",
            "-Wl,-soname,libkolo.so.0",
            "src/link.c",
            "-o",
        ])
        .arg(&library);
    let status = command.status().expect("the C compiler can be started");
    assert!(status.success(), "{command:?} failed");

    println!("cargo:rustc-cdylib-link-arg=-L{}", out.display());
    println!("cargo:rustc-cdylib-link-arg=-l:libkolo.so.0");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libkolo_mpi.so.0");
    // Its threads and its handlers of exit and fork outlive a dlclose.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // Beside libkolo.so.0, or one or two folders below it (one folder per MPI family).
    println!("cargo:rustc-cdylib-link-arg=-Wl,-rpath,$ORIGIN:$ORIGIN/..:$ORIGIN/../..");
}
