// lockstep/parallel/allocation_meter.h
//
// How many bytes the tensors take that the calling thread makes while a meter lives, also in backward, as
// libtorch's allocator reports it: to the byte, and whatever the C library does with freed memory. What was
// made before and goes meanwhile is not seen. Memory of a communicator that ranks map is none of it.
#pragma once

#include <cstdint>
#include <memory>

namespace lockstep::parallel {

class AllocationMeter {
 public:
  AllocationMeter();
  ~AllocationMeter();
  AllocationMeter(const AllocationMeter&) = delete;
  AllocationMeter& operator=(const AllocationMeter&) = delete;

  /// Now.
  std::int64_t bytes() const noexcept;
  /// At their most so far.
  std::int64_t peak_bytes() const noexcept;

 private:
  class Reports;
  struct Guard;
  std::shared_ptr<Reports> reports_;
  std::unique_ptr<Guard> guard_;
};

}  // namespace lockstep::parallel
