// `lockstep bench allreduce`: ours and the peers in the same run.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/benches.h"
#include "bench/peers.h"
#include "bench/report.h"
#include "bench/report_files.h"
#include "bench/rounds.h"
#include "bench/table.h"
#include "bench/timed_item.h"
#include "bench/worker.h"
#include "lockstep/comm/segment.h"
#include "lockstep/core/cpu.h"
#include "lockstep/core/error.h"
#include "lockstep/core/paths.h"
#include "lockstep/core/text.h"
#include "process.h"

namespace lockstep::apps {
namespace {

constexpr double kRunTimeout_s = 120;

struct Options {
  int ranks = 2;
  Extent extent;
  std::vector<std::string> sizes = {"1KiB", "64KiB", "1MiB", "16MiB", "100MiB"};
  std::vector<std::int64_t> bytes;  // what `sizes` says
  std::vector<std::string> peers = peer_names();
  ReportFiles files;
};

/// Calls a round: many of what is quick, so that the first milliseconds of a process do
/// not decide, and fewer where ranks share a core or a call takes long anyway (gloo: ms).
int reps_for(std::int64_t bytes, const Options& options, bool slow) {
  constexpr std::int64_t kKiB = 1024, kMiB = 1024 * kKiB;
  const int base = bytes <= 4 * kKiB     ? 2000
                   : bytes <= 128 * kKiB ? 500
                   : bytes <= 2 * kMiB   ? 100
                   : bytes <= 32 * kMiB  ? 8
                                         : 5;
  const bool crowded = options.ranks > static_cast<int>(usable_cpus().size());
  const bool quick = bytes <= 2 * kMiB;
  return std::max(5, base / ((crowded ? 16 : 1) * (slow && quick ? 20 : 1)));
}

std::vector<TimedItem> items_of(const Options& options, bool slow) {
  std::vector<TimedItem> items;
  for (const auto bytes : options.bytes) items.push_back({bytes, reps_for(bytes, options, slow)});
  return items;
}

std::vector<std::int64_t> checked_sizes(const std::vector<std::string>& sizes, int ranks) {
  std::vector<std::int64_t> all;
  for (const auto& size : sizes) {
    all.push_back(parse_bytes(size));
    if (all.back() < 4 || all.back() % 4 != 0) {
      fail(Fault::Usage, fmt::format("size {} is no whole number of float32 values: use a multiple of 4 bytes", size));
    }
    if (all.back() > machine().memory_bytes / ranks) {
      fail(Fault::Usage, fmt::format("size {} on {} ranks is more than the {} of this machine", size, ranks,
                                     format_bytes(machine().memory_bytes)));
    }
  }
  return all;
}

Contestant ours(const std::string& variant, int ranks) { return {{kOurs, variant}, worker_command(variant, ranks)}; }

Contestant ceiling(int ranks) {
  return {
      {kCeiling, ""},
      {own_program(), "bench", "allreduce-worker", "--variant", "ceiling", "--ceiling-ranks", std::to_string(ranks)}};
}

/// Open MPI enters twice: which of its two copy mechanisms is faster depends on the size.
std::vector<std::string> settings_of(const std::string& peer) {
  if (peer == "openmpi") return {"openmpi", "openmpi-nocma"};
  return {peer};
}

std::vector<Contestant> contestants(const Options& options, Report& report) {
  std::vector<Contestant> all = {ours("in_place", options.ranks), ours("staged", options.ranks),
                                 ceiling(options.ranks)};
  for (const auto& peer : install_peers(options.peers, "install", report)) {
    for (const auto& setting : settings_of(peer)) {
      all.push_back({{setting, ""}, {peers_folder() / "run", setting, std::to_string(options.ranks)}});
    }
  }
  return all;
}

/// Adds what the contestant measured; false when it did not measure everything.
bool add_calls(const Outcome& outcome, const Contestant& contestant, const Options& options, std::size_t expected,
               Report& report) {
  std::size_t measured = 0;
  for (const auto& line : split(outcome.output, '\n')) {
    const auto calls = parse_line(line);
    if (!calls) continue;
    report.add(contestant.participant, {"allreduce", options.ranks, 1, calls->bytes}, calls->seconds);
    ++measured;
  }
  return outcome.exit_code == 0 && !outcome.timed_out && measured == expected;
}

void run_once(Contestant& contestant, const Options& options, Report& report) {
  const auto items = items_of(options, contestant.participant.who == "gloo");
  auto command = contestant.command;
  for (const auto& item : items) command.push_back(to_text(item));
  const auto outcome = run_process(command, kRunTimeout_s);
  if (add_calls(outcome, contestant, options, items.size(), report)) return;
  if (!is_peer(contestant.participant)) fail_worker(label(contestant.participant), outcome);
  contestant.running = false;
  report.skip(contestant.participant.who, reason_of(outcome));
}

void run(Options options) {
  options.peers = checked_peers(options.peers, peer_names());
  options.bytes = checked_sizes(options.sizes, options.ranks);
  options.files.check();
  Report report("allreduce");
  const std::string title =
      fmt::format("all-reduce, float32 sum, {} rank{}", options.ranks, options.ranks == 1 ? "" : "s");
  run_rounds(contestants(options, report), options.extent, report, options.files, title,
             [&](Contestant& contestant) { run_once(contestant, options, report); });
  fmt::print("{}\n{}", title, full_table(report));
}

}  // namespace

void add_bench_allreduce(CLI::App& bench) {
  auto options = std::make_shared<Options>();
  auto* command = bench.add_subcommand("allreduce", "All-reduce beside MPI libraries, oneCCL and gloo");
  command->add_option("-n,--ranks", options->ranks, "Ranks on this host")
      ->check(CLI::Range(1, comm::kMostRanksOfHost))
      ->capture_default_str();
  command->add_option("--sizes", options->sizes, "Sizes of a rank's buffer")->delimiter(',')->capture_default_str();
  command->add_option("--peers", options->peers, "Peers to measure beside us, or none")
      ->delimiter(',')
      ->capture_default_str();
  options->extent.add_options(*command);
  options->files.add_options(*command);
  command->callback([options] { run(*options); });
}

}  // namespace lockstep::apps
