//! Compiles the tables of MPI's handles with the compiler of the MPI in `MPICC`, as crate `mpi` is.

fn main() {
    println!("cargo:rerun-if-changed=src/shim.c");
    for name in ["MPICC", "CC"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    let mpicc = std::env::var("MPICC").unwrap_or_else(|_| "mpicc".into());
    cc::Build::new()
        .compiler(&mpicc)
        .file("src/shim.c")
        .warnings(true)
        .compile("kolo_pmpi_shim");
}
