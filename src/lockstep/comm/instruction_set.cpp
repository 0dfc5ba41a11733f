#include "lockstep/comm/instruction_set.h"

#include "lockstep/comm/slot_copy.h"

namespace lockstep::comm {

InstructionSet instruction_set() noexcept {
#ifdef LOCKSTEP_X86_KERNELS
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq")) {
    return InstructionSet::Avx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return InstructionSet::Avx2;
#endif
  return InstructionSet::Baseline;
}

const SlotCopy& slot_copy() {
  static const SlotCopy best = by_instruction_set(slot_copy_baseline, slot_copy_avx2, slot_copy_avx512)();
  return best;
}

}  // namespace lockstep::comm
