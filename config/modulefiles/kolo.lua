-- kolo @VERSION@ for @WHAT@, as a module of Lmod. Environment Modules reads the file of this name
-- without `.lua`, which does the same.
--
-- The file lies in PREFIX/share/modulefiles/kolo. It finds PREFIX from its own place, so that a
-- tree may be moved; a link to it may lie anywhere.
local file = capture("readlink -f '" .. myFileName() .. "'"):gsub("%s+$", "")
local prefix = (file:gsub("/[^/]+/[^/]+/[^/]+/[^/]+$", ""))
local mpi_library = pathJoin(prefix, "lib/kolo/@FAMILY@")

whatis("Name: kolo")
whatis("Version: @VERSION@, variant @FAMILY@")
whatis("Category: library, parallel computing")
whatis("Description: collective communication for batch HPC jobs, on @WHAT@")
help([[
kolo @VERSION@ on @WHAT@: collective communication from C, Fortran and Rust.

  mpicc hello.c $(pkg-config --cflags --libs kolo-mpi) -o hello
  mpif90 hello.f90 $(pkg-config --cflags --libs kolo-fortran kolo-mpi) -o hello
  find_package(kolo) in CMake: kolo::kolo, kolo::mpi, kolo::fortran
  kolo info    what is here and what is set
  man kolo     where to read on
]])

-- One kolo at a time.
family("kolo")
conflict("kolo")
@PREREQ_LUA@
prepend_path("PATH", pathJoin(prefix, "bin"))
-- Without MANPATH, man finds the pages beside each folder of PATH; to set it would hide the others.
if os.getenv("MANPATH") then
    prepend_path("MANPATH", pathJoin(prefix, "share/man"))
end
-- The second one has `kolo-mpi` as a name for this MPI's library.
prepend_path("PKG_CONFIG_PATH", pathJoin(prefix, "lib/pkgconfig"))
prepend_path("PKG_CONFIG_PATH", pathJoin(mpi_library, "pkgconfig"))
prepend_path("CMAKE_PREFIX_PATH", prefix)
-- For the command kolo, and for programs in Rust. Others have the way to their libraries in them,
-- and LD_LIBRARY_PATH would lead those of another MPI astray.
setenv("KOLO_MPI_LIBRARY", pathJoin(mpi_library, "libkolo_mpi.so"))
