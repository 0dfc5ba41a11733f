// lockstep/data/tf_example.h
//
// tf.train.Example: named features, each a list of byte strings, floats or integers.
// Read and written as protobuf's wire format, without protobuf:
//
//   Example { Features features = 1; }            Feature { oneof { BytesList bytes_list = 1;
//   Features { map<string, Feature> feature = 1; }                  FloatList float_list = 2;
//   …List { repeated … value = 1; }                                 Int64List int64_list = 3; } }
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <c10/util/SmallVector.h>

#include "lockstep/data/sample.h"

namespace lockstep::data {

struct Feature {
  enum class Kind : std::uint8_t { None = 0, ByteStrings = 1, Floats = 2, Ints = 3 };
  std::string_view name;
  Kind kind = Kind::None;
  std::int64_t count = 0;  // of its elements
  Bytes list;              // the message that holds them

  /// A byte string that is not there is how TensorFlow writes that there is none.
  bool missing() const noexcept { return kind == Kind::None || (kind == Kind::ByteStrings && count == 0); }
};

/// Of Kind::ByteStrings, the first of them.
Bytes byte_string(const Feature& feature);
/// Of Kind::Floats, as float32: where they lie, or gathered in `scratch`.
Bytes floats(const Feature& feature, Scratch& scratch);
/// Of Kind::Ints, as int64.
Bytes ints(const Feature& feature, Scratch& scratch);

/// Points into the record that it was parsed from.
class Example {
 public:
  /// Nothing if the record is no Example, or one that no encoder writes: with a feature twice.
  static std::optional<Example> parse(Bytes record);

  /// In the order of the record.
  std::span<const Feature> features() const noexcept { return {features_.data(), features_.size()}; }
  const Feature* find(std::string_view name) const noexcept;

 private:
  bool add_features(Bytes message);
  bool sort_names();

  c10::SmallVector<Feature, 16> features_;
  c10::SmallVector<std::uint32_t, 16> by_name_;
};

/// Features in the order in which they are added.
class ExampleBuilder {
 public:
  void add_bytes(std::string_view name, Bytes bytes);
  /// Of float32.
  void add_floats(std::string_view name, Bytes floats);
  /// Of int64.
  void add_ints(std::string_view name, Bytes ints);
  /// The record; the next one begins empty.
  std::string take();

 private:
  void add(std::string_view name, Feature::Kind kind, std::string_view list);
  std::string features_;
};

}  // namespace lockstep::data
