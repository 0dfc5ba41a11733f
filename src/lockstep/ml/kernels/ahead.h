// lockstep/ml/kernels/ahead.h
#pragma once

#include <cstdint>

namespace lockstep::ml {

/// What is read next: on its way, a line at a time, while others are worked on.
class Ahead {
 public:
  Ahead(const void* begin, const void* end)
      : next_(static_cast<const char*>(begin)), lines_((static_cast<const char*>(end) - next_ + kLine - 1) / kLine) {}
  void fetch() {
    if (lines_ == 0) return;
    __builtin_prefetch(next_);
    next_ += kLine;
    --lines_;
  }

 private:
  static constexpr std::int64_t kLine = 64;
  const char* next_;
  std::int64_t lines_;
};

}  // namespace lockstep::ml
