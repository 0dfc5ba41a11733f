// lockstep/comm/instruction_set.h
//
// Which of the versions of a kernel this processor can run.
#pragma once

#include <cstdint>

namespace lockstep::comm {

enum class InstructionSet : std::uint8_t { Baseline, Avx2, Avx512 };

/// The best that both the processor has and this build carries kernels for.
InstructionSet instruction_set() noexcept;

// Only the versions that this build carries are linked.
#ifdef LOCKSTEP_X86_KERNELS
template <class Function>
Function by_instruction_set(Function baseline, Function avx2, Function avx512) noexcept {
  const auto best = instruction_set();
  return best == InstructionSet::Avx512 ? avx512 : best == InstructionSet::Avx2 ? avx2 : baseline;
}
#else
#define by_instruction_set(baseline, avx2, avx512) (baseline)
#endif

}  // namespace lockstep::comm
