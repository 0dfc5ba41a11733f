#include "lockstep/parallel/cross_entropy.h"

#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/parallel/reduce_anywhere.h"

namespace lockstep::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Losses of torch leave a target of -100 out, and count it all the same.
constexpr std::int64_t kIgnoreNone = std::numeric_limits<std::int64_t>::min();

struct SplitCrossEntropy : torch::autograd::Function<SplitCrossEntropy> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& scores, const at::Tensor& targets,
                            double smoothing, const ClassSplit& split) {
    const std::int64_t rows = scores.size(0);
    at::Tensor largest = std::get<0>(scores.max(1)).contiguous();
    reduce_anywhere_({largest}, comm::ReduceOp::Max, *split.group, "largest scores");

    const at::Tensor place = targets - split.first;
    const at::Tensor mine = place.ge(0).logical_and_(place.lt(scores.size(1)));
    const at::Tensor within = place.masked_fill(mine.logical_not(), 0).unsqueeze(1);
    const at::Tensor shifted = scores - largest.unsqueeze(1);
    at::Tensor shares = shifted.exp();
    // Sums of exponentials, the target's score, and the sum of all scores, in one collective. The last only if it
    // counts: a class that is ruled out by a score of -inf makes it infinite, and zero times that is no number.
    const bool smooths = smoothing > 0;
    at::Tensor sums = at::empty({smooths ? 3 : 2, rows}, scores.options());
    sums[0].copy_(shares.sum(1));
    sums[1].copy_(shifted.gather(1, within).squeeze(1).masked_fill(mine.logical_not(), 0));
    if (smooths) sums[2].copy_(shifted.sum(1));
    reduce_anywhere_({sums}, comm::ReduceOp::Sum, *split.group, "sums of scores");

    shares.div_(sums[0].unsqueeze(1));
    context->save_for_backward({shares, within, mine});
    context->saved_data["smoothing"] = smoothing;
    context->saved_data["classes"] = split.classes;
    const at::Tensor logs = sums[0].log();
    const at::Tensor of_target = logs - sums[1];
    if (!smooths) return of_target.sum();
    const at::Tensor of_all = logs - sums[2] / static_cast<double>(split.classes);
    return ((1 - smoothing) * of_target + smoothing * of_all).sum();
  }

  static variable_list backward(AutogradContext* context, const variable_list& slopes) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &within = saved[1], &mine = saved[2];
    const double smoothing = context->saved_data["smoothing"].toDouble();
    const auto classes = static_cast<double>(context->saved_data["classes"].toInt());
    at::Tensor of_scores = saved[0] - smoothing / classes;
    of_scores.scatter_add_(1, within, mine.to(of_scores.scalar_type()).mul_(smoothing - 1).unsqueeze(1));
    return {of_scores.mul_(slopes[0]), {}, {}, {}};
  }
};

}  // namespace

at::Tensor cross_entropy_sum(const at::Tensor& scores, const at::Tensor& targets, double smoothing,
                             const ClassSplit& split) {
  if (split.group == nullptr) {
    return at::cross_entropy_loss(scores, targets, {}, at::Reduction::Sum, kIgnoreNone, smoothing);
  }
  return SplitCrossEntropy::apply(scores, targets, smoothing, split);
}

at::Tensor gather_scores(const at::Tensor& scores, const ClassSplit& split) {
  if (split.group == nullptr) return scores;
  // Zeros of the others make of the sum a gathering.
  at::Tensor all = at::zeros({scores.size(0), split.classes}, scores.options());
  all.narrow(1, split.first, scores.size(1)).copy_(scores);
  reduce_anywhere_({all}, comm::ReduceOp::Sum, *split.group, "scores of all classes");
  return all;
}

}  // namespace lockstep::parallel
