// lockstep/parallel/allocation_meter.h
//
// How many bytes the tensors take that the calling thread makes while a meter lives, also in backward, as
// libtorch's allocator and a communicator's report it: to the byte, and whatever the C library does with freed
// memory. What was made before and goes meanwhile is not seen.
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

  /// What the calling thread makes while one lives no meter sees, nor that it goes: somebody else counts it.
  class Pause;

 private:
  class Reports;
  struct Guard;
  std::shared_ptr<Reports> reports_;
  std::unique_ptr<Guard> guard_;
};

class AllocationMeter::Pause {
 public:
  Pause();
  ~Pause();
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;

 private:
  std::unique_ptr<Guard> guard_;
};

}  // namespace lockstep::parallel
