#include "lockstep/data/split.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/random.h"
#include "lockstep/data/file_bytes.h"
#include "lockstep/data/label.h"
#include "lockstep/data/on_threads.h"
#include "lockstep/data/permutation.h"

namespace lockstep::data {
namespace {

/// How far a product may be off: 0.29 of 100 is 28.999999999999996.
double slack(std::int64_t count) { return 1e-9 + 1e-12 * static_cast<double>(count); }

/// How many of `count` samples each part gets, and none of them at last; rounded where parts end, so that no sample
/// is lost between them.
std::vector<std::int64_t> sizes_of(std::int64_t count, const std::vector<double>& shares) {
  std::vector<std::int64_t> sizes;
  std::int64_t begin = 0;
  double sum = 0;
  for (const double share : shares) {
    sum += share;
    const auto end = static_cast<std::int64_t>(std::floor(sum * static_cast<double>(count) + 0.5 + slack(count)));
    sizes.push_back(std::min(count, end) - begin);
    begin += sizes.back();
  }
  sizes.push_back(count - begin);
  return sizes;
}

/// How many samples of each class every part gets: its share, rounded up or down, such that the parts are as large
/// as without classes. Rounding each class by itself would add up: of 100 classes of 3, 0.8 would be 200.
class Rounding {
 public:
  Rounding(const std::vector<std::int64_t>& classes, const std::vector<double>& shares) : shares_(shares) {
    shares_.push_back(std::max(0.0, 1 - std::accumulate(shares.begin(), shares.end(), 0.0)));
    missing_.assign(shares_.size(), 0);
    for (const auto count : classes) add(count);
    const auto whole = sizes_of(std::accumulate(classes.begin(), classes.end(), std::int64_t{0}), shares);
    for (std::size_t part = 0; part < shares_.size(); ++part) missing_[part] = static_cast<double>(whole[part]);
    for (const auto& row : rows_) {
      for (std::size_t part = 0; part < shares_.size(); ++part) missing_[part] -= static_cast<double>(row.count(part));
    }
    while (move_one()) {
    }
  }
  std::int64_t count(std::size_t of_class, std::size_t part) const { return rows_[of_class].count(part); }

 private:
  enum class Round : std::uint8_t { Exact, Down, Up };
  struct Row {
    std::vector<std::int64_t> floors;
    std::vector<Round> rounds;
    std::int64_t count(std::size_t part) const { return floors[part] + (rounds[part] == Round::Up ? 1 : 0); }
  };

  /// What is left over goes to the parts that the classes so far left shortest.
  void add(std::int64_t count) {
    Row row;
    std::vector<std::size_t> open;
    std::int64_t left = count;
    for (std::size_t part = 0; part < shares_.size(); ++part) {
      const double exact = shares_[part] * static_cast<double>(count);
      row.floors.push_back(static_cast<std::int64_t>(std::floor(exact + slack(count))));
      const bool whole = exact - static_cast<double>(row.floors.back()) < slack(count);
      row.rounds.push_back(whole ? Round::Exact : Round::Down);
      if (!whole) open.push_back(part);
      left -= row.floors.back();
      missing_[part] += exact - static_cast<double>(row.floors.back());
    }
    std::stable_sort(open.begin(), open.end(), [&](auto a, auto b) { return missing_[a] > missing_[b] + slack(0); });
    for (std::size_t i = 0; i < open.size() && left > 0; ++i, --left) {
      row.rounds[open[i]] = Round::Up;
      missing_[open[i]] -= 1;
    }
    rows_.push_back(std::move(row));
  }

  /// One sample from a part that is too large to one that is too small, by way of others where no class can be
  /// rounded the other way in both: the shortest path, as of a flow. False if no part is too large.
  bool move_one() {
    struct Step {
      std::size_t from, row;
    };
    std::vector<std::optional<Step>> reached(shares_.size());
    std::vector<std::size_t> queue;
    for (std::size_t part = 0; part < shares_.size(); ++part) {
      if (missing_[part] >= 0) continue;
      reached[part] = Step{part, 0};
      queue.push_back(part);
    }
    for (std::size_t next = 0; next < queue.size(); ++next) {
      const std::size_t from = queue[next];
      for (std::size_t row = 0; row < rows_.size(); ++row) {
        if (rows_[row].rounds[from] != Round::Up) continue;
        for (std::size_t to = 0; to < shares_.size(); ++to) {
          if (reached[to] || rows_[row].rounds[to] != Round::Down) continue;
          reached[to] = Step{from, row};
          if (missing_[to] <= 0) {
            queue.push_back(to);
            continue;
          }
          missing_[to] -= 1;
          std::size_t part = to;
          for (; reached[part]->from != part; part = reached[part]->from) {
            rows_[reached[part]->row].rounds[part] = Round::Up;
            rows_[reached[part]->row].rounds[reached[part]->from] = Round::Down;
          }
          missing_[part] += 1;
          return true;
        }
      }
    }
    return false;
  }

