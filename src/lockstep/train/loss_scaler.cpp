#include "lockstep/train/loss_scaler.h"

#include <cmath>

#include <fmt/format.h>

#include "lockstep/core/error.h"

namespace lockstep::train {
namespace {

constexpr double kLeast = 0x1p-16;
// Gradients are summed in float32, which ends at 2^128.
constexpr double kMost = 0x1p120;

}  // namespace

LossScaler::LossScaler(const LossScaleSettings& settings) : grow_after_(settings.grow_after), scale_(settings.start) {
  int exponent = 0;
  if (!(scale_ >= kLeast && scale_ <= kMost) || std::frexp(scale_, &exponent) != 0.5) {
    fail(Fault::Usage, fmt::format("loss_scale.start = {}: it is a power of two, such as 65536", scale_));
  }
  if (grow_after_ < 1) fail(Fault::Usage, fmt::format("loss_scale.grow_after = {}: from 1 on", grow_after_));
}

void LossScaler::update(bool taken) {
  if (!taken) {
    scale_ /= 2;
    good_steps_ = 0;
  } else if (++good_steps_ == grow_after_) {
    if (scale_ < kMost) scale_ *= 2;
    good_steps_ = 0;
  }
}

bool LossScaler::exhausted() const noexcept { return scale_ < kLeast; }

void LossScaler::set_state(const nlohmann::json& state) {
  scale_ = state.at("scale").get<double>();
  good_steps_ = state.at("good_steps").get<std::int64_t>();
}

}  // namespace lockstep::train
