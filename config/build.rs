//! Compiles the C file of the core: the log function of network plugins takes its arguments as
//! `printf` does, which a function in Rust cannot.

fn main() {
    let file = "src/transport/net/plugin/log.c";
    println!("cargo:rerun-if-changed={file}");
    println!("cargo:rerun-if-changed=config/build.rs");
    cc::Build::new()
        .file(file)
        .warnings(true)
        .flag_if_supported("-fvisibility=hidden")
        .compile("kolo_net_plugin_log");
}
