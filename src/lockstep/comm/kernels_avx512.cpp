#define LOCKSTEP_KERNEL_TABLE kernel_avx512
#define LOCKSTEP_SLOT_COPY slot_copy_avx512
#include "lockstep/comm/reduce_kernels.inc"
#include "lockstep/comm/slot_copy.inc"
