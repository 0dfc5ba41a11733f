// lockstep/train/metrics/hit_share.h
//
// How often the target is among the likeliest classes: what accuracy and topK are made of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/train/metric.h"

namespace lockstep::train {

class HitShare final : public Metric {
 public:
  /// Among the `most` likeliest.
  HitShare(std::string name, std::int64_t most) : name_(std::move(name)), most_(most) {}
  std::vector<std::string> names() const override { return {name_}; }
  at::Tensor sums(const Score& score) const override;
  Figures figures(const at::Tensor& sums) const override;

 private:
  std::string name_;
  std::int64_t most_;
};

}  // namespace lockstep::train
