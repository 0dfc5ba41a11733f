#include "lockstep/train/memory_meter.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <torch/nn/module.h>

#include "lockstep/core/memory_of_process.h"
#include "lockstep/core/text.h"
#include "lockstep/parallel/module_parameters.h"

namespace lockstep::train {
namespace {

constexpr std::array<std::pair<const char*, std::int64_t parallel::MemoryUse::*>, 6> kKinds = {
    {{"weights", &parallel::MemoryUse::weights},
     {"gradients", &parallel::MemoryUse::gradients},
     {"optimizer", &parallel::MemoryUse::optimizer},
     {"activations", &parallel::MemoryUse::activations},
     {"buffers", &parallel::MemoryUse::buffers},
     {"staging", &parallel::MemoryUse::staging}}};

constexpr std::int64_t kMeasuredStep = 2;  // from 0 on: the optimiser has its states since the first

}  // namespace

std::string MemoryReport::text() const {
  std::vector<std::string> kinds;
  for (const auto& [name, kind] : kKinds) {
    kinds.push_back(fmt::format("{} {}", name, format_bytes(use.*kind)));
    if (predicted) kinds.back() += fmt::format(" (predicted {})", format_bytes((*predicted).*kind));
  }
  std::string all = fmt::format("{}: {} in all", join(kinds, ", "), format_bytes(use.total()));
  if (predicted) all += fmt::format(" (predicted {})", format_bytes(predicted->total()));
  if (kept > 0) all += fmt::format(", beside {} that libraries and the allocator keep", format_bytes(kept));
  if (measured > 0) all += fmt::format("; the system says {}", format_bytes(measured));
  if (use.disk > 0)
    all +=
        fmt::format("; {} {}", use.disk_is_memory ? "counted with them, on tmpfs" : "on disk", format_bytes(use.disk));
  return all;
}

nlohmann::json json_of(const parallel::MemoryUse& use) {
  nlohmann::json json;
  for (const auto& [name, kind] : kKinds) json[fmt::format("{}_bytes", name)] = use.*kind;
  if (use.disk > 0) json["disk_bytes"] = use.disk;
  if (use.disk_is_memory) json["disk_is_memory"] = true;
  return json;
}

nlohmann::json MemoryReport::json() const {
  nlohmann::json json = json_of(use);
  if (kept > 0) json["kept_bytes"] = kept;
  if (measured > 0) json["measured_bytes"] = measured;
  if (predicted) json["predicted"] = json_of(*predicted);
  return json;
}

MemoryMeter::Measured MemoryMeter::begin_step(std::int64_t step) {
  step_ = step;
  if (step_ == 0) at_begin_ = anonymous_bytes();
  // In the first step there come buffers, too, that stay; it counts if no other follows.
  if (step_ < kMeasuredStep) meter_.emplace();
  if (step_ == kMeasuredStep && before_ != 0) seen_.emplace();
  return Measured(*this);
}

void MemoryMeter::after_backward() {
  if (meter_) activations_ = meter_->peak_bytes();
  meter_.reset();
  if (!seen_) return;
  measured_ = seen_->proportional() - before_;
  grown_by_ = seen_->anonymous() - at_begin_;
  seen_.reset();
}

MemoryReport MemoryMeter::report(const parallel::GradientEngine& engine, const parallel::BucketOptimizer& optimizer,
                                 const torch::nn::Module& model, comm::Communicator& world) const {
  parallel::MemoryUse use = engine.memory();
  use.optimizer = optimizer.state_bytes();
  use.activations = activations_;
  use.buffers += messages_;
  use.staging = staged_;
  for (const auto& all : {parallel::parameters_of(model), parallel::buffers_of(model)}) {
    for (const auto& [name, tensor] : all) {
      if (!tensor.requires_grad()) use.weights += static_cast<std::int64_t>(tensor.nbytes());
    }
  }
  // Since the first step there came states and activations, what layers of a library need, and holes between them.
  const std::int64_t kept = std::max<std::int64_t>(0, grown_by_ - use.optimizer - use.activations);
  const at::Tensor most = at::tensor(
      {use.weights, use.gradients, use.optimizer, use.activations, use.buffers, use.staging, use.disk, kept, measured_},
      at::kLong);
  world.all_reduce_(most, comm::ReduceOp::Max, {.name = "memory"}).wait();
  const auto* bytes = most.const_data_ptr<std::int64_t>();
  return {
      {bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], use.disk_is_memory}, bytes[7], bytes[8]};
}

}  // namespace lockstep::train
