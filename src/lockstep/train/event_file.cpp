#include "lockstep/train/event_file.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <vector>

#include <ATen/core/grad_mode.h>

#include "lockstep/core/error.h"
#include "lockstep/core/file.h"
#include "lockstep/data/file_bytes.h"
#include "lockstep/data/protobuf_reader.h"
#include "lockstep/data/protobuf_writer.h"
#include "lockstep/data/record_frames.h"

namespace lockstep::train {
namespace {

constexpr const char kFile[] = "/events.out.tfevents.lockstep";

namespace fs = std::filesystem;
using data::append_field;
using data::append_integer;
using data::append_number;

// Fields of Event, Summary.Value and HistogramProto in TensorFlow's event.proto, summary.proto and histogram.proto.
namespace event {
constexpr std::uint32_t kTime = 1, kStep = 2, kVersion = 3, kSummary = 5;
}
namespace summary {
constexpr std::uint32_t kValue = 1;
}
namespace value {
constexpr std::uint32_t kTag = 1, kScalar = 2, kHistogram = 5;
}
namespace histogram {
constexpr std::uint32_t kLeast = 1, kMost = 2, kCount = 3, kSum = 4, kSquares = 5, kLimits = 6, kCounts = 7;
}

std::string new_event(std::int64_t step) {
  std::string message;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  append_number(message, event::kTime, std::chrono::duration<double>(now).count());
  append_integer(message, event::kStep, step);
  return message;
}

std::int64_t step_of(data::Bytes message) {
  data::ProtobufReader reader(message);
  while (reader.next()) {
    if (reader.is(event::kStep, data::ProtobufReader::Wire::Varint)) return static_cast<std::int64_t>(reader.varint());
  }
  return 0;
}

/// Calls `look` with every whole record until it returns false. Behind them may be half of one, of a run that was
/// killed.
template <class Look>
void for_each_record(const std::string& path, const Look& look) {
  const std::string text = read_whole(path);
  data::FrameReader frames(data::as_bytes(text));
  try {
    while (const auto frame = frames.next()) {
      if (!look(*frame)) return;
    }
  } catch (const Error&) {
  }
}

/// Bytes of the records up to `last_step`.
std::uint64_t kept_bytes(const std::string& path, std::int64_t last_step) {
  std::uint64_t kept = 0;
  for_each_record(path, [&](const data::Frame& frame) {
    constexpr std::uint64_t kFooter = 4;
    if (step_of(frame.data) > last_step) return false;
    kept = frame.offset + frame.data.size() + kFooter;
    return true;
  });
  return kept;
}

/// Calls `look` with the bytes of every field `number` of a message that holds others.
template <class Look>
void for_each_message(data::Bytes message, std::uint32_t number, const Look& look) {
  data::ProtobufReader reader(message);
  while (reader.next()) {
    if (reader.is(number, data::ProtobufReader::Wire::Sized)) look(reader.bytes());
  }
}

/// Adds a Summary.Value, if it is a scalar.
void add_scalar(data::Bytes message, std::int64_t step, Scalars& scalars) {
  using Wire = data::ProtobufReader::Wire;
  std::string tag;
  std::optional<float> number;
  data::ProtobufReader reader(message);
  while (reader.next()) {
    if (reader.is(value::kTag, Wire::Sized)) {
      tag.assign(reinterpret_cast<const char*>(reader.bytes().data()), reader.bytes().size());
    } else if (reader.is(value::kScalar, Wire::Fixed32)) {
      std::memcpy(&number.emplace(), reader.bytes().data(), sizeof(float));
    }
  }
  if (number) scalars[tag].emplace_back(step, *number);
}

/// TensorFlow's: from -1e20 to 1e20 by steps of a tenth, and 0 between.
const std::vector<double>& bucket_limits() {
  static const std::vector<double> limits = [] {
    std::vector<double> positive;
    for (double limit = 1e-12; limit < 1e20; limit *= 1.1) positive.push_back(limit);
    std::vector<double> all;
    for (auto limit = positive.rbegin(); limit != positive.rend(); ++limit) all.push_back(-*limit);
    all.push_back(0);
    all.insert(all.end(), positive.begin(), positive.end());
    all.push_back(std::numeric_limits<double>::max());
    return all;
  }();
  return limits;
}

std::string packed(const std::vector<double>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(double)};
}

}  // namespace

