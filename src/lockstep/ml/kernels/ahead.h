// lockstep/ml/kernels/ahead.h
#pragma once

#include <algorithm>

namespace lockstep::ml {

/// What is read next: on its way, a line at a time, while others are worked on.
class Ahead {
 public:
  Ahead(const void* begin, const void* end)
      : next_(static_cast<const char*>(begin)), end_(static_cast<const char*>(end)) {}
  void fetch() {
    __builtin_prefetch(next_);
    next_ = std::min(next_ + 64, end_);
  }

 private:
  const char *next_, *end_;
};

}  // namespace lockstep::ml
