#define LOCKSTEP_KERNEL_TABLE kernel_baseline
#define LOCKSTEP_SLOT_COPY slot_copy_baseline
#include "lockstep/comm/reduce_kernels.inc"
#include "lockstep/comm/slot_copy.inc"
