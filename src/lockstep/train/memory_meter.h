// lockstep/train/memory_meter.h
//
// How much memory a run takes, and for what. Weights, gradients and states are counted where they are
// kept; what activations take is what tensors take in a step that come and go within it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "lockstep/comm/communicator.h"
#include "lockstep/core/peak_memory.h"
#include "lockstep/parallel/allocation_meter.h"
#include "lockstep/parallel/bucket_optimizer.h"
#include "lockstep/parallel/gradient_engine.h"

namespace torch::nn {
class Module;
}

namespace lockstep::train {

/// Of the rank that has the most of each.
struct MemoryReport {
  parallel::MemoryUse use;
  std::int64_t kept = 0;      // by libraries and the allocator beside it; 0: not known
  std::int64_t measured = 0;  // most proportional set size in the third step, less that of before; 0: not known
  std::optional<parallel::MemoryUse> predicted = {};  // what a forecast has said

  bool known() const noexcept { return use.state() > 0; }
  /// "weights 1.2 GiB (predicted 1.2 GiB), …".
  std::string text() const;
  nlohmann::json json() const;
};

nlohmann::json json_of(const parallel::MemoryUse& use);

class MemoryMeter {
 public:
  /// `before` is the proportional set size of the process before it had a model; 0: nobody has looked.
  explicit MemoryMeter(std::int64_t before) : before_(before) {}

  /// A step counts until after_backward(). What goes while an Error leaves one was made before, and is not counted:
  /// libtorch would warn of it.
  class Measured {
   public:
    explicit Measured(MemoryMeter& meter) : meter_(meter) {}
    ~Measured() {
      meter_.meter_.reset();
      meter_.seen_.reset();
    }
    Measured(const Measured&) = delete;
    Measured& operator=(const Measured&) = delete;

   private:
    MemoryMeter& meter_;
  };
  [[nodiscard]] Measured begin_step(std::int64_t step);
  /// Of activations and slopes that were on their way to other stages, in the step.
  void note_messages(std::int64_t bytes) { messages_ = std::max(messages_, bytes); }
  /// Of copies for a checkpoint, while it is written.
  void note_staged(std::int64_t bytes) { staged_ = std::max(staged_, bytes); }
  /// Forward and backward are over: the step has had its most.
  void after_backward();
  /// A collective.
  MemoryReport report(const parallel::GradientEngine& engine, const parallel::BucketOptimizer& optimizer,
                      const torch::nn::Module& model, comm::Communicator& world) const;

 private:
  std::int64_t before_;
  std::int64_t step_ = 0;                           // of this process, from 0 on
  std::optional<parallel::AllocationMeter> meter_;  // of tensors, in the first steps
  std::optional<PeakMemory> seen_;                  // of the process, in the step after them
  std::int64_t activations_ = 0, messages_ = 0, staged_ = 0, measured_ = 0;
  std::int64_t at_begin_ = 0, grown_by_ = 0;  // the memory of this process alone, since the first step
};

}  // namespace lockstep::train
