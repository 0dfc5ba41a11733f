#include <ATen/TensorOperators.h>

#include "lockstep/train/metric.h"
#include "lockstep/train/metrics/class_counts.h"

namespace lockstep::train {
namespace {

/// The mean over the classes that occur or are guessed, as of scikit-learn's f1_score(average="macro").
class F1 final : public Metric {
 public:
  std::vector<std::string> names() const override { return {"f1"}; }
  at::Tensor sums(const Score& score) const override { return class_counts(score); }
  Figures figures(const at::Tensor& sums) const override {
    const at::Tensor matrix = as_matrix(sums), right = matrix.diagonal();
    const at::Tensor both = matrix.sum(0) + matrix.sum(1);
    const at::Tensor of_class = 2 * right / both.clamp_min(1);  // 0 of the others, which do not count
    return {{"f1", of_class.sum().item<double>() / both.count_nonzero().item<double>()}};
  }
};

const MetricRegistry::Add registered{"f1", "Mean over classes of the harmonic mean of precision and recall",
                                     [](const MetricSettings&) { return std::make_unique<F1>(); }};

}  // namespace
}  // namespace lockstep::train
