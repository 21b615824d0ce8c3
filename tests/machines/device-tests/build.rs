//! Has the program look for its libraries in `lib/` beside it, and these for theirs.

fn main() {
    // RPATH in place of RUNPATH: it holds for libraries of libraries, too.
    println!("cargo:rustc-link-arg-bins=-Wl,--disable-new-dtags,-rpath,$ORIGIN/lib");
    println!("cargo:rerun-if-changed=build.rs");
}
