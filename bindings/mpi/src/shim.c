/* Constants that are macros in mpi.h and that no binding generator can see. */
#include <mpi.h>

void *const kolo_mpi_in_place = (void *)MPI_IN_PLACE;
const int kolo_mpi_tag_ub_key = MPI_TAG_UB;
/* The numbers of `name` in family.rs. */
#if defined(KOLO_MPI_ABI)
const int kolo_mpi_family = 2;
#elif defined(OPEN_MPI)
const int kolo_mpi_family = 1;
#else
const int kolo_mpi_family = 0;
#endif
