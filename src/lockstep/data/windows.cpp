#include "lockstep/data/windows.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/data/lengths.h"
#include "lockstep/data/pool.h"

namespace lockstep::data {
namespace {

constexpr const char *kSegment = "segment", *kPosition = "position";

/// Values [begin, begin + count) of a sample, from place `start` of all windows on.
struct Piece {
  std::int64_t sample;
  std::int64_t begin;
  std::int64_t count;
  std::int64_t start;
};

/// One behind the other, cut wherever a window ends.
std::vector<Piece> in_a_row(const std::vector<std::int64_t>& lengths) {
  std::vector<Piece> pieces;
  std::int64_t start = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] == 0) continue;
    pieces.push_back({static_cast<std::int64_t>(i), 0, lengths[i], start});
    start += lengths[i];
  }
  return pieces;
}

/// Longest first, each into the window that it fills best. Only what is longer than a window is cut.
std::vector<Piece> best_fit(const std::vector<std::int64_t>& lengths, std::int64_t window) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    for (std::int64_t begin = 0; begin < lengths[i]; begin += window) {
      pieces.push_back({static_cast<std::int64_t>(i), begin, std::min(window, lengths[i] - begin), 0});
    }
  }
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.count > b.count; });
  std::multimap<std::int64_t, std::int64_t> open;  // room left -> where it begins
  std::int64_t windows = 0;
  for (auto& piece : pieces) {
    auto place = open.lower_bound(piece.count);
    if (place == open.end()) place = open.emplace(window, window * windows++);
    const auto [room, start] = *place;
    open.erase(place);
    piece.start = start;
    if (room > piece.count) open.emplace(room - piece.count, start + piece.count);
  }
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.start < b.start; });
  return pieces;
}

/// The last that was read: those windows that a long sample is cut into come one behind the other.
struct SourceSample {
  std::int64_t number = -1;
  Sample sample;
};

class Windows final : public Dataset {
 public:
  Windows(DatasetPtr source, const WindowOptions& options)
      : source_(std::move(source)), length_(options.length), place_(field_of(source_->schema(), options)) {
    const Field& field = source_->schema()[place_];
    const bool row = field.encoding == Encoding::Values && field.shape.size() == 1;
    if (!row) fail(Fault::Usage, fmt::format("{} cannot be packed into windows: it is no row of values", field.text()));
    if (field.name == kSegment || field.name == kPosition) {
      fail(Fault::Usage, fmt::format("{} cannot be packed into windows: they have a field of that name themselves; "
                                     "rename it in the source",
                                     field.text()));
    }
    if (length_ < 1) fail(Fault::Usage, fmt::format("a window of {} values", length_));
    element_ = c10::elementSize(field.type);
    padding_ = bytes_of(options.padding, field);
    if (options.separator) separator_ = bytes_of(*options.separator, field);

    auto lengths = lengths_of(*source_, field.name);
    if (options.separator) {
      for (auto& length : lengths) ++length;
    }
    pieces_ = options.whole ? best_fit(lengths, length_) : in_a_row(lengths);
    if (pieces_.empty()) fail(Fault::Data, fmt::format("all samples are empty in {}", field.text()));
    const Piece& last = pieces_.back();
    const std::int64_t values = last.start + last.count;
    windows_ = options.full ? values / length_ : (values + length_ - 1) / length_;
    if (windows_ == 0) {
      fail(Fault::Usage, fmt::format("all samples together have {} values, fewer than a window of {}: make it shorter",
                                     values, length_));
    }
    schema_ = {{field.name, Encoding::Values, field.type, {length_}},
               {kSegment, Encoding::Values, c10::ScalarType::Int, {length_}},
               {kPosition, Encoding::Values, c10::ScalarType::Int, {length_}}};
  }

  const Schema& schema() const noexcept override { return schema_; }
  std::int64_t size() const noexcept override { return windows_; }

