// The kernels of one protocol, for the host.
#include "kernels.cu"
