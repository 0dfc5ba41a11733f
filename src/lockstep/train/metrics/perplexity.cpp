#include <cmath>

#include <ATen/ops/tensor.h>

#include "lockstep/train/metric.h"

namespace lockstep::train {
namespace {

class Perplexity final : public Metric {
 public:
  std::vector<std::string> names() const override { return {"perplexity"}; }
  bool needs_outputs() const override { return false; }
  at::Tensor sums(const Score& score) const override {
    return at::tensor({score.loss.item<double>(), static_cast<double>(score.count)}, at::kDouble);
  }
  Figures figures(const at::Tensor& sums) const override {
    return {{"perplexity", std::exp(sums[0].item<double>() / sums[1].item<double>())}};
  }
};

const MetricRegistry::Add registered{"perplexity", "e to the mean loss: among how many tokens it still wavers",
                                     [](const MetricSettings&) { return std::make_unique<Perplexity>(); }};

}  // namespace
}  // namespace lockstep::train
