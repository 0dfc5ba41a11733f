// `lockstep tour`: starts tour_rank.cpp on some ranks, then measures beside the peers
// that are there.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/peers.h"
#include "commands.h"
#include "lockstep/comm/environment.h"
#include "lockstep/comm/launcher.h"
#include "lockstep/core/arguments.h"
#include "lockstep/core/error.h"
#include "lockstep/core/file.h"
#include "lockstep/core/paths.h"
#include "lockstep/core/text.h"

namespace lockstep::apps {
namespace {

struct Options {
  int ranks = 4;
  std::string trace;
};

void run_ranks(const Options& options) {
  const std::string trace = options.trace.empty() ? cache_folder() + "/tour.json" : options.trace;
  check_can_write(trace);
  setenv(comm::environment::kTrace, trace.c_str(), 1);
  comm::LaunchOptions launch;
  launch.ranks = options.ranks;
  launch.command = {own_program(), "tour-rank"};
  end_with(comm::launch(launch));
  fmt::print("\nThe trace of all ranks is in {}\nOpen it at https://ui.perfetto.dev\n", trace);
  unsetenv(comm::environment::kTrace);
}

/// This process becomes the benchmark: it draws a live table on a terminal.
[[noreturn]] void become_bench() {
  const auto peers = peers_present();
  const std::string names = peers.empty() ? "none" : join(peers, ",");
  fmt::print("\nHow fast: all-reduce on 2 ranks beside {}\n", peers.empty() ? "no peer (none is installed)" : names);
  std::fflush(nullptr);
  const std::vector<std::string> command = {
      own_program(),           "bench",   "allreduce", "-n", "2", "--rounds", "3", "--sizes",
      "1KiB,64KiB,1MiB,16MiB", "--peers", names};
  const auto arguments = arguments_of(command);
  execv(arguments[0], arguments.data());
  fail_errno("cannot run " + command[0], errno);
}

}  // namespace

void add_tour(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("tour", "What Lockstep does, in half a minute");
  command->add_option("-n,--ranks", options->ranks, "Ranks to show it on")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--trace", options->trace, "Write the trace here instead of into the cache folder");
  command->callback([options] {
    run_ranks(*options);
    become_bench();
  });
}

}  // namespace lockstep::apps
