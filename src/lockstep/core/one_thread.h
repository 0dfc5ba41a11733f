// lockstep/core/one_thread.h
//
// Kernels of torch cut sums by the number of their threads: on one, bits do not depend on it.
#pragma once

#include <ATen/Parallel.h>

namespace lockstep {

class OneThread {
 public:
  OneThread() : before_(at::get_num_threads()) { at::set_num_threads(1); }
  ~OneThread() { at::set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

}  // namespace lockstep
