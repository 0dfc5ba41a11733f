// Our part of `bench io`, as a process of its own so that its memory can be told: reads
// batches, and says how long each took and what memory that cost.
#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/benches.h"
#include "bench/io_data.h"
#include "lockstep/data/loader.h"
#include "lockstep/data/open.h"

namespace lockstep::apps {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string path;
  std::string workload;
  std::int64_t batch = 256;
  int warm_up = 20;
  int batches = 100;
  int threads = 0;
};

/// This process's share of what it has mapped, in bytes.
std::int64_t proportional_set_size() {
  std::ifstream file("/proc/self/smaps_rollup");
  std::string word;
  std::int64_t kib = 0;
  while (file >> word) {
    if (word == "Pss:" && file >> kib) return kib * 1024;
  }
  return 0;
}

void run(const Options& options) {
  const std::int64_t before = proportional_set_size();
  data::LoaderOptions how;
  how.batch = options.batch;
  how.threads = options.threads;
  if (options.workload == "images") how.transforms = {fmt::format("decode jpg size={}", IoData::kImageSize)};
  const auto set = data::open(options.path);
  data::OrderOptions order;
  order.samples = set->size();
  order.seed = 1;
  data::Loader loader(set, data::make_order("shuffle", order), how);
  const auto next = [&] {
    const data::Batch* batch = loader.next();
    return batch != nullptr ? batch : loader.next();  // behind the end of an epoch the next one begins
  };
  for (int i = 0; i < options.warm_up; ++i) next();
  std::int64_t samples = 0;
  const auto begin = Clock::now();
  for (int i = 0; i < options.batches; ++i) samples += next()->count();
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  fmt::print("{}\n",
             nlohmann::json{{"samples", samples}, {"seconds", seconds}, {"pss_bytes", proportional_set_size() - before}}
                 .dump());
}

}  // namespace

void add_bench_io_worker(CLI::App& bench) {
  auto options = std::make_shared<Options>();
  auto* command = bench.add_subcommand("io-worker", "Our part of the input benchmark");
  command->group("");  // hidden: only `bench io` starts it
  command->add_option("path", options->path)->required();
  command->add_option("--workload", options->workload)->required();
  command->add_option("--batch", options->batch);
  command->add_option("--warm-up", options->warm_up);
  command->add_option("--batches", options->batches);
  command->add_option("--threads", options->threads);
  command->callback([options] { run(*options); });
}

}  // namespace lockstep::apps
