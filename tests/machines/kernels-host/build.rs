//! Compiles the machine, and the kernels that it runs: all for the host, with nothing contracted.

use std::path::Path;

/// The kernels, as they are compiled for GPUs, too.
const KERNELS_FOLDER: &str = "../../../kernels";

/// The machine itself.
const MACHINE: &[&str] = &[
    "fiber.cpp",
    "interface.cpp",
    "machine.cpp",
    "meet.cpp",
    "memory.cpp",
    "ranges.cpp",
    "schedule.cpp",
    "stand.cpp",
    "stores.cpp",
];

/// Kernels that try the machine; its tests run them.
const LITMUS: &[&str] = &[
    "tests/litmus/checks.cpp",
    "tests/litmus/lines.cpp",
    "tests/litmus/meetings.cpp",
    "tests/litmus/messages.cpp",
];

type Definitions = &'static [(&'static str, &'static str)];

/// kolo's kernels: the name of the library, the source, and its definitions (a protocol each).
const KERNELS: &[(&str, &str, Definitions)] = &[
    ("kolo_simple", "kernels.cpp", &[("KOLO_PROTOCOL", "Simple")]),
    ("kolo_ll", "kernels.cpp", &[("KOLO_PROTOCOL", "Ll")]),
    ("kolo_ll128", "kernels.cpp", &[("KOLO_PROTOCOL", "Ll128")]),
    ("kolo_probe", "probe.cpp", &[]),
    ("kolo_litmus", "litmus.cpp", &[]),
    ("kolo_table", "table.cpp", &[]),
];

fn compiler() -> cc::Build {
    let mut build = cc::Build::new();
    build
        .cpp(true)
        .include(KERNELS_FOLDER)
        .include(".")
        .std("c++17")
        .opt_level(2)
        .warnings(true)
        .extra_warnings(true)
        .warnings_into_errors(true)
        .flag("-ffp-contract=off")
        // Lines are enough in backtraces; the rest of `-g` takes a quarter of the time.
        .flag("-g1")
        .flag("-fno-exceptions")
        .flag("-fno-strict-aliasing")
        .flag_if_supported("-fvisibility=hidden");
    build
}

fn main() {
    println!("cargo:rerun-if-changed=.");
    println!("cargo:rerun-if-changed={KERNELS_FOLDER}");
    // Faulty kernels are loaded as libraries, and use the machine of the test that loads them.
    println!("cargo:rustc-link-arg-tests=-rdynamic");
    compiler().files(MACHINE).compile("kolo_host_machine");
    compiler().files(LITMUS).compile("kolo_host_litmus");
    for (library, source, definitions) in KERNELS {
        let mut build = compiler();
        build.file(Path::new(source));
        for (name, value) in *definitions {
            build.define(name, *value);
        }
        build.compile(library);
    }
}
