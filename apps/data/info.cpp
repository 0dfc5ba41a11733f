// `lockstep data info`: what a data set holds, and what its numbers are like.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "data/data_commands.h"
#include "data/source_options.h"
#include "data/value_text.h"
#include "json_text.h"
#include "lockstep/core/random.h"
#include "lockstep/core/text.h"
#include "lockstep/data/on_threads.h"
#include "progress.h"
#include "whole_number.h"

namespace lockstep::apps {
namespace {

using data::Encoding;

constexpr std::size_t kMostClasses = 1000;

struct Options {
  SourceOptions from;
  std::int64_t samples = 0;
  bool json = false;
};

/// Deviations are about the mean of a part, and parts are joined as Chan, Golub and LeVeque (1983) do: the
/// squares of 1e9 and of 1e9 + 1 themselves differ only where a double ends.
struct Moments {
  std::int64_t count = 0;
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();
  double sum = 0;      // the mean of it, unlike one that is updated, is exact for whole numbers
  double squares = 0;  // of the deviations from the mean

  static Moments of(const std::vector<double>& numbers) {
    Moments moments;
    moments.count = static_cast<std::int64_t>(numbers.size());
    for (const double number : numbers) {
      moments.least = std::min(moments.least, number);
      moments.most = std::max(moments.most, number);
      moments.sum += number;
    }
    const double mean = moments.mean();
    for (const double number : numbers) moments.squares += (number - mean) * (number - mean);
    return moments;
  }
  void add(const Moments& other) {
    const auto mine = static_cast<double>(count), theirs = static_cast<double>(other.count);
    const double apart = other.mean() - mean();
    if (count > 0 && other.count > 0) squares += apart * apart * (mine * theirs / (mine + theirs));
    squares += other.squares;
    sum += other.sum;
    count += other.count;
    least = std::min(least, other.least);
    most = std::max(most, other.most);
  }
  double mean() const { return sum / static_cast<double>(std::max<std::int64_t>(count, 1)); }
  double deviation() const { return std::sqrt(squares / static_cast<double>(count)); }
};

/// Of one field over many samples.
struct Statistics {
  std::int64_t missing = 0;
  std::int64_t nan = 0;
  std::int64_t infinite = 0;
  std::int64_t bytes = 0;
  Moments numbers;                               // the finite ones
  Moments lengths;                               // in bytes, of text and what is encoded
  std::map<std::int64_t, std::int64_t> classes;  // of a single integer per sample, while there are few

  void add(const data::Field& field, const data::Value& value) {
    if (value.missing) {
      ++missing;
      return;
    }
    bytes += static_cast<std::int64_t>(value.bytes.size());
    if (field.encoding != Encoding::Values) return lengths.add(Moments::of({static_cast<double>(value.bytes.size())}));
    auto all = numbers_of(field, value);
    nan += static_cast<std::int64_t>(std::erase_if(all, [](double number) { return std::isnan(number); }));
    infinite += static_cast<std::int64_t>(std::erase_if(all, [](double number) { return std::isinf(number); }));
    numbers.add(Moments::of(all));
    const bool label = all.size() == 1 && c10::isIntegralType(field.type, true);
    if (label) count(integers_of(field, value)[0], 1);
  }
  void add(const Statistics& other) {
    missing += other.missing;
    nan += other.nan;
    infinite += other.infinite;
    bytes += other.bytes;
    numbers.add(other.numbers);
    lengths.add(other.lengths);
    for (const auto& [number, times] : other.classes) count(number, times);
  }

