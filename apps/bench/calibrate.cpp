// `lockstep bench calibrate`: measures at which sizes one algorithm should hand over
// to another on this host, and remembers the table for every later run.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/benches.h"
#include "bench/peers.h"
#include "bench/process.h"
#include "bench/timed_item.h"
#include "lockstep/comm/environment.h"
#include "lockstep/comm/tuning.h"
#include "lockstep/core/cpu.h"
#include "lockstep/core/error.h"
#include "lockstep/core/paths.h"
#include "lockstep/core/text.h"

namespace lockstep::apps {
namespace {

using comm::Tuning;

struct Options {
  int ranks = 0;
  int rounds = 5;
};

/// Measures all-reduces under different tables, in turns so that noise hits all alike.
class Bench {
 public:
  explicit Bench(const Options& options) : options_(options) {}

  /// Median seconds by table, then by item.
  std::vector<std::vector<double>> compare(const std::string& variant, const std::vector<Tuning>& tables,
                                           const std::vector<TimedItem>& items) const {
    std::vector<std::vector<std::vector<double>>> calls(tables.size(), std::vector<std::vector<double>>(items.size()));
    for (int round = 0; round < options_.rounds; ++round) {
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
      for (auto& all : calls[table]) {
        std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
        medians[table].push_back(all[all.size() / 2]);
      }
    }
    return medians;
  }

 private:
  std::vector<std::vector<double>> run(const std::string& variant, const Tuning& table,
                                       const std::vector<TimedItem>& items) const {
    const std::string program = own_program();
    std::vector<std::string> command{program,     "launch", "-n",    std::to_string(options_.ranks),
                                     "--",        program,  "bench", "allreduce-worker",
                                     "--variant", variant};
    for (const auto& item : items) command.push_back(to_text(item));
    setenv(comm::environment::kTuning, table.json().c_str(), 1);
    const auto outcome = run_process(command, 120);
    unsetenv(comm::environment::kTuning);
    std::vector<std::vector<double>> result;
    for (const auto& line : split(outcome.output, '\n')) {
      if (auto calls = parse_line(line)) result.push_back(std::move(calls->seconds));
    }
    if (outcome.exit_code != 0 || result.size() != items.size())
      fail(Fault::Comm, "calibration: " + reason_of(outcome));
    return result;
  }

  Options options_;
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

void say(const char* key, std::size_t before, std::size_t now) {
  fmt::print("  {:<16} {:>10}{}\n", key, format_bytes(static_cast<std::int64_t>(now)),
             now == before ? "" : fmt::format("   (default {})", format_bytes(static_cast<std::int64_t>(before))));
  std::fflush(stdout);
}

void run(Options options) {
  if (options.ranks == 0) options.ranks = static_cast<int>(usable_cpus().size());
  if (options.ranks < 2) fail(Fault::Usage, "calibration needs at least 2 ranks: use -n 2 or more");
  if (options.rounds < 1) fail(Fault::Usage, fmt::format("--rounds {} is less than 1", options.rounds));
  fmt::print("measuring {} ranks on {}\n", options.ranks, machine().host);
  const Bench bench(options);
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
  const bool doubles = (options.ranks & (options.ranks - 1)) == 0;
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

  fmt::print("kept in {}\n", comm::cache_tuning(options.ranks, best));
}

}  // namespace

void add_bench_calibrate(CLI::App& bench) {
  auto options = std::make_shared<Options>();
  auto* command = bench.add_subcommand("calibrate", "Measure once which algorithm is best at which size on this host");
  command->add_option("-n", options->ranks, "Ranks on the host (default: one per usable core)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--rounds", options->rounds, "Rounds of each comparison")->capture_default_str();
  command->footer("Example:\n  lockstep bench calibrate -n 16");
  command->callback([options] { run(*options); });
}

}  // namespace lockstep::apps
