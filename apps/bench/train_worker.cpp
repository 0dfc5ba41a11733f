// One rank of ours in `lockstep bench train`: the Trainer itself, from the end of one step
// to the end of the next. The slowest rank counts. The ceiling is the same without
// communication: every rank is a group of its own, and all meet in a barrier after each step.
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/benches.h"
#include "bench/train_case.h"
#include "commands.h"
#include "lockstep/comm/runtime.h"
#include "lockstep/core/config.h"
#include "lockstep/core/error.h"
#include "lockstep/train/recipe.h"
#include "lockstep/train/trainer.h"

namespace lockstep::apps {
namespace {

struct Options {
  std::string model = "mlp";
  int warm_up = 3;
  int steps = 5;
  bool alone = false;
  std::vector<std::string> settings;
};

/// Writes down when each step ended.
class StepClock final : public train::Observer {
 public:
  /// With `meet`, a step ends when it has on all ranks.
  explicit StepClock(comm::Communicator* meet) : meet_(meet) {}
  void on_step(const train::StepReport& report) override {
    if (meet_ != nullptr) meet_->barrier();
    ends_.push_back(Clock::now());
    report_ = report;
  }
  std::vector<double> last(int count) const {
    std::vector<double> seconds;
    for (std::size_t end = ends_.size() - static_cast<std::size_t>(count); end < ends_.size(); ++end) {
      seconds.push_back(std::chrono::duration<double>(ends_[end] - ends_[end - 1]).count());
    }
    return seconds;
  }
  /// Of all steps, what this rank waited for others.
  double exposed() const { return report_.waited_for_ranks_s / report_.steps_s; }

 private:
  using Clock = std::chrono::steady_clock;
  comm::Communicator* meet_;
  std::vector<Clock::time_point> ends_;
  train::StepReport report_;
};

void run(const Options& options, comm::Communicator& world) {
  const TrainCase& one = train_case(options.model);
  const auto alone = options.alone ? world.split(world.rank()) : nullptr;
  comm::Communicator& group = alone ? *alone : world;
  Config recipe = Config::from_text(one.recipe + "\nmetrics = []\noptimizer = {name = 'sgd', lr = 0.01}\n");
  const std::int64_t steps = options.warm_up + options.steps, batch = one.batch * group.size();
  // No epoch ends: what is done then is no part of a step.
  const auto set = data_of(one, batch * (steps + 1));
  for (const auto& setting : options.settings) recipe.set(setting);
  for (const char* key : {"steps", "epochs", "batch", "batch_per_rank"}) {
    if (recipe.has(key)) fail(Fault::Usage, fmt::format("--set {}: what is compared has it fixed", key));
  }
  recipe.set(fmt::format("steps={}", steps));
  recipe.set(fmt::format("batch={}", batch));
  auto run = train::make_run(recipe, group, {.train = set, .order = "sequential"});
  train::Trainer trainer(group, run.settings);
  const auto clock = std::make_shared<StepClock>(alone ? &world : nullptr);
  trainer.add(clock);
  trainer.fit(*run.task, run.data);

  at::Tensor slowest = at::tensor(clock->last(options.steps), at::kDouble);
  at::Tensor exposed = at::tensor({clock->exposed()}, at::kDouble);
  world.all_reduce_(slowest, comm::ReduceOp::Max).wait();
  world.all_reduce_(exposed, comm::ReduceOp::Avg).wait();
  if (world.rank() != 0) return;
  const double* seconds = slowest.const_data_ptr<double>();
  fmt::print("{}\n", nlohmann::json{{"seconds", std::vector<double>(seconds, seconds + options.steps)},
                                    {"samples", one.batch * world.size()},
                                    {"exposed", exposed.item<double>()}}
                         .dump());
}

}  // namespace

void add_bench_train_worker(CLI::App& bench) {
  auto options = std::make_shared<Options>();
  auto* command = bench.add_subcommand("train-worker", "One rank of bench train");
  command->group("");  // hidden: only `bench train` starts it
  command->add_option("--model", options->model, "Which")->required();
  command->add_option("--warm-up", options->warm_up, "Steps before the clock starts")->check(CLI::Range(2, 1000));
  command->add_option("--steps", options->steps, "Steps that are timed")->check(CLI::Range(1, 1000));
  command->add_option("--set", options->settings, "Of the recipe: key=value");
  command->add_flag("--alone", options->alone, "Without communication");
  command->callback([options] {
    end_with(comm::run_program(0, nullptr, [&](comm::Runtime& runtime) { run(*options, runtime.world()); }));
  });
}

}  // namespace lockstep::apps
