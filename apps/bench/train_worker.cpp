// One rank of ours in `lockstep bench train`. The ceiling is the same without communication: every rank is a group of
// its own, and all meet in a barrier after each step.
#include <memory>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/benches.h"
#include "bench/timed_training.h"
#include "bench/train_case.h"
#include "commands.h"
#include "lockstep/comm/runtime.h"

namespace lockstep::apps {
namespace {

struct Options {
  std::string model = "mlp";
  bool alone = false;
  TimedTraining training;
};

void run(const Options& options, comm::Communicator& world) {
  TrainCase one = train_case(options.model);
  one.recipe += "\noptimizer = {name = 'sgd', lr = 0.01}\n";
  const auto alone = options.alone ? world.split(world.rank()) : nullptr;
  comm::Communicator& group = alone ? *alone : world;
  auto result = time_training(one, one.batch * group.size(), options.training, world, group);
  if (world.rank() != 0) return;
  result["samples"] = one.batch * world.size();
  fmt::print("{}\n", result.dump());
}

}  // namespace

void add_bench_train_worker(CLI::App& bench) {
  auto options = std::make_shared<Options>();
  auto* command = bench.add_subcommand("train-worker", "One rank of bench train");
  command->group("");  // hidden: only `bench train` starts it
  command->add_option("--model", options->model, "Which")->required();
  command->add_flag("--alone", options->alone, "Without communication");
  options->training.add_options(*command);
  command->callback([options] {
    end_with(comm::run_program(0, nullptr, [&](comm::Runtime& runtime) { run(*options, runtime.world()); }));
  });
}

}  // namespace lockstep::apps
