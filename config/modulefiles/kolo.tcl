#%Module1.0
# kolo @VERSION@ for @WHAT@, as a module of Environment Modules. Lmod reads the file of this name
# with `.lua`, which does the same.
#
# The file lies in PREFIX/share/modulefiles/kolo. It finds PREFIX from its own place, so that a
# tree may be moved; a link to it may lie anywhere.
# Only the links before the last part of a name are followed, so one more part is added.
set file [file dirname [file normalize $ModulesCurrentModulefile/itself]]
set prefix $file
foreach folder {file kolo modulefiles share} { set prefix [file dirname $prefix] }
set mpi_library $prefix/lib/kolo/@FAMILY@

module-whatis {Name: kolo}
module-whatis {Version: @VERSION@, variant @FAMILY@}
module-whatis {Category: library, parallel computing}
module-whatis {Description: collective communication for batch HPC jobs, on @WHAT@}
proc ModulesHelp {} {
    puts stderr {
kolo @VERSION@ on @WHAT@: collective communication from C, Fortran and Rust.

  mpicc hello.c $(pkg-config --cflags --libs kolo-mpi) -o hello
  mpif90 hello.f90 $(pkg-config --cflags --libs kolo-fortran kolo-mpi) -o hello
  find_package(kolo) in CMake: kolo::kolo, kolo::mpi, kolo::fortran
  kolo info    what is here and what is set
  man kolo     where to read on
}
}

# One kolo at a time. Versions of Environment Modules before 5.1 know no families.
if {[llength [info commands family]]} { family kolo }
conflict kolo
@PREREQ_TCL@
prepend-path PATH $prefix/bin
# Without MANPATH, man finds the pages beside each folder of PATH; to set it would hide the others.
if {[info exists env(MANPATH)]} { prepend-path MANPATH $prefix/share/man }
# The second one has `kolo-mpi` as a name for this MPI's library.
prepend-path PKG_CONFIG_PATH $prefix/lib/pkgconfig
prepend-path PKG_CONFIG_PATH $mpi_library/pkgconfig
prepend-path CMAKE_PREFIX_PATH $prefix
# For the command kolo, and for programs in Rust. Others have the way to their libraries in them,
# and LD_LIBRARY_PATH would lead those of another MPI astray.
setenv KOLO_MPI_LIBRARY $mpi_library/libkolo_mpi.so
