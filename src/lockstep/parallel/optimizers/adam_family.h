// lockstep/parallel/optimizers/adam_family.h
//
// Adam and its kin, which differ in what weight decay is a part of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/parallel/optimizer.h"
#include "lockstep/parallel/optimizers/betas.h"

namespace lockstep::parallel {

/// Whether weight decay is a term of the gradient (Adam) or of the weight itself (AdamW).
enum class Decay : std::uint8_t { OfGradient, OfWeight };

class AdamFamily final : public Optimizer {
 public:
  AdamFamily(const Config& recipe, const std::string& key, Decay decay);
  std::vector<std::string> states() const override { return {"exp_avg", "exp_avg_sq"}; }
  bool sparse() const noexcept override { return true; }
  void step(const ElementRun& run, const StepSettings& settings) const override;

 private:
  Betas betas_;
  double epsilon_;
  Decay decay_;
};

}  // namespace lockstep::parallel
