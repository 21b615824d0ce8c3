/* What the two files of libkolo_mpi.so share. */
#ifndef KOLO_MPI_FRONT_H
#define KOLO_MPI_FRONT_H

#include "../kolo_mpi.h"

/* Whether the MPI with this PMPI_Get_library_version is none for which this library was built: then
 * a sentence with its remedy is in `words`. The other one asks the MPI behind Fortran's calls. */
int kolo_mpi_mismatch(void *call, char *words, size_t bytes);
int kolo_mpi_mismatch_in_fortran(char *words, size_t bytes);

#endif
