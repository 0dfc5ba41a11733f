#include <fmt/format.h>

#include "lockstep/train/metric.h"
#include "lockstep/train/metrics/class_counts.h"

namespace lockstep::train {
namespace {

class Confusion final : public Metric {
 public:
  /// None are known of classes that are not.
  explicit Confusion(std::int64_t classes) : classes_(classes) {}
  std::vector<std::string> names() const override {
    std::vector<std::string> result;
    for (std::int64_t cell = 0; cell < classes_ * classes_; ++cell) result.push_back(name_of(cell, classes_));
    return result;
  }
  at::Tensor sums(const Score& score) const override { return class_counts(score); }
  Figures figures(const at::Tensor& sums) const override {
    Figures result;
    const std::int64_t classes = as_matrix(sums).size(0);
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
    "confusion", "How often each class is taken for each other",
    [](const MetricSettings& settings) { return std::make_unique<Confusion>(settings.classes); }};

}  // namespace
}  // namespace lockstep::train
