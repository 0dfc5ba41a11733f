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
  at::Tensor sums(const Score& score) const override { return counts(score); }
  Figures figures(const at::Tensor& sums) const override {
    Figures result;
    const at::Tensor matrix = as_matrix(sums);
    for (std::int64_t target = 0; target < matrix.size(0); ++target) {
      for (std::int64_t guess = 0; guess < matrix.size(1); ++guess) {
        result.emplace_back(fmt::format("confusion/{}/{}", target, guess), matrix[target][guess].item<double>());
      }
    }
    return result;
  }
};

/// The mean over the classes that occur or are guessed, as of scikit-learn's f1_score(average="macro").
class F1 final : public Metric {
 public:
  at::Tensor sums(const Score& score) const override { return counts(score); }
  Figures figures(const at::Tensor& sums) const override {
    const at::Tensor matrix = as_matrix(sums), right = matrix.diagonal();
    const at::Tensor both = matrix.sum(0) + matrix.sum(1);
    const at::Tensor of_class = 2 * right / both.clamp_min(1);  // 0 of the others, which do not count
    return {{"f1", of_class.sum().item<double>() / both.count_nonzero().item<double>()}};
  }
};

const MetricRegistry::Add confusion{"confusion", "How often each class is taken for each other",
                                    [](const MetricSettings&) { return std::make_unique<Confusion>(); }};
const MetricRegistry::Add f1{"f1", "Mean over classes of the harmonic mean of precision and recall",
                             [](const MetricSettings&) { return std::make_unique<F1>(); }};

}  // namespace
}  // namespace lockstep::train
