#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/bincount.h>
#include <fmt/format.h>

#include "lockstep/train/metric.h"

namespace lockstep::train {
namespace {

/// [classes, classes]: targets by guesses, as one row after another.
at::Tensor counts(const Score& score) {
  const std::int64_t classes = score.outputs.size(1);
  return at::bincount(score.targets * classes + score.outputs.argmax(1), {}, classes * classes).to(at::kDouble);
}

at::Tensor as_matrix(const at::Tensor& sums) {
  const auto classes = static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(sums.numel()))));
  return sums.view({classes, classes});
}

class Confusion final : public Metric {
 public:
  /// None are known of classes that are not.
  explicit Confusion(std::int64_t classes) : classes_(classes) {}
  std::vector<std::string> names() const override {
    std::vector<std::string> result;
    for (std::int64_t cell = 0; cell < classes_ * classes_; ++cell) result.push_back(name_of(cell, classes_));
    return result;
  }
  at::Tensor sums(const Score& score) const override { return counts(score); }
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

/// The mean over the classes that occur or are guessed, as of scikit-learn's f1_score(average="macro").
class F1 final : public Metric {
 public:
  std::vector<std::string> names() const override { return {"f1"}; }
  at::Tensor sums(const Score& score) const override { return counts(score); }
  Figures figures(const at::Tensor& sums) const override {
    const at::Tensor matrix = as_matrix(sums), right = matrix.diagonal();
    const at::Tensor both = matrix.sum(0) + matrix.sum(1);
    const at::Tensor of_class = 2 * right / both.clamp_min(1);  // 0 of the others, which do not count
    return {{"f1", of_class.sum().item<double>() / both.count_nonzero().item<double>()}};
  }
};

const MetricRegistry::Add confusion{
    "confusion", "How often each class is taken for each other",
    [](const MetricSettings& settings) { return std::make_unique<Confusion>(settings.classes); }};
const MetricRegistry::Add f1{"f1", "Mean over classes of the harmonic mean of precision and recall",
                             [](const MetricSettings&) { return std::make_unique<F1>(); }};

}  // namespace
}  // namespace lockstep::train