EventFile::EventFile(const std::string& folder, std::int64_t last_step) : path_(folder + kFile) {
  std::error_code none;
  if (fs::exists(path_, none)) fs::resize_file(path_, kept_bytes(path_, last_step), none);
  const bool begins = !fs::exists(path_, none) || fs::file_size(path_, none) == 0;
  out_.open(path_, std::ios::binary | std::ios::app);
  if (!out_) fail_to_write(path_, errno);
  if (!begins) return;
  std::string message = new_event(0);
  append_field(message, event::kVersion, "brain.Event:2");
  add(message);
}

void EventFile::scalar(const std::string& tag, std::int64_t step, double number) {
  std::string message;
  append_field(message, value::kTag, tag);
  append_number(message, value::kScalar, static_cast<float>(number));
  add_value(step, message);
}

void EventFile::histogram(const std::string& tag, std::int64_t step, const at::Tensor& values) {
  const at::NoGradGuard no_gradients;
  const at::Tensor all = values.detach().cpu().to(at::kDouble).flatten().contiguous();
  const auto& limits = bucket_limits();
  std::vector<double> counts(limits.size());
  double sum = 0, squares = 0, count = 0;
  double least = std::numeric_limits<double>::infinity(), most = -least;
  const auto* numbers = all.const_data_ptr<double>();
  for (std::int64_t i = 0; i < all.numel(); ++i) {
    if (!std::isfinite(numbers[i])) continue;
    const auto bucket = std::upper_bound(limits.begin(), limits.end() - 1, numbers[i]) - limits.begin();
    counts[static_cast<std::size_t>(bucket)] += 1;
    count += 1;
    least = std::min(least, numbers[i]);
    most = std::max(most, numbers[i]);
    sum += numbers[i];
    squares += numbers[i] * numbers[i];
  }
  if (count == 0) return;  // there is nothing to draw
  // Empty buckets at both ends are left out.
  std::size_t first = 0, last = counts.size();
  while (first + 1 < last && counts[first] == 0) ++first;
  while (last > first + 1 && counts[last - 1] == 0) --last;
  const std::vector<double> some_limits(limits.begin() + static_cast<std::ptrdiff_t>(first),
                                        limits.begin() + static_cast<std::ptrdiff_t>(last)),
      some_counts(counts.begin() + static_cast<std::ptrdiff_t>(first),
                  counts.begin() + static_cast<std::ptrdiff_t>(last));

  std::string inner, message;
  append_number(inner, histogram::kLeast, least);
  append_number(inner, histogram::kMost, most);
  append_number(inner, histogram::kCount, count);
  append_number(inner, histogram::kSum, sum);
  append_number(inner, histogram::kSquares, squares);
  append_field(inner, histogram::kLimits, packed(some_limits));
  append_field(inner, histogram::kCounts, packed(some_counts));
  append_field(message, value::kTag, tag);
  append_field(message, value::kHistogram, inner);
  add_value(step, message);
}

void EventFile::flush() {
  out_.flush();
  if (!out_) fail_to_write(path_, errno);
}

void EventFile::add_value(std::int64_t step, const std::string& value) {
  std::string values, message = new_event(step);
  append_field(values, summary::kValue, value);
  append_field(message, event::kSummary, values);
  add(message);
}

void EventFile::add(const std::string& event) { out_ << data::framed(data::as_bytes(event)); }

Scalars read_scalars(const std::string& folder) {
  Scalars scalars;
  std::error_code none;
  if (!fs::exists(folder + kFile, none)) return scalars;
  for_each_record(folder + kFile, [&](const data::Frame& frame) {
    for_each_message(frame.data, event::kSummary, [&](data::Bytes values) {
      for_each_message(values, summary::kValue,
                       [&](data::Bytes one) { add_scalar(one, step_of(frame.data), scalars); });
    });
    return true;
  });
  return scalars;
}

}  // namespace lockstep::train
