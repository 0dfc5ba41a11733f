// lockstep/train/instructions.h
//
// Libraries choose kernels by processor, and each kernel rounds in its own way. Exact mode
// pins that choice, by the recipe's key `instructions`: the maker of the processor and the
// instruction set, such as "intel-avx512", or "any" for what every x86-64 processor does alike.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lockstep::train {

/// What "best" (all that this processor has), "avx512" or "avx2" comes to on this host. Fault::Usage if this
/// processor does not have it or there is no such name.
std::string pinned_instructions(const std::string& name);

/// Variables that make libraries compute so, in the environment of a process before it loads them. One thread a rank
/// too, for a second one changes the bits.
std::vector<std::pair<std::string, std::string>> environment_of(const std::string& pinned);

/// Fault::Usage if this host is not of that kind, or this process was not started with environment_of().
void check_instructions(const std::string& pinned);

}  // namespace lockstep::train
