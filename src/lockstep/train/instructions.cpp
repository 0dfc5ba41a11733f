#include "lockstep/train/instructions.h"

#include <cstdlib>
#include <initializer_list>

#include <fmt/format.h>

#include "lockstep/comm/instruction_set.h"
#include "lockstep/core/cpu.h"
#include "lockstep/core/error.h"

namespace lockstep::train {
namespace {

constexpr const char kAny[] = "any", kAvx2[] = "avx2", kAvx512[] = "avx512";

std::string maker() { return cpu_maker() + "-"; }

bool has(const std::string& set) {
  const auto best = comm::instruction_set();
  return set == kAvx512 ? best == comm::InstructionSet::Avx512 : best >= comm::InstructionSet::Avx2;
}

std::string best() { return has(kAvx512) ? maker() + kAvx512 : has(kAvx2) ? maker() + kAvx2 : kAny; }

void check_host(const std::string& pinned) {
  if (pinned == kAny) return;
  bool known = false;
  for (const char* prefix : {"intel-", "amd-", "other-"}) {
    for (const char* set : {kAvx2, kAvx512}) {
      if (pinned != std::string(prefix) + set) continue;
      known = true;
      if (maker() == prefix && has(set)) return;
    }
  }
  if (!known) {
    fail(Fault::Usage, fmt::format("instructions = \"{}\": it is \"best\", \"avx512\", \"avx2\" or \"any\"", pinned));
  }
  fail(Fault::Usage, fmt::format("exact mode is pinned to the instructions {}, but host {} has {} ({}), which rounds "
                                 "differently; begin the run with instructions = \"any\", or \"avx2\" if one maker's "
                                 "processors are on all hosts",
                                 pinned, machine().host, best(), machine().cpu_model));
}

}  // namespace

std::string pinned_instructions(const std::string& name) {
  if (name == "best") return best();
  if (name == kAvx512 || name == kAvx2) {
    if (!has(name)) {
      fail(Fault::Usage,
           fmt::format("instructions = \"{}\": {} does not have them, only {}", name, machine().cpu_model, best()));
    }
    return maker() + name;
  }
  check_host(name);
  return name;
}

std::vector<std::pair<std::string, std::string>> environment_of(const std::string& pinned) {
  const bool avx512 = pinned.ends_with(kAvx512), avx2 = pinned.ends_with(kAvx2);
  return {{"MKL_CBWR", avx512 ? "AVX512"
                       : avx2 ? "AVX2"
                              : "COMPATIBLE"},
          {"ATEN_CPU_CAPABILITY", avx512 ? "avx512"
                                  : avx2 ? "avx2"
                                         : "default"},
          {"ONEDNN_MAX_CPU_ISA", avx512 ? "AVX512_CORE"
                                 : avx2 ? "AVX2"
                                        : "SSE41"},
          {"OMP_NUM_THREADS", "1"},
          {"MKL_NUM_THREADS", "1"}};
}

void check_instructions(const std::string& pinned) {
  check_host(pinned);
  for (const auto& [name, value] : environment_of(pinned)) {
    const char* here = std::getenv(name.c_str());
    if (here != nullptr && value == here) continue;
    fail(Fault::Usage, fmt::format("exact mode is pinned to the instructions {}, which needs {}={} before the program "
                                   "starts, and host {} has {}; "
                                   "start it by 'lockstep train', or set it",
                                   pinned, name, value, machine().host, here == nullptr ? "none" : here));
  }
}

}  // namespace lockstep::train
