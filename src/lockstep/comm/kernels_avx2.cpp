#define LOCKSTEP_KERNEL_TABLE kernel_avx2
#define LOCKSTEP_SLOT_COPY slot_copy_avx2
#include "lockstep/comm/reduce_kernels.inc"
#include "lockstep/comm/slot_copy.inc"
