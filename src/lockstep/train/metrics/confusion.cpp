#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/bincount.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/train/metric.h"

namespace lockstep::train {
namespace {

/// A cell is a figure of every evaluation, with a curve and a line in run.json: nobody looks at more.
constexpr std::int64_t kMostClasses = 100;

class Confusion final : public Metric {
 public:
  /// None are known of classes that are not.
  explicit Confusion(std::int64_t classes) : classes_(classes) {}
  std::vector<std::string> names() const override {
    std::vector<std::string> result;
    for (std::int64_t cell = 0; cell < classes_ * classes_; ++cell) result.push_back(name_of(cell, classes_));
    return result;
  }
  /// Targets by guesses, one row after another.
  at::Tensor sums(const Score& score) const override {
    const std::int64_t classes = score.outputs.size(1);
    return at::bincount(score.targets * classes + score.outputs.argmax(1), {}, classes * classes).to(at::kDouble);
  }
  Figures figures(const at::Tensor& sums) const override {
    Figures result;
    const std::int64_t classes = std::llround(std::sqrt(static_cast<double>(sums.numel())));
    for (std::int64_t cell = 0; cell < sums.numel(); ++cell) {
      result.emplace_back(name_of(cell, classes), sums[cell].item<double>());
    }
    return result;
  }

 private:
  static std::string name_of(std::int64_t cell, std::int64_t classes) {
    return fmt::format("{}{}/{}", kConfusion, cell / classes, cell % classes);
  }

  std::int64_t classes_;
};

const MetricRegistry::Add registered{
    "confusion", "How often each class is taken for each other", [](const MetricSettings& settings) {
      if (settings.classes > kMostClasses) {
        fail(Fault::Usage, fmt::format("the metric confusion has a cell for each pair of classes, and of {} these are "
                                       "too many; it is of up to {}, f1 of any number",
                                       settings.classes, kMostClasses));
      }
      return std::make_unique<Confusion>(settings.classes);
    }};

}  // namespace
}  // namespace lockstep::train
