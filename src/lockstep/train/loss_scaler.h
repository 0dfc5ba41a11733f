// lockstep/train/loss_scaler.h
//
// Small gradients vanish in fp16, so the loss is multiplied by a large power of two before
// backward. Where that makes a gradient overflow the step is left out and the factor halved;
// after many good steps it is doubled. As PyTorch's GradScaler does.
#pragma once

#include <cstdint>

#include <nlohmann/json.hpp>

namespace lockstep::train {

struct LossScaleSettings {
  double start = 65536;
  std::int64_t grow_after = 2000;  // good steps in a row
};

class LossScaler {
 public:
  /// Fault::Usage on a start that is no power of two, so that scaling would round.
  explicit LossScaler(const LossScaleSettings& settings);

  double scale() const noexcept { return scale_; }
  /// After every step: whether its gradients were finite, and so taken.
  void update(bool taken);
  /// No gradient overflows at so low a factor but by a fault of the model or the data.
  bool exhausted() const noexcept;

  nlohmann::json state() const { return {{"scale", scale_}, {"good_steps", good_steps_}}; }
  void set_state(const nlohmann::json& state);

 private:
  std::int64_t grow_after_;
  double scale_;
  std::int64_t good_steps_ = 0;
};

}  // namespace lockstep::train
