#define LOCKSTEP_KERNEL_TABLE kernel_avx512
#include "lockstep/comm/reduce_kernels.inc"
