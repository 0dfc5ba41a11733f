#include "bench/timed_training.h"

#include <chrono>
#include <memory>
#include <optional>

#include <ATen/ops/tensor.h>
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "lockstep/core/config.h"
#include "lockstep/core/error.h"
#include "lockstep/core/memory_of_process.h"
#include "lockstep/core/peak_memory.h"
#include "lockstep/train/recipe.h"
#include "lockstep/train/trainer.h"

namespace lockstep::apps {
namespace {

/// Writes down when each step ended, and what it came to.
class StepClock final : public train::Observer {
 public:
  /// With `meet`, a step ends when it has on all ranks.
  StepClock(const TimedTraining& training, comm::Communicator* meet)
      : warm_up_(static_cast<std::size_t>(training.count.warm_up)),
        last_(warm_up_ + static_cast<std::size_t>(training.count.timed)),
        looks_at_memory_(training.memory_steps > 0),
        meet_(meet) {}

  void on_step(const train::StepReport& report) override {
    if (meet_ != nullptr) meet_->barrier();
    if (peak_) return;
    ends_.push_back(Clock::now());
    losses_.push_back(report.loss);
    report_ = report;
    if (looks_at_memory_ && ends_.size() == last_) peak_.emplace();
  }

  std::vector<double> seconds() const {
    std::vector<double> seconds;
    for (std::size_t end = warm_up_; end < ends_.size(); ++end) {
      seconds.push_back(std::chrono::duration<double>(ends_[end] - ends_[end - 1]).count());
    }
    return seconds;
  }
  const std::vector<double>& losses() const noexcept { return losses_; }
  /// Of all steps, what this rank waited for others.
  double exposed() const { return report_.waited_for_ranks_s / report_.steps_s; }
  /// Since the end of the last timed step.
  std::int64_t peak_pss_bytes() const { return peak_ ? peak_->proportional() : 0; }

 private:
  using Clock = std::chrono::steady_clock;
  std::size_t warm_up_, last_;  // steps
  bool looks_at_memory_;
  comm::Communicator* meet_;
  std::vector<Clock::time_point> ends_;
  std::vector<double> losses_;
  train::StepReport report_;
  std::optional<PeakMemory> peak_;
};

template <class Number>
std::vector<Number> reduced(const std::vector<Number>& values, comm::ReduceOp op, comm::Communicator& world) {
  at::Tensor all = at::tensor(values);
  world.all_reduce_(all, op).wait();
  const auto* first = all.template const_data_ptr<Number>();
  return {first, first + values.size()};
}

}  // namespace

void TimedTraining::add_options(CLI::App& command) {
  count.add_options(command);
  command.add_option("--set", settings, "Of the recipe: key=value");
}

nlohmann::json time_training(const TrainCase& one, std::int64_t batch, const TimedTraining& training,
                             comm::Communicator& world, comm::Communicator& group) {
  const std::int64_t at_start = proportional_set_size();
  Config recipe = Config::from_text(one.recipe + "\nmetrics = []\n");
  const std::int64_t steps = training.count.warm_up + training.count.timed + training.memory_steps;
  // No epoch ends: what is done then is no part of a step.
  const auto set = data_of(one, batch * (steps + 1));
  for (const auto& setting : training.settings) recipe.set(setting);
  for (const char* key : {"steps", "epochs", "batch", "batch_per_rank"}) {
    if (recipe.has(key)) fail(Fault::Usage, fmt::format("--set {}: what is compared has it fixed", key));
  }
  recipe.set(fmt::format("steps={}", steps));
  recipe.set(fmt::format("batch={}", batch));
  auto run = train::make_run(recipe, group, {.train = set, .order = "sequential"});
  train::Trainer trainer(group, run.settings);
  const auto clock = std::make_shared<StepClock>(training, &group == &world ? nullptr : &world);
  trainer.add(clock);
  trainer.fit(*run.task, run.data);

  nlohmann::json result = {{"seconds", reduced(clock->seconds(), comm::ReduceOp::Max, world)},
                           {"exposed", reduced<double>({clock->exposed()}, comm::ReduceOp::Avg, world)[0]},
                           {"losses", clock->losses()}};
  if (training.memory_steps > 0) {
    const std::int64_t own = clock->peak_pss_bytes() - at_start;
    result["pss_bytes"] = reduced<std::int64_t>({own}, comm::ReduceOp::Max, world)[0];
  }
  return result;
}

}  // namespace lockstep::apps
