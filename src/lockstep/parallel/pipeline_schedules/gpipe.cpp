#include "lockstep/parallel/pipeline_schedule.h"

namespace lockstep::parallel {
namespace {

/// Huang et al., "GPipe" (2019).
class GPipe final : public PipelineScheduleMaker {
 public:
  // Theirs goes backward from the last micro-batch on, which takes as long but adds gradients up in another order.
  std::vector<PipelineAction> actions(const PipelineShape& shape, int) const override {
    std::vector<PipelineAction> list;
    for (const auto work : {PipelineWork::Forward, PipelineWork::Backward}) {
      for (int micro_batch = 0; micro_batch < shape.micro_batches; ++micro_batch)
        list.push_back({work, micro_batch, 0});
    }
    return list;
  }

  // The first micro-batch reaches the last stage after stages - 1 steps, the last one comes back as late.
  double ideal_bubble(const PipelineShape& shape, const PipelineCosts&) const override {
    return (shape.stages - 1.0) / (shape.micro_batches + shape.stages - 1.0);
  }
};

const PipelineScheduleRegistry::Add registered{"gpipe", "All forwards, then all backwards; holds every micro-batch",
                                               [] { return std::make_unique<GPipe>(); }};

}  // namespace
}  // namespace lockstep::parallel
