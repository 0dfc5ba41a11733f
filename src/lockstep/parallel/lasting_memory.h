// lockstep/parallel/lasting_memory.h
//
// Tensors that stay for a whole run. They come in the midst of what a step makes and drops, and on the heap they would
// leave holes there that nothing fills: of a GPT of 100 million parameters some 50 MiB in the third step and twice that
// later. So each has pages of its own, large ones where the kernel has them.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace lockstep::parallel {

/// On the CPU, [elements].
at::Tensor lasting_zeros(std::int64_t elements, at::ScalarType type);

}  // namespace lockstep::parallel
