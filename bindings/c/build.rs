//! Names the library, so that programs linked to one patch release find the next.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libkolo.so.0");
    // Its threads and its handlers of exit and fork outlive a dlclose.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rerun-if-changed=build.rs");
}
