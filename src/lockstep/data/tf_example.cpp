#include "lockstep/data/tf_example.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "lockstep/data/file_bytes.h"
#include "lockstep/data/protobuf_reader.h"
#include "lockstep/data/protobuf_writer.h"
#include "lockstep/data/utf8.h"
#include "lockstep/data/varint.h"

namespace lockstep::data {
namespace {

using Wire = ProtobufReader::Wire;
using Kind = Feature::Kind;

// ---- reading ------------------------------------------------------------------------------------

std::optional<std::int64_t> count_varints(Bytes packed) {
  std::int64_t count = 0;
  for (; !packed.empty(); ++count) {
    if (!take_varint(packed)) return std::nullopt;
  }
  return count;
}

/// Of the field that the reader stands at: several if they are packed.
std::optional<std::int64_t> count_elements(Kind kind, const ProtobufReader& field) {
  if (field.number() != 1) return 0;
  const bool run = field.wire() == Wire::Sized;
  switch (kind) {
    case Kind::ByteStrings: return run ? 1 : 0;
    case Kind::Floats:
      if (!run) return field.wire() == Wire::Fixed32 ? 1 : 0;
      if (field.bytes().size() % sizeof(float) != 0) return std::nullopt;
      return static_cast<std::int64_t>(field.bytes().size() / sizeof(float));
    case Kind::Ints:
      if (!run) return field.wire() == Wire::Varint ? 1 : 0;
      return count_varints(field.bytes());
    case Kind::None: break;
  }
  return 0;
}

/// False if the bytes are no list of such elements.
bool count_list(Feature& feature) {
  ProtobufReader reader(feature.list);
  while (reader.next()) {
    const auto elements = count_elements(feature.kind, reader);
    if (!elements) return false;
    feature.count += *elements;
  }
  return !reader.broken();
}

bool parse_value(Bytes message, Feature& feature) {
  ProtobufReader reader(message);
  while (reader.next()) {
    if (reader.number() > static_cast<std::uint32_t>(Kind::Ints) || reader.wire() != Wire::Sized) continue;
    if (feature.kind != Kind::None) return false;
    feature.kind = static_cast<Kind>(reader.number());
    feature.list = reader.bytes();
  }
  return !reader.broken() && count_list(feature);
}

bool parse_entry(Bytes message, Feature& feature) {
  ProtobufReader reader(message);
  Bytes value;
  while (reader.next()) {
    if (reader.is(1, Wire::Sized)) feature.name = as_text(reader.bytes());
    if (reader.is(2, Wire::Sized)) value = reader.bytes();
  }
  return !reader.broken() && is_utf8(feature.name) && parse_value(value, feature);
}

/// `elements` of `size` bytes, one behind the other.
class Gatherer {
 public:
  Gatherer(std::int64_t elements, std::size_t size, Scratch& scratch)
      : into_(scratch.take(static_cast<std::size_t>(elements) * size)) {}
  void add(const void* bytes, std::size_t size) {
    if (size > 0) std::memcpy(into_.data() + used_, bytes, size);
    used_ += size;
  }
  Bytes bytes() const noexcept { return into_; }

