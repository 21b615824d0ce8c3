//! Gives the library its installed name.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libkolo_verbs.so.0");
    println!("cargo::rerun-if-changed=build.rs");
}
