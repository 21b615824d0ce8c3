/* Constants that are macros in mpi.h and that no binding generator can see. */
#include <mpi.h>

void *const kolo_mpi_in_place = (void *)MPI_IN_PLACE;
const int kolo_mpi_tag_ub_key = MPI_TAG_UB;
#ifdef OPEN_MPI
const int kolo_mpi_is_open_mpi = 1;
#else
const int kolo_mpi_is_open_mpi = 0;
#endif
