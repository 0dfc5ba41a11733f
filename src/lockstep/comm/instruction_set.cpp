#include "lockstep/comm/instruction_set.h"

#include "lockstep/comm/slot_copy.h"

namespace lockstep::comm {

InstructionSet instruction_set() noexcept {
#ifdef LOCKSTEP_X86_KERNELS
  __builtin_cpu_init();
  // The names of the -march options that the kernels are compiled with.
  if (__builtin_cpu_supports("x86-64-v4")) return InstructionSet::Avx512;
  if (__builtin_cpu_supports("x86-64-v3")) return InstructionSet::Avx2;
#endif
  return InstructionSet::Baseline;
}

SlotCopy slot_copy() {
  static const SlotCopy best = by_instruction_set(slot_copy_baseline, slot_copy_avx2, slot_copy_avx512)();
  return best;
}

}  // namespace lockstep::comm