 private:
  /// One more than are shown tells that there are too many; all would fill the memory.
  void count(std::int64_t number, std::int64_t times) {
    if (classes.size() <= kMostClasses) classes[number] += times;
  }
};

/// One of each of `samples` equal pieces of the set, anywhere in it: a fixed step would meet only some of
/// the classes where these alternate.
std::int64_t spread(std::int64_t place, std::int64_t samples, std::int64_t size) {
  if (samples == size) return place;
  const auto begin = [&](std::int64_t piece) { return size / samples * piece + size % samples * piece / samples; };
  const std::int64_t first = begin(place), width = begin(place + 1) - first;
  return first + static_cast<std::int64_t>(
                     Random(0, static_cast<std::uint64_t>(place)).below(static_cast<std::uint64_t>(width)));
}

/// Each thread's in turn, so that none waits for another at each sample.
std::vector<Statistics> statistics_of(const data::Dataset& set, std::int64_t samples) {
  std::vector<Statistics> all(set.schema().size());
  std::mutex mutex;
  Progress progress("reading", "samples", samples);
  constexpr std::int64_t kPiece = 256;
  data::on_threads((samples + kPiece - 1) / kPiece,
                   [&](std::int64_t piece, data::Sample& sample) {
                     std::vector<Statistics> mine(all.size());
                     const std::int64_t end = std::min(samples, (piece + 1) * kPiece);
                     for (std::int64_t i = piece * kPiece; i < end; ++i) {
                       set.read(spread(i, samples, set.size()), sample);
                       for (std::size_t place = 0; place < mine.size(); ++place)
                         mine[place].add(set.schema()[place], sample.values[place]);
                     }
                     progress.add(end - piece * kPiece);
                     const std::lock_guard lock(mutex);
                     for (std::size_t place = 0; place < mine.size(); ++place) all[place].add(mine[place]);
                   },
                   1);
  return all;
}

bool has_classes(const Statistics& statistics) {
  return !statistics.classes.empty() && statistics.classes.size() <= kMostClasses;
}

nlohmann::json json_of(const data::Dataset& set, const std::vector<Statistics>& all, std::int64_t samples) {
  auto fields = data::to_json(set.schema());
  for (std::size_t place = 0; place < all.size(); ++place) {
    const Statistics& statistics = all[place];
    auto& field = fields[place];
    field["missing"] = statistics.missing;
    field["bytes"] = statistics.bytes;
    if (const Moments& numbers = statistics.numbers; numbers.count > 0) {
      field["min"] = numbers.least;
      field["max"] = numbers.most;
      field["mean"] = numbers.mean();
      field["std"] = numbers.deviation();
    }
    if (set.schema()[place].encoding == Encoding::Values) {
      field["nan"] = statistics.nan;
      field["infinite"] = statistics.infinite;
    }
    if (const Moments& lengths = statistics.lengths; lengths.count > 0)
      field["length"] = {{"min", lengths.least}, {"mean", lengths.mean()}, {"max", lengths.most}};
    if (has_classes(statistics)) {
      for (const auto& [number, times] : statistics.classes)
        field["counts"][integer_text(set.schema()[place].type, number)] = times;
    }
  }
  return {{"samples", set.size()}, {"samples_read", samples}, {"fields", fields}};
}

void print(const data::Dataset& set, const std::vector<Statistics>& all, std::int64_t samples) {
  std::int64_t bytes = 0;
  for (const auto& statistics : all) bytes += statistics.bytes;
  fmt::print("{} samples, {} each on average\n", set.size(), format_bytes(bytes / std::max<std::int64_t>(samples, 1)));
  for (std::size_t place = 0; place < all.size(); ++place) {
    const Statistics& statistics = all[place];
    const data::Field& field = set.schema()[place];
    fmt::print("  {}", field.text());
    if (const Moments& numbers = statistics.numbers; numbers.count > 0) {
      fmt::print("   {:.6g} to {:.6g}, mean {:.6g}, std {:.6g}", numbers.least, numbers.most, numbers.mean(),
                 numbers.deviation());
    }
    if (const Moments& lengths = statistics.lengths; lengths.count > 0)
      fmt::print("   {:.10g} to {:.10g} bytes, mean {:.6g}", lengths.least, lengths.most, lengths.mean());
    if (statistics.nan > 0) fmt::print(", {} NaN", statistics.nan);
    if (statistics.infinite > 0) fmt::print(", {} infinite", statistics.infinite);
    if (statistics.missing > 0) fmt::print(", {} missing", statistics.missing);
    fmt::print("\n");
    if (!has_classes(statistics) || statistics.classes.size() > 20 ||
        statistics.classes.size() == static_cast<std::size_t>(samples))
      continue;
    for (const auto& [number, times] : statistics.classes) {
      const auto label = static_cast<std::size_t>(number);
      const bool named = number >= 0 && label < field.classes.size();
      fmt::print("    {:>6} {:<20} {}\n", integer_text(field.type, number), named ? field.classes[label] : "", times);
    }
  }
  if (samples < set.size()) fmt::print("Statistics are of {} samples.\n", samples);
}

void run(const Options& options) {
  const auto set = data::open(options.from.source, options.from.open);
  const std::int64_t samples = options.samples > 0 ? std::min(options.samples, set->size()) : set->size();
  const auto all = statistics_of(*set, samples);
  if (options.json)
    fmt::print("{}", json_text(json_of(*set, all, samples)));
  else
    print(*set, all, samples);
}

}  // namespace

void add_data_info(CLI::App& data) {
  auto options = std::make_shared<Options>();
  auto* command = data.add_subcommand("info", "Fields, counts and statistics");
  command->footer("Examples:\n  lockstep data info mnist\n  lockstep data info 'train-*.tar' --samples 1000 --json");
  options->from.add_to(*command);
  command->add_option("--samples", options->samples, "Statistics of so many only; by default of all")
      ->check(whole_from(1));
  command->add_flag("--json", options->json, "For scripts");
  command->callback([options] { run(*options); });
}

}  // namespace lockstep::apps
