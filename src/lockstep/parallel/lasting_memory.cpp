#include "lockstep/parallel/lasting_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/text.h"

namespace lockstep::parallel {

at::Tensor lasting_zeros(std::int64_t elements, at::ScalarType type) {
  const std::size_t bytes = static_cast<std::size_t>(elements) * c10::elementSize(type);
  constexpr std::size_t kHugePage = 2 << 20;
  if (bytes < kHugePage) return at::zeros({elements}, type);  // such holes are small, and so many mappings cost time
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    fail(Fault::Io, fmt::format("no memory for {} of what the optimiser remembers: {}; parallel.zero shares it out, "
                                "parallel.offload = \"optimizer\" brings it to the disk",
                                format_bytes(static_cast<std::int64_t>(bytes)), std::strerror(errno)));
  }
  madvise(memory, bytes, MADV_HUGEPAGE);
  return at::from_blob(memory, {elements}, [bytes](void* pages) { munmap(pages, bytes); }, type);
}

}  // namespace lockstep::parallel