  std::vector<double> shares_;
  std::vector<double> missing_;  // of each part, in samples
  std::vector<Row> rows_;        // by class
};

void check(std::int64_t samples, const SplitOptions& options) {
  double sum = 0;
  for (const double share : options.shares) {
    if (!(share > 0 && share <= 1))
      fail(Fault::Usage, fmt::format("a part of {} of all; expected more than 0, at most 1", share));
    sum += share;
  }
  if (options.shares.empty() || sum > 1 + 1e-9) fail(Fault::Usage, fmt::format("the parts add up to {} of all", sum));
  if (!options.classes.empty() && static_cast<std::int64_t>(options.classes.size()) != samples) {
    fail(Fault::Internal, fmt::format("{} classes of {} samples", options.classes.size(), samples));
  }
}

/// A number for each of the texts, by their order: the same ones on any number of threads.
std::vector<std::int64_t> numbered(const std::vector<std::string>& texts) {
  std::map<std::string_view, std::int64_t> numbers;
  for (const auto& text : texts) numbers.emplace(text, 0);
  std::int64_t next = 0;
  for (auto& [text, number] : numbers) number = next++;
  std::vector<std::int64_t> labels;
  labels.reserve(texts.size());
  for (const auto& text : texts) labels.push_back(numbers[text]);
  return labels;
}

}  // namespace

std::vector<std::vector<std::int64_t>> split(std::int64_t samples, const SplitOptions& options) {
  check(samples, options);
  std::map<std::int64_t, std::vector<std::int64_t>> strata;
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    strata[options.classes.empty() ? 0 : options.classes[static_cast<std::size_t>(sample)]].push_back(sample);
  }
  std::vector<std::int64_t> sizes;
  for (const auto& [label, members] : strata) sizes.push_back(static_cast<std::int64_t>(members.size()));
  const Rounding rounding(sizes, options.shares);
  std::vector<std::vector<std::int64_t>> parts(options.shares.size());
  std::size_t number = 0;
  for (const auto& [label, members] : strata) {
    const Permutation permutation(members.size(), mix(options.seed, static_cast<std::uint64_t>(label)));
    std::uint64_t place = 0;
    for (std::size_t part = 0; part < parts.size(); ++part) {
      for (auto i = rounding.count(number, part); i > 0; --i) parts[part].push_back(members[permutation(place++)]);
    }
    ++number;
  }
  for (auto& part : parts) std::sort(part.begin(), part.end());
  return parts;
}

std::vector<std::vector<std::int64_t>> folds(std::int64_t samples, int count, const SplitOptions& options) {
  if (count < 2 || count > samples)
    fail(Fault::Usage,
         fmt::format("{} folds of {} samples; there must be 2 or more, each of a sample or more", count, samples));
  SplitOptions equal = options;
  equal.shares.assign(static_cast<std::size_t>(count), 1.0 / count);
  return split(samples, equal);
}

std::vector<std::int64_t> labels_of(const Dataset& dataset, const std::string& field) {
  const std::size_t place = place_of(dataset.schema(), field);
  const Field& label = dataset.schema()[place];
  const bool text = label.encoding == Encoding::Text;
  if (!text) check_label(label);
  const auto size = static_cast<std::size_t>(dataset.size());
  std::vector<std::int64_t> labels(text ? 0 : size);
  std::vector<std::string> texts(text ? size : 0);
  on_samples(dataset, [&](std::int64_t index, const Sample& sample) {
    const Value& value = sample.values[place];
    try {
      if (text && value.missing) fail(Fault::Data, fmt::format("the label '{}' is missing", field));
      if (text)
        texts[static_cast<std::size_t>(index)] = as_text(value.bytes);
      else
        labels[static_cast<std::size_t>(index)] = label_of(label, value);
    } catch (Error& error) {
      throw error.during("reading " + dataset.name(index));
    }
  });
  return text ? numbered(texts) : labels;
}

}  // namespace lockstep::data
