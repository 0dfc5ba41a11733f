#define LOCKSTEP_KERNEL_TABLE kernel_avx2
#include "lockstep/comm/reduce_kernels.inc"
