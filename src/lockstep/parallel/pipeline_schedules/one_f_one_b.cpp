#include "lockstep/parallel/pipeline_schedule.h"

namespace lockstep::parallel {
namespace {

/// Narayanan et al., "PipeDream" (2019), flushed after each step as in "Memory-efficient pipeline-parallel DNN
/// training" (2021).
class OneForwardOneBackward final : public PipelineScheduleMaker {
 public:
  // Forward is ahead of backward by the stages that come after: so long is a micro-batch away.
  std::vector<PipelineAction> actions(const PipelineShape& shape, int stage) const override {
    const int ahead = shape.stages - 1 - stage;
    std::vector<PipelineAction> list;
    for (int turn = 0; turn < shape.micro_batches + ahead; ++turn) {
      if (turn < shape.micro_batches) list.push_back({PipelineWork::Forward, turn, 0});
      if (turn >= ahead) list.push_back({PipelineWork::Backward, turn - ahead, 0});
    }
    return list;
  }

  // That of gpipe: what it saves is memory.
  double ideal_bubble(const PipelineShape& shape, const PipelineCosts&) const override {
    return (shape.stages - 1.0) / (shape.micro_batches + shape.stages - 1.0);
  }
};

const PipelineScheduleRegistry::Add registered{
    "1f1b", "One forward, one backward in turn; holds as many micro-batches as there are stages",
    [] { return std::make_unique<OneForwardOneBackward>(); }};

}  // namespace
}  // namespace lockstep::parallel
