//! Names the library, so that programs linked to one patch release find the next.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libkolo.so.0");
    println!("cargo:rerun-if-changed=build.rs");
}
