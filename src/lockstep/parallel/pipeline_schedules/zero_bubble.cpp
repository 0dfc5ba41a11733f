#include <algorithm>

#include "lockstep/parallel/pipeline_schedule.h"

namespace lockstep::parallel {
namespace {

/// ZB-H1 of Qi et al., "Zero bubble pipeline parallelism" (2023).
class ZeroBubble final : public PipelineScheduleMaker {
 public:
  // 1f1b, but the stage before waits for the gradient of the input only. That of the weights is put off until every
  // stage holds as many activations as the first, which holds the most; what is then left at the end is done where
  // 1f1b is idle.
  std::vector<PipelineAction> actions(const PipelineShape& shape, int stage) const override {
    const int ahead = shape.stages - 1 - stage, most_ahead = shape.stages - 1;
    std::vector<PipelineAction> list;
    for (int turn = 0; turn < shape.micro_batches + most_ahead; ++turn) {
      const auto add = [&](PipelineWork work, int micro_batch) {
        if (micro_batch >= 0 && micro_batch < shape.micro_batches) list.push_back({work, micro_batch, 0});
      };
      add(PipelineWork::Forward, turn);
      add(PipelineWork::InputGradient, turn - ahead);
      add(PipelineWork::WeightGradient, turn - most_ahead);
    }
    return list;
  }

  // The way there and back of one micro-batch, without gradients of weights, less those of other micro-batches that
  // fill it; one of them gains no more than the shortest action. With no fewer micro-batches than stages and the
  // gradient of weights the shortest, this is the paper's (p - 1)(f + b - w).
  double ideal_bubble(const PipelineShape& shape, const PipelineCosts& costs) const override {
    const double others = shape.stages - 1;
    const double filled = std::min(others, shape.micro_batches - 1.0) *
                          std::min({costs.forward, costs.input_gradient, costs.weight_gradient});
    const double idle = others * (costs.forward + costs.input_gradient) - filled;
    return idle / (idle + shape.micro_batches * (costs.forward + costs.input_gradient + costs.weight_gradient));
  }
};

const PipelineScheduleRegistry::Add registered{
    "zero_bubble", "1f1b with the gradients of weights put off into its idle time, for no more memory at its peak",
    [] { return std::make_unique<ZeroBubble>(); }};

}  // namespace
}  // namespace lockstep::parallel
