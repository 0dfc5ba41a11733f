// lockstep/train/precision.h
//
// In which numbers a model computes. float64: all of it, batches included. bf16 and fp16:
// weights, gradients and the optimiser stay float32 and layers compute in half where libtorch's
// autocast finds it safe; fp16, whose range is small, needs a LossScaler too.
#pragma once

#include <cstdint>
#include <string>

#include <c10/core/DeviceType.h>

#include "lockstep/data/batch.h"

namespace torch::nn {
class Module;
}

namespace lockstep::train {

enum class Precision : std::uint8_t { Float32, Float64, Bf16, Fp16 };

/// "float32", "float64", "bf16" or "fp16"; Fault::Usage for anything else.
Precision precision_named(const std::string& name);

/// float64: weights and buffers become so, and stay the same tensors. Else they are left as they were made.
void convert_(torch::nn::Module& model, Precision precision);
/// Real numbers become float64 with it, else float32.
void convert_(data::Batch& batch, Precision precision);

/// From construction to destruction layers that this thread calls compute in half, if `precision` says so. Casts of
/// weights are kept in between only, since the next step changes the weights.
class Autocast {
 public:
  Autocast(Precision precision, c10::DeviceType device);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  bool on_;
  c10::DeviceType device_;
};

}  // namespace lockstep::train
