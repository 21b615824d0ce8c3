//! Section 7: what kolo is, and where everything is.

use super::commands::told;
use super::header::CHeader;
use super::page::{Leaf, Page, first_sentence};
use clap::Command;
use kolo::config::RESERVED;

/// How the words of a variable begin that concerns no user.
const FOR_TESTS: &str = "for tests: ";

const PURPOSE: &str = "\
kolo is a library of collective communication for batch jobs: all-reduce, broadcast, gather, halo \
exchange and the rest, on the memory of cores, from C, Fortran and Rust. Programs are started by \
`mpirun` or `srun` and keep MPI for everything else; kolo starts from an `MPI_Comm`, or without MPI.

A communicator is made of the ranks of an MPI communicator (koloCommInitMPI(3)) or of all \
processes that a launcher has started (koloCommInitEnv(3)). Calls block where the stream is NULL, \
and are asynchronous on a stream or as a request (koloWait(3)). All ranks make the same calls in \
the same order, and get the same bits.";

const BUILDING: &str = "\
C:        mpicc hello.c $(pkg-config --cflags --libs kolo-mpi) -o hello
Fortran:  mpif90 hello.f90 $(pkg-config --cflags --libs kolo-fortran kolo-mpi) -o hello
CMake:    find_package(kolo REQUIRED COMPONENTS mpi_openmpi)
          target_link_libraries(model PRIVATE kolo::mpi_openmpi MPI::MPI_C)";

const FILES: [(&str, &str); 5] = [
    ("/etc/kolo/kolo.toml", "settings of the machine"),
    ("PREFIX/etc/kolo.toml", "settings of this installation"),
    ("~/.config/kolo/kolo.toml", "settings of a user"),
    (
        "PREFIX/share/doc/kolo",
        "all pages of documentation, and examples",
    ),
    ("PREFIX/share/modulefiles", "modules, for `module use`"),
];

/// `kolo(7)`.
pub fn page(headers: &[CHeader], commands: &Command) -> Leaf {
    let mut page = Page::new("kolo", 7, "collective communication for batch jobs");
    page.section("DESCRIPTION").text(PURPOSE);
    page.section("BUILDING A PROGRAM").lines(BUILDING);
    page.section("COMMANDS");
    for one in told(commands) {
        let about = one.get_about().map(ToString::to_string);
        let name = format!("kolo-{}(1)", one.get_name());
        page.entry(&name, &about.unwrap_or_default());
    }
    page.section("CALLS");
    for header in headers {
        page.part(&format!("{}(3)", header.file));
        for call in &header.calls {
            page.entry(&format!("{}(3)", call.name), &first_sentence(&call.doc));
        }
    }
    page.section("ENVIRONMENT");
    page.text("Every setting of kolo.toml(5) is a variable, too. Others are:");
    for (name, doc) in RESERVED
        .iter()
        .filter(|(_, doc)| !doc.starts_with(FOR_TESTS))
    {
        page.entry(name, &format!("{doc}."));
    }
    page.section("FILES");
    for (name, what) in FILES {
        page.entry(name, &format!("{what}."));
    }
    page.see_also(&["kolo(1)", "kolo.h(3)", "kolo.toml(5)"]);
    ("man/man7/kolo.7".to_string(), page.render())
}
