// One rank of ours in `lockstep bench parallel`; how the model is cut is among the settings.
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/benches.h"
#include "bench/parallel_case.h"
#include "bench/timed_training.h"
#include "commands.h"
#include "lockstep/comm/runtime.h"

namespace lockstep::apps {
namespace {

struct Options {
  ParallelGpt gpt;
  TimedTraining training = {.memory_steps = 2};
};

void run(const Options& options, comm::Communicator& world) {
  auto result = time_training(options.gpt.train_case(), options.gpt.batch, options.training, world, world);
  if (world.rank() != 0) return;
  result["samples"] = options.gpt.batch;
  fmt::print("{}\n", result.dump());
}

}  // namespace

void add_bench_parallel_worker(CLI::App& bench) {
  auto options = std::make_shared<Options>();
  auto* command = bench.add_subcommand("parallel-worker", "One rank of bench parallel");
  command->group("");  // hidden: only `bench parallel` starts it
  options->gpt.add_options(*command);
  options->training.add_options(*command);
  command->callback([options] {
    end_with(comm::run_program(0, nullptr, [&](comm::Runtime& runtime) { run(*options, runtime.world()); }));
  });
}

}  // namespace lockstep::apps