  void read(std::int64_t index, Sample& sample) const override {
    sample.clear(schema_.size());
    const auto count = static_cast<std::size_t>(length_);
    const auto values = sample.scratch.take(count * element_);
    const auto segments = numbers(sample.scratch), positions = numbers(sample.scratch);
    for (std::size_t i = 0; i < count; ++i) std::memcpy(&values[i * element_], padding_.data(), element_);
    std::fill(segments.begin(), segments.end(), 0);
    std::fill(positions.begin(), positions.end(), 0);

    const std::int64_t begin = index * length_, end = begin + length_;
    const auto source = samples_.borrow();
    std::int32_t segment = 0;
    for (auto piece = first_in(begin); piece != pieces_.end() && piece->start < end; ++piece) {
      const std::int64_t from = std::max(begin, piece->start), to = std::min(end, piece->start + piece->count);
      if (from >= to) continue;
      const auto at = static_cast<std::size_t>(from - begin), many = static_cast<std::size_t>(to - from);
      copy(value_of(piece->sample, *source), piece->begin + from - piece->start,
           values.subspan(at * element_, many * element_));
      std::fill_n(segments.begin() + static_cast<std::ptrdiff_t>(at), many, ++segment);
      std::iota(positions.begin() + static_cast<std::ptrdiff_t>(at),
                positions.begin() + static_cast<std::ptrdiff_t>(at + many), 0);
    }
    sample.values[0] = {values, {length_}, false};
    sample.values[1] = {std::as_bytes(segments), {length_}, false};
    sample.values[2] = {std::as_bytes(positions), {length_}, false};
  }

  std::string name(std::int64_t index) const override {
    return fmt::format("window {} from {}", index, source_->name(first_in(index * length_)->sample));
  }

 private:
  static std::size_t field_of(const Schema& schema, const WindowOptions& options) {
    if (!options.field.empty()) return place_of(schema, options.field);
    if (schema.size() != 1) fail(Fault::Usage, "several fields: say which of them goes into windows");
    return 0;
  }
  static std::string bytes_of(std::int64_t number, const Field& field) {
    const at::Tensor as_field = at::tensor(number).to(field.type);
    if (as_field.to(at::kLong).item<std::int64_t>() != number) {
      fail(Fault::Usage, fmt::format("{} is no value of {}", number, field.text()));
    }
    return {static_cast<const char*>(as_field.const_data_ptr()), c10::elementSize(field.type)};
  }

  const Value& value_of(std::int64_t number, SourceSample& last) const {
    if (last.number != number) {
      last.number = -1;
      source_->read(number, last.sample);
      last.number = number;
    }
    return last.sample.values[place_];
  }
  std::span<std::int32_t> numbers(Scratch& scratch) const {
    const auto memory = scratch.take(static_cast<std::size_t>(length_) * sizeof(std::int32_t));
    return {reinterpret_cast<std::int32_t*>(memory.data()), static_cast<std::size_t>(length_)};
  }
  /// The piece that holds a place, or the last one before it.
  std::vector<Piece>::const_iterator first_in(std::int64_t place) const {
    const auto after = std::upper_bound(pieces_.begin(), pieces_.end(), place,
                                        [](std::int64_t at, const Piece& piece) { return at < piece.start; });
    return after == pieces_.begin() ? after : after - 1;
  }
  /// Values from number `begin` on; behind the last one comes the separator.
  void copy(const Value& value, std::int64_t begin, std::span<std::byte> to) const {
    const std::size_t from = static_cast<std::size_t>(begin) * element_;
    const std::size_t own = std::min(to.size(), value.bytes.size() - std::min(from, value.bytes.size()));
    if (own > 0) std::memcpy(to.data(), value.bytes.data() + from, own);
    if (own < to.size()) std::memcpy(to.data() + own, separator_.data(), separator_.size());
  }

  DatasetPtr source_;
  std::int64_t length_;
  std::size_t place_;
  std::size_t element_ = 0;
  std::string padding_;
  std::string separator_;
  std::vector<Piece> pieces_;  // by start
  std::int64_t windows_ = 0;
  Schema schema_;
  mutable Pool<SourceSample> samples_;
};

}  // namespace

DatasetPtr packed_windows(DatasetPtr source, const WindowOptions& options) {
  return std::make_shared<Windows>(std::move(source), options);
}

}  // namespace lockstep::data
