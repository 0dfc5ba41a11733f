// One rank of ours in `lockstep bench ml`: its rows lie in memory before the clock starts, and a fit ends when it has
// on all ranks. Beside it stands how long all ranks and threads take to read their rows once: what a pass over them
// costs at least.
#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/benches.h"
#include "bench/ml_case.h"
#include "commands.h"
#include "lockstep/comm/runtime.h"
#include "lockstep/core/on_threads.h"
#include "lockstep/core/stopwatch.h"

namespace lockstep::apps {
namespace {

struct Options {
  std::string name;
  std::string x;
  std::string targets;
  std::int64_t rows = 0;
  int fits = 1;
};

/// Seconds until `work` is done on all ranks, `times` times after one that nobody counts.
std::vector<double> timed(comm::Communicator& world, int times, const std::function<void()>& work) {
  work();
  std::vector<double> seconds;
  for (int i = 0; i < times; ++i) {
    world.barrier();
    const Stopwatch watch;
    work();
    world.barrier();
    at::Tensor slowest = at::full({1}, watch.seconds(), at::kDouble);
    world.all_reduce_(slowest, comm::ReduceOp::Max).wait();
    seconds.push_back(slowest.item<double>());
  }
  return seconds;
}

std::uint64_t sum_of_words(const std::uint64_t* words, std::int64_t count) {
  std::uint64_t sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += words[i];
  return sum;
}

/// By as many threads as a fit has; the sums are kept so that no load can be left out.
void read_through(const at::Tensor& tensor) {
  if (!tensor.defined()) return;
  constexpr std::int64_t kAtOnce = (std::int64_t{1} << 20) / sizeof(std::uint64_t);
  const int threads = at::get_num_threads();
  const auto* words = static_cast<const std::uint64_t*>(tensor.const_data_ptr());
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(threads));
  on_threads(threads, static_cast<std::int64_t>(tensor.nbytes() / sizeof(std::uint64_t)), kAtOnce,
             [&](std::int64_t first, std::int64_t end, int thread) {
               sums[static_cast<std::size_t>(thread)] += sum_of_words(words + first, end - first);
             });
}

void run(const Options& options, comm::Communicator& world) {
  const MlCase& one = ml_case(options.name);
  const auto plan = ml::BlockPlan::even(options.rows, one.data.columns, world.size());
  const auto begin_of = [&](int rank) { return plan.begin(plan.first_block[static_cast<std::size_t>(rank)]); };
  const ml::TableRows rows = load_rows(options.x, options.targets, begin_of(world.rank()), begin_of(world.rank() + 1));
  const auto table = ml::make_table(world, rows);
  const auto fit = one.prepare(*table);
  MlFitted fitted;
  const auto seconds = timed(world, options.fits, [&] { fitted = fit(); });
  const auto read_seconds = timed(world, options.fits, [&] {
    read_through(rows.x);
    read_through(rows.targets);
  });
  if (world.rank() != 0) return;
  fmt::print(
      "{}\n",
      nlohmann::json{
          {"seconds", seconds}, {"values", fitted.values}, {"passes", fitted.passes}, {"read_seconds", read_seconds}}
          .dump());
}

}  // namespace

void add_bench_ml_worker(CLI::App& bench) {
  auto options = std::make_shared<Options>();
  auto* command = bench.add_subcommand("ml-worker", "One rank of bench ml");
  command->group("");  // hidden: only `bench ml` starts it
  command->add_option("case", options->name)->required();
  command->add_option("--x", options->x)->required();
  command->add_option("--targets", options->targets);
  command->add_option("--rows", options->rows)->required();
  command->add_option("--fits", options->fits);
  command->callback([options] {
    end_with(comm::run_program(0, nullptr, [&](comm::Runtime& runtime) { run(*options, runtime.world()); }));
  });
}

}  // namespace lockstep::apps
