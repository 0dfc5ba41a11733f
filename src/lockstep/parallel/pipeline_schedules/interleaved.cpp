#include <fmt/format.h>

#include "lockstep/parallel/pipeline_schedule.h"

namespace lockstep::parallel {
namespace {

/// Narayanan et al., "Efficient large-scale language model training on GPU clusters using Megatron-LM" (2021).
class Interleaved final : public PipelineScheduleMaker {
 public:
  std::string refusal(const PipelineShape& shape) const override {
    if (shape.chunks < 2) return "it is for 2 or more chunks per stage";
    const int over = shape.micro_batches % shape.stages;
    if (over == 0) return "";
    return fmt::format("micro-batches must be a multiple of the stages; the next one is {}",
                       shape.micro_batches - over + shape.stages);
  }

  int usual_chunks() const override { return 2; }

  // As many micro-batches as there are stages pass through one chunk, then through the next: when the last of them has
  // entered the first stage, the first one is back from the last. Forward is ahead by all chunks but one and by twice
  // the stages that come after. Once would do if messages took no time; twice leaves each a whole action to arrive.
  std::vector<PipelineAction> actions(const PipelineShape& shape, int stage) const override {
    const int count = shape.micro_batches * shape.chunks;
    const int ahead = (shape.chunks - 1) * shape.stages + 2 * (shape.stages - 1 - stage);
    std::vector<PipelineAction> list;
    for (int turn = 0; turn < count + ahead; ++turn) {
      if (turn < count) list.push_back(pass(shape, PipelineWork::Forward, turn));
      if (turn >= ahead) list.push_back(pass(shape, PipelineWork::Backward, turn - ahead));
    }
    return list;
  }

  // A stage still waits for stages - 1 others, but each of them only for one chunk.
  double ideal_bubble(const PipelineShape& shape, const PipelineCosts&) const override {
    const double work = static_cast<double>(shape.micro_batches) * shape.chunks;
    return (shape.stages - 1.0) / (work + shape.stages - 1.0);
  }

 private:
  static PipelineAction pass(const PipelineShape& shape, PipelineWork work, int number) {
    const int group = number / (shape.stages * shape.chunks);
    const int chunk = number / shape.stages % shape.chunks;
    return {work, group * shape.stages + number % shape.stages,
            work == PipelineWork::Forward ? chunk : shape.chunks - 1 - chunk};
  }
};

const PipelineScheduleRegistry::Add registered{
    "interleaved", "1f1b with several chunks per stage: a smaller bubble for more messages and memory",
    [] { return std::make_unique<Interleaved>(); }};

}  // namespace
}  // namespace lockstep::parallel
