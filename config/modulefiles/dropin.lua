-- kolo @VERSION@ under MPI programs that know nothing of it, as a module of Lmod. Environment
-- Modules reads the file of this name without `.lua`, which does the same.
--
-- The file lies in PREFIX/share/modulefiles/kolo. It finds PREFIX from its own place, so that a
-- tree may be moved; a link to it may lie anywhere.
local file = capture("readlink -f '" .. myFileName() .. "'"):gsub("%s+$", "")
local prefix = (file:gsub("/[^/]+/[^/]+/[^/]+/[^/]+$", ""))

whatis("Name: kolo drop-in")
whatis("Version: @VERSION@")
whatis("Category: library, parallel computing")
whatis("Description: collectives of unchanged MPI programs run on kolo")
help([[
kolo @VERSION@ under unchanged MPI programs: their blocking collectives run on kolo.

  mpirun -n 4 ./model                  as before
  KOLO_REPORT=1 mpirun -n 4 ./model    how many calls kolo ran, and why MPI ran the others
  KOLO_PMPI=verify ...                 both run them, and differences are told
  man kolo                             where to read on
]])

-- One kolo at a time.
family("kolo")
conflict("kolo")
prepend_path("PATH", pathJoin(prefix, "bin"))
if os.getenv("MANPATH") then
    prepend_path("MANPATH", pathJoin(prefix, "share/man"))
end
-- Programs without MPI meet nothing of it.
prepend_path("LD_PRELOAD", pathJoin(prefix, "lib/libkolo_pmpi.so.0"))
