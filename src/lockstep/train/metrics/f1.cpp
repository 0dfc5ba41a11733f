#include <ATen/TensorOperators.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/stack.h>

#include "lockstep/train/metric.h"

namespace lockstep::train {
namespace {

/// The mean over the classes that occur or are guessed, as of scikit-learn's f1_score(average="macro").
class F1 final : public Metric {
 public:
  std::vector<std::string> names() const override { return {"f1"}; }
  /// By class: how often it is guessed rightly, is guessed and occurs.
  at::Tensor sums(const Score& score) const override {
    const std::int64_t classes = score.outputs.size(1);
    const at::Tensor guesses = score.outputs.argmax(1);
    const at::Tensor right = guesses.masked_select(guesses.eq(score.targets));
    return at::stack({at::bincount(right, {}, classes), at::bincount(guesses, {}, classes),
                      at::bincount(score.targets, {}, classes)})
        .to(at::kDouble)
        .flatten();
  }
  Figures figures(const at::Tensor& sums) const override {
    const at::Tensor by_class = sums.view({3, -1});
    const at::Tensor both = by_class[1] + by_class[2];
    const at::Tensor of_class = 2 * by_class[0] / both.clamp_min(1);  // 0 of the others, which do not count
    return {{"f1", of_class.sum().item<double>() / both.count_nonzero().item<double>()}};
  }
};

const MetricRegistry::Add registered{"f1", "Mean over classes of the harmonic mean of precision and recall",
                                     [](const MetricSettings&) { return std::make_unique<F1>(); }};

}  // namespace
}  // namespace lockstep::train
