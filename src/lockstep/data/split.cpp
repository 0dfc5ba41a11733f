#include "lockstep/data/split.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
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

/// Where each part ends among `count` shuffled samples; rounded at the ends, so that no sample is
/// lost between parts.
std::vector<std::int64_t> ends_of(std::int64_t count, const std::vector<double>& shares) {
  std::vector<std::int64_t> ends;
  double sum = 0;
  for (const double share : shares) {
    sum += share;
    ends.push_back(std::min<std::int64_t>(count, std::llround(sum * static_cast<double>(count))));
  }
  return ends;
}

void deal(const std::vector<std::int64_t>& samples, std::uint64_t key, const std::vector<double>& shares,
          std::vector<std::vector<std::int64_t>>& parts) {
  const Permutation permutation(samples.size(), key);
  const auto ends = ends_of(static_cast<std::int64_t>(samples.size()), shares);
  std::int64_t place = 0;
  for (std::size_t part = 0; part < ends.size(); ++part) {
    for (; place < ends[part]; ++place) parts[part].push_back(samples[permutation(static_cast<std::uint64_t>(place))]);
  }
}

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
  std::vector<std::vector<std::int64_t>> parts(options.shares.size());
  for (const auto& [label, members] : strata) {
    deal(members, mix(options.seed, static_cast<std::uint64_t>(label)), options.shares, parts);
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
