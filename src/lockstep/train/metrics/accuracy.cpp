#include <ATen/ops/tensor.h>

#include "lockstep/train/metric.h"

namespace lockstep::train {
namespace {

/// How often the target is among the `most` likeliest.
class Accuracy final : public Metric {
 public:
  Accuracy(std::string name, std::int64_t most) : name_(std::move(name)), most_(most) {}
  at::Tensor sums(const Score& score) const override {
    const std::int64_t most = std::min(most_, score.outputs.size(1));
    const at::Tensor best =
        most == 1 ? score.outputs.argmax(1, true) : std::get<1>(score.outputs.topk(most, 1, true, false));
    const auto right = best.eq(score.targets.unsqueeze(1)).sum().item<double>();
    return at::tensor({right, static_cast<double>(score.count)}, at::kDouble);
  }
  Figures figures(const at::Tensor& sums) const override {
    return {{name_, sums[0].item<double>() / sums[1].item<double>()}};
  }

 private:
  std::string name_;
  std::int64_t most_;
};

const MetricRegistry::Add accuracy{"accuracy", "Share of samples whose likeliest class is right",
                                   [] { return std::make_unique<Accuracy>("accuracy", 1); }};
const MetricRegistry::Add top5{"top5", "Share of samples whose class is among the five likeliest",
                               [] { return std::make_unique<Accuracy>("top5", 5); }};

}  // namespace
}  // namespace lockstep::train
