//! Compiles the calls that libfabric's headers have as inline functions, and gives the library its
//! installed name. Where the headers are missing the library is built empty, and says so.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=PKG_CONFIG_PATH");
    println!("cargo::rerun-if-env-changed=PKG_CONFIG_LIBDIR");
    println!("cargo::rerun-if-changed=src/libfabric.c");
    println!("cargo::rerun-if-changed=src/libfabric.h");
    println!("cargo::rustc-check-cfg=cfg(no_libfabric)");
    let flags = Command::new("pkg-config")
        .args(["--cflags", "--libs", "libfabric"])
        .output()
        .ok()
        .filter(|output| output.status.success());
    let Some(flags) = flags else {
        println!("cargo::rustc-cfg=no_libfabric");
        println!(
            "cargo::warning=there are no headers of libfabric (apt-get install libfabric-dev), so \
             libkolo_ofi.so is built empty"
        );
        return;
    };
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libkolo_ofi.so.0");
    let flags = String::from_utf8_lossy(&flags.stdout).into_owned();
    let mut build = cc::Build::new();
    for flag in flags.split_whitespace() {
        if let Some(folder) = flag.strip_prefix("-I") {
            build.include(folder);
        } else if let Some(folder) = flag.strip_prefix("-L") {
            println!("cargo::rustc-link-search=native={folder}");
        }
    }
    build.file("src/libfabric.c").std("gnu11").warnings(true);
    build.compile("kolo_ofi_calls");
    println!("cargo::rustc-link-lib=fabric");
}