 private:
  std::span<std::byte> into_;
  std::size_t used_ = 0;
};

// ---- writing ------------------------------------------------------------------------------------

}  // namespace

Bytes byte_string(const Feature& feature) {
  ProtobufReader reader(feature.list);
  while (reader.next()) {
    if (reader.is(1, Wire::Sized)) return reader.bytes();
  }
  return {};
}

Bytes floats(const Feature& feature, Scratch& scratch) {
  const auto holds_floats = [](const ProtobufReader& reader) {
    return reader.is(1, Wire::Sized) || reader.is(1, Wire::Fixed32);
  };
  ProtobufReader first(feature.list);
  const bool all_in_first = first.next() && holds_floats(first) &&
                            first.bytes().size() == static_cast<std::size_t>(feature.count) * sizeof(float);
  if (all_in_first) return first.bytes();

  Gatherer gathered(feature.count, sizeof(float), scratch);
  ProtobufReader reader(feature.list);
  while (reader.next()) {
    if (holds_floats(reader)) gathered.add(reader.bytes().data(), reader.bytes().size());
  }
  return gathered.bytes();
}

Bytes ints(const Feature& feature, Scratch& scratch) {
  Gatherer gathered(feature.count, sizeof(std::int64_t), scratch);
  ProtobufReader reader(feature.list);
  while (reader.next()) {
    if (reader.is(1, Wire::Varint)) {
      const std::uint64_t number = reader.varint();
      gathered.add(&number, sizeof number);
    } else if (reader.is(1, Wire::Sized)) {
      Bytes packed = reader.bytes();
      while (const auto number = take_varint(packed)) gathered.add(&*number, sizeof *number);
    }
  }
  return gathered.bytes();
}

bool Example::add_features(Bytes message) {
  ProtobufReader reader(message);
  while (reader.next()) {
    if (!reader.is(1, Wire::Sized)) continue;
    Feature feature;
    if (!parse_entry(reader.bytes(), feature)) return false;
    features_.push_back(feature);
  }
  return !reader.broken();
}

/// False if one occurs twice.
bool Example::sort_names() {
  by_name_.resize(features_.size());
  std::iota(by_name_.begin(), by_name_.end(), 0U);
  std::sort(by_name_.begin(), by_name_.end(),
            [&](auto left, auto right) { return features_[left].name < features_[right].name; });
  return std::adjacent_find(by_name_.begin(), by_name_.end(), [&](auto left, auto right) {
           return features_[left].name == features_[right].name;
         }) == by_name_.end();
}

std::optional<Example> Example::parse(Bytes record) {
  Example example;
  bool found = false;
  ProtobufReader reader(record);
  while (reader.next()) {
    // A SequenceExample has its feature_lists there, which must not vanish silently.
    if (reader.is(2, Wire::Sized)) return std::nullopt;
    if (!reader.is(1, Wire::Sized)) continue;
    found = true;
    if (!example.add_features(reader.bytes())) return std::nullopt;
  }
  if (reader.broken() || !found || !example.sort_names()) return std::nullopt;
  return example;
}

const Feature* Example::find(std::string_view name) const noexcept {
  const auto* const place = std::lower_bound(by_name_.begin(), by_name_.end(), name, [&](auto feature, auto wanted) {
    return features_[feature].name < wanted;
  });
  return place != by_name_.end() && features_[*place].name == name ? &features_[*place] : nullptr;
}

void ExampleBuilder::add(std::string_view name, Kind kind, std::string_view list) {
  std::string feature, entry;
  append_field(feature, static_cast<std::uint32_t>(kind), list);
  append_field(entry, 1, name);
  append_field(entry, 2, feature);
  append_field(features_, 1, entry);
}

void ExampleBuilder::add_bytes(std::string_view name, Bytes bytes) {
  std::string list;
  append_field(list, 1, as_text(bytes));
  add(name, Kind::ByteStrings, list);
}

void ExampleBuilder::add_floats(std::string_view name, Bytes floats) {
  std::string list;
  if (!floats.empty()) append_field(list, 1, as_text(floats));
  add(name, Kind::Floats, list);
}

void ExampleBuilder::add_ints(std::string_view name, Bytes ints) {
  std::string packed, list;
  for (; ints.size() >= sizeof(std::uint64_t); ints = ints.subspan(sizeof(std::uint64_t))) {
    std::uint64_t number = 0;
    std::memcpy(&number, ints.data(), sizeof number);
    append_varint(packed, number);
  }
  if (!packed.empty()) append_field(list, 1, packed);
  add(name, Kind::Ints, list);
}

std::string ExampleBuilder::take() {
  std::string record;
  append_field(record, 1, std::exchange(features_, {}));
  return record;
}

}  // namespace lockstep::data
