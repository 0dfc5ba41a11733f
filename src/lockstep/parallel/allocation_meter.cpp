#include "lockstep/parallel/allocation_meter.h"

#include <algorithm>
#include <mutex>

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

namespace lockstep::parallel {

// What libtorch's profilers stand on. It follows backward to whatever thread that runs on.
class AllocationMeter::Reports final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, std::int64_t bytes, std::size_t, std::size_t, c10::Device) override {
    const std::lock_guard lock(mutex_);
    bytes_ += bytes;
    peak_ = std::max(peak_, bytes_);
  }
  bool memoryProfilingEnabled() const override { return true; }

  std::int64_t bytes() const {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }
  std::int64_t peak() const {
    const std::lock_guard lock(mutex_);
    return peak_;
  }

 private:
  mutable std::mutex mutex_;
  std::int64_t bytes_ = 0, peak_ = 0;
};

struct AllocationMeter::Guard {
  explicit Guard(const std::shared_ptr<c10::DebugInfoBase>& reports)
      : info(c10::DebugInfoKind::PROFILER_STATE, reports) {}
  c10::DebugInfoGuard info;
};

namespace {

// Allocators tell of what goes only where they have told of its coming.
class Nobody final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, std::int64_t, std::size_t, std::size_t, c10::Device) override {}
  bool memoryProfilingEnabled() const override { return false; }
};

}  // namespace

AllocationMeter::AllocationMeter() : reports_(std::make_shared<Reports>()), guard_(std::make_unique<Guard>(reports_)) {}
AllocationMeter::~AllocationMeter() = default;
std::int64_t AllocationMeter::bytes() const noexcept { return reports_->bytes(); }
std::int64_t AllocationMeter::peak_bytes() const noexcept { return reports_->peak(); }

AllocationMeter::Pause::Pause() : guard_(std::make_unique<Guard>(std::make_shared<Nobody>())) {}
AllocationMeter::Pause::~Pause() = default;

}  // namespace lockstep::parallel
