#define LOCKSTEP_KERNEL_TABLE kernel_baseline
#include "lockstep/comm/reduce_kernels.inc"
