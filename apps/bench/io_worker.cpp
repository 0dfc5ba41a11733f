// Our part of the input benchmarks, as a process of its own so that its memory can be told:
// reads batches, and says how long that took and what memory it cost.
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/benches.h"
#include "bench/io_data.h"
#include "lockstep/core/error.h"
#include "lockstep/core/memory_of_process.h"
#include "lockstep/core/stopwatch.h"
#include "lockstep/data/loader.h"
#include "lockstep/data/open.h"

namespace lockstep::apps {
namespace {

struct Options {
  std::string path;
  std::string workload;
  std::int64_t batch = 256;
  int warm_up = 20;
  int batches = 100;
  int threads = 0;
};

/// A slow source is not read to the end: what a batch takes is known by then.
constexpr double kMostSeconds = 2;

/// What formats call it differs.
std::string jpeg_field(const data::Schema& schema) {
  for (const auto& field : schema) {
    if (field.encoding == data::Encoding::Jpeg) return field.name;
  }
  fail(Fault::Data, "no field holds JPEGs; remove the folder of the benchmark's data, so that it is made anew");
}

struct Read {
  std::int64_t samples = 0;
  double seconds = 0;
};

Read read(data::Loader& loader, int batches) {
  Read read;
  const Stopwatch watch;
  for (int i = 0; i < batches && read.seconds < kMostSeconds; ++i) {
    const data::Batch* batch = loader.next();
    if (batch == nullptr) batch = loader.next();  // behind the end of an epoch the next one begins
    read.samples += batch->count();
    read.seconds = watch.seconds();
  }
  return read;
}

void run(const Options& options) {
  const std::int64_t before = proportional_set_size();
  const Stopwatch watch;
  const auto set = data::open(options.path);
  const double open_s = watch.seconds();
  data::LoaderOptions how;
  how.batch = options.batch;
  how.threads = options.threads;
  if (options.workload == "images")
    how.transforms = {fmt::format("decode {} size={}", jpeg_field(set->schema()), IoData::kImageSize)};
  data::OrderOptions order;
  order.samples = set->size();
  order.seed = 1;
  data::Loader loader(set, data::make_order("shuffle", order), how);
  read(loader, options.warm_up);
  const Read timed = read(loader, options.batches);
  const nlohmann::json result = {{"samples", timed.samples},
                                 {"seconds", timed.seconds},
                                 {"open_s", open_s},
                                 {"pss_bytes", proportional_set_size() - before}};
  fmt::print("{}\n", result.dump());
}

}  // namespace

void add_bench_io_worker(CLI::App& bench) {
  auto options = std::make_shared<Options>();
  auto* command = bench.add_subcommand("io-worker", "Our part of the input benchmark");
  command->group("");  // hidden: only benchmarks start it
  command->add_option("path", options->path)->required();
  command->add_option("--workload", options->workload)->required();
  command->add_option("--batch", options->batch);
  command->add_option("--warm-up", options->warm_up);
  command->add_option("--batches", options->batches);
  command->add_option("--threads", options->threads);
  command->callback([options] { run(*options); });
}

}  // namespace lockstep::apps
