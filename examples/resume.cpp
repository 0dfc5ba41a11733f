// Reads a data set on any number of ranks, and goes on where it was when started again,
// also with other ranks and another batch size:
//   lockstep launch -n 4 -- resume mnist 256 position.txt
//   lockstep launch -n 3 -- resume mnist 100 position.txt cluster
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "lockstep/comm/runtime.h"
#include "lockstep/core/error.h"
#include "lockstep/core/file.h"
#include "lockstep/core/text.h"
#include "lockstep/data/cache.h"
#include "lockstep/data/loader.h"

using namespace lockstep;

int main(int argc, char** argv) {
  if (argc < 4) {
    fmt::print(stderr, "use: resume SOURCE BATCH POSITION_FILE [none|node|cluster] [ORDER]\n");
    return exit_code::kUsage;
  }
  return comm::run_program(argc, argv, [&](comm::Runtime& runtime) {
    comm::Communicator& world = runtime.world();
    world.barrier();
    const auto begin = std::chrono::steady_clock::now();
    data::CacheOptions cache;
    cache.cache = argc > 4 ? argv[4] : "none";
    const auto set = data::open_cached(argv[1], {}, cache, world);
    const auto exchange = world.duplicate();  // samples travel beside what the program itself sends

    data::LoaderOptions options;
    options.batch = parse_integer("BATCH", argv[2], 1, INT32_MAX);
    options.share = {world.rank(), world.rank() + 1, world.size()};
    std::ifstream position(argv[3]);
    if (position.peek() != EOF && !(position >> options.start.epoch >> options.start.sample))
      fail(Fault::Usage, fmt::format("{} holds no position, EPOCH SAMPLE; remove it to begin anew", argv[3]));
    if (cache.cache == "cluster") options.exchange = exchange.get();
    data::OrderOptions order;
    order.samples = set->size();
    order.seed = 1;
    data::Loader loader(set, data::make_order(argc > 5 ? argv[5] : "shuffle", order), options);

    while (const data::Batch* batch = loader.next()) {
      std::string ids;
      for (const auto id : batch->ids) ids += fmt::format(" {}", id);
      fmt::print("{} {}{}\n", batch->position + batch->first, batch->count(), ids);
      std::fflush(stdout);
      world.barrier();  // all ranks are done with the batch
      const auto [epoch, sample] = loader.position();
      if (world.rank() == 0) write_whole(argv[3], fmt::format("{} {}\n", epoch, sample));
    }
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    if (world.rank() == 0) fmt::print(stderr, "epoch: {:.3f} s\n", taken.count());
  });
}
