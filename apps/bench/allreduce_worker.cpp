// One rank of ours in `lockstep bench allreduce`. The method is that of the peers'
// programs (benchmarks/peers/mpi_timing.h): every rank rewrites its buffer before each
// call, one call is timed at a time, the slowest rank counts.
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "bench/benches.h"
#include "bench/timed_item.h"
#include "commands.h"
#include "lockstep/comm/runtime.h"
#include "lockstep/core/error.h"

namespace lockstep::apps {
namespace {

struct Options {
  std::string variant = "in_place";
  std::vector<std::string> items;
};

class Worker {
 public:
  Worker(comm::Communicator& world, bool in_place) : world_(world), in_place_(in_place) {}

  TimedCalls time(const TimedItem& item) {
    const auto count = item.bytes / static_cast<std::int64_t>(sizeof(float));
    // in_place: memory that peers map. staged: any other tensor, copied on the way.
    auto tensor = in_place_ ? world_.empty({count}, at::kFloat) : at::empty({count}, at::kFloat);
    check_result(tensor);
    const int warm_up = 2 + item.reps / 10;
    for (int call = 0; call < warm_up; ++call) time_once(tensor);

    auto slowest = at::empty({item.reps}, at::kDouble);
    auto* seconds = slowest.mutable_data_ptr<double>();
    for (int call = 0; call < item.reps; ++call) seconds[call] = time_once(tensor);
    world_.all_reduce_(slowest, comm::ReduceOp::Max).wait();
    return {item.bytes, {seconds, seconds + item.reps}};
  }

 private:
  void sum(at::Tensor& tensor) { world_.all_reduce_(tensor, comm::ReduceOp::Sum).wait(); }

  // Small whole numbers: their sum is exact in float32, in any order.
  void check_result(at::Tensor& tensor) {
    auto* values = tensor.mutable_data_ptr<float>();
    const auto count = tensor.numel();
    const auto ranks = world_.size();
    for (std::int64_t i = 0; i < count; ++i) values[i] = static_cast<float>((world_.rank() + 1) * (i % 7));
    sum(tensor);
    for (std::int64_t i = 0; i < count; ++i) {
      if (values[i] != static_cast<float>(ranks * (ranks + 1) / 2 * (i % 7))) {
        fail(Fault::Internal,
             fmt::format("wrong sum: rank {}, element {} of {} is {}", world_.rank(), i, count, values[i]));
      }
    }
  }

  // Plain loops, as in the peers' programs: nothing else may run on the hot path.
  double time_once(at::Tensor& tensor) {
    auto* values = tensor.mutable_data_ptr<float>();
    const auto count = tensor.numel();
    const float value = 0.25f * static_cast<float>(world_.rank());
    for (std::int64_t i = 0; i < count; ++i) values[i] = value;
    world_.barrier();
    const auto start = std::chrono::steady_clock::now();
    sum(tensor);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  comm::Communicator& world_;
  bool in_place_;
};

void run(const Options& options, comm::Communicator& world) {
  Worker worker(world, options.variant == "in_place");
  for (const auto& text : options.items) {
    const auto calls = worker.time(parse_item(text));
    if (world.rank() == 0) fmt::print("{}\n", to_line(calls));
  }
}

}  // namespace

void add_bench_allreduce_worker(CLI::App& bench) {
  auto options = std::make_shared<Options>();
  auto* command = bench.add_subcommand("allreduce-worker", "One rank of bench allreduce");
  command->group("");  // hidden: only `bench allreduce` starts it
  command->add_option("--variant", options->variant, "Where the buffer lives")
      ->check(CLI::IsMember({"in_place", "staged"}));
  command->add_option("items", options->items, "BYTES:REPS")->required();
  command->callback([options] {
    end_with(comm::run_program(0, nullptr, [&](comm::Runtime& runtime) { run(*options, runtime.world()); }));
  });
}

}  // namespace lockstep::apps
