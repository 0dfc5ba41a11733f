// One rank of ours in `lockstep bench allreduce`. The method is that of the peers'
// programs (benchmarks/peers/mpi_timing.h): every rank rewrites its buffer before each
// call, one call is timed at a time, the slowest rank counts. The variant `ceiling`
// is the same work without communication: threads that see all buffers add them up
// and know, without a word, when to begin.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "bench/benches.h"
#include "bench/timed_item.h"
#include "commands.h"
#include "lockstep/comm/reduce.h"
#include "lockstep/comm/runtime.h"
#include "lockstep/comm/thread_ranks.h"
#include "lockstep/core/cpu.h"
#include "lockstep/core/error.h"
#include "lockstep/core/stopwatch.h"

namespace lockstep::apps {
namespace {

struct Options {
  std::string variant = "in_place";
  int ceiling_ranks = 1;
  std::vector<std::string> items;
};

struct Variant {
  std::function<at::Tensor(std::int64_t count)> buffer;
  std::function<void(at::Tensor&)> sum;
  /// Untimed, after sum(): from here on the buffer is this rank's again.
  std::function<void()> settle;
};

class Worker {
 public:
  Worker(comm::Communicator& world, Variant variant) : world_(world), variant_(std::move(variant)) {}

  TimedCalls time(const TimedItem& item) {
    const auto count = item.bytes / static_cast<std::int64_t>(sizeof(float));
    auto tensor = variant_.buffer(count);
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
  // Small whole numbers: their sum is exact in float32, in any order.
  void check_result(at::Tensor& tensor) {
    auto* values = tensor.mutable_data_ptr<float>();
    const auto count = tensor.numel();
    const auto ranks = world_.size();
    for (std::int64_t i = 0; i < count; ++i) values[i] = static_cast<float>((world_.rank() + 1) * (i % 7));
    world_.barrier();
    variant_.sum(tensor);
    variant_.settle();
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
    const Stopwatch watch;
    variant_.sum(tensor);
    const double seconds = watch.seconds();
    variant_.settle();
    return seconds;
  }

  comm::Communicator& world_;
  Variant variant_;
};

/// in_place: memory that peers map. staged: any other tensor, copied on the way.
Variant library_variant(comm::Communicator& world, const std::string& name) {
  return {[&world, in_place = name == "in_place"](std::int64_t count) {
            return in_place ? world.empty({count}, at::kFloat) : at::empty({count}, at::kFloat);
          },
          [&world](at::Tensor& tensor) { world.all_reduce_(tensor, comm::ReduceOp::Sum).wait(); }, [] {}};
}

/// Every thread adds up its slice of all buffers and stores it into all of them.
void sum_slice(const std::vector<float*>& buffers, std::int64_t begin, std::int64_t end) {
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (float* buffer : buffers) {
    inputs.push_back(buffer + begin);
    outputs.push_back(buffer + begin);
  }
  const comm::TreeReduction sum{at::kFloat, comm::ReduceOp::Sum, static_cast<int>(buffers.size())};
  comm::reduce_leaves(sum, inputs, outputs, end - begin);
}

Variant ceiling_variant(comm::Communicator& world, std::vector<float*>& buffers) {
  return {[&](std::int64_t count) {
            auto tensor = world.empty({count}, at::kFloat);
            buffers[static_cast<std::size_t>(world.rank())] = tensor.mutable_data_ptr<float>();
            return tensor;
          },
          [&](at::Tensor& tensor) {
            const auto slice = [&](std::int64_t rank) { return tensor.numel() * rank / world.size(); };
            sum_slice(buffers, slice(world.rank()), slice(world.rank() + 1));
          },
          [&] { world.barrier(); }};
}

void run(const Options& options, comm::Communicator& world, Variant variant) {
  Worker worker(world, std::move(variant));
  for (const auto& text : options.items) {
    const auto calls = worker.time(parse_item(text));
    if (world.rank() == 0) fmt::print("{}\n", to_line(calls));
  }
}

void run_ceiling(const Options& options) {
  std::vector<float*> buffers(static_cast<std::size_t>(options.ceiling_ranks));
  const auto places = bind_plan("core", options.ceiling_ranks);
  comm::run_ranks(options.ceiling_ranks, [&](comm::Communicator& world) {
    bind_to(places[static_cast<std::size_t>(world.rank())].cpus);
    run(options, world, ceiling_variant(world, buffers));
  });
}

}  // namespace

void add_bench_allreduce_worker(CLI::App& bench) {
  auto options = std::make_shared<Options>();
  auto* command = bench.add_subcommand("allreduce-worker", "One rank of bench allreduce");
  command->group("");  // hidden: only `bench allreduce` starts it
  command->add_option("--variant", options->variant, "Where the buffer lives")
      ->check(CLI::IsMember({"in_place", "staged", "ceiling"}));
  command->add_option("--ceiling-ranks", options->ceiling_ranks, "Threads that play the ranks of the ceiling");
  command->add_option("items", options->items, "BYTES:REPS")->required();
  command->callback([options] {
    if (options->variant == "ceiling") return run_ceiling(*options);
    end_with(comm::run_program(0, nullptr, [&](comm::Runtime& runtime) {
      run(*options, runtime.world(), library_variant(runtime.world(), options->variant));
    }));
  });
}

}  // namespace lockstep::apps
