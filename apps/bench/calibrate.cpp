// `lockstep bench calibrate`: measures at which sizes one algorithm should hand over
// to another on this host, and remembers the table for every later run.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/benches.h"
#include "bench/report.h"
#include "bench/timed_item.h"
#include "bench/worker.h"
#include "lockstep/comm/environment.h"
#include "lockstep/comm/segment.h"
#include "lockstep/comm/tuning.h"
#include "lockstep/core/cpu.h"
#include "lockstep/core/error.h"
#include "lockstep/core/paths.h"
#include "lockstep/core/text.h"
#include "process.h"

namespace lockstep::apps {
namespace {

using comm::Tuning;

struct Options {
  std::optional<int> ranks;
  int rounds = 5;
};

/// Measures all-reduces under different tables, in turns so that noise hits all alike.
class Bench {
 public:
  Bench(int ranks, int rounds) : ranks_(ranks), rounds_(rounds) {}

  /// Median seconds by table, then by item.
  std::vector<std::vector<double>> compare(const std::string& variant, const std::vector<Tuning>& tables,
                                           const std::vector<TimedItem>& items) const {
    std::vector<std::vector<std::vector<double>>> calls(tables.size(), std::vector<std::vector<double>>(items.size()));
    for (int round = 0; round < rounds_; ++round) {
      for (std::size_t table = 0; table < tables.size(); ++table) {
        const auto measured = run(variant, tables[table], items);
        for (std::size_t item = 0; item < items.size(); ++item) {
          auto& all = calls[table][item];
          all.insert(all.end(), measured[item].begin(), measured[item].end());
        }
      }
    }
    std::vector<std::vector<double>> medians(tables.size());
    for (std::size_t table = 0; table < tables.size(); ++table) {
      for (const auto& all : calls[table]) medians[table].push_back(median(all));
    }
    return medians;
  }

 private:
  std::vector<std::vector<double>> run(const std::string& variant, const Tuning& table,
                                       const std::vector<TimedItem>& items) const {
    auto command = worker_command(variant, ranks_);
    for (const auto& item : items) command.push_back(to_text(item));
    setenv(comm::environment::kTuning, table.json().c_str(), 1);
    const auto outcome = run_process(command, 120);
    unsetenv(comm::environment::kTuning);
    std::vector<std::vector<double>> result;
    for (const auto& line : split(outcome.output, '\n')) {
      if (auto calls = parse_line(line)) result.push_back(std::move(calls->seconds));
    }
    if (outcome.exit_code != 0 || result.size() != items.size()) fail_worker("calibration", outcome);
    return result;
  }

