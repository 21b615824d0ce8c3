#%Module1.0
# kolo @VERSION@ under MPI programs that know nothing of it, as a module of Environment Modules.
# Lmod reads the file of this name with `.lua`, which does the same.
#
# The file lies in PREFIX/share/modulefiles/kolo. It finds PREFIX from its own place, so that a
# tree may be moved; a link to it may lie anywhere.
# Only the links before the last part of a name are followed, so one more part is added.
set file [file dirname [file normalize $ModulesCurrentModulefile/itself]]
set prefix $file
foreach folder {file kolo modulefiles share} { set prefix [file dirname $prefix] }

module-whatis {Name: kolo drop-in}
module-whatis {Version: @VERSION@}
module-whatis {Category: library, parallel computing}
module-whatis {Description: collectives of unchanged MPI programs run on kolo}
proc ModulesHelp {} {
    puts stderr {
kolo @VERSION@ under unchanged MPI programs: their blocking collectives run on kolo.

  mpirun -n 4 ./model                  as before
  KOLO_REPORT=1 mpirun -n 4 ./model    how many calls kolo ran, and why MPI ran the others
  KOLO_PMPI=verify ...                 both run them, and differences are told
  man kolo                             where to read on
}
}

# One kolo at a time. Versions of Environment Modules before 5.1 know no families.
if {[llength [info commands family]]} { family kolo }
conflict kolo
prepend-path PATH $prefix/bin
if {[info exists env(MANPATH)]} { prepend-path MANPATH $prefix/share/man }
# Programs without MPI meet nothing of it.
prepend-path LD_PRELOAD $prefix/lib/libkolo_pmpi.so.0
