// The litmus kernels of devices, for the host.
#include "litmus.cu"
