#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/train/metric.h"

namespace lockstep::train {
namespace {

/// How often the target is among the `most` likeliest.
class Accuracy final : public Metric {
 public:
  Accuracy(std::string name, std::int64_t most) : name_(std::move(name)), most_(most) {}
  std::vector<std::string> names() const override { return {name_}; }
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
                                   [](const MetricSettings&) { return std::make_unique<Accuracy>("accuracy", 1); }};
const MetricRegistry::Add top{
    "topK", "Share of samples whose class is among the K likeliest: top5", [](const MetricSettings& settings) {
      const std::int64_t most = settings.number;
      if (most < 1) fail(Fault::Usage, "a metric such as top5 says among how many likeliest classes: from 1 on");
      if (settings.classes > 0 && most > settings.classes) {
        fail(Fault::Usage, fmt::format("the metric top{}: there are only {} classes", most, settings.classes));
      }
      return std::make_unique<Accuracy>(fmt::format("top{}", most), most);
    }};

}  // namespace
}  // namespace lockstep::train