  int ranks_;
  int rounds_;
};

/// The largest size up to which `small` keeps being the faster one.
std::size_t hand_over(const std::vector<TimedItem>& items, const std::vector<double>& small,
                      const std::vector<double>& large) {
  std::size_t result = 0;
  for (std::size_t item = 0; item < items.size() && small[item] <= large[item]; ++item) {
    result = static_cast<std::size_t>(items[item].bytes);
  }
  return result;
}

/// The smallest piece whose time is within 3 % of the fastest: the smaller, the sooner
/// urgent work gets its turn.
std::size_t smallest_good_piece(const Bench& bench, const Tuning& base) {
  constexpr double kSlack = 1.03;
  std::vector<Tuning> tables;
  for (std::size_t piece = 256 << 10; piece <= 4 << 20; piece *= 2) {
    tables.push_back(base);
    tables.back().piece_bytes = piece;
  }
  const auto medians = bench.compare("in_place", tables, {{16 << 20, 15}});
  const double fastest = (*std::min_element(medians.begin(), medians.end()))[0];
  const auto good =
      std::find_if(medians.begin(), medians.end(), [&](const auto& times) { return times[0] <= fastest * kSlack; });
  return tables[static_cast<std::size_t>(good - medians.begin())].piece_bytes;
}

void say(const char* key, std::size_t before, std::size_t now) {
  fmt::print("  {:<16} {:>10}{}\n", key, format_bytes(static_cast<std::int64_t>(now)),
             now == before ? "" : fmt::format("   (default {})", format_bytes(static_cast<std::int64_t>(before))));
  std::fflush(stdout);
}

void run(const Options& options) {
  const int ranks = options.ranks.value_or(std::min(static_cast<int>(usable_cpus().size()), comm::kMostRanksOfHost));
  if (ranks < 2) fail(Fault::Usage, "calibration needs at least 2 ranks, and there is one usable CPU: use -n 2");
  cache_folder();  // better now than after minutes of measuring
  fmt::print("measuring {} ranks on {}\n", ranks, machine().host);
  std::fflush(stdout);
  const Bench bench(ranks, options.rounds);
  const Tuning defaults;
  Tuning best;

  // Through message slots, or in place from the first byte on?
  const std::vector<TimedItem> small_items{{512, 500},  {1024, 500}, {2048, 500},
                                           {4096, 500}, {8192, 300}, {16384, 300}};
  Tuning slots = defaults, in_place = defaults;
  slots.doubling_bytes = slots.two_hop_bytes = 1 << 20;  // as far as slots go
  in_place.doubling_bytes = in_place.two_hop_bytes = 0;
  const auto small = bench.compare("in_place", {slots, in_place}, small_items);
  const std::size_t slot_limit = hand_over(small_items, small[0], small[1]);
  const bool doubles = (ranks & (ranks - 1)) == 0;
  (doubles ? best.doubling_bytes : best.two_hop_bytes) = slot_limit;
  if (doubles)
    say("doubling_bytes", defaults.doubling_bytes, best.doubling_bytes);
  else
    say("two_hop_bytes", defaults.two_hop_bytes, best.two_hop_bytes);

  // By the caller, or by the communication thread?
  const std::vector<TimedItem> middle_items{{64 << 10, 100}, {256 << 10, 100}, {1 << 20, 60}, {4 << 20, 20}};
  Tuning caller = best, thread = best;
  caller.inline_bytes = 1 << 30;
  thread.inline_bytes = 32 << 10;
  const auto middle = bench.compare("in_place", {caller, thread}, middle_items);
  best.inline_bytes = std::max<std::size_t>(hand_over(middle_items, middle[0], middle[1]), thread.inline_bytes);
  // Above this a caller would rather compute than save a hand-over.
  best.inline_bytes = std::min(best.inline_bytes, defaults.inline_bytes);
  say("inline_bytes", defaults.inline_bytes, best.inline_bytes);

  best.piece_bytes = smallest_good_piece(bench, best);
  say("piece_bytes", defaults.piece_bytes, best.piece_bytes);

  // The window that stages fastest over sizes, each counted alike.
  std::vector<Tuning> tables;
  for (std::size_t window = 64 << 10; window <= 1 << 20; window *= 2) {
    tables.push_back(best);
    tables.back().window_bytes = window;
  }
  const auto staged = bench.compare("staged", tables, {{256 << 10, 60}, {1 << 20, 40}, {16 << 20, 7}});
  const auto score = [](const std::vector<double>& seconds) {
    double sum = 0;
    for (const double value : seconds) sum += std::log(value);
    return sum;
  };
  const auto fastest =
      std::min_element(staged.begin(), staged.end(), [&](const auto& a, const auto& b) { return score(a) < score(b); });
  best.window_bytes = tables[static_cast<std::size_t>(fastest - staged.begin())].window_bytes;
  say("window_bytes", defaults.window_bytes, best.window_bytes);

  fmt::print("kept in {}\n", comm::cache_tuning(ranks, best));
}

}  // namespace

void add_bench_calibrate(CLI::App& bench) {
  auto options = std::make_shared<Options>();
  auto* command = bench.add_subcommand("calibrate", "Measure once which algorithm is best at which size on this host");
  command->add_option("-n,--ranks", options->ranks, "Ranks on the host; by default one per usable CPU")
      ->check(CLI::Range(2, comm::kMostRanksOfHost));
  command->add_option("--rounds", options->rounds, "Rounds of each comparison")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->footer("Example:\n  lockstep bench calibrate -n 16");
  command->callback([options] { run(*options); });
}

}  // namespace lockstep::apps
